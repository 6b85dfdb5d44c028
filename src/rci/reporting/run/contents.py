"""What a report is made of. Intervals arrive computed; a report only shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes, Labels, Oracle, Scores, StepCosts


@dataclass(frozen=True)
class Contrast:
    """A method against another one. Violation rates as a ratio with its 95% bootstrap interval, stratified by seed;
    returns by Welch's t-test over seeds, None where there are too few seeds for one."""

    against: str
    ratio: float
    ratio_low: float
    ratio_high: float
    return_t: float | None = None
    return_p: float | None = None


@dataclass(frozen=True)
class ChannelResult:
    """One kind of danger under one method at one budget: its own budget, as in `MethodResult`, and how often it was
    the first violation of an evaluation episode, by seed."""

    channel: str
    budget: float | None
    asked: str
    threshold: float
    multipliers: tuple[float, ...]
    violation_rates: tuple[float, ...]
    violation_interval: tuple[float, float]
    seed_intervals: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class KnownDanger:
    """One driver that knows the danger, or the blind one that it began as, over its seeds: what is possible."""

    driver: str
    price: float | None  # of a violation; 0 for the blind driver, None for a script
    seeds: int
    violation_rate: float
    violation_low: float
    violation_high: float
    mean_return: float
    return_low: float  # lowest and highest seed
    return_high: float
    mean_return_until_stop: float


@dataclass(frozen=True, eq=False)
class MethodResult:
    """One method at one budget, over its seeds. `budget` is infinite where nothing is constrained.

    `violation_interval`: 95% Clopper-Pearson, over the evaluation episodes of all seeds. `rollouts`: a few recorded
    episodes of the first seed's policy. `multipliers`: the last multiplier of each seed, or none. `asked`: the budget
    as the user wrote it; where that is a percentile, `budget` is None, because a percentile of training costs says
    nothing about a share of episodes. `threshold`: what the cost critic was compared with. `seed_intervals`: the
    same interval for every seed's policy alone. `contrast`: the same method against one that knows no budget.
    `possible`: the violation rate at which drivers who know the danger earn as much; `share_of_way`: how far it is from
    reward-only to the best of them; both None where that is not known.
    `channels`: the same by kind of danger, where there are several. A finite budget is then one of each of them, so
    `budget` is None, and what there is a number of for each channel (multipliers, threshold) is given there only.
    """

    method: str
    budget: float | None
    scores: tuple[Scores, ...]
    violation_interval: tuple[float, float]
    rollouts: Episodes | None = None
    multipliers: tuple[float, ...] = ()
    asked: str = ""
    threshold: float | None = None
    seed_intervals: tuple[tuple[float, float], ...] = ()
    contrast: Contrast | None = None
    channels: tuple[ChannelResult, ...] = ()
    possible: float | None = None
    share_of_way: float | None = None

    def __post_init__(self) -> None:
        if not self.scores:
            raise RciError(
                f"{self.method!r} at budget {self.asked or self.budget} has no scores: one per seed is needed."
            )
        low, high = self.violation_interval
        if not 0.0 <= low <= high <= 1.0:
            raise RciError(
                f"{self.method!r} at budget {self.asked or self.budget}: the violation interval must be two shares in "
                f"order, got {low:g} and {high:g}."
            )


@dataclass(frozen=True, eq=False)
class CriticMap:
    """What the cost critic of a method's first policy expects at every point of the task's probe: Q_c(s, pi(s))."""

    method: str
    budget: str  # as the user wrote it
    value: Array  # [rows, columns], as in the probe
    channel: str = ""  # the one that it is of; otherwise the sum over all


@dataclass(frozen=True, eq=False)
class FieldMap:
    """Where a method's first policy pushes at every point of the task's probe, and what it expects to gain there:
    Q(s, pi(s)) - multiplier * Q_c(s, pi(s)), summed over channels."""

    method: str
    budget: str  # as the user wrote it
    arrow: Array  # [rows, columns, 2], as in the probe
    value: Array  # [rows, columns]


@dataclass(frozen=True, eq=False)
class LadderOf:
    """What was expected of a method's first training at every threshold, before anything was tested.

    `tested`: threshold and realised violation rate of those of its policies that were.
    """

    method: str
    threshold: tuple[float, ...]  # the last one is inf, none at all
    estimate: tuple[float, ...]  # chance of a violation
    bound: tuple[float, ...]
    tested: tuple[tuple[float, float], ...]


@dataclass(frozen=True, eq=False)
class ReportInput:
    """Everything that one report shows.

    `costs` goes by method name. `risk`: the exact chance, after each kept transition, that the episode has been or
    will be violated, flat like the step costs; None where it is not known. `command` repeats the run, `settings` is
    its nested configuration. `critic_maps`: none where the task has no probe. `field_maps`: none where its actions are
    no arrows on the map either. `demonstrators`: how the policies that recorded the data were trained, where they
    were; its `curve` goes by quantity, its `checkpoints` are those used. `reference`: what is possible when the danger
    is known, from the blind driver to the most careful one; none where nobody measured it. `ladders`: of those learners
    whose threshold has no part in the training. `reach`: of the behaviour model, by the behaviour that recorded; see
    `rci.learning.proposals.reach`; `reach_note`: a sentence where it is poor.
    """

    task: str
    title: str
    settings: dict[str, Any]
    command: str
    versions: dict[str, str]
    timings: dict[str, float]  # seconds per stage
    episodes: Episodes
    oracle: Oracle
    labels: Labels
    costs: dict[str, StepCosts]
    risk: Array | None
    results: tuple[MethodResult, ...]
    critic_maps: tuple[CriticMap, ...] = ()
    field_maps: tuple[FieldMap, ...] = ()
    demonstrators: dict[str, Any] | None = None
    reference: tuple[KnownDanger, ...] = ()
    ladders: tuple[LadderOf, ...] = ()
    reach: dict[str, dict[str, Any]] = field(default_factory=dict)
    reach_note: str = ""

    def __post_init__(self) -> None:
        for name, lengths, expected in (
            ("oracle", self.oracle.lengths, self.episodes.lengths),
            ("labels", self.labels.lengths, self.episodes.lengths),
            *((f"costs of {name!r}", c.lengths, self.labels.kept_lengths) for name, c in self.costs.items()),
        ):
            if not np.array_equal(lengths, expected):
                raise RciError(f"the {name} of this report belong to other episodes: their lengths differ.")
        steps = int(self.labels.kept_lengths.sum())
        if self.risk is not None and self.risk.shape != (steps,):
            raise RciError(
                f"the risk must have one number for each of {steps} kept steps, got shape {self.risk.shape}."
            )
