"""Recorded episodes, and the truth about them, which is kept apart.

Episodes of different lengths are stored end to end in flat arrays; `lengths` says where the borders are.
Row t of episode i stands at `step_offset[i] + t` in the arrays that have one row per transition, and at
`obs_offset[i] + t` in `obs`, which has one row more per episode (the observation after the last action).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.signals import Signals, named_signals
from rci.data.errors import RciError
from rci.data.record import Array, Record, check_finite, check_lengths, set_fields

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Episode(NamedTuple):
    """One recorded trajectory: obs [T+1, ...], action [T, ...], reward [T], and how it ended."""

    obs: Array
    action: Array
    reward: Array
    terminated: bool
    truncated: bool

    def __repr__(self) -> str:
        ends = [name for name in ("terminated", "truncated") if getattr(self, name)]
        shapes = f"observation {self.obs.shape[1:]}, action {self.action.shape[1:]}"
        return f"Episode({len(self.reward)} steps, {shapes}, {' and '.join(ends) or 'broke off'})"


@dataclass(frozen=True, eq=False)
class Episodes(Record):
    """Recorded trajectories. `terminated`: the environment ended it; `truncated`: the time limit did.

    Neither flag means that the recording breaks off for another reason, such as a person's stop.
    `source` says which of the behaviours named in `sources` recorded the episode. `signals` names the numbers of
    observations and actions; `keys` has what identifies each episode where it came from, such as its run and its robot,
    and `row` where each step stands in the table that it came from.
    """

    kind: ClassVar[str] = "episodes"
    stored: ClassVar[tuple[str, ...]] = (
        "obs", "action", "reward", "lengths", "terminated", "truncated", "source",
    )  # fmt: skip
    obs: Array
    action: Array
    reward: Array
    lengths: Array
    terminated: Array
    truncated: Array
    source: Array | None = None
    task: str = ""
    sources: tuple[str, ...] = ()
    signals: Signals | None = None
    keys: Mapping[str, Sequence[str]] = field(default_factory=dict)  # by name, one for each episode
    row: Array | None = None

    def __post_init__(self) -> None:
        set_fields(self, lengths=check_lengths(self.lengths))
        steps, episodes = int(self.lengths.sum()), len(self.lengths)
        set_fields(self, keys={name: [str(key) for key in keys] for name, keys in self.keys.items()})
        for name, keys in self.keys.items():
            if len(keys) != episodes:
                raise RciError(f"there are {len(keys)} keys {name!r} for {episodes} episodes.")
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
            *([] if self.row is None else [("row", steps)]),
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
        if self.row is not None and (self.row.ndim != 1 or self.row.dtype.kind not in "iu"):
            raise RciError(f"episodes.row must be one whole number per step, got {self.row.dtype}.")
        if self.signals is not None:
            self.signals.check_sizes(int(np.prod(self.obs.shape[1:])), int(np.prod(self.action.shape[1:])))
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
            if not isinstance(episode, Episode):
                raise RciError(f"episode {i} must be an rci.Episode, got {type(episode).__name__}.")
            if np.ndim(episode.terminated) or np.ndim(episode.truncated):
                raise RciError(
                    f"episode {i}: terminated and truncated are one flag for the whole episode, got an array; its last "
                    "entry is the one."
                )
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

    @classmethod
    def joined(
        cls,
        parts: Sequence[Episodes],
        source: Array | None = None,
        sources: Sequence[str] = (),
        task: str = "",
    ) -> Episodes:
        """Several datasets as one. They must have the same signals, and keys of the same names."""
        if not parts:
            raise RciError("there are no episodes to join: at least one dataset is needed.")
        first = parts[0]
        for part in parts[1:]:
            if part.signals != first.signals or set(part.keys) != set(first.keys):
                raise RciError(
                    "datasets of different signals or keys cannot be joined: "
                    f"{_described(first)}, and {_described(part)}."
                )
        names = ("obs", "action", "reward", "lengths", "terminated", "truncated")
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        keys = {name: [key for part in parts for key in part.keys[name]] for name in first.keys}
        rows = [part.row for part in parts if part.row is not None]
        row = np.concatenate(rows) if len(rows) == len(parts) else None
        return cls(
            **arrays,
            source=source,
            sources=tuple(sources),
            task=task,
            signals=first.signals,
            keys=keys,
            row=row,
        )

    @cached_property
    def step_offset(self) -> Array:
        """Where each episode's transitions begin; one entry more than there are episodes."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def obs_offset(self) -> Array:
        """Where each episode's observations begin."""
        return self.step_offset + np.arange(len(self.lengths) + 1)

    @cached_property
    def next_rows(self) -> Array:
        """For each transition, the row of `obs` with what was seen after it."""
        return np.arange(len(self.reward)) + np.repeat(np.arange(len(self)), self.lengths) + 1

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, i: int) -> Episode:
        if not isinstance(i, int | np.integer):
            raise RciError(
                f"episodes[0] is an episode, got {i!r} for its number; several are episodes.take([0, 1])."
            )
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

    def take(self, index: ArrayLike) -> Episodes:
        """The episodes at `index`, in that order, as a dataset of their own: episode k is `index[k]` of these."""
        chosen = self._check_index(np.asarray(index))
        lengths = self.lengths[chosen]
        steps = rows_of(self.step_offset[chosen], lengths)
        return Episodes(
            obs=self.obs[rows_of(self.obs_offset[chosen], lengths + 1)],
            action=self.action[steps],
            reward=self.reward[steps],
            lengths=lengths,
            terminated=self.terminated[chosen],
            truncated=self.truncated[chosen],
            source=np.asarray(self.source)[chosen],
            task=self.task,
            sources=self.sources,
            signals=self.signals,
            keys={name: [keys[i] for i in chosen] for name, keys in self.keys.items()},
            row=None if self.row is None else self.row[steps],
        )

    def _check_index(self, index: Array) -> Array:
        """Numbers of different episodes, at least one."""
        if index.ndim != 1 or index.size == 0:
            raise RciError("there are no episodes to take: the numbers of at least one are needed.")
        if not np.issubdtype(index.dtype, np.integer):
            raise RciError(
                f"episodes are taken by their numbers, got {index.dtype}; np.flatnonzero numbers flags."
            )
        for i in index[(index < 0) | (index >= len(self))][:1]:
            raise RciError(f"there is no episode {i}: they are numbered 0 to {len(self) - 1}.")
        numbers, times = np.unique(index, return_counts=True)
        for i in numbers[times > 1][:1]:
            raise RciError(f"episode {i} is taken more than once.")
        return index

    def __repr__(self) -> str:
        name = f"{self.task}: " if self.task else ""
        return (
            f"Episodes({name}{len(self)} episodes, {int(self.lengths.sum())} steps, "
            f"observation {self.obs.shape[1:]}, action {self.action.shape[1:]})"
        )

    def plot(self, episode: int | None = None) -> Figure:
        """Lengths and returns, or with its number the signals of one episode, as a matplotlib figure."""
        from rci.data.artefacts.plots import plot_episodes, plot_signals

        return plot_episodes(self) if episode is None else plot_signals(self, episode)

    def labels_of(self, what: Literal["obs", "action"]) -> list[str]:
        """What to write beside each number of an observation or an action: its name and unit, where they are known."""
        size = int(np.prod(getattr(self, what).shape[1:]))
        return (self.signals or Signals()).labels(what, size)

    def arrays(self) -> dict[str, Array]:
        return {**super().arrays(), **({} if self.row is None else {"row": self.row})}

    def meta(self) -> dict[str, Any]:
        return episodes_meta(self.task, self.sources, self.signals, self.keys)

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> Episodes:
        fields: dict[str, Any] = {**arrays, **meta}
        if "signals" in meta:
            fields["signals"] = Signals.from_table(meta["signals"])
        return cls(**fields)


