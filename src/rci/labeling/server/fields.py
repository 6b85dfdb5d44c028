"""The fields of a request's body, each checked before anything believes it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request

from rci.labeling.people.answers import STOP, VERDICTS, Answer
from rci.labeling.people.remarks import check_chosen, check_intervals, check_note, check_reasons
from rci.labeling.people.sessions.assignment import Given
from rci.labeling.server.exhibit import Exhibit

ACTION_ID = re.compile(r"[0-9A-Za-z-]{8,64}")
MOST_SECONDS, MOST_PACE = 1e7, 1e5
REMARKS = ("kinds", "severity", "takeovers", "note")
FIELDS = {"id", "item", "verdict", "stop_index", "seconds", "pace", "watched", "review", *REMARKS}


async def read_json(request: Request) -> dict[str, Any]:
    """The body of a request, which must be a JSON object."""
    try:
        body = json.loads(await request.body(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not JSON.") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "the request must be a JSON object.")
    return body


def action_id(body: Mapping[str, Any]) -> str:
    """Under which name an action is saved, once."""
    value = body.get("id")
    if not isinstance(value, str) or not ACTION_ID.fullmatch(value):
        raise HTTPException(400, "the id must be 8 to 64 letters, digits and hyphens.")
    return value


def given_answer(body: Mapping[str, Any], exhibit: Exhibit, kinds: tuple[str, ...]) -> Given:
    """What a page says of an item. kinds: of danger, of which a stop must then name some."""
    for name in body.keys() - FIELDS:
        raise HTTPException(400, f"an answer has no field {name[:50]!r}.")
    verdict = body.get("verdict")
    if verdict not in VERDICTS:
        raise HTTPException(400, f"the verdict must be one of {', '.join(VERDICTS)}.")
    item = body.get("item")
    if not isinstance(item, str):
        raise HTTPException(400, "the item must be named by its key.")
    chosen = check_reasons(body.get("kinds", []), body.get("severity", 1.0), verdict == STOP)
    check_chosen(chosen, kinds)
    if verdict == STOP and kinds and not chosen:
        raise HTTPException(400, f"a stop must say which kind of danger it was: {', '.join(kinds)}.")
    severity = float(body.get("severity", 1.0))
    if severity != 1 and not exhibit.severity:
        raise HTTPException(400, "this server was started without --severity.")
    takeovers = check_intervals(body.get("takeovers", []))
    if takeovers and not exhibit.takeovers:
        raise HTTPException(400, "this server was started without --takeovers.")
    return Given(
        item,
        verdict,
        _whole(body, "stop_index") if verdict == STOP else -1,
        _number(body, "seconds", MOST_SECONDS),
        _number(body, "pace", MOST_PACE),
        _whole(body, "watched"),
        _flag(body, "review"),
        chosen,
        severity,
        takeovers,
        check_note(body.get("note", "")),
    )


def as_shown(answer: Answer) -> dict[str, Any]:
    """An answer as a page wants to see it again; what was not said is left out."""
    shown: dict[str, Any] = {"verdict": answer.verdict, "stop_index": answer.stop_index}
    if answer.severity != 1:
        shown["severity"] = answer.severity
    if answer.kinds:
        shown["kinds"] = list(answer.kinds)
    if answer.takeovers:
        shown["takeovers"] = [list(pair) for pair in answer.takeovers]
    if answer.note:
        shown["note"] = answer.note
    return shown


def _no_number(name: str) -> float:
    raise ValueError(name)


def _whole(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31:
        raise HTTPException(400, f"{name} must be a whole number from 0 on.")
    return value


def _number(body: Mapping[str, Any], name: str, most: float) -> float:
    value = body.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise HTTPException(400, f"{name} must be a number from 0 to {most:g}.")
    return float(value)


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise HTTPException(400, f"{name} must be true or false.")
    return value
