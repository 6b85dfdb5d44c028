"""What the page of an assessment is made of. Estimates and intervals arrive computed; the page only shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rci.data.record import Array
from rci.data.risk.estimates import PolicyEstimate, Verdict


@dataclass(frozen=True)
class JudgedPolicy:
    """A policy, what it was made for, and what the held-out runs say of it."""

    name: str
    budget: float  # infinite where nothing held it back
    estimate: PolicyEstimate
    verdict: Verdict  # under the budget that was asked for
    chosen: bool
    folder: str

    @property
    def limited(self) -> bool:
        return math.isfinite(self.budget)


@dataclass(frozen=True, eq=False)
class Shown:
    """A held-out episode as it is drawn: what was seen and done, and what the chosen policy would have done."""

    name: str  # of the run
    obs: Array  # [T + 1, *obs_shape]
    signals: Mapping[str, Array]  # the few that are drawn, [T + 1] each
    recorded: Array  # [T, a]
    policy: Array  # [T, a]
    cost: Array  # [T]: step costs
    risk: Array  # [T]: of the monitor, after each step
    stopped: bool

    @property
    def steps(self) -> int:
        return len(self.recorded)


@dataclass(frozen=True)
class Watching:
    """The monitor that goes with the policy. `rows`: as in `rci.reporting.figures.lines.detection_picture`."""

    method: str
    level: float
    false_alarm_rate: float
    rows: Sequence[Mapping[str, Any]]
    calibration: Sequence[
        Sequence[float]
    ]  # [bins, 3]: predicted, observed, steps; none where it is not a chance
    calibration_error: float | None


@dataclass(frozen=True, eq=False)
class AssessmentInput:
    """Everything that the page of an assessment shows."""

    source: str  # what was assessed
    budget: float
    policies: tuple[JudgedPolicy, ...]  # from the strictest on
    facts: Mapping[str, str]  # of the logs
    notes: tuple[str, ...]  # what was decided where the logs are silent, and what is odd in them
    parts: Mapping[str, tuple[int, int]]  # episodes of each part, and how many of them were stopped
    action_names: Sequence[str]
    different: tuple[Shown, ...]  # where the policy would have acted otherwise
    stopped: tuple[Shown, ...]
    watching: Watching
    command: str
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    timings: Mapping[str, float]  # seconds per job
    level: float  # of the intervals
    rewarded: bool  # whether the logs say what was earned
    remarks: tuple[str, ...] = ()  # of the trainings
    step_seconds: float | None = None
    task: str = ""

    @property
    def chosen(self) -> JudgedPolicy:
        return next(policy for policy in self.policies if policy.chosen)
