"""Where a person drove instead of the machine. A takeover does not end a run: what follows is recorded as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError
from rci.data.record import Array, Record, check_lengths, set_fields


@dataclass(frozen=True, eq=False)
class Takeovers(Record):
    """Intervals in which a person drove: transitions begin to end - 1 of an episode, sorted, without overlap.

    An interval whose end is the length of its episode was never handed back.
    """

    kind: ClassVar[str] = "takeovers"
    stored: ClassVar[tuple[str, ...]] = ("episode", "begin", "end", "lengths")
    episode: Array  # [M]: of each interval
    begin: Array  # [M]: its first transition
    end: Array  # [M]: the first one after it
    lengths: Array  # [N]: of the episodes
    episodes_hash: str

    def __post_init__(self) -> None:
        set_fields(self, lengths=check_lengths(self.lengths))
        for name in ("episode", "begin", "end"):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
                raise RciError(f"takeovers.{name} must be whole numbers, one for each interval.")
            set_fields(self, **{name: array.astype(np.int64)})
        if not len(self.episode) == len(self.begin) == len(self.end):
            raise RciError("takeovers need one episode, one begin and one end for each interval.")
        order = np.lexsort((self.begin, self.episode))
        set_fields(self, **{name: getattr(self, name)[order] for name in ("episode", "begin", "end")})
        for i in np.flatnonzero((self.episode < 0) | (self.episode >= len(self.lengths)))[:1]:
            raise RciError(
                f"there is no episode {self.episode[i]}: they are numbered 0 to {len(self.lengths) - 1}."
            )
        length = self.lengths[self.episode]
        for i in np.flatnonzero((self.begin < 0) | (self.begin >= self.end) | (self.end > length))[:1]:
            raise RciError(
                f"episode {self.episode[i]} has {length[i]} steps, so nobody can have driven in it from step "
                f"{self.begin[i]} up to step {self.end[i]}."
            )
        again = (self.episode[1:] == self.episode[:-1]) & (self.begin[1:] < self.end[:-1])
        for i in np.flatnonzero(again)[:1]:
            raise RciError(
                f"two takeovers of episode {self.episode[i]} overlap, at step {self.begin[i + 1]}."
            )

    @classmethod
    def from_flags(cls, episodes: Episodes, human: Array) -> Takeovers:
        """From one flag per transition, end to end as in `episodes.action`: whether a person drove."""
        flags, steps = np.asarray(human, bool), int(episodes.lengths.sum())
        if flags.shape != (steps,):
            raise RciError(f"there must be one flag for each of {steps} steps, got shape {flags.shape}.")
        offset = episodes.step_offset
        first = np.zeros(steps, bool)
        first[offset[:-1]] = True
        begins = np.flatnonzero(flags & (first | ~np.roll(flags, 1)))
        last = np.roll(first, -1)
        ends = np.flatnonzero(flags & (last | ~np.roll(flags, -1))) + 1
        episode = np.searchsorted(offset, begins, side="right") - 1
        at = offset[episode]
        return cls(episode, begins - at, ends - at, episodes.lengths, episodes.hash)

    def flags(self) -> Array:
        """Whether a person drove, for each transition, end to end."""
        offset = np.concatenate([[0], np.cumsum(self.lengths)])
        change = np.zeros(offset[-1] + 1, np.int64)
        np.add.at(change, offset[self.episode] + self.begin, 1)
        np.add.at(change, offset[self.episode] + self.end, -1)
        return np.cumsum(change)[:-1] > 0

    def check_parent(self, episodes: Episodes) -> None:
        """Refuse the takeovers of other episodes."""
        if self.episodes_hash != episodes.hash:
            raise RciError(
                f"these takeovers belong to another dataset: to episodes {self.episodes_hash[:12]}, but these are "
                f"{episodes.hash[:12]}."
            )

    def __len__(self) -> int:
        return len(self.episode)

    def __repr__(self) -> str:
        runs, steps = len(np.unique(self.episode)), int((self.end - self.begin).sum())
        return f"Takeovers({len(self)} in {runs} of {len(self.lengths)} episodes, {steps} steps driven by a person)"

    def meta(self) -> dict[str, Any]:
        return {"episodes_hash": self.episodes_hash}
