"""Flat columns with one row per transition and flags at the ends: what DSRL, D4RL and OmniSafe write.

Columns are anything that can be sliced by rows, which is done in chunks and in order: datasets of an HDF5 file, or
members of an archive.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import Source, chunk_rows
from rci.formats.tables.episode_rows import Rows, flags, one_hot, pieces_of_rows, require_finite

Mismatch = Literal["error", "border"]
NUMBERS = "fiub"  # kinds of NumPy types that are numbers or flags


@dataclass(frozen=True)
class Layout:
    """Names of the columns. Only `obs`, `action`, `reward` and one that ends episodes must be there."""

    obs: str
    action: str
    reward: str
    next_obs: str
    cost: str
    terminated: str
    truncated: str
    stopped: str = "stopped"
    severity: str = "costs_sparse"
    own_terminated: str = ""  # flags as RCI knows them, where it wrote the file
    own_truncated: str = ""


@dataclass(frozen=True)
class Flat:
    """Columns of one file, with what has been decided about them."""

    path: str
    columns: Mapping[str, Any]
    layout: Layout
    rows: int
    actions: int  # of how many actions the whole numbers choose; 0 if actions are vectors
    mismatch: Mismatch
    notes: list[str]

    def key(self, name: str) -> str | None:
        """What the file calls it, if it has it; `<key>_exact` stands beside a rounded column and is preferred."""
        key = getattr(self.layout, name)
        return next((k for k in (f"{key}_exact", key) if key and k in self.columns), None)

    def where(self, name: str) -> str:
        """The file and the column, for messages."""
        return f"{self.path}: {self.key(name)}"

    def column(self, name: str, rows: slice) -> Array:
        """Rows of a column as a plain array in the byte order of this machine."""
        array = np.asarray(self.columns[self.key(name) or ""][rows])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def scalar(self, name: str, rows: slice) -> Array:
        """Rows of a column of single numbers, [n] or [n, 1], all finite."""
        array = self.column(name, rows)
        return require_finite(array.reshape(len(array)), self.where(name), rows.start)

    def vector(self, name: str, rows: slice) -> Array:
        """Rows of a column of vectors or more, all finite."""
        array = self.column(name, rows)
        written_shape = getattr(self.columns[self.key(name) or ""], "attrs", {}).get(
            "shape"
        )  # as RCI writes it
        shape = np.asarray(written_shape).ravel()
        if shape.dtype.kind in "iu" and (shape > 0).all() and math.prod(shape.tolist()) == array[0].size:
            array = array.reshape(len(array), *shape.tolist())
        array = array[:, None] if array.ndim == 1 else array
        return require_finite(array, self.where(name), rows.start)

    def flag(self, name: str, rows: slice) -> Array:
        """Rows of a column of flags; all false if the file does not have it."""
        if self.key(name) is None:
            return np.zeros(rows.stop - rows.start, bool)
        array = self.column(name, rows)
        return flags(array.reshape(len(array)), self.where(name), rows.start)


def flat_source(path: str, columns: Mapping[str, Any], layout: Layout, mismatch: Mismatch) -> Source:
    """A recording from flat columns. A next observation that is not the following row's is an error, or a border."""
    if mismatch not in ("error", "border"):
        raise RciError(f"mismatch must be 'error' or 'border', got {mismatch!r}.")
    notes: list[str] = []
    rows = _check_columns(path, columns, layout)
    flat = Flat(path, columns, layout, rows, 0, mismatch, notes)
    flat = Flat(path, columns, layout, rows, _count_actions(flat), mismatch, notes)
    if len(columns[flat.key("obs") or ""].shape) == 1:
        notes.append(f"{layout.obs} has no second axis: it is taken as one number per observation")
    state: dict[str, Any] = {}
    return Source(
        path,
        pieces_of_rows(_blocks(flat, state), notes, state),
        rows,
        notes,
        files=(Path(path),),
        settings=repr((layout, mismatch)),
        state=state,
    )


def _check_columns(path: str, columns: Mapping[str, Any], layout: Layout) -> int:
    """Refuse a file that lacks a column, or whose columns do not fit together; the number of rows."""
    present = ", ".join(sorted(columns)) or "none"
    for key in (layout.obs, layout.action, layout.reward):
        if key not in columns:
            raise RciError(f"{path} has no {key!r}; the keys in it are: {present}.")
    ends = [key for key in (layout.terminated, layout.truncated) if key]
    if not any(key in columns for key in ends):
        raise RciError(
            f"{path} does not say where episodes end: it has no {' or '.join(map(repr, ends))}; the keys in it are: "
            f"{present}."
        )
    rows = columns[layout.obs].shape[0] if columns[layout.obs].shape else 0
    if rows == 0:
        raise RciError(f"{path}: {layout.obs} is empty.")
    vectors = {layout.obs, layout.next_obs, layout.action}
    for key in {k for k in vars(layout).values() if k} | {f"{k}_exact" for k in vars(layout).values()}:
        if key not in columns:
            continue
        shape, dtype = columns[key].shape, columns[key].dtype
        if dtype.kind not in NUMBERS:
            raise RciError(f"{path}: {key} must be numbers, got {dtype}.")
        if not shape or shape[0] != rows:
            raise RciError(f"{path}: {key} must have {rows} rows as {layout.obs} has, got shape {shape}.")
        if key.removesuffix("_exact") not in vectors and shape not in ((rows,), (rows, 1)):
            raise RciError(f"{path}: {key} must have one number per row, got shape {shape}.")
        if 0 in shape:
            raise RciError(f"{path}: {key} is empty: its shape is {shape}.")
    if layout.next_obs in columns and columns[layout.next_obs].shape != columns[layout.obs].shape:
        raise RciError(
            f"{path}: {layout.next_obs} must have the shape of {layout.obs}, {columns[layout.obs].shape}, got "
            f"{columns[layout.next_obs].shape}."
        )
    return int(rows)


