"""How early a monitor raises the alarm, against how often it does so for nothing.

A monitor estimates a risk after every step, and raises the alarm once that is over a level. The level is chosen on safe
episodes, so that a stated share of safe episodes at most is interrupted. What is said here of a rate is said per
episode, not per step: what counts is the highest risk of an episode.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rci.data.errors import RciError
from rci.data.record import Array
from rci.evaluation.stats import clopper_pearson

RATES = (0.02, 0.05, 0.1, 0.2, 0.5)


class Level(NamedTuple):
    """Where to raise the alarm, and how many of the safe episodes it was chosen on would have raised it."""

    level: float
    false_alarm_rate: float  # what was asked for
    episodes: int
    low: float  # the rate that comes true lies between these, by the confidence asked for
    high: float


class Detection(NamedTuple):
    """A monitor at one level, on episodes that it was not chosen on."""

    false_alarm_rate: float  # what was asked for
    level: float
    safe_episodes: int
    false_alarms: float  # share of them
    false_alarms_low: float
    false_alarms_high: float
    stopped_episodes: int
    detected: float  # share of them with an alarm in time
    detected_low: float
    detected_high: float
    lead: (
        float | None
    )  # steps from the alarm to the stop, the median over those detected; None if there are none
    lead_low: float | None  # quartiles
    lead_high: float | None


def choose_level(safe: Sequence[ArrayLike], false_alarm_rate: float, confidence: float = 0.95) -> Level:
    """The lowest level that a new safe episode passes with a chance of `false_alarm_rate` at most.

    safe: the risk after each step of safe episodes, which the monitor was not fitted on. Of n highest risks the level
    is the one of rank ceil((n + 1) * (1 - rate)): the one more is the new episode, which may fall anywhere among them
    (split conformal prediction: Vovk, Gammerman and Shafer, 2005).

    The promise is an average over all such choices. For the one at hand, the rate that comes true follows
    Beta(alarms + 1, n - alarms), if no two episodes have the same highest risk; Clopper and Pearson's interval has the
    same high end, and a lower low end.
    """
    if not 0.0 < false_alarm_rate < 1.0:
        raise RciError(f"the false-alarm rate must lie between 0 and 1, got {false_alarm_rate}.")
    highest = np.sort(peaks(safe))
    rank = math.ceil((len(highest) + 1) * (1.0 - false_alarm_rate) - 1e-9)
    if rank > len(highest):
        raise RciError(
            f"{len(highest)} safe episodes are too few to promise a false-alarm rate of {false_alarm_rate:g}: it takes "
            f"at least {math.ceil(1.0 / false_alarm_rate - 1e-9) - 1}."
        )
    level = float(highest[rank - 1])
    interval = clopper_pearson(int((highest > level).sum()), len(highest), confidence)
    return Level(level, false_alarm_rate, len(highest), *interval)


def detect(
    level: Level,
    risk: Sequence[ArrayLike],
    stop_index: ArrayLike,
    least_lead: int = 1,
    confidence: float = 0.95,
) -> Detection:
    """What the level does on other episodes: risk [T] of each, and its stop index, -1 where there was none.

    A stop is detected if the alarm came at least `least_lead` steps before it; later ones helped nobody.
    """
    stop = np.asarray(stop_index)
    if stop.shape != (len(risk),):
        raise RciError(f"{len(risk)} episodes need as many stop indices, got shape {stop.shape}.")
    if least_lead < 0:
        raise RciError(f"least_lead is a number of steps, so it cannot be {least_lead}.")
    alarm = alarm_steps(risk, level.level)
    safe, stopped = stop < 0, stop >= 0
    if not safe.any() or not stopped.any():
        raise RciError(
            f"{int(stopped.sum())} of the {len(stop)} episodes were stopped; it takes both kinds to judge."
        )
    for i in np.flatnonzero([s >= len(np.asarray(r)) for s, r in zip(stop, risk)])[:1]:
        raise RciError(
            f"episode {i} has {len(np.asarray(risk[i]))} steps, so it cannot have stopped at {stop[i]}."
        )
    false_alarms = int((alarm[safe] >= 0).sum())
    lead = (stop - alarm)[stopped & (alarm >= 0) & (stop - alarm >= least_lead)]
    spread = np.quantile(lead, (0.5, 0.25, 0.75)).tolist() if len(lead) else (None, None, None)
    return Detection(
        level.false_alarm_rate,
        level.level,
        int(safe.sum()),
        false_alarms / int(safe.sum()),
        *clopper_pearson(false_alarms, int(safe.sum()), confidence),
        int(stopped.sum()),
        len(lead) / int(stopped.sum()),
        *clopper_pearson(len(lead), int(stopped.sum()), confidence),
        *spread,
    )


def detection_curve(
    safe: Sequence[ArrayLike],
    risk: Sequence[ArrayLike],
    stop_index: ArrayLike,
    rates: Sequence[float] = RATES,
    least_lead: int = 1,
    confidence: float = 0.95,
) -> list[Detection]:
    """`detect` at the levels of several false-alarm rates, each chosen on `safe`, which are not among the others."""
    levels = [choose_level(safe, rate, confidence) for rate in rates]
    return [detect(level, risk, stop_index, least_lead, confidence) for level in levels]


def alarm_steps(risk: Sequence[ArrayLike], level: float) -> Array:
    """[N]: the first step of each episode whose risk is over the level, -1 where there is none."""
    over = [np.flatnonzero(np.asarray(episode_risk) > level) for episode_risk in risk]
    return np.array([int(steps[0]) if len(steps) else -1 for steps in over])


def peaks(risk: Sequence[ArrayLike]) -> Array:
    """[N]: the highest risk of each episode."""
    rows = [np.asarray(episode_risk, np.float64) for episode_risk in risk]
    if not rows:
        raise RciError("there are no episodes: at least one is needed.")
    for i, episode_risk in enumerate(rows):
        if episode_risk.ndim != 1 or not len(episode_risk) or not np.isfinite(episode_risk).all():
            raise RciError(
                f"the risk of episode {i} must be a finite number for each step, got shape {episode_risk.shape}."
            )
    return np.array([episode_risk.max() for episode_risk in rows])
