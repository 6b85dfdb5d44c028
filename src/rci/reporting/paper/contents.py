"""What the pages, figures and tables of the paper's experiments show, as plain records.

`None` stands for what cannot be known from the rows there are, such as a standard error of one seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rci.reporting.run.contents import KnownDanger

# Of the way from the lowest return to that of reward-only: where methods are compared first.
MATCHED_SHARE = 0.75


class Setting(NamedTuple):
    """Where a number was measured."""

    task: str
    dataset: str
    noise: str
    learner: str
    labelled: int  # episodes with a label
    updates: int


class Estimate(NamedTuple):
    """A number over seeds: its mean, the standard error of it, half of Student's 95% interval, one value per seed."""

    mean: float
    error: float | None
    half_width: float | None
    values: tuple[float, ...]


class WelchTest(NamedTuple):
    """Welch's t-test of a method's returns against those of reward-only."""

    difference: float
    t: float | None
    p: float | None  # None with one seed, or if nothing varies


class Ratio(NamedTuple):
    """A violation rate divided by that of another method, with its bootstrap interval."""

    to: str
    ratio: float
    low: float
    high: float


class Policy(NamedTuple):
    """One evaluated policy."""

    method: str
    budget: str
    seed: int
    mean_return: float
    violation_rate: float
    selected: bool


class Reached(NamedTuple):
    """The violation rate of a method at a return that all methods are asked for."""

    target: float
    violation: Estimate
    low: float  # pooled over the episodes of all seeds
    high: float
    mean_return: float  # of the mixtures, on the episodes that the violation rate is from
    seeds: int  # that reach the return


class Matched(NamedTuple):
    """A return that all methods are asked for, and what a method needs for it."""

    share: float  # of the way from the lowest return to that of reward-only
    target: float
    reached: Reached | None  # None where no seed reaches it


class Outcome(NamedTuple):
    """One method in one setting: what the policy that was selected for each seed does."""

    setting: Setting
    method: str
    seeds: tuple[int, ...]
    budgets: tuple[str, ...]  # of the selected policies, one per seed
    episodes: int
    violation: Estimate
    low: float  # Clopper-Pearson, pooled over seeds
    high: float
    return_norm: Estimate | None  # None where all returns of the task are the same, and so no scale
    mean_return: Estimate
    until_stop: Estimate  # return until the first violation
    against: WelchTest | None  # None for reward-only itself and where it is missing
    against_until_stop: WelchTest | None
    ratios: tuple[Ratio, ...]
    log_violation: Estimate | None  # of the policies that would be chosen without a simulator
    log_return: Estimate | None
    share_of_way: float | None = None  # from reward-only to the best driver who knows the danger


class Frontier(NamedTuple):
    """One method in one setting: what all its policies reach, mixed with each other and with reward-only's."""

    setting: Setting
    method: str
    seeds: tuple[int, ...]
    policies: tuple[Policy, ...]  # its own
    matched: tuple[Matched, ...]  # none where no return is known to be asked for
    area: Estimate | None  # mean violation rate between the first and the last of the matched returns
    curve: tuple[tuple[float, float], ...]  # mean over seeds of return and violation rate, from the safest on


class Claim(NamedTuple):
    """Something that was claimed, what was measured of it, and the verdict."""

    name: str
    claimed: str
    verdict: str  # holds, does not hold, not yet measured
    measured: str


@dataclass(frozen=True)
class Experiment:
    """One experiment: what it asks and what came out; no rows if it was not run yet."""

    name: str
    title: str
    question: str
    answer: str
    outcomes: tuple[Outcome, ...]
    frontiers: tuple[Frontier, ...]
    rows: int  # evaluated policies behind it
    seeds: tuple[int, ...]
    references: Mapping[str, tuple[KnownDanger, ...]] = field(
        default_factory=dict
    )  # what is possible, by task


@dataclass(frozen=True)
class PaperSummary:
    """All experiments, what became of each claim, and what they took."""

    experiments: tuple[Experiment, ...]
    claims: tuple[Claim, ...]
    rows: int
    seconds: float  # of all policies, one after the other
    versions: tuple[str, ...]

    def experiment(self, name: str) -> Experiment:
        """The experiment of this name."""
        return next(experiment for experiment in self.experiments if experiment.name == name)


def matched_at(frontier: Frontier, share: float) -> Reached | None:
    """What a frontier needs at one of the matched returns; None if it is not known to reach it."""
    return next((one.reached for one in frontier.matched if one.share == share), None)


def matched_ratio(ours: Frontier, theirs: Frontier, share: float) -> float | None:
    """Our violation rate at a matched return divided by theirs; None where one is not known or both are 0."""
    first, second = matched_at(ours, share), matched_at(theirs, share)
    if first is None or second is None:
        return None
    above, below = first.violation.mean, second.violation.mean
    if below == 0.0:
        return None if above == 0.0 else float("inf")
    return above / below


# The order in which values are shown; others come behind, by name.
ORDERS = {
    "task": (
        "highway",
        "highway-open",
        "highway-disc",
        "highway-15hz",
        "fetch-reach",
        "fetch-reach-fine",
        "point",
    ),
    "dataset": ("ppo", "random", "mixed"),
    "noise": ("clean", "noisy", "adversarial", "human", "late"),
}


def shown_order(setting: Setting) -> tuple[object, ...]:
    """A key to sort settings by, as they are shown."""
    named = []
    for name, order in ORDERS.items():
        value = getattr(setting, name)
        named.append((order.index(value) if value in order else len(order), value))
    return (*named, setting.learner, setting.labelled, setting.updates)


def setting_names(settings: Sequence[Setting], leave_out: Sequence[str] = ()) -> dict[Setting, str]:
    """A name for each setting, made of what differs between them; empty if nothing does."""
    texts = {
        "labelled": lambda value: f"{value:,} labels",
        "updates": lambda value: f"{value:,} updates",
        "noise": lambda value: f"{value} labels",
        "dataset": lambda value: f"{value} data",
    }
    differ = [
        name
        for name in Setting._fields
        if name not in leave_out and len({getattr(setting, name) for setting in settings}) > 1
    ]
    return {
        setting: ", ".join(texts.get(name, str)(getattr(setting, name)) for name in differ)
        for setting in settings
    }
