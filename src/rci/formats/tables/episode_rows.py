"""From rows, one per step, to episodes: where they end, what was seen last, and where somebody stopped them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rci.data.artefacts.episodes import first_true
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.identity import key_lines
from rci.formats.importing.imported import Piece


class Rows(NamedTuple):
    """Consecutive rows of a recording. The last row of all must have `last` set."""

    obs: Array
    action: Array
    reward: Array
    last: Array  # the episode ends with this row
    terminated: Array  # somewhere in the episode; only the end can be meant
    truncated: Array
    next_obs: Array | None = None
    cost: Array | None = None
    stopped: Array | None = None
    severity: Array | None = None  # what a stop in this row costs
    bare: Array | None = None  # a last row that is an observation only, without an action
    row: Array | None = None  # where each stands in its file
    keys: Array | None = None  # texts [rows, keys]; those of an episode are in its first row
    human: Array | None = None  # a person drove


class Open(NamedTuple):
    """What is known of an episode that goes on in the next rows."""

    steps: int = 0
    terminated: bool = False
    truncated: bool = False
    stop: int = -1
    severity: float = 0.0
    keys: Sequence[str] = ()


def pieces_of_rows(blocks: Iterable[Rows], notes: list[str], state: dict[str, Any]) -> Iterator[Piece]:
    """Cut rows into episodes of one observation more than steps.

    What was seen after the last step is `next_obs`, or a bare row. If neither is there it is unknown, and the last
    observation stands in for it: every step, reward, flag and stop is kept, and a note says how often it was done.
    """
    opened, repeated, ended = Open(*state.get("open", ())), state.get("repeated", 0), state.get("ended", 0)
    for rows in blocks:
        piece, opened, without = _cut(rows, opened)
        repeated, ended = repeated + without, ended + len(piece.lengths)
        state.update(open=list(opened), repeated=repeated, ended=ended)
        yield piece
    if repeated:
        notes.append(
            f"what was seen after the last step is not recorded in {repeated} of {ended} episodes: their last "
            "observation is repeated in its place"
        )


def _cut(rows: Rows, opened: Open) -> tuple[Piece, Open, int]:
    """One block of rows as a piece, what is still open after it, and how many last observations are repeated."""
    count = len(rows.reward)
    bare = np.zeros(count, bool) if rows.bare is None else rows.bare
    end = np.flatnonzero(rows.last)
    begin = np.concatenate([[0], end + 1])
    begin = begin[begin < count]
    lengths = np.add.reduceat((~bare).astype(np.int64), begin)
    terminated = np.logical_or.reduceat(rows.terminated, begin)
    truncated = np.logical_or.reduceat(rows.truncated, begin)
    stop = np.full(len(begin), -1)
    severity = np.zeros(len(begin))
    if rows.stopped is not None:
        stop = first_true(rows.stopped, np.diff(begin, append=count))
        if rows.severity is not None:
            severity = np.where(stop >= 0, rows.severity[begin + stop], 0.0)
    if stop[0] >= 0:
        stop[0] += opened.steps
    if opened.stop >= 0:
        stop[0], severity[0] = opened.stop, opened.severity
    lengths[0] += opened.steps
    terminated[0] |= opened.terminated
    truncated[0] |= opened.truncated
    stop = np.minimum(stop, lengths - 1)  # a stop in a bare row is one of the step that led there
    complete = len(end)
    keys = [] if rows.keys is None else rows.keys[begin].tolist()
    if keys and opened.steps:
        keys[0] = list(opened.keys)
    rest = Open()
    if len(begin) > complete:
        flags = bool(terminated[-1]), bool(truncated[-1])
        rest = Open(int(lengths[-1]), *flags, int(stop[-1]), float(severity[-1]), keys[-1] if keys else ())
    lacking = end[~bare[end]]  # ends at which an observation has to be put in
    final = rows.obs[lacking] if rows.next_obs is None else rows.next_obs[lacking]
    piece = Piece(
        obs=np.insert(rows.obs, lacking + 1, final, axis=0) if len(lacking) else rows.obs,
        action=rows.action[~bare],
        reward=rows.reward[~bare],
        cost=None if rows.cost is None else rows.cost[~bare],
        lengths=lengths[:complete],
        terminated=terminated[:complete],
        truncated=truncated[:complete],
        stop_index=None if rows.stopped is None else stop[:complete],
        severity=None if rows.stopped is None or rows.severity is None else severity[:complete],
        row=None if rows.row is None else rows.row[~bare],
        keys=None if rows.keys is None else key_lines(keys[:complete]),
        human=None if rows.human is None else rows.human[~bare],
    )
    return piece, rest, len(lacking) if rows.next_obs is None else 0


def flags(array: Array, where: str, first_row: int) -> Array:
    """True/false from booleans or from the numbers 0 and 1."""
    if array.dtype == np.bool_:
        return array
    if array.dtype.kind not in "iuf":
        raise RciError(f"{where} must be true/false flags, or 0 and 1, got {array.dtype}.")
    for row in np.flatnonzero((array != 0) & (array != 1))[:1]:
        raise RciError(f"{where}, row {first_row + row} must be a flag, 0 or 1, got {array[row]}.")
    return array != 0


def require_finite(array: Array, where: str, first_row: int) -> Array:
    """Refuse NaN and infinity, naming the row."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        bad = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
        row = int(np.flatnonzero(bad)[0])
        raise RciError(f"{where}, row {first_row + row} is not finite: {array[row].tolist()}.")
    return array


def one_hot(index: Array, count: int) -> Array:
    """Whole numbers 0 to count - 1 as float32 rows with a single 1."""
    return np.eye(count, dtype=np.float32)[index]


def is_one_hot(array: Array) -> bool:
    """Whether every row is what `one_hot` makes."""
    if array.ndim != 2 or array.shape[1] < 2 or array.dtype != np.float32:
        return False
    return bool(((array == 0) | (array == 1)).all() and (array.sum(axis=1) == 1).all())
