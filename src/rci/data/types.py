"""The types that cross between stages. Each is checked once, when it is built.

Episodes of different lengths are stored end to end in flat arrays; `lengths` says where the borders are.
Row t of episode i stands at `step_offset[i] + t` in the arrays that have one row per transition, and at
`obs_offset[i] + t` in `obs`, which has one row more per episode (the observation after the last action).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rci.data.errors import RciError
from rci.data.models import Behaviour, Policy, SavedModel
from rci.data.record import Array, Record, check_finite, check_lengths, set_fields

__all__ = [
    "Behaviour",
    "Episode",
    "Episodes",
    "Labels",
    "Oracle",
    "Policy",
    "SavedModel",
    "Scores",
    "StepCosts",
    "Transitions",
]

SUM_TOLERANCE = 1e-6  # how far the step costs of an episode may be from its episodic cost


class Episode(NamedTuple):
    """One recorded trajectory: obs [T+1, ...], action [T, ...], reward [T], and how it ended."""

    obs: Array
    action: Array
    reward: Array
    terminated: bool
    truncated: bool


@dataclass(frozen=True, eq=False)
class Episodes(Record):
    """Recorded trajectories. `terminated`: the environment ended it; `truncated`: the time limit did.

    Neither flag means that the recording breaks off for another reason, such as a person's stop.
    `source` says which of the behaviours named in `sources` recorded the episode.
    """

    kind: ClassVar[str] = "episodes"
    obs: Array
    action: Array
    reward: Array
    lengths: Array
    terminated: Array
    truncated: Array
    source: Array | None = None
    task: str = ""
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_fields(self, lengths=check_lengths(self.lengths))
        steps, episodes = int(self.lengths.sum()), len(self.lengths)
        set_fields(self, sources=tuple(self.sources))
        set_fields(
            self, source=np.zeros(episodes, np.int32) if self.source is None else np.asarray(self.source)
        )
        for name, rows in (
            ("obs", steps + episodes),
            ("action", steps),
            ("reward", steps),
            ("terminated", episodes),
            ("truncated", episodes),
            ("source", episodes),
        ):
            array = np.asanyarray(getattr(self, name))
            set_fields(self, **{name: array})
            if array.ndim == 0 or len(array) != rows:
                got = len(array) if array.ndim else "a single number"
                raise RciError(
                    f"episodes.{name} must have {rows} rows ({episodes} episodes, {steps} steps in all), got {got}."
                )
        for name in ("terminated", "truncated"):
            if getattr(self, name).dtype != np.bool_:
                raise RciError(f"episodes.{name} must be true/false flags, got {getattr(self, name).dtype}.")
        if self.reward.ndim != 1:
            raise RciError(f"episodes.reward must have one number per step, got shape {self.reward.shape}.")
        if self.obs.ndim < 2 or self.action.ndim < 2:
            raise RciError(
                f"episodes.obs and episodes.action must be [rows, features], got {self.obs.shape} and "
                f"{self.action.shape}."
            )
        if self.sources and (self.source.min() < 0 or self.source.max() >= len(self.sources)):  # type: ignore[union-attr]
            raise RciError(f"episodes.source must be an index into the {len(self.sources)} sources.")
        for name, offset in (
            ("obs", self.obs_offset),
            ("action", self.step_offset),
            ("reward", self.step_offset),
        ):
            check_finite(f"episodes.{name}", getattr(self, name), offset)

    @classmethod
    def from_list(cls, episodes: Sequence[Episode], task: str = "") -> Episodes:
        """Join single episodes; each must have one observation more than it has actions and rewards."""
        if not episodes:
            raise RciError("there are no episodes: at least one is needed.")
        for i, episode in enumerate(episodes):
            steps = len(episode.action)
            if len(episode.obs) != steps + 1 or len(episode.reward) != steps:
                raise RciError(
                    f"episode {i}: {steps} actions need {steps + 1} observations and {steps} rewards, got "
                    f"{len(episode.obs)} and {len(episode.reward)}."
                )
        for name in ("obs", "action"):
            shapes = {np.shape(getattr(e, name))[1:] for e in episodes}
            if len(shapes) > 1:
                raise RciError(f"episodes differ in the shape of {name}: {sorted(shapes)}.")
        return cls(
            obs=np.concatenate([e.obs for e in episodes]),
            action=np.concatenate([e.action for e in episodes]),
            reward=np.concatenate([e.reward for e in episodes]),
            lengths=np.array([len(e.action) for e in episodes]),
            terminated=np.array([bool(e.terminated) for e in episodes]),
            truncated=np.array([bool(e.truncated) for e in episodes]),
            task=task,
        )

    @cached_property
    def step_offset(self) -> Array:
        """Where each episode's transitions begin; one entry more than there are episodes."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def obs_offset(self) -> Array:
        """Where each episode's observations begin."""
        return self.step_offset + np.arange(len(self.lengths) + 1)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> Episode:
        if not -len(self) <= i < len(self):
            raise IndexError(f"episode {i} of {len(self)}")
        i %= len(self)
        steps = slice(self.step_offset[i], self.step_offset[i + 1])
        return Episode(
            obs=self.obs[self.obs_offset[i] : self.obs_offset[i + 1]],
            action=self.action[steps],
            reward=self.reward[steps],
            terminated=bool(self.terminated[i]),
            truncated=bool(self.truncated[i]),
        )

    def __iter__(self) -> Iterator[Episode]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        name = f"{self.task}: " if self.task else ""
        return (
            f"Episodes({name}{len(self)} episodes, {int(self.lengths.sum())} steps, "
            f"observation {self.obs.shape[1:]}, action {self.action.shape[1:]})"
        )

    def arrays(self) -> dict[str, Array]:
        return {
            "obs": self.obs,
            "action": self.action,
            "reward": self.reward,
            "lengths": self.lengths,
            "terminated": self.terminated,
            "truncated": self.truncated,
            "source": np.asarray(self.source),
        }

    def meta(self) -> dict[str, Any]:
        return {"task": self.task, "sources": list(self.sources)}


