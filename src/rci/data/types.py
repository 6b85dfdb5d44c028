"""The types that cross between stages. Each is checked once, when it is built.

Episodes and their oracle are in `episodes.py`, fitted models in `models.py`; all are imported from here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rci.data.episodes import Episode, Episodes, Oracle, first_true
from rci.data.errors import RciError
from rci.data.models import Behaviour, Demonstrators, Policy, SavedModel
from rci.data.record import Array, Record, check_finite, check_lengths, set_fields

__all__ = [
    "Behaviour",
    "Demonstrators",
    "Episode",
    "Episodes",
    "Labels",
    "Oracle",
    "Policy",
    "SavedModel",
    "Scores",
    "StepCosts",
    "Transitions",
    "first_true",
    "kept_rows",
]

SUM_TOLERANCE = 1e-6  # how far the step costs of an episode may be from its episodic cost


@dataclass(frozen=True, eq=False)
class Labels(Record):
    """Where each episode was stopped (-1 = never) and its episodic cost C, in [0, 1].

    A stopped episode keeps the transition at the stop index and drops everything after it.
    """

    kind: ClassVar[str] = "labels"
    stop_index: Array
    cost: Array
    lengths: Array  # as recorded, before the stop cuts them
    episodes_hash: str

    def __post_init__(self) -> None:
        set_fields(self, lengths=check_lengths(self.lengths))
        stop, cost = np.asarray(self.stop_index), np.asarray(self.cost, np.float64)
        if stop.shape != self.lengths.shape or cost.shape != self.lengths.shape:
            raise RciError(
                f"labels need one stop index and one cost for each of {len(self.lengths)} episodes, got "
                f"{stop.shape} and {cost.shape}."
            )
        if not np.issubdtype(stop.dtype, np.integer):
            raise RciError(f"labels.stop_index must be whole numbers (-1 = never stopped), got {stop.dtype}.")
        set_fields(self, stop_index=stop.astype(np.int64), cost=cost)
        for i in np.flatnonzero((stop < -1) | (stop >= self.lengths))[:1]:
            raise RciError(
                f"episode {i} has {self.lengths[i]} steps, so its stop index must be -1 (never stopped) or 0 to "
                f"{self.lengths[i] - 1}, got {stop[i]}."
            )
        for i in np.flatnonzero(~((cost >= 0) & (cost <= 1)) | ((cost > 0) != (stop >= 0)))[:1]:
            raise RciError(
                f"episode {i}: the cost must be 0 where there is no stop and in (0, 1] where there is one, got "
                f"cost {cost[i]} with stop index {stop[i]}."
            )

    @classmethod
    def for_episodes(
        cls, episodes: Episodes, stop_index: ArrayLike, severity: ArrayLike | None = None
    ) -> Labels:
        """Labels of `episodes`; the cost of a stop is 1 unless `severity` grades it."""
        stop = np.asarray(stop_index)
        stopped = (stop >= 0).astype(np.float64)
        cost = stopped if severity is None else np.where(stopped, np.asarray(severity, np.float64), 0.0)
        return cls(stop, cost, episodes.lengths, episodes.hash)

    @property
    def stopped(self) -> Array:
        """Whether each episode was stopped."""
        return self.stop_index >= 0

    @property
    def kept_lengths(self) -> Array:
        """Steps that remain of each episode once the stop has cut it."""
        return np.where(self.stopped, self.stop_index + 1, self.lengths)

    def check_parent(self, episodes: Episodes) -> None:
        """Refuse labels that were given to other episodes."""
        if self.episodes_hash != episodes.hash:
            raise RciError(
                f"these labels belong to another dataset: they were given to episodes {self.episodes_hash[:12]}, "
                f"but these are {episodes.hash[:12]}."
            )

    def __len__(self) -> int:
        return len(self.stop_index)

    def __repr__(self) -> str:
        return f"Labels({len(self)} episodes, {int(self.stopped.sum())} stopped)"

    def arrays(self) -> dict[str, Array]:
        return {"stop_index": self.stop_index, "cost": self.cost, "lengths": self.lengths}

    def meta(self) -> dict[str, Any]:
        return {"episodes_hash": self.episodes_hash}


@dataclass(frozen=True, eq=False)
class StepCosts(Record):
    """One cost per kept transition. If `return_equivalent`, each episode's costs sum to its episodic cost."""

    kind: ClassVar[str] = "costs"
    cost: Array
    lengths: Array  # kept lengths, after the stop
    episodic_cost: Array
    return_equivalent: bool
    method: str
    labels_hash: str
    model: SavedModel | None = None
    info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_fields(
            self,
            lengths=check_lengths(self.lengths),
            cost=np.asarray(self.cost, np.float64),
            episodic_cost=np.asarray(self.episodic_cost, np.float64),
        )
        if self.cost.shape != (int(self.lengths.sum()),):
            raise RciError(
                f"step costs must have one number for each of {int(self.lengths.sum())} kept steps, got shape "
                f"{self.cost.shape}."
            )
        if self.episodic_cost.shape != self.lengths.shape:
            raise RciError(
                f"step costs need {len(self.lengths)} episodic costs, got {self.episodic_cost.shape}."
            )
        check_finite("step costs", self.cost, self.step_offset)
        gap = np.abs(self.sums() - self.episodic_cost)
        worst = int(gap.argmax())
        if self.return_equivalent and gap[worst] > SUM_TOLERANCE:
            raise RciError(
                f"episode {worst}: step costs sum to {self.sums()[worst]:.9g}, but its episodic cost is "
                f"{self.episodic_cost[worst]:.9g}; a return-equivalent cost may differ by {SUM_TOLERANCE:g} at most."
            )

    @cached_property
    def step_offset(self) -> Array:
        """Where each episode's costs begin."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def sums(self) -> Array:
        """The sum of step costs of each episode."""
        return np.add.reduceat(self.cost, self.step_offset[:-1])

    def per_episode(self) -> list[Array]:
        """The step costs of each episode, truncated at the stop."""
        return np.split(self.cost, self.step_offset[1:-1])

    def check_parent(self, labels: Labels) -> None:
        """Refuse step costs that were inferred from other labels."""
        if self.labels_hash != labels.hash:
            raise RciError(
                f"these step costs belong to other labels: they were inferred from {self.labels_hash[:12]}, but "
                f"these are {labels.hash[:12]}."
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        exact = "exact sums" if self.return_equivalent else "not return-equivalent"
        return f"StepCosts({self.method}: {len(self)} episodes, {len(self.cost)} steps, {exact})"

    def arrays(self) -> dict[str, Array]:
        model = {} if self.model is None else {f"model.{k}": v for k, v in self.model.arrays.items()}
        return {
            "cost": self.cost,
            "lengths": self.lengths,
            "episodic_cost": self.episodic_cost,
            **model,
        }

    def meta(self) -> dict[str, Any]:
        return {
            "return_equivalent": self.return_equivalent,
            "method": self.method,
            "labels_hash": self.labels_hash,
            "model": None if self.model is None else [self.model.method, self.model.config],
            "info": self.info,
        }

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> StepCosts:
        weights = {name[6:]: arrays.pop(name) for name in list(arrays) if name.startswith("model.")}
        described = meta.pop("model")
        model = None if described is None else SavedModel(described[0], described[1], weights)
        fields: dict[str, Any] = {**arrays, **meta, "model": model}
        return cls(**fields)


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
        return cls(
            obs=episodes.obs,
            row=kept + episode,
            action=episodes.action[kept],
            reward=episodes.reward[kept],
            cost=costs.cost,
            initial=episodes.obs_offset[:-1],
            **flags,
        )

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class Scores(Record):
    """Evaluation episodes of one policy: return over the whole episode, until the first violation, and safety."""

    kind: ClassVar[str] = "scores"
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

    def arrays(self) -> dict[str, Array]:
        return {
            "returns": self.returns,
            "returns_until_stop": self.returns_until_stop,
            "first_violation": self.first_violation,
            "lengths": self.lengths,
        }

    def meta(self) -> dict[str, Any]:
        return {"info": self.info}


def kept_rows(episodes: Episodes, labels: Labels) -> Array:
    """Rows of the flat per-step arrays that remain once every episode is cut at its stop."""
    within = np.arange(int(labels.kept_lengths.sum())) - np.repeat(
        np.cumsum(labels.kept_lengths) - labels.kept_lengths, labels.kept_lengths
    )
    return np.repeat(episodes.step_offset[:-1], labels.kept_lengths) + within
