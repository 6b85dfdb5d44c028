"""LeRobot folders (v2.0, v2.1 and v3.0), read from their Parquet and JSON files without the `lerobot` package.

A frame is an observation, the action taken there, and what is said of both: T frames are T steps. What was seen after
the last action is not recorded; the last observation stands in for it, unless RCI wrote the folder, which then says it
in `meta/episodes`. So no action, flag or stop at the end is lost, and writing the frames back gives the same folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.identity import key_lines
from rci.formats.importing.imported import Imported, Piece, Progress, Source, gather, silent
from rci.formats.lerobot.info import INFO, Info, read_info
from rci.formats.lerobot.recorded import LAST, Recorded, read_recorded, tables_of
from rci.formats.lerobot.roles import Roles, roles_of, signals_of
from rci.formats.tables.block import Block, Numbers, place
from rci.formats.tables.episode_rows import Rows, flags, pieces_of_rows
from rci.formats.tables.parquet import parquet_blocks, parquet_columns, parquet_rows

LeRobotMapping = Mapping[str, Any] | str | Path | None
COUNTS = ("episode_index", "frame_index")
CLOCK = "timestamp"
EPISODE, TASK, SUCCESS = "episode_index", "task", "success"  # keys of episodes
JITTER = 0.5  # of the time between two frames: more than that, and a frame is missing or comes twice


def import_lerobot(
    folder: str | Path, mapping: LeRobotMapping = None, progress: Progress = silent
) -> Imported:
    """Everything that a LeRobot folder says: episodes, stops, takeovers, and costs if it has some.

    `mapping` is a dict or a TOML file that names features, as in {"obs": ["observation.state"], "stop": "e_stop"}; also
    `action`, `reward`, `terminated`, `truncated`, `takeover`, `success`, `cost`. An empty name says that there is none.
    """
    with lerobot_source(folder, mapping) as source:
        return gather(source, progress)


def read_lerobot(folder: str | Path, mapping: LeRobotMapping = None, progress: Progress = silent) -> Episodes:
    """The episodes of a LeRobot folder; `import_lerobot` gives stops, takeovers and notes as well."""
    return import_lerobot(folder, mapping, progress).episodes


@contextmanager
def lerobot_source(folder: str | Path, mapping: LeRobotMapping = None) -> Iterator[Source]:
    """The recording in a LeRobot folder."""
    info = read_info(folder)
    roles, notes = roles_of(info, mapping)
    recorded, _ = read_recorded(info)
    state: dict[str, Any] = {}
    files = [info.root / INFO, *tables_of(info), *dict.fromkeys(episode.data for episode in recorded)]
    for file in files:
        if not file.is_file():
            raise RciError(
                f"there is no file {file}, of which {info.root / 'meta'} speaks; copy the whole folder."
            )
    yield Source(
        str(info.root),
        _pieces(info, roles, recorded, notes, state),
        sum(episode.length for episode in recorded),
        notes,
        signals=signals_of(info, roles),
        keys=key_names(roles, recorded),
        files=tuple(files),
        settings=repr(roles),
        state=state,
    )


def _pieces(
    info: Info, roles: Roles, recorded: list[Recorded], notes: list[str], state: dict[str, Any]
) -> Iterator[Piece]:
    """Pieces with the keys of their episodes; whether one was a success is known at its end."""
    names = key_names(roles, recorded)
    for piece in pieces_of_rows(_rows(info, roles, recorded, notes, state), notes, state):
        first, successes = state["ended"] - len(piece.lengths), set(state["successes"])
        values = [
            {
                EPISODE: str(episode.number),
                TASK: "; ".join(episode.tasks),
                SUCCESS: "true" if first + i in successes else "false",
            }
            for i, episode in enumerate(recorded[first : state["ended"]])
        ]
        yield piece._replace(keys=key_lines([[one[name] for name in names] for one in values]))


def _rows(
    info: Info,
    roles: Roles,
    recorded: list[Recorded],
    notes: list[str],
    state: dict[str, Any],
) -> Iterator[Rows]:
    """Frames of all files in the order of their episodes."""
    done, row = state.get("episodes", 0), state.get("row", 0)
    successes, uneven = list(state.get("successes", ())), state.get("uneven", 0)
    first = 0
    for path, group in groupby(recorded, key=lambda episode: episode.data):
        episodes = list(group)
        if first + len(episodes) > done:
            for block, frames in _frames_of(info, roles, path, episodes, row):
                rows, steady = _checked(info, roles, block, frames)
                row += len(block.lines)
                good = np.unique(frames.episode[_flags(block, roles.success)]) + first
                successes += [int(i) for i in good if i not in successes[-1:]]
                uneven += steady
                ended = row == frames.total
                state.update(episodes=first + len(episodes) if ended else first, row=0 if ended else row)
                state.update(successes=successes, uneven=uneven)
                yield rows
            row = 0
        first += len(episodes)
    if uneven:
        notes.append(
            f"{uneven} frames are not 1/{info.fps:g} s after the one before; the rate is taken as said"
        )


def key_names(roles: Roles, recorded: list[Recorded]) -> tuple[str, ...]:
    """What is known of every episode."""
    tasks = (TASK,) if any(episode.tasks for episode in recorded) else ()
    return (EPISODE, *tasks, *((SUCCESS,) if roles.success else ()))


class _Frames:
    """Where the frames of a block stand in the episodes of their file."""

    def __init__(self, path: Path, episodes: list[Recorded], lines: Array, ends: Array) -> None:
        self.path, self.episodes, self.ends = path, episodes, ends
        self.total = int(ends[-1])
        self.episode = np.searchsorted(ends, lines, side="right")
        self.frame = lines - np.concatenate([[0], ends[:-1]])[self.episode]
        self.last = lines == ends[self.episode] - 1


def _frames_of(
    info: Info, roles: Roles, path: Path, episodes: list[Recorded], row: int
) -> Iterator[tuple[Block, _Frames]]:
    """Blocks of a file of frames from a row on; it has just the frames of its episodes."""
    names = [*roles.used, *COUNTS, *([CLOCK] if CLOCK in info.features else [])]
    columns = parquet_columns(path)
    for name in names:
        if name not in columns:
            raise RciError(
                f"{path} has no column {name!r}, which {INFO} describes; it has: {', '.join(map(repr, columns))}."
            )
    rows, listed = parquet_rows(path), sum(episode.length for episode in episodes)
    if rows != listed:
        raise RciError(
            f"{path} has {rows} frames, but the episodes {episodes[0].number} to {episodes[-1].number}, which are "
            f"listed as in it, have {listed}."
        )
    ends = np.cumsum([episode.length for episode in episodes], dtype=np.int64)
    read = row
    for block in parquet_blocks(path, names, row):
        read += len(block.lines)
        if len(block.lines) and block.lines[-1] < ends[-1]:
            yield block, _Frames(path, episodes, block.lines, ends)
    if read != rows:
        raise RciError(f"{path} is damaged: it says that it has {rows} frames, but {read} can be read.")


def _checked(info: Info, roles: Roles, block: Block, frames: _Frames) -> tuple[Rows, int]:
    """The frames of a block as rows, and how many of them come at another time than the rate says."""
    numbers = np.array([episode.number for episode in frames.episodes])
    for name, wanted in zip(COUNTS, (numbers[frames.episode], frames.frame)):
        counted = _column(block, name, (1,))
        for i in np.flatnonzero(counted != wanted)[:1]:
            raise RciError(
                f"{block.where(i, name)} must be {wanted[i]} by the list of episodes, got {counted[i]}."
            )
    uneven = 0
    if CLOCK in block.columns:
        clock = _column(block, CLOCK, (1,)).astype(np.float64)
        with np.errstate(over="ignore"):
            gap, follows = np.diff(clock) * info.fps, ~frames.last[:-1]
        for i in np.flatnonzero(follows & (gap <= 0))[:1]:
            raise RciError(
                f"{block.where(i + 1, CLOCK)}: the clock goes from {clock[i]:g} s to {clock[i + 1]:g} s in an episode; "
                "it must go forward."
            )
        uneven = int((follows & (np.abs(gap - 1) > JITTER)).sum())
    obs = _vectors(info, block, roles.obs)
    reward = _single(block, roles.reward)
    return Rows(
        obs=obs,
        action=_vectors(info, block, roles.action),
        reward=np.zeros(len(obs), np.float32) if reward is None else reward,
        last=frames.last,
        terminated=_flags(block, roles.terminated),
        truncated=_flags(block, roles.truncated),
        next_obs=_after(frames, obs),
        cost=_single(block, roles.cost),
        stopped=_flags(block, roles.stop) if roles.stop else None,
        human=_flags(block, roles.takeover) if roles.takeover else None,
    ), uneven


def _after(frames: _Frames, obs: Array) -> Array | None:
    """What was seen after each frame that is the last of its episode, if the folder says so."""
    said = [episode.last is not None for episode in frames.episodes]
    if not all(said):
        if any(said):
            raise RciError(f"{frames.path}: only some of its episodes have a {LAST}.")
        return None
    after = obs.copy()
    for i in np.flatnonzero(frames.last):
        last = frames.episodes[frames.episode[i]].last or []
        if len(last) != obs.shape[1]:
            raise RciError(
                f"{frames.path}: the {LAST} of episode {frames.episodes[frames.episode[i]].number} must be "
                f"{obs.shape[1]} numbers, as the observations are, got {len(last)}."
            )
        try:
            with np.errstate(over="ignore"):  # looked at below
                after[i] = last
        except (OverflowError, ValueError) as error:
            raise RciError(f"{frames.path}: a {LAST} cannot be stored as {obs.dtype}: {error}.") from None
        if not np.isfinite(after[i]).all():
            raise RciError(f"{frames.path}: a {LAST} is not finite.")
    return after


def _vectors(info: Info, block: Block, columns: tuple[str, ...]) -> Array:
    """Features side by side, [n, numbers]."""
    parts = [_column(block, name, info.features[name].shape) for name in columns]
    parts = [part.reshape(len(part), -1) for part in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _column(block: Block, name: str, shape: tuple[int, ...]) -> Array:
    """A column whose frames have the shape that is said of them; nothing missing, nothing infinite."""
    column = block.columns[name]
    if not isinstance(column, Numbers):
        raise RciError(f"{block.path}, column {name!r} must be numbers, got {str(column[0])[:40]!r}.")
    values = column.values
    for i in np.flatnonzero(column.missing)[:1]:
        raise RciError(f"{block.where(i, name)} is missing or not a number.")
    if values.shape[1:] not in (shape, () if shape == (1,) else shape):
        raise RciError(
            f"{place(block.path, block.lines[0])}, column {name!r}: a frame has the shape "
            f"{list(values.shape[1:]) or [1]}, but {INFO} says {list(shape)}."
        )
    if values.dtype.kind == "f":
        for i in np.flatnonzero(~np.isfinite(values).reshape(len(values), -1).all(axis=1))[:1]:
            raise RciError(f"{block.where(i, name)} is not finite: {values[i].tolist()}.")
    return values.reshape(len(values)) if shape == (1,) else values


def _single(block: Block, name: str) -> Array | None:
    return _column(block, name, (1,)) if name else None


def _flags(block: Block, name: str) -> Array:
    """Flags; none without such a feature."""
    if not name:
        return np.zeros(len(block.lines), bool)
    values = _column(block, name, (1,))
    return flags(values, f"{block.path}, column {name!r}", int(block.lines[0])) != 0
