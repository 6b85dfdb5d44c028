"""A LeRobot folder written again with columns added to its frames; everything else in it stays as it is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.artefacts.episodes import Episodes
from rci.data.disk.files import replacing
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import Progress, damaged, optional
from rci.formats.lerobot.columns import feature
from rci.formats.lerobot.info import INFO, Info, place_of, read_info, read_json
from rci.formats.lerobot.layout import EPISODE_STATISTICS, STATISTICS, write_json
from rci.formats.lerobot.recorded import Recorded, read_recorded, tables_of
from rci.formats.lerobot.source import EPISODE
from rci.formats.lerobot.statistics import QUANTILES, Statistics, as_columns, joined, statistics
from rci.formats.tables.parquet import parquet_batches, parquet_schema

ACTION = "action"
HUGGINGFACE = b"huggingface"  # in the metadata of a Parquet file: what its columns are


def rewrite_folder(
    target: Path, source: Path, episodes: Episodes, added: dict[str, Array], progress: Progress
) -> Path:
    """Write the folder `source` as `target`, with a number of each of `added` in every frame.

    episodes: those that were read from it. Columns of these names that are there already are replaced.
    """
    info = read_info(source)
    recorded, _ = read_recorded(info)
    rows_of = _match(info, recorded, episodes)
    if not added:
        raise RciError("there is nothing to add to the frames; give labels, step costs or a risk.")
    if target.resolve().is_relative_to(source.resolve()):
        raise RciError(f"{target} is inside of {source}, which is read; write to another place.")
    tables, data = tables_of(info), list(dict.fromkeys(episode.data for episode in recorded))
    described = [place_of(source, name) for name in (INFO, STATISTICS, EPISODE_STATISTICS)]
    parts = {
        episode.number: {name: values[rows] for name, values in added.items()}
        for episode, rows in zip(recorded, rows_of)
    }
    with replacing(target) as temporary:
        temporary.mkdir()
        _copy_others(
            source,
            temporary,
            {path.resolve() for path in [*data, *described, *(tables if info.by_file else ())]},
        )
        for number, path in enumerate(data):
            place = _inside(path, source, temporary)
            _add_to_frames(path, place, recorded, rows_of, episodes, added)
            progress((number + 1) / len(data))
        by_episode = {
            number: {n: statistics(v, info.by_file) for n, v in columns.items()}
            for number, columns in parts.items()
        }
        _add_to_statistics(info, temporary, tables, by_episode, list(added))
        features = {name: entry for name, entry in info.table["features"].items() if name not in added}
        features |= {name: feature(name, values) for name, values in added.items()}
        write_json(temporary / INFO, {**info.table, "features": features})
    return target


def _match(info: Info, recorded: list[Recorded], episodes: Episodes) -> list[slice]:
    """The steps of the episodes that a folder lists, which must be all of them."""
    keys = episodes.keys.get(EPISODE) or [str(episode.number) for episode in recorded[: len(episodes)]]
    position = {key: i for i, key in enumerate(keys)}
    missing = [episode.number for episode in recorded if str(episode.number) not in position]
    if missing or len(recorded) != len(episodes):
        raise RciError(
            f"{info.root} has {len(recorded)} episodes, but {len(episodes)} are given"
            + (f", without number {missing[0]}" if missing else "")
            + "; it is written again with numbers for all of them only."
        )
    found = []
    for episode in recorded:
        i = position[str(episode.number)]
        if episodes.lengths[i] != episode.length:
            raise RciError(
                f"{info.root}: episode {episode.number} has {episode.length} frames there, but {episodes.lengths[i]} "
                "steps here; these episodes were not read from this folder."
            )
        found.append(slice(int(episodes.step_offset[i]), int(episodes.step_offset[i + 1])))
    return found


def _inside(path: Path, source: Path, target: Path) -> Path:
    place = target / path.relative_to(source)
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _copy_others(source: Path, target: Path, without: set[Path]) -> None:
    """Everything but some files; videos are linked where the file system can, as nobody changes them."""

    def refuse(error: OSError) -> None:
        raise RciError(f"cannot read {error.filename}: {error.strerror}.") from error

    for folder, inner, names in os.walk(source, onerror=refuse):
        inner[:] = [name for name in inner if not name.startswith(".")]  # caches of downloads
        for name in [*inner, *names]:
            path = place_of(source, str((Path(folder) / name).relative_to(source)))
            if path.is_symlink() and path.is_dir():
                raise RciError(f"{path} is a link to a folder; put the folder itself there.")
            if path.is_dir() or name.startswith(".") or path.resolve() in without:
                continue
            place = _inside(path, source, target)
            if path.suffix.lower() == ".mp4":
                try:
                    os.link(path.resolve(), place)
                    continue
                except OSError:
                    pass
            if not path.is_file():
                raise RciError(f"{path} is not a plain file; a LeRobot folder has others nowhere.")
            shutil.copyfile(path, place)


def _add_to_frames(
    path: Path,
    place: Path,
    recorded: list[Recorded],
    rows_of: list[slice],
    episodes: Episodes,
    added: dict[str, Array],
) -> None:
    """One file of frames, with all columns that it has."""
    arrow, parquet = optional("pyarrow", "pyarrow"), optional("pyarrow.parquet", "pyarrow")
    chosen = [i for i, episode in enumerate(recorded) if episode.data == path]
    numbers = np.array([recorded[i].number for i in chosen])
    begin, end = (np.array([getattr(rows_of[i], name) for i in chosen]) for name in ("start", "stop"))
    schema = _extended(arrow, parquet_schema(path), added)
    count = 0
    with parquet.ParquetWriter(place, schema) as writer:
        for batch in parquet_batches(path):
            episode, frame = (_counted(path, batch, name) for name in ("episode_index", "frame_index"))
            at = np.minimum(np.searchsorted(numbers, episode), len(numbers) - 1)
            rows = begin[at] + frame
            if not ((numbers[at] == episode) & (frame >= 0) & (rows < end[at])).all():
                raise RciError(f"{path} has frames of other episodes than the list of episodes says.")
            _same_actions(path, batch, episodes.action[rows])
            count += len(batch)
            arrays = [
                arrow.array(added[field.name][rows]) if field.name in added else batch.column(field.name)
                for field in schema
            ]
            with damaged(f"{path} cannot be written again", arrow.ArrowException):
                writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    if count != int((end - begin).sum()):
        raise RciError(f"{path} has {count} frames, but its episodes have {int((end - begin).sum())}.")


def _counted(path: Path, batch: Any, name: str) -> Array:
    """A column of whole numbers."""
    column = batch.column(name) if name in batch.schema.names else None
    if (
        column is None
        or column.null_count
        or not optional("pyarrow", "pyarrow").types.is_integer(column.type)
    ):
        raise RciError(f"{path} must have a column {name!r} of whole numbers, nothing missing.")
    values: Array = column.to_numpy(zero_copy_only=False).astype(np.int64)
    return values


def _same_actions(path: Path, batch: Any, action: Array) -> None:
    """Refuse a folder in which something else was done, as far as its column of actions can be compared."""
    arrow = optional("pyarrow", "pyarrow")
    if ACTION not in batch.schema.names:
        return
    column = batch.column(ACTION)
    flat = column.flatten() if hasattr(column, "flatten") and arrow.types.is_nested(column.type) else column
    alike = isinstance(flat, arrow.Array) and len(flat) == action.size
    if not alike or flat.type != arrow.from_numpy_dtype(action.dtype):
        return  # the actions of these episodes are other features
    if not np.array_equal(flat.to_numpy(zero_copy_only=False), action.reshape(-1)):
        raise RciError(f"{path} has other actions than these episodes; they were not read from this folder.")


def _extended(arrow: Any, schema: Any, added: dict[str, Array]) -> Any:
    """The columns of a file with those added, in its own order; replaced ones go to the end."""
    fields = [field for field in schema if field.name not in added]
    fields += [arrow.field(name, arrow.from_numpy_dtype(values.dtype)) for name, values in added.items()]
    metadata = dict(schema.metadata or {})
    try:
        described = json.loads(metadata[HUGGINGFACE])
        columns = described["info"]["features"]
        for name, values in added.items():
            columns[name] = {"dtype": values.dtype.name, "_type": "Value"}
        metadata[HUGGINGFACE] = json.dumps(described).encode()
    except (LookupError, TypeError, ValueError, RecursionError):
        metadata.pop(HUGGINGFACE, None)  # it would not fit the columns
    return arrow.schema(fields, metadata)


def _add_to_statistics(
    info: Info,
    target: Path,
    tables: list[Path],
    by_episode: dict[int, dict[str, Statistics]],
    names: list[str],
) -> None:
    """Statistics of the added columns, wherever this version has some."""
    if info.by_file:
        for path in tables:
            _add_to_table(path, _inside(path, info.root, target), by_episode)
    elif (path := place_of(info.root, EPISODE_STATISTICS)).is_file():
        lines = [json.dumps(line) for line in _extended_lines(path, by_episode)]
        _inside(path, info.root, target).write_text("\n".join(lines) + "\n", encoding="utf-8")
    if (path := place_of(info.root, STATISTICS)).is_file():
        total = {name: joined([part[name] for part in by_episode.values()]) for name in names}
        write_json(_inside(path, info.root, target), {**read_json(path), **total})


def _add_to_table(path: Path, place: Path, by_episode: dict[int, dict[str, Statistics]]) -> None:
    """A file of `meta/episodes`."""
    arrow, parquet = optional("pyarrow", "pyarrow"), optional("pyarrow.parquet", "pyarrow")
    schema = parquet_schema(path)
    with damaged(f"{path} cannot be written again", arrow.ArrowException):
        table = arrow.Table.from_batches(list(parquet_batches(path)), schema=schema)
        listed = [as_columns(by_episode[number]) for number in table.column("episode_index").to_pylist()]
        quantiles = any(name.rsplit("/", 1)[-1] in QUANTILES for name in schema.names)
        for name in listed[0] if listed else ():
            if name in table.column_names:
                table = table.drop_columns(name)
            if quantiles or name.rsplit("/", 1)[-1] not in QUANTILES:
                table = table.append_column(name, arrow.array([row[name] for row in listed]))
        parquet.write_table(table, place)


def _extended_lines(path: Path, by_episode: dict[int, dict[str, Statistics]]) -> Iterator[dict[str, Any]]:
    """The lines of `meta/episodes_stats.jsonl`."""
    with damaged(f"{path} is damaged", RecursionError):
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            yield {**line, "stats": {**line["stats"], **by_episode[line["episode_index"]]}}
