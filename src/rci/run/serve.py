"""`rci serve`: reads what is to be labelled, makes the queue, and hands both to the server."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import numpy as np

from rci.data.cache import cache_folder
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.store import read, read_manifest, write_file
from rci.data.types import Episodes, StepCosts
from rci.labeling.answers import UNSURE, check_name
from rci.labeling.desk import Desk
from rci.labeling.exchange import read_answers
from rci.labeling.queue import Order, make_queue
from rci.labeling.rules import rule_labels
from rci.labeling.server import Exhibit, make_app
from rci.labeling.server.listen import is_loopback, known_names, links, open_socket, run_server
from rci.labeling.server.pictures import open_pictures
from rci.labeling.session import open_session
from rci.run.jobs import oracle_of
from rci.tasks import TASKS, get
from rci.tasks.base import Task


@dataclass(frozen=True)
class Request:
    """What somebody asked to be served."""

    episodes: Path
    folder: Path  # of the session
    annotators: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int | None = None
    order: str = "sequential"
    seed: int = 0
    gold: Path | None = None
    repeats: float = 0.0
    votes: int | None = None
    costs: Path | None = None
    frames: Path | None = None
    shown_as: str | None = None  # the task whose drawing is used
    rate: float | None = None
    reveal: bool = False
    new_links: bool = False
    browser: bool = False


def serve(request: Request, say: Callable[[str], None]) -> None:
    """Serve until interrupted. say: tells the user something, such as the links."""
    if not is_loopback(request.host):
        say(
            f"Warning: {request.host} can be reached from the network. Links and labels travel unencrypted; whoever "
            "has a link can label. Use it on a network you trust, or through an SSH tunnel to 127.0.0.1."
        )
    for name in request.annotators:
        if request.annotators.count(name) > 1:
            raise RciError(f"the annotator {check_name(name)!r} is named twice.")
        check_name(name)
    episodes = read(request.episodes, "episodes")
    exhibit = make_exhibit(request, episodes)
    gold = None if request.gold is None else known_stops(request.gold, episodes)
    uncertainty = uncertainties(request, episodes, say) if request.order == "uncertain" else None
    order = Order(request.order, request.seed, (), request.repeats, uncertainty)
    listening = open_socket(request.host, request.port)
    try:
        session = open_session(request.folder, episodes, request.rate or _rate(exhibit.task))
    except RciError:
        listening.close()
        raise
    try:
        if gold is not None:
            session.set_gold(gold)
        if request.rate is not None and request.rate != session.rate:
            session.set_rate(request.rate)
        tokens, secret = session.tokens(request.annotators, request.new_links)
        queue = make_queue(replace(order, gold=tuple(session.gold)), len(episodes))
        desk = Desk(session, queue, list(tokens), secret, request.votes)
        own = links(listening, request.host, tokens)
        app = make_app(desk, exhibit, tokens, known_names(request.host))
        run_server(app, listening, lambda: _announce(own, desk, request, say))
        say(f"{len(session.answers())} labels are saved in {request.folder}.")
    finally:
        listening.close()
        session.close()


def known_stops(path: Path, episodes: Episodes) -> dict[int, int]:
    """The stop index of each episode that a file names, -1 where it is safe."""
    answers = read_answers(path, episodes.lengths, "gold")
    return {answer.episode: answer.stop_index for answer in answers if answer.verdict != UNSURE}


def make_exhibit(request: Request, episodes: Episodes) -> Exhibit:
    """What can be shown: the film, and for reviews and revelations what is known about the episodes."""
    task = _task(request, episodes)
    pictures = None if request.frames is None else open_pictures(request.frames, episodes.lengths)
    costs, stops = _costs(request, episodes)
    rule, unsafe = None, None
    if request.reveal:
        if task is not None and episodes.obs.shape[1:] == task.obs_shape:
            rule = rule_labels(episodes, task.name).stop_index
        if (oracle_of(request.episodes) / "manifest.json").is_file():
            oracle = read(oracle_of(request.episodes), "oracle")
            oracle.check_parent(episodes)
            unsafe = np.split(oracle.unsafe, np.cumsum(oracle.lengths)[:-1])
        if rule is None and unsafe is None:
            raise RciError(
                "there is nothing to reveal: the episodes are of no known task and have no oracle."
            )
    return Exhibit(episodes, task, pictures, costs, stops, rule, unsafe)


def uncertainties(request: Request, episodes: Episodes, say: Callable[[str], None]) -> Array:
    """How uncertain a fitted redistributor is of each episode; computed once, so that the next start is quick."""
    if request.costs is None:
        raise RciError(
            "the order 'uncertain' asks a fitted redistributor: name its step costs with --costs (rci redistribute)."
        )
    parents = f"{read_manifest(request.costs)['hash'][:16]}-{episodes.hash[:16]}"
    kept = cache_folder() / "uncertainty" / f"{parents}.npy"
    if not kept.is_file():
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RciError(
                f"cannot write {kept.parent}: {error.strerror or error}; set RCI_CACHE to a folder that can be written."
            ) from None
        say("Asking the redistributor how sure it is of each episode ...")
        from rci.run.engine import prepare_process

        prepare_process()  # one core, before anything imports JAX
        from rci.redistribution import uncertainty

        buffer = BytesIO()
        np.save(buffer, uncertainty(read(request.costs, "costs"), episodes), allow_pickle=False)
        write_file(kept, buffer.getvalue())
    return np.asarray(np.load(kept, allow_pickle=False))


def _costs(request: Request, episodes: Episodes) -> tuple[list[Array] | None, Array | None]:
    """Step costs for reviews, if they are of these episodes; costs of others can still say what is uncertain."""
    if request.costs is None:
        return None, None
    costs: StepCosts = read(request.costs, "costs")
    made_from = read_manifest(request.costs)["provenance"]["parents"].get("episodes", episodes.hash)
    if made_from != episodes.hash or len(costs) != len(episodes) or (costs.lengths > episodes.lengths).any():
        if request.order == "uncertain":
            return None, None
        raise RciError(f"{request.costs} has step costs of other episodes; they cannot be shown with these.")
    stopped = costs.episodic_cost.reshape(len(costs), -1).sum(axis=1) > 0
    return np.split(costs.total, costs.step_offset[1:-1]), np.where(stopped, costs.lengths - 1, -1)


def _task(request: Request, episodes: Episodes) -> Task | None:
    if request.shown_as is not None:
        return get(request.shown_as)
    return TASKS.get(episodes.task)


def _rate(task: Task | None) -> float | None:
    """Steps per second at which a task was recorded."""
    return 1 / task.step_seconds if task is not None and task.step_seconds else None


def _announce(own: Mapping[str, str], desk: Desk, request: Request, say: Callable[[str], None]) -> None:
    widest = max(map(len, own))
    for name, link in own.items():
        done, total = desk.counts(name)
        say(f"{name:<{widest}}  {done} of {total} labelled  {link}")
    say(f"Answers go to {request.folder}, each as soon as it is given. Ctrl-C ends the server.")
    if request.browser:
        webbrowser.open(next(iter(own.values())))
