"""From episodes and a folder to links that work: what `rci serve` does once everything is read."""

from __future__ import annotations

import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError
from rci.labeling.people.answers import check_name
from rci.labeling.people.remarks import check_kinds
from rci.labeling.people.sessions.assignment import Assignment
from rci.labeling.people.sessions.queue import Order, make_queue
from rci.labeling.people.sessions.session import open_session
from rci.labeling.server.app import make_app
from rci.labeling.server.exhibit import Exhibit
from rci.labeling.server.listen import is_loopback, known_names, links, open_socket, run_server
from rci.tasks import TASKS

Say = Callable[[str], None]


def print_line(text: str) -> None:
    """A line for whoever started the server."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def serve(
    shown: Episodes | Exhibit,
    folder: str | Path,
    *,
    annotators: Sequence[str] = (),
    order: Order = Order(),  # noqa: B008 (it cannot be changed)
    gold: Mapping[int, int] | None = None,
    votes: int | None = None,
    kinds: Sequence[str] | None = None,
    rate: float | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    new_links: bool = False,
    browser: bool = False,
    say: Say = print_line,
) -> None:
    """Serve episodes to annotators until interrupted; every answer goes to `folder`, which a later call goes on from.

    shown: episodes, or an Exhibit that says how to draw them and what else may be shown. gold: the right stop index of
    some episodes, -1 where they are safe. votes: answers that an episode needs; None, from everybody. kinds: of danger,
    from which whoever stops chooses; None, those of an earlier start. rate: steps per second at speed 1, as recorded if
    not given. say: receives the links.
    """
    exhibit = shown if isinstance(shown, Exhibit) else Exhibit(shown, TASKS.get(shown.task))
    for name in annotators:
        if list(annotators).count(check_name(name)) > 1:
            raise RciError(f"the annotator {name!r} is named twice.")
    check_kinds(kinds or ())
    _check_blind(exhibit, bool(gold) or order.repeats > 0)
    _ = exhibit.kind  # if these episodes cannot be drawn, say so before anything is written
    listening = open_socket(host, port)
    if not is_loopback(host):
        say(
            f"Warning: {host} can be reached from the network. Links and labels travel unencrypted; whoever has a link "
            "can label. Use it on a network you trust, or through an SSH tunnel to 127.0.0.1."
        )
    try:
        session = open_session(folder, exhibit.episodes, rate or exhibit.rate)
    except RciError:
        listening.close()
        raise
    try:
        if gold is not None:
            session.set_gold(gold)
        _check_blind(exhibit, bool(session.gold))
        if kinds is not None:
            session.set_kinds(kinds)
        if rate is not None and rate != session.rate:
            session.set_rate(rate)
        tokens, secret = session.tokens(annotators, new_links)
        queue = make_queue(replace(order, gold=tuple(session.gold)), len(exhibit.episodes))
        assignment = Assignment(session, queue, list(tokens), secret, votes)
        own = links(listening, host, tokens)

        def announce() -> None:
            widest = max(map(len, own))
            for name, link in own.items():
                done, total = assignment.counts(name)
                say(f"{name:<{widest}}  {done} of {total} labeled  {link}")
            say(f"Answers go to {folder}, each as soon as it is given. Ctrl-C ends the server.")
            if browser:
                webbrowser.open(next(iter(own.values())))

        run_server(make_app(assignment, exhibit, tokens, known_names(host)), listening, announce)
        say(f"{len(session.answers())} labels are saved in {folder}.")
    finally:
        listening.close()
        session.close()


def _check_blind(exhibit: Exhibit, measured: bool) -> None:
    if exhibit.recorded_stops is not None and measured:
        raise RciError(
            "the stops of the logs are shown, so episodes whose answer is known, or that come twice, would measure "
            "nobody: leave --show-stops out, or take a session without --gold and --repeats."
        )
