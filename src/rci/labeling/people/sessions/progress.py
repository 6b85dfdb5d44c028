"""How far everybody is, how fast, and how well they agree: what the progress page shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rci.labeling.people.agreement import agreement, gold_accuracy
from rci.labeling.people.answers import SAFE, STOP, UNSURE
from rci.labeling.people.delay import Delay, estimate_delays
from rci.labeling.people.sessions.assignment import Assignment


def progress(assignment: Assignment, annotators: Sequence[str]) -> dict[str, Any]:
    """The state of a session as JSON values. annotators: those who have a link; others who answered come after them."""
    session = assignment.session
    answers = session.answers()
    delays = estimate_delays(answers, session.gold, session.rate)
    gold = gold_accuracy(answers, session.gold)
    names = [*annotators, *(name for name in sorted(session.standing) if name not in annotators)]
    return {
        "annotators": [_annotator(assignment, name, delays.get(name), gold.get(name)) for name in names],
        "episodes": len(session.lengths),
        "labelled": len({answer.episode for answer in answers if answer.verdict != UNSURE}),
        "agreement": agreement(answers, intervals=False),
    }


def _annotator(
    assignment: Assignment, name: str, delay: Delay | None, gold: dict[str, Any] | None
) -> dict[str, Any]:
    answers = assignment.standing(name).answers()
    done, total = assignment.counts(name)
    verdicts = Counter(answer.verdict for answer in answers)
    seconds = [answer.seconds for answer in answers if answer.seconds is not None]
    mean = float(np.mean(seconds)) if seconds else None
    return {
        "name": name,
        "done": done,
        "total": total,
        "left": total - done,
        **{verdict: verdicts[verdict] for verdict in (STOP, SAFE, UNSURE)},
        "seconds_per_label": float(np.median(seconds)) if seconds else None,
        "labels_per_hour": 3600.0 / mean if mean else None,
        "hours_left": (total - done) * mean / 3600.0 if mean is not None else None,
        "gold": gold,
        "delay": None if delay is None else _delay(delay),
    }


def _delay(delay: Delay) -> dict[str, Any]:
    values = asdict(delay)
    return {"from": values.pop("source"), **values}
