"""The columns of a block of a log, each checked, before anything is known of where episodes end."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.tables.block import Block, large_whole_numbers, numbers, place, texts
from rci.formats.tables.episode_rows import Rows, one_hot
from rci.formats.tables.guessing import key_columns
from rci.formats.tables.mapping import ColumnNames
from rci.formats.tables.times import Clock


@dataclass(frozen=True, eq=False)
class LogRows:
    """The columns of some rows, still without ends. What is missing is 0, and is listed in `gaps`."""

    obs: Array
    action: Array
    reward: Array
    bare: Array  # no part of an action is there
    line: Array
    row: Array  # where each stands in its file, from 0 on
    terminated: Array
    truncated: Array
    gaps: Array  # [rows, columns of `gap_columns`]
    next_obs: Array | None
    cost: Array | None
    stopped: Array | None
    severity: Array | None
    episode: Array | None
    step: Array | None
    keys: Array | None  # [rows, keys]
    inputs: Array | None  # [rows, columns of the reward's expression]
    time: Array | None  # nanoseconds

    def take(self, rows: slice | Array) -> LogRows:
        """Some of the rows."""
        return LogRows(*(None if a is None else a[rows] for a in self._columns()))  # type: ignore[arg-type]

    def joined(self, *others: LogRows) -> LogRows:
        """These rows and those that follow."""
        columns = zip(self._columns(), *(other._columns() for other in others))
        return LogRows(*(None if c[0] is None else np.concatenate(c) for c in columns))  # type: ignore[arg-type]

    def _columns(self) -> list[Array | None]:
        return [getattr(self, column.name) for column in fields(self)]

    def __len__(self) -> int:
        return len(self.line)

    def marked(self, last: Array) -> Rows:
        """With the ends of episodes."""
        shared = set(Rows._fields) & {column.name for column in fields(self)}
        return Rows(last=last, **{name: getattr(self, name) for name in shared})


def gap_slices(names: ColumnNames) -> dict[str, slice]:
    """Which of the columns of `LogRows.gaps` belong to which field."""
    slices, begin = {}, 0
    for role, columns in _gap_roles(names):
        if columns:
            slices[role] = slice(begin, begin + len(columns))
            begin += len(columns)
    return slices


def gap_columns(names: ColumnNames) -> list[str]:
    """The columns whose gaps count, in the order of `LogRows.gaps`."""
    return [column for _, columns in _gap_roles(names) for column in columns]


def _gap_roles(names: ColumnNames) -> list[tuple[str, tuple[str, ...]]]:
    vectors = [("obs", names.obs), ("action", names.action), ("next_obs", names.next_obs)]
    inputs = () if names.formula is None else names.formula.columns
    single = [(role, tuple(filter(None, [getattr(names, role)]))) for role in ("reward", "cost", "time")]
    return [*vectors, ("inputs", inputs), *single]


def extract(block: Block, names: ColumnNames, first_row: int, clock: Clock) -> LogRows:
    """The columns of a block: numbers that are finite, flags that are flags. `first_row` is that of the block."""
    count = len(block.lines)
    action, without = _vector(block, names.action)
    obs, no_obs = _vector(block, names.obs)
    bare = np.asarray(without.all(axis=1))
    gaps = [no_obs, without]
    next_obs = None
    if names.next_obs:
        next_obs, missing = _vector(block, names.next_obs)
        gaps.append(missing)
    inputs = None
    if names.formula is not None:
        parts = [_single(block, name) for name in names.formula.columns]
        inputs = np.stack([values for values, _ in parts], axis=1) if parts else np.zeros((count, 0))
        gaps += [missing[:, None] for _, missing in parts]
    reward, no_reward = _single(block, names.reward) if names.reward else (np.zeros(count), None)
    cost, no_cost = _single(block, names.cost) if names.cost else (None, None)
    time, no_time = clock.read(block, names.time) if names.time else (None, None)
    gaps += [missing[:, None] for missing in (no_reward, no_cost, no_time) if missing is not None]
    for row in np.flatnonzero(bare & (reward != 0))[:1] if not names.whole_runs else ():
        raise RciError(
            f"{block.where(row, names.reward)}: a row without an action has a reward, {reward[row]:g}; a reward stands "
            "in the row of the action that earned it."
        )
    if names.choices:
        action = _chosen(block, names, action, bare)
    episode = texts(block, names.episode) if names.episode else None
    return LogRows(
        obs=obs,
        action=action,
        reward=reward,
        bare=bare,
        line=block.lines,
        row=first_row + np.arange(count),
        terminated=_flag(block, names.terminated),
        truncated=_flag(block, names.truncated),
        gaps=np.concatenate(gaps, axis=1),
        next_obs=next_obs,
        cost=cost,
        stopped=_flag(block, names.stop) if names.stop else None,
        severity=_severity(block, names.severity) if names.severity else None,
        episode=episode,
        step=_steps(block, names.step) if names.step else None,
        keys=_keys(block, names, episode),
        inputs=inputs,
        time=time,
    )


def priced(rows: LogRows, names: ColumnNames, path: Path) -> LogRows:
    """The rows with their rewards, where these are an expression over columns."""
    if names.formula is None:
        return rows
    columns = dict(zip(names.formula.columns, np.asarray(rows.inputs).T))
    reward = np.where(rows.bare, 0.0, names.formula.evaluate(columns, len(rows)))
    for row in np.flatnonzero(~np.isfinite(reward))[:1]:
        values = ", ".join(f"{name} = {column[row]:g}" for name, column in columns.items())
        raise RciError(
            f"{place(path, rows.line[row])}: the reward {names.formula.text!r} is {reward[row]}, as {values}."
        )
    return replace(rows, reward=reward)


def _keys(block: Block, names: ColumnNames, episode: Array | None) -> Array | None:
    """The keys of each row; only the episode itself must have a name."""
    columns = key_columns(names)
    if not columns:
        return None
    return np.stack(
        [
            episode if name == names.episode and episode is not None else texts(block, name, required=False)
            for name in columns
        ],
        axis=1,
    )


def _vector(block: Block, columns: tuple[str, ...]) -> tuple[Array, Array]:
    """Columns side by side, [n, features], and which are missing, [n, columns]."""
    parts = [numbers(block, name) for name in columns]
    for name, part in zip(columns, parts):
        _check_finite(block, name, part.values)
    missing = np.stack([part.missing for part in parts], axis=1)
    for name, part in zip(columns, parts):
        if part.values.size == 0 and not part.missing.all():
            raise RciError(f"{block.where(0, name)} must have at least one number, got an empty list.")
    if len(parts) == 1 and parts[0].values.ndim > 1:
        return parts[0].values, missing
    return np.concatenate([part.values.reshape(len(part.values), -1) for part in parts], axis=1), missing


def _single(block: Block, name: str, wanted: str = "a number") -> tuple[Array, Array]:
    part = numbers(block, name, wanted)
    if part.values.ndim != 1:
        raise RciError(f"{block.where(0, name)} must be one number, got a list.")
    _check_finite(block, name, part.values)
    return part.values, part.missing


def _check_finite(block: Block, name: str, values: Array) -> None:
    if values.dtype.kind == "f":
        for row in np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[:1]:
            raise RciError(f"{block.where(row, name)} is not finite: {values[row].tolist()}.")


def _steps(block: Block, name: str) -> Array:
    """What counts the steps. Times in nanoseconds need all their digits, more than float64 has."""
    wanted = f"a number (if {name!r} has times, say time = {name!r} in the mapping; if it counts no steps, step = '')"
    values, missing = _single(block, name, wanted)
    for row in np.flatnonzero(missing)[:1]:
        raise RciError(
            f"{block.where(row, name)} is missing, but it counts the steps; if it does not, say step = ''."
        )
    exact = large_whole_numbers(block, name)
    return values.astype(np.float64) if exact is None else exact


def _flag(block: Block, name: str) -> Array:
    """Flags; none where nothing is said."""
    if not name:
        return np.zeros(len(block.lines), bool)
    wanted = "true or false, yes or no, 1 or 0"
    values, _ = _single(block, name, wanted)
    for row in np.flatnonzero((values != 0) & (values != 1))[:1]:
        raise RciError(f"{block.where(row, name)} must be {wanted}, got {values[row]:g}.")
    return values != 0


def _severity(block: Block, name: str) -> Array:
    """What a stop costs: 1 where nothing is said."""
    values, missing = _single(block, name)
    return np.where(missing, 1.0, values.astype(np.float64))


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
