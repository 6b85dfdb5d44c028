"""The types that cross between stages. Each is checked once, when it is built.

Episodes and their oracle are in `artefacts/episodes.py`, labels, step costs and fitted models beside them; all are
imported from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episode, Episodes, Oracle, first_true, rows_of
from rci.data.artefacts.labels import Labels
from rci.data.artefacts.models import (
    Behaviour,
    Checkpoint,
    Demonstrators,
    Informed,
    Policy,
    SavedModel,
    SavedMonitor,
)
from rci.data.artefacts.signals import Signal, Signals
from rci.data.artefacts.takeovers import Takeovers
from rci.data.errors import RciError
from rci.data.record import Array, Record, check_finite, check_lengths, set_fields

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Behaviour",
    "Checkpoint",
    "Demonstrators",
    "Episode",
    "Episodes",
    "Informed",
    "Labels",
    "Oracle",
    "Policy",
    "SavedModel",
    "SavedMonitor",
    "Scores",
    "Signal",
    "Signals",
    "StepCosts",
    "Takeovers",
    "Transitions",
    "first_true",
    "kept_rows",
]


@dataclass(frozen=True, eq=False)
class Transitions:
    """What a learner sees: kept transitions with their costs and all three flags.

    `row[j]` is where transition j's observation stands in `obs`, which is not copied; the next observation is the row
    after it. `initial` are the rows of first observations. `last` marks the last kept transition of every episode,
    whatever ended it; `terminated`, `truncated` and `stopped` say what did.
    """

    obs: Array
    row: Array
    action: Array
    reward: Array
    cost: Array
    terminated: Array
    truncated: Array
    stopped: Array
    last: Array
    initial: Array
    label_cost: Array  # the episodic cost as labelled, at the last kept transition: [rows], or [rows, K]

    @classmethod
    def build(cls, episodes: Episodes, labels: Labels, costs: StepCosts) -> Transitions:
        """Cut the episodes at their stops and put every flag on the last transition only."""
        labels.check_parent(episodes)
        costs.check_parent(labels)
        kept = kept_rows(episodes, labels)
        last = np.cumsum(labels.kept_lengths) - 1
        flags = {name: np.zeros(len(kept), bool) for name in ("terminated", "truncated", "stopped", "last")}
        whole = labels.kept_lengths == labels.lengths  # the end of the recording is still there
        flags["last"][last] = True
        flags["stopped"][last] = labels.stopped
        flags["terminated"][last] = episodes.terminated & whole
        flags["truncated"][last] = episodes.truncated & whole
        episode = np.repeat(np.arange(len(episodes)), labels.kept_lengths)
        label_cost = np.zeros((len(kept), *labels.cost.shape[1:]))
        label_cost[last] = labels.cost
        return cls(
            obs=episodes.obs,
            row=kept + episode,
            action=episodes.action[kept],
            reward=episodes.reward[kept],
            cost=costs.cost,
            initial=episodes.obs_offset[:-1],
            label_cost=label_cost,
            **flags,
        )

    def __len__(self) -> int:
        return len(self.row)

    @property
    def lengths(self) -> Array:
        """Kept transitions of each episode."""
        return np.diff(np.flatnonzero(self.last), prepend=-1)

    @property
    def seen(self) -> Array:
        """Rows of the observations that a kept transition begins or ends with, in their order."""
        counts = self.lengths + 1
        return np.arange(counts.sum()) + np.repeat(self.initial - (np.cumsum(counts) - counts), counts)


@dataclass(frozen=True, eq=False)
class Scores(Record):
    """Evaluation episodes of one policy: return over the whole episode, until the first violation, and safety."""

    kind: ClassVar[str] = "scores"
    stored: ClassVar[tuple[str, ...]] = ("returns", "returns_until_stop", "first_violation", "lengths")
    returns: Array
    returns_until_stop: Array
    first_violation: Array  # index of the first unsafe transition, -1 = none
    lengths: Array
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_fields(self, lengths=check_lengths(self.lengths))
        for name in ("returns", "returns_until_stop", "first_violation"):
            set_fields(self, **{name: np.asanyarray(getattr(self, name))})
            if getattr(self, name).shape != self.lengths.shape:
                raise RciError(
                    f"scores.{name} must have one entry for each of {len(self.lengths)} episodes, got shape "
                    f"{getattr(self, name).shape}."
                )
            check_finite(f"scores.{name}", getattr(self, name), np.arange(len(self.lengths) + 1))
        for i in np.flatnonzero((self.first_violation < -1) | (self.first_violation >= self.lengths))[:1]:
            raise RciError(
                f"scores: episode {i} has {self.lengths[i]} steps, so it cannot first violate at step "
                f"{self.first_violation[i]}."
            )

    @property
    def violated(self) -> Array:
        """Whether each episode had an unsafe transition."""
        return self.first_violation >= 0

    @property
    def violation_rate(self) -> float:
        """Share of episodes with at least one unsafe transition."""
        return float(self.violated.mean())

    @property
    def mean_return(self) -> float:
        """Mean return over the full episodes."""
        return float(self.returns.mean())

    @property
    def mean_return_until_stop(self) -> float:
        """Mean return up to and including the first unsafe transition, where a monitor would stop."""
        return float(self.returns_until_stop.mean())

    def __len__(self) -> int:
        return len(self.returns)

    def __repr__(self) -> str:
        return (
            f"Scores({len(self)} episodes: violation rate {self.violation_rate:.3f}, "
            f"mean return {self.mean_return:.3f})"
        )

    def plot(self) -> Figure:
        """Returns, violated episodes apart, as a matplotlib figure."""
        from rci.data.artefacts.plots import plot_scores

        return plot_scores(self)

    def meta(self) -> dict[str, Any]:
        return {"info": self.info}


def kept_rows(episodes: Episodes, labels: Labels) -> Array:
    """Rows of the flat per-step arrays that remain once every episode is cut at its stop."""
    return rows_of(episodes.step_offset[:-1], labels.kept_lengths)
