"""From fitted step costs to a monitor that can be taken away, and to figures of how good it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rci.data.artefacts.signals import named_signals
from rci.data.errors import RciError
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, SavedMonitor, StepCosts
from rci.deploy.monitor import monitor_record, risk_of
from rci.evaluation.detection import RATES, choose_level, detection_curve
from rci.redistribution import score

Row = dict[str, Any]
LEARNED_BY_HEART = (
    "these are the episodes that the step costs were inferred from: the risk of episodes that a model has learned by "
    "heart promises nothing. Give others, recorded and labeled in the same way."
)


def fit_monitor(
    costs: StepCosts, episodes: Episodes, labels: Labels, false_alarm_rate: float = 0.05
) -> SavedMonitor:
    """What was fitted for `costs` as a monitor that interrupts this share of safe episodes at most.

    episodes, labels: held out, not those that the costs were inferred from. Only the safe ones are used.
    """
    risk = held_out_risk(costs, episodes, labels)
    safe = [own for own, stopped in zip(risk, labels.stopped) if not stopped]
    if not safe:
        raise RciError("every one of these episodes was stopped: the level is chosen on safe ones.")
    level = choose_level(safe, false_alarm_rate)
    facts = {
        "false_alarm_rate": false_alarm_rate,
        "safe_episodes": level.episodes,
        "false_alarm_interval": [level.low, level.high],
        "labels_hash": labels.hash,
        **named_signals(episodes.signals),
    }
    return monitor_record(costs, level.level, **facts)


def judge_monitor(
    costs: StepCosts,
    episodes: Episodes,
    labels: Labels,
    rates: Sequence[float] = RATES,
    least_lead: int = 1,
    seed: int = 0,
) -> list[Row]:
    """Lead time and share of stops detected at several false-alarm rates, one row each, for `detection_picture`.

    Levels are chosen on a random half of the safe episodes; all others are watched. They must be held out, as above.
    """
    risk = held_out_risk(costs, episodes, labels)
    safe = np.random.default_rng(seed).permutation(np.flatnonzero(~labels.stopped))
    chosen = set(safe[: len(safe) // 2].tolist())
    others = [i for i in range(len(episodes)) if i not in chosen]
    curve = detection_curve(
        [risk[i] for i in sorted(chosen)],
        [risk[i] for i in others],
        np.asarray(labels.stop_index)[others],
        rates,
        least_lead,
    )
    return [{"method": costs.method, **detection._asdict()} for detection in curve]


def held_out_risk(costs: StepCosts, episodes: Episodes, labels: Labels) -> list[Array]:
    """The risk after every kept step of episodes that the models behind `costs` have not seen."""
    expect(StepCosts, costs=costs)
    labels.check_parent(episodes)
    if labels.hash == costs.labels_hash:
        raise RciError(LEARNED_BY_HEART)
    risk = risk_of(costs.method, score(costs, episodes))
    return [own[:kept] for own, kept in zip(risk, labels.kept_lengths)]
