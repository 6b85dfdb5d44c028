"""Where each episode was stopped, what that cost, and, with several kinds of danger, why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError
from rci.data.record import Array, Record, check_lengths, set_fields

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_channels(name: str, channels: Sequence[str]) -> tuple[str, ...]:
    """Names of kinds of danger: none, or several different ones."""
    channels = tuple(channels)
    if len(channels) == 1:
        raise RciError(f"{name}: a single channel needs no name; leave `channels` out.")
    if len(set(channels)) < len(channels) or not all(isinstance(c, str) and c for c in channels):
        raise RciError(f"{name}: channels must have different names, got {', '.join(map(repr, channels))}.")
    return channels


def by_channel(shape: tuple[int, ...], channels: tuple[str, ...]) -> tuple[int, ...]:
    """`shape`, with an axis for the channels behind it where there are some."""
    return (*shape, len(channels)) if channels else shape


def named_channels(channels: tuple[str, ...]) -> dict[str, Any]:
    """What a manifest says of channels: nothing where there is only the one."""
    return {"channels": list(channels)} if channels else {}


def per_channel(numbers: Sequence[Any], channels: tuple[str, ...]) -> Any:
    """One number as it is, one per channel by name."""
    return dict(zip(channels, numbers)) if channels else numbers[0]


@dataclass(frozen=True, eq=False)
class Labels(Record):
    """Where each episode was stopped (-1 = never) and its episodic cost C, in [0, 1].

    A stopped episode keeps the transition at the stop index and drops everything after it. With several kinds of
    danger, `channels` names them and the cost has one column for each: why the episode was stopped.
    """

    kind: ClassVar[str] = "labels"
    stored: ClassVar[tuple[str, ...]] = ("stop_index", "cost", "lengths")
    stop_index: Array
    cost: Array  # [N], or [N, K] with K channels
    lengths: Array  # as recorded, before the stop cuts them
    episodes_hash: str
    channels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_fields(
            self, lengths=check_lengths(self.lengths), channels=check_channels("labels", self.channels)
        )
        stop, cost = np.asarray(self.stop_index), np.asarray(self.cost, np.float64)
        if stop.shape != self.lengths.shape or cost.shape != by_channel(self.lengths.shape, self.channels):
            each = f"one cost in each of {len(self.channels)} channels" if self.channels else "one cost"
            raise RciError(
                f"labels need one stop index and {each} for each of {len(self.lengths)} episodes, got "
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
        inside = ((cost >= 0) & (cost <= 1)).reshape(len(stop), -1).all(axis=1)
        costly = (cost > 0).reshape(len(stop), -1).any(axis=1)
        for i in np.flatnonzero(~inside | (costly != (stop >= 0)))[:1]:
            some = " in some channel" if self.channels else ""
            raise RciError(
                f"episode {i}: the cost must be 0 where there is no stop and in (0, 1]{some} where there is one, got "
                f"cost {cost[i]} with stop index {stop[i]}."
            )

    @classmethod
    def for_episodes(
        cls,
        episodes: Episodes,
        stop_index: ArrayLike,
        severity: ArrayLike | None = None,
        channels: tuple[str, ...] = (),
    ) -> Labels:
        """Labels of `episodes`; the cost of a stop is 1 unless `severity` grades it, [N] or by channel [N, K]."""
        stop = np.asarray(stop_index)
        stopped = (stop >= 0).astype(np.float64)
        if severity is not None:
            grade = np.asarray(severity, np.float64)
            wanted = by_channel(stop.shape, channels)
            if grade.shape not in ((), wanted):
                raise RciError(f"severity must be one number or have shape {wanted}, got {grade.shape}.")
            stopped = np.where(stopped[:, None] if grade.ndim == 2 else stopped, grade, 0.0)
        return cls(stop, stopped, episodes.lengths, episodes.hash, channels)

    @property
    def stopped(self) -> Array:
        """Whether each episode was stopped."""
        return self.stop_index >= 0

    @property
    def channel_cost(self) -> Array:
        """The cost as [N, K], also where there is but one channel without a name."""
        return self.cost.reshape(len(self), -1)

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
        why = [f"{int(n)} {name}" for name, n in zip(self.channels, (self.channel_cost > 0).sum(axis=0))]
        reasons = f": {', '.join(why)}" if why else ""
        return f"Labels({len(self)} episodes, {int(self.stopped.sum())} stopped{reasons})"

    def plot(self) -> Figure:
        """Where episodes were stopped, as a matplotlib figure."""
        from rci.data.artefacts.plots import plot_labels

        return plot_labels(self)

    def meta(self) -> dict[str, Any]:
        return {"episodes_hash": self.episodes_hash, **named_channels(self.channels)}
