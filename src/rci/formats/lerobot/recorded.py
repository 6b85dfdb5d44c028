"""The episodes of a LeRobot folder as `meta/episodes` lists them: how long, which task, in which files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.errors import RciError
from rci.formats.importing.imported import damaged
from rci.formats.lerobot.info import Info, place_of
from rci.formats.tables.parquet import parquet_batches, parquet_columns
from rci.formats.tables.text import json_blocks

LINES = "meta/episodes.jsonl"  # before v3.0
TABLES = "meta/episodes"
LAST = "last_observation"  # what was seen after the last action: RCI writes it, LeRobot has no place for it
MOST_STEPS = 1 << 48


class Recorded(NamedTuple):
    """One episode."""

    number: int  # its episode_index
    length: int
    tasks: tuple[str, ...]
    data: Path
    last: list[float] | None = None  # what was seen after the last action


class Clip(NamedTuple):
    """Where an episode is in a video: from a time on, in seconds; to a time where the folder says so."""

    path: Path
    begin: float = 0.0
    end: float | None = None


def read_recorded(info: Info, camera: str | None = None) -> tuple[list[Recorded], list[Clip]]:
    """The episodes in order of their numbers, and where a camera has them."""
    rows = list(_table_rows(info, camera) if info.by_file else _line_rows(info))
    rows.sort(key=lambda row: row[1]["episode_index"])
    found: list[Recorded] = []
    clips = []
    for where, row in rows:
        if found and found[-1].number == row["episode_index"]:
            raise RciError(f"{where}: episode {row['episode_index']} is listed twice.")
        found.append(_recorded(info, where, row))
        if camera is not None:
            clips.append(_clip(info, where, row, camera))
    if not found:
        raise RciError(f"{info.root} has no episodes: at least one is needed.")
    return found, clips


def tables_of(info: Info) -> list[Path]:
    """The files that list the episodes."""
    if not info.by_file:
        return [_existing(place_of(info.root, LINES))]
    folder = place_of(info.root, TABLES)
    names = sorted(str(path.relative_to(info.root)) for path in folder.glob("*/*.parquet"))
    if not names:
        raise RciError(
            f"there are no Parquet files in {folder}, which list the episodes of a LeRobot folder."
        )
    return [place_of(info.root, name) for name in names]


def _line_rows(info: Info) -> Iterator[tuple[str, dict[str, Any]]]:
    (path,) = tables_of(info)
    for block in json_blocks(path, ["episode_index", "length", "tasks", LAST]):
        for i, line in enumerate(block.lines):
            row = {name: column[i] for name, column in block.columns.items()}
            yield _checked(f"{path}, line {line}", row)


def _table_rows(info: Info, camera: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    needed = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    if camera is not None:
        needed += [
            f"videos/{camera}/{name}"
            for name in ("chunk_index", "file_index", "from_timestamp", "to_timestamp")
        ]
    for path in tables_of(info):
        columns = parquet_columns(path)
        for name in needed:
            if name not in columns:
                raise RciError(f"{path} has no column {name!r}, so nobody can tell where an episode is.")
        chosen = needed + [name for name in ("tasks", LAST) if name in columns]
        count = 0
        for batch in parquet_batches(path, chosen):
            with damaged(f"{path} is damaged"):
                rows = batch.to_pylist()
            for row in rows:
                yield _checked(f"{path}, row {count}", row)
                count += 1


def _checked(where: str, row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A row whose counts are counts."""
    for name in (
        "episode_index",
        "length",
        *(name for name in row if name.endswith(("chunk_index", "file_index"))),
    ):
        value = row[name]
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MOST_STEPS:
            raise RciError(f"{where}: {name} must be a whole number from 0 on, got {str(value)[:40]}.")
    if row["length"] < 1:
        raise RciError(f"{where}: episode {row['episode_index']} has no frames; remove it.")
    return where, row


def _recorded(info: Info, where: str, row: dict[str, Any]) -> Recorded:
    number = row["episode_index"]
    if info.by_file:
        data = info.place(
            info.data_path, chunk_index=row["data/chunk_index"], file_index=row["data/file_index"]
        )
    else:
        data = info.place(info.data_path, episode_chunk=number // info.chunks_size, episode_index=number)
    tasks = row.get("tasks")
    tasks = [] if tasks is None else [tasks] if isinstance(tasks, str) else tasks
    if not isinstance(tasks, list) or not all(isinstance(task, str) for task in tasks):
        raise RciError(f"{where}: tasks must be a list of texts, got {str(tasks)[:80]}.")
    last = row.get(LAST)
    if last is not None and not (
        isinstance(last, list) and all(isinstance(n, int | float) and not isinstance(n, bool) for n in last)
    ):
        raise RciError(f"{where}: {LAST} must be a list of numbers, got {str(last)[:80]}.")
    return Recorded(number, row["length"], tuple(tasks), data, last)


def _clip(info: Info, where: str, row: dict[str, Any], camera: str) -> Clip:
    number = row["episode_index"]
    if not info.by_file:
        chunk = number // info.chunks_size
        return Clip(info.place(info.video_path, episode_chunk=chunk, episode_index=number, video_key=camera))
    begin, end = (row[f"videos/{camera}/{name}_timestamp"] for name in ("from", "to"))
    for value in (begin, end):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
            raise RciError(
                f"{where}: the times of {camera!r} must be seconds from 0 on, got {str(value)[:40]}."
            )
    chunk, file = (row[f"videos/{camera}/{name}_index"] for name in ("chunk", "file"))
    path = info.place(info.video_path, chunk_index=chunk, file_index=file, video_key=camera)
    return Clip(path, float(begin), float(end))


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise RciError(f"there is no file {path}, which a LeRobot folder has.")
    return path
