"""A shard in chunks of whole episodes, so that no shard is ever held as a whole.

Where a chunk ends depends on nothing but the shard, so the step costs do not depend on who computes them. Chunks are
filled up to few different shapes: a network is compiled for each shape, and that takes longer than to use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.labels import Labels
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.cleaning.gaps import rows_without_gaps
from rci.formats.importing.imported import Source, checked
from rci.formats.tables.episode_rows import Rows, pieces_of_rows
from rci.formats.tables.log_rows import LogReader
from rci.formats.tables.mapping import ColumnNames
from rci.formats.tables.readers import blocks_of, check_columns

MOST_EPISODES, MOST_STEPS = 256, 1 << 15  # of a padded block, as many as networks score at once
MOST_BYTES = 1 << 26  # of a padded block of observations and actions


class Chunk(NamedTuple):
    """Whole episodes that follow each other in a shard. `rows`: how many rows each has there."""

    obs: Array
    action: Array
    reward: Array
    lengths: Array
    terminated: Array
    truncated: Array
    stop_index: Array
    severity: Array
    rows: Array

    @property
    def kept(self) -> Array:
        """Steps that remain of each episode once the stop has cut it."""
        return np.where(self.stop_index >= 0, self.stop_index + 1, self.lengths)

    @property
    def episodes(self) -> Episodes:
        """As episodes of no known task."""
        return Episodes(self.obs, self.action, self.reward, self.lengths, self.terminated, self.truncated)

    def labels(self, episodes: Episodes) -> Labels:
        """Their labels; `episodes` are those of this chunk."""
        return Labels.for_episodes(episodes, self.stop_index, self.severity)

    def take(self, chosen: Array) -> Chunk:
        """Some of the episodes, by a flag for each."""
        steps = np.repeat(chosen, self.lengths)
        return Chunk(
            self.obs[np.repeat(chosen, self.lengths + 1)],
            self.action[steps],
            self.reward[steps],
            *(array[chosen] for array in self[3:]),
        )


def joined(chunks: Iterable[Chunk]) -> Chunk:
    """Chunks one after the other as one."""
    return Chunk(*(np.concatenate(arrays) for arrays in zip(*chunks)))


def chunks_of(path: Path, names: ColumnNames) -> Iterator[Chunk]:
    """The episodes of a shard, in its order, in chunks of bounded size; only a single episode may be larger."""
    waiting: Chunk | None = None
    for run in _whole_episodes(path, names):
        waiting = run if waiting is None else joined([waiting, run])
        first = 0
        for end in _ends(waiting):
            yield _part(waiting, first, end)
            first = end
        waiting = _part(waiting, first, len(waiting.lengths))
    if waiting is not None and len(waiting.lengths):
        yield waiting


def padded_shape(longest: int, width: int) -> tuple[int, int]:
    """How many episodes, and of how many steps, the padded block of a chunk has: one of few shapes.

    Lengths are rounded up by a quarter at most. One episode of the block is only there to give it its length.
    """
    unit = 1 << max(0, longest.bit_length() - 3)
    steps = -(-longest // unit) * unit
    room = min(MOST_EPISODES, MOST_STEPS // steps, MOST_BYTES // (4 * width * steps))
    return max(2, room), steps


def filled(chunk: Chunk) -> Chunk:
    """The chunk with episodes behind it that mean nothing, so that its padded block has one of few shapes."""
    count, steps = padded_shape(int(chunk.kept.max()), _width(chunk))
    lengths = np.ones(count - len(chunk.lengths), np.int64)
    lengths[0] = steps
    number, extra = len(lengths), int(lengths.sum())
    blank = Chunk(
        obs=np.zeros((extra + number, *chunk.obs.shape[1:]), chunk.obs.dtype),
        action=np.zeros((extra, *chunk.action.shape[1:]), chunk.action.dtype),
        reward=np.zeros(extra, chunk.reward.dtype),
        lengths=lengths,
        terminated=np.zeros(number, bool),
        truncated=np.zeros(number, bool),
        stop_index=np.full(number, -1),
        severity=np.zeros(number),
        rows=lengths,
    )
    return joined([chunk, blank])


def row_costs(chunk: Chunk, cost: Array) -> dict[str, tuple[Array, Array | None]]:
    """Columns for the rows of a chunk, and where they are empty. cost: one for each kept step, one after the other.

    Rows without an action, and those behind a stop, do not count as steps, and have no cost.
    """
    begin = np.cumsum(chunk.rows) - chunk.rows
    place = np.arange(int(chunk.rows.sum())) - np.repeat(begin, chunk.rows)
    missing = place >= np.repeat(chunk.kept, chunk.rows)
    inferred = np.zeros(len(place))
    inferred[~missing] = cost
    stopped = place == np.repeat(chunk.stop_index, chunk.rows)
    sparse = np.where(stopped, np.repeat(chunk.severity, chunk.rows), 0.0)
    return {"cost": (inferred, missing), "cost_sparse": (sparse, missing), "stopped": (stopped, None)}


def _whole_episodes(path: Path, names: ColumnNames) -> Iterator[Chunk]:
    """The episodes that end in each block of rows, complete."""
    ends: list[Array] = []  # of the rows that became the last piece

    def noted() -> Iterator[Rows]:
        for rows in rows_without_gaps(LogReader(names), path, blocks_of(path, names.read())):
            ends.append(rows.last)
            yield rows

    check_columns(path, names.read())
    parts: list[list[Array]] = [[], [], []]  # of episodes that are not complete yet
    rows = 0
    for piece in checked(Source(str(path), pieces_of_rows(noted(), [], {}), 0)):
        for part, array in zip(parts, piece[:3]):
            part.append(array)
        last = ends.pop()
        at = np.flatnonzero(last) + 1
        if len(at) == 0:
            rows += len(last)
            continue
        counts = np.diff(at, prepend=-rows)
        rows = len(last) - int(at[-1])
        flat = [np.concatenate(part) for part in parts]
        steps = int(piece.lengths.sum())
        sizes = (steps + len(piece.lengths), steps, steps)
        parts = [[array[size:]] for array, size in zip(flat, sizes)]
        stop, severity = _stops(path, piece.stop_index, piece.severity)
        obs, action, reward = (array[:size] for array, size in zip(flat, sizes))
        flags = piece.terminated, piece.truncated
        yield Chunk(obs, action, reward, piece.lengths, *flags, stop, severity, counts)


def _stops(path: Path, stop_index: Array | None, severity: Array | None) -> tuple[Array, Array]:
    """Where episodes were stopped and what it cost. A shard cannot know of others, so nothing is decided for it."""
    stop = np.asarray(stop_index)
    if severity is None:
        return stop, (stop >= 0).astype(np.float64)
    for value in severity[(stop >= 0) & ~((severity > 0) & (severity <= 1))][:1]:
        raise RciError(
            f"{path}: a stop has the severity {value:g}, but it must be above 0 and at most 1; say severity = '' in "
            "the mapping if every stop counts as 1."
        )
    return stop, np.where(stop >= 0, severity, 0.0)


def _ends(chunk: Chunk) -> Iterator[int]:
    """Where to cut: before the episode that does not fit any more."""
    width, longest, first = _width(chunk), 0, 0
    for number, length in enumerate(chunk.lengths.tolist()):
        longest = max(longest, length)
        if number > first and number - first + 1 >= padded_shape(longest, width)[0]:
            yield number
            longest, first = length, number


def _part(chunk: Chunk, first: int, end: int) -> Chunk:
    step = np.concatenate([[0], np.cumsum(chunk.lengths)])
    return Chunk(
        chunk.obs[step[first] + first : step[end] + end],
        chunk.action[step[first] : step[end]],
        chunk.reward[step[first] : step[end]],
        *(array[first:end] for array in chunk[3:]),
    )


def _width(chunk: Chunk) -> int:
    return int(np.prod(chunk.obs.shape[1:]) + np.prod(chunk.action.shape[1:]))
