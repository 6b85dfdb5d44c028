"""From blocks of a log to rows with the ends of episodes marked, in order and without gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.tables.block import Block, place, texts
from rci.formats.tables.guessing import key_columns
from rci.formats.tables.log_columns import LogRows, extract
from rci.formats.tables.mapping import VECTORS, ColumnNames
from rci.formats.tables.times import Clock

MOST_CHOICES = 1023  # no choice between actions has more


@dataclass
class LogReader:
    """Reads files one after the other and remembers what has to hold across them."""

    names: ColumnNames
    seen: dict[str, Path] = field(default_factory=dict)  # where each episode was
    stride: float | None = None  # by how much steps grow, if they are whole numbers
    choices: int = (
        0  # as how many choices the actions could be read: whole numbers, one each; -1 if they could not
    )
    shapes: dict[str, list[int]] = field(default_factory=dict)  # of each vector, one row
    clock: Clock = field(default_factory=Clock)

    @classmethod
    def begin(cls, names: ColumnNames, state: Mapping[str, Any]) -> LogReader:
        """A reader that remembers what the state of an earlier time says."""
        clock = Clock(names.time_unit or state.get("time_unit", ""), state.get("zoned"))
        restored = {name: state[name] for name in ("stride", "choices", "shapes") if name in state}
        return cls(names, clock=clock, **restored)

    def state(self) -> dict[str, Any]:
        """What has to hold for the rows that follow."""
        times = {"time_unit": self.clock.unit, "zoned": self.clock.zoned} if self.names.time else {}
        return {"stride": self.stride, "choices": self.choices, "shapes": dict(self.shapes), **times}

    def remember(self, path: Path, blocks: Iterator[Block], rows: int | None = None) -> None:
        """Names of the episodes in the first rows of a file that has been read before, or in all of them."""
        for block in blocks:
            for name in texts(block, self.names.episode)[:rows]:
                self.seen[name] = path
            if rows is not None:
                rows -= len(block.lines)
                if rows <= 0:
                    return

    def rows(
        self, path: Path, blocks: Iterator[Block], first: int = 0, began: bool = False
    ) -> Iterator[tuple[LogRows, Array, bool]]:
        """Rows of one file from the `first` one on, which of them end an episode, and whether they are its last rows.

        The last row read is held back, as only the next one shows whether an episode ends. `began`: the episode of the
        first row began before.
        """
        held: LogRows | None = None
        for block in blocks:
            rows = self._fitted(extract(block, self.names, first, self.clock), path)
            first += len(rows)
            self._look_for_choices(rows)
            rows = rows if held is None else self._fitted(held, path).joined(rows)
            if not began and rows.episode is not None:
                self._begin(rows.episode[0], path, rows.line[0])
                began = True
            if len(rows) > 1:
                last = self._ends(rows, path)
                yield rows.take(slice(0, -1)), last, False
            held = rows.take(slice(-1, None))
        if held is not None:
            yield held, np.ones(1, bool), True

    def _ends(self, rows: LogRows, path: Path) -> Array:
        """Whether each row but the last is the end of an episode."""
        flag = (rows.terminated | rows.truncated)[:-1]
        onward = flag & ~rows.bare[1:]  # a flag, and then no bare row that would complete the episode
        if rows.episode is None:
            ends = rows.bare[:-1] | onward
            if rows.step is not None:
                ends = ends | (np.diff(rows.step) < 0)  # the count begins again
        else:
            ends = rows.episode[1:] != rows.episode[:-1]
            for row in np.flatnonzero(onward & ~ends)[:1]:
                raise RciError(
                    f"{place(path, rows.line[row])}: episode {rows.episode[row]!r} has ended, but it goes on in the "
                    "next row."
                )
            for row in np.flatnonzero(ends):
                self._begin(rows.episode[row + 1], path, rows.line[row + 1])
        if rows.step is not None:
            self._check_steps(rows, ends, path)
        if rows.keys is not None:
            self._check_keys(rows, ends, path)
        if rows.next_obs is not None and self.names.missing == "error":
            differs = (rows.next_obs[:-1] != rows.obs[1:]).reshape(len(ends), -1).any(axis=1)
            for row in np.flatnonzero(differs & ~ends & ~rows.bare[:-1])[:1]:
                raise RciError(
                    f"{place(path, rows.line[row])}: the next observation is not the observation of the row that "
                    "follows."
                )
        return ends

    def _fitted(self, rows: LogRows, path: Path) -> LogRows:
        """The rows with vectors as long as in the rows before; where all are missing, nothing else shows how long."""
        for role in VECTORS:
            array = getattr(rows, role)
            if array is None:
                continue
            blank = role != "obs" and rows.bare.all()
            twin, like = (
                ("obs", "as the observation") if role == "next_obs" else (role, "as in the rows before")
            )
            shape = tuple(self.shapes.get(twin, array.shape[1:]))
            if not blank:
                self.shapes[role] = list(shape)
            if array.shape[1:] == shape:
                continue
            if not blank:
                columns = ", ".join(map(repr, getattr(self.names, role)))
                raise RciError(
                    f"{place(path, rows.line[0])}: {columns} must be {math.prod(shape)} numbers, {like}, got "
                    f"{math.prod(array.shape[1:])}."
                )
            rows = replace(rows, **{role: np.zeros((len(array), *shape), array.dtype)})
        return rows

    def _look_for_choices(self, rows: LogRows) -> None:
        """Keep an eye on actions: numbers such as 0, 2, 1 may be names of choices, which only the user knows."""
        action = rows.action[~rows.bare]
        if self.choices < 0 or self.names.choices or len(action) == 0:
            return
        single = action.shape[1:] == (1,)
        if single and ((action >= 0) & (action <= MOST_CHOICES) & (action == np.floor(action))).all():
            self.choices = max(self.choices, int(action.max()) + 1)
        else:
            self.choices = -1

    def _begin(self, episode: str, path: Path, line: int) -> None:
        """Remember an episode; the same one must not begin twice."""
        before = self.seen.get(episode)
        if before == path:
            raise RciError(
                f"{place(path, line)}: episode {episode!r} was there before; its rows must be together, so sort by "
                f"{self.names.episode!r}."
            )
        if before is not None and not self.names.episodes_per_file:
            raise RciError(
                f"{place(path, line)}: episode {episode!r} is in {before} already; if it is another one, say "
                "episodes_per_file = true in the mapping; if it goes on here, join the files."
            )
        self.seen[episode] = path

    def _check_keys(self, rows: LogRows, ends: Array, path: Path) -> None:
        """A key is the same in all rows of an episode."""
        keys = np.asarray(rows.keys)
        for row, column in np.argwhere((keys[1:] != keys[:-1]) & ~ends[:, None])[:1]:
            raise RciError(
                f"{place(path, rows.line[row + 1])}, column {key_columns(self.names)[column]!r} changes within an "
                f"episode, from {keys[row, column]!r} to {keys[row + 1, column]!r}; a key is one thing for all of it."
            )

    def _check_steps(self, rows: LogRows, ends: Array, path: Path) -> None:
        """Steps grow; whole numbers grow by the same amount everywhere."""
        step = np.asarray(rows.step)
        grown = np.diff(step)
        name = self.names.step
        for row in np.flatnonzero(~ends & (grown <= 0))[:1]:
            what = "twice" if grown[row] == 0 else f"after {_shown(step[row])}"
            raise RciError(
                f"{place(path, rows.line[row + 1])}, column {name!r}: {_shown(step[row + 1])} comes {what} in an "
                "episode; remove duplicates, and sort the rows."
            )
        if len(grown) == 0 or not (step == np.floor(step)).all():
            return
        inside = np.flatnonzero(~ends)
        if self.stride is None and len(inside):
            self.stride = float(grown[inside[0]])
        for row in inside[grown[inside] != self.stride][:1]:
            raise RciError(
                f"{place(path, rows.line[row + 1])}, column {name!r}: {_shown(step[row + 1])} follows "
                f"{_shown(step[row])}, but steps are {self.stride:.15g} apart elsewhere; rows are missing. If {name!r} "
                "counts no steps, say step = '' in the mapping."
            )


def _shown(step: np.generic) -> str:
    """A step with all its digits."""
    return str(step) if step.dtype.kind == "i" else f"{step:.15g}"
