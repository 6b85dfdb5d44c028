"""Settings of an assessment: defaults < flags. Every key is known, or it is an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rci.data.errors import RciError, unknown_name
from rci.data.options import build
from rci.pipeline.config import MAX_SEED, Table, lay, parse_flags

LEAST_SHARE = 0.05  # of the runs that a part may have


@dataclass(frozen=True)
class Split:
    """Which share of the runs is kept from the training; the rest is what policies are learned from."""

    selection: float = 0.2  # chooses the policy, and the level of the monitor
    held_out: float = 0.25  # judges what was chosen

    def __post_init__(self) -> None:
        for name in ("selection", "held_out"):
            if not LEAST_SHARE <= getattr(self, name) <= 0.5:
                raise RciError(
                    f"split.{name} must be from {LEAST_SHARE:g} to 0.5, got {getattr(self, name):g}."
                )
        if self.selection + self.held_out > 0.75:
            raise RciError(
                "split.selection and split.held_out leave less than a quarter of the runs to learn from."
            )


@dataclass(frozen=True)
class Watch:
    """The monitor that goes with the policy."""

    false_alarms: float | None = None  # None: the lowest of 5%, 10%, 20%, 50% that the safe runs can promise

    def __post_init__(self) -> None:
        if self.false_alarms is not None and not 0 < self.false_alarms < 1:
            raise RciError(f"monitor.false_alarms must lie between 0 and 1, got {self.false_alarms:g}.")


@dataclass(frozen=True)
class Show:
    """How much the page shows."""

    episodes: int = 3  # of each kind of picture

    def __post_init__(self) -> None:
        if not 1 <= self.episodes <= 12:
            raise RciError(f"show.episodes must be 1 to 12, got {self.episodes}.")


@dataclass(frozen=True)
class AssessConfig:
    """Everything that an assessment depends on but the logs. `redistribute`, `learn` and `behaviour` as in a run.

    The defaults are made for some hundred runs of some hundred steps.
    """

    budgets: tuple[float, ...] = (0.02, 0.05, 0.1, 0.2)  # policies that are shown beside the one asked for
    seed: int = 0
    level: float = 0.9  # of the intervals
    split: Split = field(default_factory=Split)
    behaviour: dict[str, Any] = field(default_factory=lambda: {"updates": 4000})
    redistribute: dict[str, Any] = field(
        default_factory=lambda: {"method": "potential", "epochs": 60, "members": 5}
    )
    learn: dict[str, Any] = field(
        default_factory=lambda: {"method": "feasible", "updates": 6000, "model_updates": 3000}
    )
    monitor: Watch = field(default_factory=Watch)
    estimate: dict[str, Any] = field(default_factory=dict)
    show: Show = field(default_factory=Show)

    def as_table(self) -> Table:
        """As plain JSON values."""
        return dataclasses.asdict(self)


def assess_config(flags: Sequence[str] = (), seed: int | None = None) -> AssessConfig:
    """The settings of `rci assess`. flags: "section.key=value", the value as TOML."""
    table = lay(AssessConfig().as_table(), parse_flags(flags))
    if seed is not None:
        table["seed"] = seed
    config = build(AssessConfig, table, "settings")
    check_config(config)
    return config


def check_config(config: AssessConfig) -> None:
    """Find mistakes in the settings before any work is done."""
    from rci.deploy.scorers import SCORERS
    from rci.learning import LEARNERS, behaviour, parse_options
    from rci.learning.judging.evidence import Settings as EstimateSettings
    from rci.redistribution import parse_options as parse_redistributor

    if not 0 <= config.seed <= MAX_SEED:
        raise RciError(f"the seed must be 0 to {MAX_SEED}, got {config.seed}.")
    if not 0.5 <= config.level < 1:
        raise RciError(f"level, that of the intervals, must be from 0.5 to below 1, got {config.level:g}.")
    for budget in config.budgets:
        if not 0 < budget < 1:
            raise RciError(f"budgets are shares of runs between 0 and 1, such as 0.05; got {budget:g}.")
    learner = dict(config.learn)
    method = learner.pop("method")
    parse_options(method, learner)
    if LEARNERS[method].settle is None:
        serve_all = [name for name, entry in LEARNERS.items() if entry.settle is not None]
        raise RciError(
            f"an assessment makes policies for several budgets from one training, and {method!r} is trained anew for "
            f"each; leave learn.method at {' or '.join(serve_all)}."
        )
    build(behaviour.Config, config.behaviour, "behaviour")
    build(EstimateSettings, config.estimate, "estimate")
    costs = dict(config.redistribute)
    redistributor = costs.pop("method")
    parse_redistributor(redistributor, costs)
    if redistributor not in SCORERS:
        raise unknown_name("redistributor that a monitor can be made of", redistributor, SCORERS)