@dataclass(frozen=True, eq=False)
class Oracle(Record):
    """The truth about recorded episodes, for labelers, evaluation and reports only; no learner receives it.

    `unsafe[row]`: the transition led into an unsafe state. `distance[row]`: to the nearest danger after it.
    """

    kind: ClassVar[str] = "oracle"
    unsafe: Array
    distance: Array
    lengths: Array
    episodes_hash: str

    def __post_init__(self) -> None:
        set_fields(self, lengths=check_lengths(self.lengths))
        offset = np.concatenate([[0], np.cumsum(self.lengths)])
        for name in ("unsafe", "distance"):
            if getattr(self, name).shape != (offset[-1],):
                raise RciError(
                    f"oracle.{name} must have shape {(int(offset[-1]),)}, got {getattr(self, name).shape}."
                )
        if self.unsafe.dtype != np.bool_:
            raise RciError(f"oracle.unsafe must be true/false flags, got {self.unsafe.dtype}.")
        check_finite("oracle.distance", self.distance, offset)

    def first_unsafe(self) -> Array:
        """Index of the first unsafe transition of each episode, -1 where there is none."""
        return first_true(self.unsafe, self.lengths)

    def arrays(self) -> dict[str, Array]:
        return {"unsafe": self.unsafe, "distance": self.distance, "lengths": self.lengths}

    def meta(self) -> dict[str, Any]:
        return {"episodes_hash": self.episodes_hash}


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
        set_fields(self, lengths=check_lengths(self.lengths), cost=np.asarray(self.cost, np.float64))
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

    `row[j]` is where transition j's observation stands in `obs`; the next observation is the row after it.
    `initial` are the rows of first observations. Nothing is copied from the episodes but indices.
    """

    obs: Array
    row: Array
    action: Array
    reward: Array
    cost: Array
    terminated: Array
    truncated: Array
    stopped: Array
    initial: Array

    @classmethod
    def build(cls, episodes: Episodes, labels: Labels, costs: StepCosts) -> Transitions:
        """Cut the episodes at their stops and put every flag on the last transition only."""
        labels.check_parent(episodes)
        costs.check_parent(labels)
        kept = kept_rows(episodes, labels)
        last = np.cumsum(labels.kept_lengths) - 1
        flags = {name: np.zeros(len(kept), bool) for name in ("terminated", "truncated", "stopped")}
        whole = labels.kept_lengths == labels.lengths  # the end of the recording is still there
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
            if getattr(self, name).shape != self.lengths.shape:
                raise RciError(
                    f"scores.{name} must have one entry for each of {len(self.lengths)} episodes, got shape "
                    f"{getattr(self, name).shape}."
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


def first_true(flags: Array, lengths: Array) -> Array:
    """Index within its episode of the first true flag, -1 where there is none. flags: flat, [sum(lengths)]."""
    offset = np.concatenate([[0], np.cumsum(lengths)])
    position = np.where(flags, np.arange(len(flags)), len(flags))
    first = np.minimum.reduceat(position, offset[:-1])
    return np.where(first < offset[1:], first - offset[:-1], -1)