def _described(episodes: Episodes) -> str:
    return f"{', '.join(episodes.labels_of('obs'))} with keys {', '.join(episodes.keys) or 'none'}"


def episodes_meta(
    task: str, sources: Sequence[str], signals: Signals | None, keys: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """What describes the arrays of episodes, as JSON values; what is not known is left out."""
    keyed = {"keys": dict(keys)} if keys else {}
    return {"task": task, "sources": list(sources), **named_signals(signals), **keyed}


@dataclass(frozen=True, eq=False)
class Oracle(Record):
    """The truth about recorded episodes, for labelers, evaluation and reports only; no learner receives it.

    `unsafe[row]`: the transition led into an unsafe state. `distance[row]`: to the nearest danger after it.
    """

    kind: ClassVar[str] = "oracle"
    stored: ClassVar[tuple[str, ...]] = ("unsafe", "distance", "lengths")
    unsafe: Array
    distance: Array
    lengths: Array
    episodes_hash: str

    def __post_init__(self) -> None:
        set_fields(
            self,
            lengths=check_lengths(self.lengths),
            unsafe=np.asanyarray(self.unsafe),
            distance=np.asanyarray(self.distance),
        )
        offset = np.concatenate([[0], np.cumsum(self.lengths)])
        for name in ("unsafe", "distance"):
            if getattr(self, name).shape != (offset[-1],):
                raise RciError(
                    f"oracle.{name} must have shape {(int(offset[-1]),)}, got {getattr(self, name).shape}."
                )
        if self.unsafe.dtype != np.bool_:
            raise RciError(f"oracle.unsafe must be true/false flags, got {self.unsafe.dtype}.")
        check_finite("oracle.distance", self.distance, offset)

    def check_parent(self, episodes: Episodes) -> None:
        """Refuse the truth about other episodes."""
        if self.episodes_hash != episodes.hash:
            raise RciError(
                f"this oracle belongs to another dataset: to episodes {self.episodes_hash[:12]}, but these are "
                f"{episodes.hash[:12]}."
            )

    def first_unsafe(self) -> Array:
        """Index of the first unsafe transition of each episode, -1 where there is none."""
        return first_true(self.unsafe, self.lengths)

    def meta(self) -> dict[str, Any]:
        return {"episodes_hash": self.episodes_hash}


def first_true(flags: Array, lengths: Array) -> Array:
    """Index within its episode of the first true flag, -1 where there is none. flags: flat, [sum(lengths)]."""
    offset = np.concatenate([[0], np.cumsum(lengths)])
    position = np.where(flags, np.arange(len(flags)), len(flags))
    first = np.minimum.reduceat(position, offset[:-1])
    return np.where(first < offset[1:], first - offset[:-1], -1)


def rows_of(begin: Array, lengths: Array) -> Array:
    """The rows begin[k], begin[k] + 1, ... of episodes of these lengths, one episode after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(begin - (ends - lengths), lengths)
