"""The addresses of the web labeler. All begin with the token of an annotator; none of them is a path of a file."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from importlib import resources
from typing import Any, TypeVar

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from rci.data.errors import RciError
from rci.labeling.people.sessions.assignment import Assignment, ConflictError
from rci.labeling.people.sessions.journal import NotSavedError
from rci.labeling.people.sessions.progress import progress
from rci.labeling.people.sessions.queue import Item
from rci.labeling.server.exhibit import Exhibit
from rci.labeling.server.fields import action_id, as_shown, given_answer, read_json
from rci.labeling.server.guard import Guard, refuse

MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

# What is wrong with files is printed for whoever started the server: annotators need not see their paths.
NOT_SHOWN = "it cannot be read; whoever started the server sees in the terminal why."
NOT_SAVED = "the server could not save it; whoever started the server sees in the terminal why."
TERMINAL = logging.getLogger(__name__)

T = TypeVar("T")
Handler = Callable[[Request, str], Awaitable[Response]]


def make_app(
    assignment: Assignment, exhibit: Exhibit, tokens: Mapping[str, str], hosts: Collection[str] | None
) -> Starlette:
    """The application. tokens: of each annotator; hosts: the names it goes by, None for any address."""
    server = _Server(assignment, exhibit, tokens)
    answers = {
        ("GET", "api/session"): server.session,
        ("GET", "api/progress"): server.progress,
        ("POST", "api/answers"): server.answer,
        ("POST", "api/undo"): server.undo,
        ("GET", "api/items"): server.items,
        ("GET", "api/items/{key}"): server.item,
        ("GET", "api/items/{key}/film"): server.film,
        ("GET", "api/items/{key}/pictures/{index}"): server.picture,
        ("GET", "api/items/{key}/costs"): server.costs,
        ("GET", "api/items/{key}/truth"): server.truth,
        ("GET", "{name}"): server.static,
        ("GET", ""): server.static,
    }
    routes = [
        Route(f"/s/{{token}}/{path}", partial(_for_annotator, server, handler), methods=[method])
        for (method, path), handler in answers.items()
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={HTTPException: _http_error, RciError: _users_error, Exception: _own_error},
    )


async def _for_annotator(server: _Server, handler: Handler, request: Request) -> Response:
    """Whose token it is, or a refusal."""
    token = request.path_params["token"]
    # Every token is compared, and each in constant time, so that how long it takes reveals nothing.
    matching = [
        name for name, own in server.tokens.items() if hmac.compare_digest(own.encode(), token.encode())
    ]
    if not matching:
        return _no_entry(request)
    return await handler(request, matching[0])


class _Server:
    """The handlers. Whatever changes something runs in the one thread of the event loop, one after the other."""

    def __init__(self, assignment: Assignment, exhibit: Exhibit, tokens: Mapping[str, str]) -> None:
        self.assignment, self.exhibit, self.tokens = assignment, exhibit, tokens
        self.files = _static_files()
        self._progress: tuple[int, dict[str, Any]] | None = (
            None  # the last progress, and after how many actions
        )
        self._not_shown: set[int] = set()  # episodes that the terminal has reported

    async def static(self, request: Request, annotator: str) -> Response:
        name = request.path_params.get("name") or "index.html"
        if name not in self.files:
            raise HTTPException(404, "there is no such page.")
        content, media = self.files[name]
        return Response(content, media_type=media)

    async def session(self, request: Request, annotator: str) -> Response:
        exhibit, assignment = self.exhibit, self.assignment
        return JSONResponse(
            {
                "annotator": annotator,
                "task": exhibit.episodes.task,
                "rate": assignment.session.rate,
                "instructions": exhibit.instructions,
                "costs": exhibit.costs is not None,
                "reveal": exhibit.reveals,
                "votes": assignment.votes,
                "kinds": list(assignment.session.offered_kinds),
                "severity": exhibit.severity,
                "takeovers": exhibit.takeovers,
                "stops": exhibit.recorded_stops is not None,
                **self._state(annotator),
            }
        )

    async def progress(self, request: Request, annotator: str) -> Response:
        actions = self.assignment.session.actions
        if (
            self._progress is None or self._progress[0] != actions
        ):  # pages ask every few seconds, and it takes a while
            self._progress = actions, progress(self.assignment, list(self.tokens))
        return JSONResponse(self._progress[1])

    async def items(self, request: Request, annotator: str) -> Response:
        """Every item by its key and its place, with what the annotator said of it: nothing of what it is.

        What was said of an episode in a review does not count for its other showing here: that would show which it is.
        """
        assignment = self.assignment
        rows, standing = [], assignment.standing(annotator)
        for item in assignment.visible(annotator):
            answer = standing.current(item)
            shown = {} if answer is None else as_shown(answer)
            rows.append({"key": assignment.key(annotator, item), "position": assignment.place(item), **shown})
        return JSONResponse({"total": len(assignment.queue), "items": rows})

    async def item(self, request: Request, annotator: str) -> Response:
        item = self._item(request, annotator)
        assignment, (episode, _) = self.assignment, item
        answer = assignment.said(annotator, item)
        before, after = assignment.neighbours(annotator, item)
        found = {
            "key": request.path_params["key"],
            "position": assignment.place(item),
            "total": len(assignment.queue),
            "steps": int(assignment.session.lengths[episode]),
            "speed": assignment.speed(annotator, item),
            "answer": answer and as_shown(answer),
            "before": assignment.key(annotator, before),
            "after": assignment.key(annotator, after),
            "film": {"kind": self.exhibit.kind},
        }
        if self.exhibit.recorded_stops is not None:
            found["recorded_stop"] = int(self.exhibit.recorded_stops[episode])
        if self.exhibit.reveals or self.exhibit.costs is not None:
            found["episode"] = episode
        return JSONResponse(found)

    async def film(self, request: Request, annotator: str) -> Response:
        episode, _ = self._item(request, annotator)
        content = await self._read(episode, self.exhibit.film, episode)
        return Response(content, media_type="application/octet-stream")

    async def picture(self, request: Request, annotator: str) -> Response:
        episode, _ = self._item(request, annotator)
        index = request.path_params["index"]
        if not (index.isascii() and index.isdigit() and len(index) < 10):
            raise HTTPException(400, "the number of a picture is a whole number.")
        content, media = await self._read(episode, self.exhibit.picture, episode, int(index))
        return Response(content, media_type=media, headers={"Cache-Control": "private, max-age=3600"})

    async def costs(self, request: Request, annotator: str) -> Response:
        episode, _ = self._item(request, annotator)
        if self.exhibit.costs is None or self.exhibit.stops is None:
            raise HTTPException(404, "this server was started without step costs.")
        cost = self.exhibit.costs[episode]
        return JSONResponse(
            {
                "cost": [float(c) for c in cost],
                "stop_index": int(self.exhibit.stops[episode]),
                "highest": int(np.argmax(cost)),
            }
        )

    async def truth(self, request: Request, annotator: str) -> Response:
        episode, _ = self._item(request, annotator)
        if not self.exhibit.reveals:
            raise HTTPException(404, "this server was started without --reveal.")
        rule, unsafe = self.exhibit.rule, self.exhibit.unsafe
        return JSONResponse(
            {
                "rule": None if rule is None else int(rule[episode]),
                "unsafe": None if unsafe is None else np.flatnonzero(unsafe[episode]).tolist(),
            }
        )

    async def answer(self, request: Request, annotator: str) -> Response:
        body = await read_json(request)
        given = given_answer(body, self.exhibit, self.assignment.session.offered_kinds)
        try:
            self.assignment.answer(annotator, action_id(body), given)
        except LookupError:
            raise HTTPException(404, "there is no such item.") from None
        return JSONResponse(self._state(annotator))

    async def undo(self, request: Request, annotator: str) -> Response:
        item = self.assignment.undo(annotator, action_id(await read_json(request)))
        # What was taken back may be of an earlier start, with other repetitions; then it has no key.
        found = {"taken": item is not None, "item": self.assignment.key(annotator, item)}
        return JSONResponse({**found, **self._state(annotator)})

    def _item(self, request: Request, annotator: str) -> Item:
        try:
            return self.assignment.item(annotator, request.path_params["key"])
        except LookupError:
            raise HTTPException(404, "there is no such item.") from None

    def _state(self, annotator: str) -> dict[str, Any]:
        assignment = self.assignment
        item, (done, total) = assignment.next_item(annotator), assignment.counts(annotator)
        if item is not None:
            assignment.look_at(annotator, item)  # from now on: the page will show it
        return {
            "next": assignment.key(annotator, item),
            "last": assignment.key(annotator, assignment.last(annotator)),
            "done": done,
            "total": total,
            "undoable": bool(assignment.standing(annotator).undoable),
        }

    async def _read(self, episode: int, work: Callable[..., T], *arguments: int) -> T:
        """In a thread: a video may have to be read first."""
        try:
            return await run_in_threadpool(work, *arguments)
        except RciError as error:
            if episode not in self._not_shown:  # a page asks again and again
                self._not_shown.add(episode)
                TERMINAL.warning("Episode %d is not shown: %s", episode, error)
            raise HTTPException(404, NOT_SHOWN) from None


def _static_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page, read once: a request can only name one of these."""
    folder = resources.files("rci.labeling.server") / "static"
    return {
        file.name: (file.read_bytes(), MEDIA["." + file.name.rsplit(".", 1)[-1]])
        for file in folder.iterdir()
        if file.is_file() and "." + file.name.rsplit(".", 1)[-1] in MEDIA
    }


def _no_entry(request: Request) -> Response:
    sentence = "this link is not valid (any more): ask whoever started the server for a new one."
    if "/api/" in request.url.path:
        return refuse(403, sentence)
    return HTMLResponse(f"<!doctype html><title>No entry</title><p>Sorry, {sentence}", 403)


async def _http_error(request: Request, error: Exception) -> Response:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
    return refuse(status, detail)


async def _users_error(request: Request, error: Exception) -> Response:
    if isinstance(error, NotSavedError):
        TERMINAL.error("%s", error)
        return refuse(503, NOT_SAVED)
    return refuse(409 if isinstance(error, ConflictError) else 400, str(error))


async def _own_error(request: Request, error: Exception) -> Response:
    return refuse(500, "the server made a mistake; what was saved before is safe.")
