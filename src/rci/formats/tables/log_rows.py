"""From blocks of a log to rows with the ends of episodes marked, in order and without gaps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.tables.block import Block, large_whole_numbers, numbers, place, texts
from rci.formats.tables.episode_rows import Rows, one_hot
from rci.formats.tables.mapping import VECTORS, ColumnNames

MOST_CHOICES = 1023  # no choice between actions has more


@dataclass(frozen=True, eq=False)
class LogRows:
    """The columns of some rows, still without ends."""

    obs: Array
    action: Array
    reward: Array
    bare: Array
    line: Array
    terminated: Array
    truncated: Array
    next_obs: Array | None
    cost: Array | None
    stopped: Array | None
    severity: Array | None
    episode: Array | None
    step: Array | None

    def take(self, rows: slice) -> LogRows:
        """Some of the rows."""
        return LogRows(*(None if a is None else a[rows] for a in self._columns()))  # type: ignore[arg-type]

    def joined(self, other: LogRows) -> LogRows:
        """These rows and those that follow."""
        pairs = zip(self._columns(), other._columns())
        return LogRows(*(None if a is None else np.concatenate([a, b]) for a, b in pairs))  # type: ignore[arg-type]

    def _columns(self) -> list[Array | None]:
        return [getattr(self, column.name) for column in fields(self)]


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

    def remember(self, path: Path, blocks: Iterator[Block], rows: int | None = None) -> None:
        """Names of the episodes in the first rows of a file that has been read before, or in all of them."""
        for block in blocks:
            for name in texts(block, self.names.episode)[:rows]:
                self.seen[name] = path
            if rows is not None:
                rows -= len(block.lines)
                if rows <= 0:
                    return

    def rows(self, path: Path, blocks: Iterator[Block], began: bool = False) -> Iterator[tuple[Rows, bool]]:
        """Rows of one file, and whether they are its last ones; `began` if the first rows were read before.

        The last row read is held back, as only the next one tells whether an episode ends.
        """
        held: LogRows | None = None
        for block in blocks:
            rows = self._fitted(extract(block, self.names), path)
            self._look_for_choices(rows)
            rows = rows if held is None else self._fitted(held, path).joined(rows)
            if not began and rows.episode is not None:
                self._begin(rows.episode[0], path, rows.line[0])
                began = True
            if len(rows.line) > 1:
                last = self._ends(rows, path)
                yield _marked(rows.take(slice(0, -1)), last), False
            held = rows.take(slice(-1, None))
        if held is not None:
            yield _marked(held, np.ones(1, bool)), True

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
            for row in np.flatnonzero(rows.bare[:-1] & ~ends)[:1]:
                raise RciError(
                    f"{place(path, rows.line[row])}: there is no action, but episode {rows.episode[row]!r} goes on; "
                    "only its last row may be an observation alone."
                )
            for row in np.flatnonzero(onward & ~ends)[:1]:
                raise RciError(
                    f"{place(path, rows.line[row])}: episode {rows.episode[row]!r} has ended, but it goes on in the "
                    "next row."
                )
            for row in np.flatnonzero(ends):
                self._begin(rows.episode[row + 1], path, rows.line[row + 1])
        if rows.step is not None:
            self._check_steps(rows, ends, path)
        if rows.next_obs is not None:
            differs = (rows.next_obs[:-1] != rows.obs[1:]).reshape(len(ends), -1).any(axis=1)
            for row in np.flatnonzero(differs & ~ends & ~rows.bare[:-1])[:1]:
                raise RciError(
                    f"{place(path, rows.line[row])}: the next observation is not the observation of the row that "
                    "follows."
                )
        return ends

    def _fitted(self, rows: LogRows, path: Path) -> LogRows:
        """The rows with vectors as long as in the rows before; where all are missing, nothing else tells how long."""
        for role in VECTORS:
            array = getattr(rows, role)
            if array is None:
                continue
            blank = role != "obs" and rows.bare.all()
            twin, like = (
                ("obs", "as the observation") if role == "next_obs" else (role, "as in the rows before")
            )
            known = tuple(self.shapes.get(twin, array.shape[1:]))
            if not blank:
                self.shapes[role] = list(known)
            if array.shape[1:] == known:
                continue
            if not blank:
                columns = ", ".join(map(repr, getattr(self.names, role)))
                raise RciError(
                    f"{place(path, rows.line[0])}: {columns} must be {math.prod(known)} numbers, {like}, got "
                    f"{math.prod(array.shape[1:])}."
                )
            rows = replace(rows, **{role: np.zeros((len(array), *known), array.dtype)})
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


def extract(block: Block, names: ColumnNames) -> LogRows:
    """The columns of a block, each checked: nothing missing, nothing infinite."""
    count = len(block.lines)
    action, without = _vector(block, names.action, None)
    bare = np.asarray(without.all(axis=1))
    obs, _ = _vector(block, names.obs, np.zeros(count, bool))
    for row in np.flatnonzero(without.any(axis=1) & ~bare)[:1]:
        column = names.action[int(np.flatnonzero(without[row])[0])]
        raise RciError(f"{block.where(row, column)} is missing, though other parts of the action are there.")
    reward = _single(block, names.reward, bare)
    for row in np.flatnonzero(bare & (reward != 0))[:1]:
        raise RciError(
            f"{block.where(row, names.reward)}: a row without an action has a reward, {reward[row]:g}; a reward stands "
            "in the row of the action that earned it."
        )
    if names.choices:
        action = _chosen(block, names, action, bare)
    return LogRows(
        obs=obs,
        action=action,
        reward=reward,
        bare=bare,
        line=block.lines,
        terminated=_flag(block, names.terminated),
        truncated=_flag(block, names.truncated),
        next_obs=_vector(block, names.next_obs, bare)[0] if names.next_obs else None,
        cost=_single(block, names.cost, bare) if names.cost else None,
        stopped=_flag(block, names.stop) if names.stop else None,
        severity=_severity(block, names.severity) if names.severity else None,
        episode=texts(block, names.episode) if names.episode else None,
        step=_steps(block, names.step) if names.step else None,
    )


def _vector(block: Block, columns: tuple[str, ...], may_lack: Array | None) -> tuple[Array, Array]:
    """Columns side by side, [n, features], and which are missing, [n, columns]. None: any may be missing."""
    found = [numbers(block, name) for name in columns]
    for name, part in zip(columns, found):
        _check(block, name, part.values, part.missing, part.missing if may_lack is None else may_lack)
    missing = np.stack([part.missing for part in found], axis=1)
    for name, part in zip(columns, found):
        if part.values.size == 0 and not part.missing.all():
            raise RciError(f"{block.where(0, name)} must have at least one number, got an empty list.")
    if len(found) == 1 and found[0].values.ndim > 1:
        return found[0].values, missing
    return np.concatenate([part.values.reshape(len(part.values), -1) for part in found], axis=1), missing


def _single(block: Block, name: str, may_lack: Array, wanted: str = "a number") -> Array:
    part = numbers(block, name, wanted)
    if part.values.ndim != 1:
        raise RciError(f"{block.where(0, name)} must be one number, got a list.")
    _check(block, name, part.values, part.missing, may_lack)
    return part.values


def _check(block: Block, name: str, values: Array, missing: Array, may_lack: Array) -> None:
    for row in np.flatnonzero(missing & ~may_lack)[:1]:
        raise RciError(f"{block.where(row, name)} is missing.")
    if values.dtype.kind == "f":
        for row in np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[:1]:
            raise RciError(f"{block.where(row, name)} is not finite: {values[row].tolist()}.")


def _steps(block: Block, name: str) -> Array:
    """What counts the steps. Times in nanoseconds need all their digits, more than float64 has."""
    wanted = f"a number (if {name!r} counts no steps, say step = '' in the mapping)"
    values = _single(block, name, np.zeros(len(block.lines), bool), wanted)
    exact = large_whole_numbers(block, name)
    return values.astype(np.float64) if exact is None else exact


def _flag(block: Block, name: str) -> Array:
    """Flags; none where nothing is said."""
    if not name:
        return np.zeros(len(block.lines), bool)
    wanted = "true or false, yes or no, 1 or 0"
    values = _single(block, name, np.ones(len(block.lines), bool), wanted)
    for row in np.flatnonzero((values != 0) & (values != 1))[:1]:
        raise RciError(f"{block.where(row, name)} must be {wanted}, got {values[row]:g}.")
    return values != 0


def _severity(block: Block, name: str) -> Array:
    """What a stop costs: 1 where nothing is said."""
    part = numbers(block, name)
    values = _single(block, name, np.ones(len(block.lines), bool)).astype(np.float64)
    return np.where(part.missing, 1.0, values)


def _chosen(block: Block, names: ColumnNames, action: Array, bare: Array) -> Array:
    """One-hot actions from whole numbers."""
    if bare.all():
        return np.zeros((len(bare), names.choices), np.float32)
    if action.shape[1:] != (1,):
        raise RciError(
            f"choices = {names.choices} needs a single column of actions, got {len(names.action)}."
        )
    index = action[:, 0]
    for row in np.flatnonzero((index < 0) | (index >= names.choices) | (index != np.floor(index)))[:1]:
        raise RciError(
            f"{block.where(row, names.action[0])} must be a whole number from 0 to {names.choices - 1}, got "
            f"{index[row]:g}."
        )
    return one_hot(index.astype(np.int64), names.choices)


def _marked(rows: LogRows, last: Array) -> Rows:
    return Rows(last=last, **{name: getattr(rows, name) for name in Rows._fields if hasattr(rows, name)})