def _count_actions(flat: Flat) -> int:
    """How many actions there are, if they are single whole numbers from 0 on; otherwise 0."""
    column = flat.columns[flat.key("action") or ""]
    if flat.key("action") != flat.layout.action:  # as RCI writes it: vectors, whatever their type
        return 0
    if column.dtype.kind not in "iu" or int(np.prod(column.shape[1:])) != 1:
        return 0
    highest = 0
    for rows in _chunks(flat.rows, 1 << 20):
        chunk = flat.scalar("action", rows)
        if chunk.min() < 0:
            return 0
        highest = max(highest, int(chunk.max()))
    if highest > 1023:  # no choice between actions has so many
        return 0
    flat.notes.append(
        f"{flat.key('action')} are whole numbers: taken as a choice of {highest + 1} and made one-hot"
    )
    return highest + 1


def _blocks(flat: Flat, state: dict[str, Any]) -> Iterator[Rows]:
    """The rows in chunks, with the ends of episodes marked."""
    obs_column = flat.columns[flat.key("obs") or ""]
    own_ends = flat.key("own_terminated") is not None and flat.key("own_truncated") is not None
    borders, first_borders = state.get("borders", 0), list(state.get("first_borders", ()))
    ended_by_stop, broke_off = state.get("ended_by_stop", 0), state.get("broke_off", False)
    size = chunk_rows(obs_column.shape[1:], obs_column.dtype.itemsize)
    for rows in _chunks(flat.rows, size, state.get("row", 0)):
        seen = flat.vector(
            "obs", slice(rows.start, min(rows.stop + 1, flat.rows))
        )  # one more, to compare with
        terminated, truncated = flat.flag("terminated", rows), flat.flag("truncated", rows)
        last = terminated | truncated
        next_obs = flat.vector("next_obs", rows) if flat.key("next_obs") else None
        if next_obs is not None:
            found = _hidden_borders(flat, next_obs, seen[1:], last, rows.start)
            borders += len(found)
            first_borders = (first_borders + (rows.start + found[:5]).tolist())[:5]
            last[found] = True
        if rows.stop == flat.rows and not last[-1]:
            last[-1] = broke_off = True
        stopped = flat.flag("stopped", rows) if flat.key("stopped") else None
        if own_ends:
            terminated, truncated = flat.flag("own_terminated", rows), flat.flag("own_truncated", rows)
        elif stopped is not None:
            ended_by_stop += int((terminated & stopped).sum())
            terminated = terminated & ~stopped
        state.update(row=rows.stop, borders=borders, first_borders=first_borders)
        state.update(ended_by_stop=ended_by_stop, broke_off=broke_off)
        yield Rows(
            obs=seen[: rows.stop - rows.start],
            action=_actions(flat, rows),
            reward=flat.scalar("reward", rows),
            last=last,
            terminated=terminated,
            truncated=truncated,
            next_obs=next_obs,
            cost=flat.scalar("cost", rows) if flat.key("cost") else None,
            stopped=stopped,
            severity=flat.scalar("severity", rows) if flat.key("severity") else None,
        )
    if broke_off:
        flat.notes.append("the last episode has no flag at its end: it is kept as a recording that broke off")
    if ended_by_stop:
        flat.notes.append(
            f"{ended_by_stop} stopped rows have {flat.key('terminated')} set: the stop ended them, not the environment"
        )
    if borders:
        shown = ", ".join(map(str, first_borders)) + (", ..." if borders > 5 else "")
        flat.notes.append(
            f"{borders} episodes end without a flag, after rows {shown}: what follows is another observation"
        )


def _hidden_borders(flat: Flat, next_obs: Array, following: Array, last: Array, first_row: int) -> Array:
    """Rows without a flag whose next observation is not the observation of the row that follows."""
    features = tuple(range(1, following.ndim))
    differs = (next_obs[: len(following)] != following).any(axis=features)
    found = np.flatnonzero(differs & ~last[: len(following)])
    if len(found) and flat.mismatch == "error":
        row = first_row + int(found[0])
        raise RciError(
            f"{flat.path}: {flat.key('next_obs')} of row {row} is not {flat.key('obs')} of row {row + 1}, and no flag "
            "ends an episode there; if one does end there, say mismatch='border'."
        )
    return found


def _actions(flat: Flat, rows: slice) -> Array:
    if flat.actions:
        return one_hot(flat.scalar("action", rows).astype(np.int64), flat.actions)
    return flat.vector("action", rows)


def _chunks(rows: int, size: int, first: int = 0) -> Iterator[slice]:
    return (slice(start, min(start + size, rows)) for start in range(first, rows, size))
