"""Shards: Parquet files of whole episodes. What is in them, which episodes models are fitted to, what is done already.

A survey of each shard knows its content by a hash and its episodes by 64 bits each, so that a fleet's episodes can be
drawn from, and none can be in two shards, without anybody reading all shards at once.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.code import code_digest
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.store import versions
from rci.formats.importing.imported import optional
from rci.formats.tables.block import Block, texts
from rci.formats.tables.guessing import resolve
from rci.formats.tables.log_rows import LogReader
from rci.formats.tables.mapping import SINGLE, ColumnNames, read_mapping
from rci.formats.tables.parquet import (
    parquet_batches,
    parquet_columns,
    parquet_metadata,
    parquet_rows,
    parquet_schema,
)
from rci.formats.tables.readers import blocks_of, check_columns
from rci.shards.remote_file import File, below, file_state, is_address, names_in, read_small, reading

FORMAT = 1  # of output shards and surveys
KEY, FACTS = b"rci.key", b"rci"  # in the metadata of an output shard
COLUMNS = ("cost", "cost_sparse", "stopped")  # as `write_parquet` names them
ENDING = ".parquet"  # of the names of shards
READ = 1 << 22  # bytes that are hashed at a time


@dataclass(frozen=True)
class Survey:
    """What is known of a shard. `size` and `time` show whether it is still the same file."""

    size: int
    time: int  # of the last change, in nanoseconds
    content: str  # sha256
    rows: int
    ids: Array  # [episodes] uint64: by name, or by number where episodes have no names

    def save(self, made_by: str) -> bytes:
        """As a file; `made_by` stands for the code and the columns."""
        fields = {**asdict(self), "ids": self.ids.astype("<u8").tobytes().hex(), "made_by": made_by}
        return json.dumps(fields).encode()


def read_survey(file: File, shard: File, made_by: str) -> Survey | None:
    """A survey that was kept, if it is of the shard as it is now."""
    try:
        fields = json.loads(read_small(file))
        if fields.pop("made_by") != made_by or (fields["size"], fields["time"]) != file_state(shard):
            return None
        ids = np.frombuffer(bytes.fromhex(fields.pop("ids")), "<u8")
        return Survey(**fields, ids=ids)
    except (RciError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def survey(shard: File, names: ColumnNames) -> Survey:
    """Read a shard once, only its column of episodes, and hash its bytes."""
    size, time = file_state(shard)
    with reading(shard) as path:
        check_columns(path, names.used())
        ids = np.array([_id(name) for name in episode_names(path, names)], np.uint64)
        rows, content = parquet_rows(path), file_digest(path)
    if file_state(shard) != (size, time):
        raise RciError(f"{shard} was changed while it was read.")
    return Survey(size, time, content, rows, ids)


def find_shards(folder: Path | str) -> list[File]:
    """The Parquet files of a folder or address, by name."""
    if not is_address(folder):
        _check_folder(Path(folder))
    found = [below(folder, name) for name in shown_in(folder) if name.endswith(ENDING)]
    if not found:
        raise RciError(f"there are no {ENDING} files in {folder}.")
    return found


def shown_in(folder: Path | str) -> list[str]:
    """The names of what is in a folder or below an address, but for hidden ones."""
    return [name for name in names_in(folder) if not name.startswith(".")]


def _check_folder(folder: Path) -> None:
    if folder.is_file():
        raise RciError(f"{folder} is a file; shards are the Parquet files of a folder.")
    if not folder.is_dir():
        raise RciError(f"there is nothing at {folder}.")
    for name in shown_in(folder):
        try:
            name.encode()
        except UnicodeEncodeError:
            raise RciError(
                f"the name of {folder / name} is not text (UTF-8), so it cannot be opened; rename it."
            ) from None


def resolve_columns(
    shards: Sequence[File], mapping: Path | None, prefix: str
) -> tuple[ColumnNames, list[str]]:
    """Which column is what, by the mapping and the first shard that can be read; notes on what was guessed."""
    roles, columns, first = read_mapping(mapping), list[str](), shards[0]
    for first in shards:
        try:
            columns = parquet_columns(first)
            break
        except RciError:  # its own task reports it
            continue
    if not columns:
        raise RciError(f"none of the {len(shards)} files in {first.parent} can be read as Parquet.")
    names, notes = resolve(roles, columns, str(first))
    if not names.stop:
        raise RciError(
            f"{first}: no column says where episodes were stopped; say which it is in a mapping, as in stop = "
            f"'estop'. Names that are known: {', '.join(SINGLE['stop'])}. The columns are: {', '.join(columns)}."
        )
    if names.whole_runs:
        raise RciError(
            "shards are written back row by row, so missing, time, previous() and next() cannot be used in their "
            "mapping; import the logs with rci import."
        )
    check_new(first, columns, names, prefix)
    return names, notes


def check_new(shard: File, columns: Sequence[str], names: ColumnNames, prefix: str) -> None:
    """Refuse a shard that has a column of the name of a new one."""
    for name in new_columns(names, prefix):
        if name in columns:
            raise RciError(
                f"{shard} has a column {name!r} already, which is the name of a new one; give the new ones others, as "
                "in --prefix rci_."
            )


def new_columns(names: ColumnNames, prefix: str) -> dict[str, str]:
    """What output shards have beyond the columns of the input: name -> which one. A flag of that name stays."""
    found = {f"{prefix}{name}": name for name in COLUMNS}
    return {name: which for name, which in found.items() if (name, which) != (names.stop, "stopped")}


def episode_names(shard: Path, names: ColumnNames) -> Iterator[str]:
    """The episodes of a shard, in its order; numbers where no column names them."""
    if parquet_rows(shard) == 0:
        return
    if not names.episode:
        number = 0
        for _, ends, _ in LogReader(names).rows(shard, blocks_of(shard, names.read())):
            for _ in range(int(ends.sum())):
                yield str(number)
                number += 1
        return
    seen, last = set[str](), ""
    for name in _runs(shard, names.episode):
        if name == last and seen:
            continue
        if name in seen:
            raise RciError(
                f"{shard}: episode {name!r} comes twice; its rows must be together, so sort by {names.episode!r}."
            )
        seen.add(name)
        last = name
        yield name


def check_apart(surveys: Mapping[File, Survey], names: ColumnNames) -> None:
    """Refuse an episode that is in two shards."""
    if not names.episode or names.episodes_per_file or len(surveys) < 2:
        return
    shards = list(surveys)
    ids = np.concatenate([surveys[shard].ids for shard in shards])
    owner = np.repeat(np.arange(len(shards)), [len(surveys[shard].ids) for shard in shards])
    order = np.argsort(ids, kind="stable")
    for place in np.flatnonzero(ids[order][1:] == ids[order][:-1]):
        one, other = (shards[owner[order[place + i]]] for i in (0, 1))
        # 64 bits may agree by chance; then the names do not.
        for name in sorted(_names_of(one, names) & _names_of(other, names))[:1]:
            raise RciError(
                f"episode {name!r} is in {one} and in {other}; an episode must be in one shard as a whole. If they are "
                "different ones, say episodes_per_file = true in the mapping."
            )


def _names_of(shard: File, names: ColumnNames) -> set[str]:
    with reading(shard) as path:
        return set(episode_names(path, names))


def draw(surveys: Mapping[File, Survey], count: int, seed: int) -> dict[File, Array]:
    """Numbers of `count` episodes of all shards, by shard; whatever the order and wherever they are, the same ones."""

    def lots() -> Iterator[tuple[bytes, str, int, File]]:
        for shard, shard_survey in surveys.items():
            for number, episode in enumerate(shard_survey.ids.tolist()):
                lot = hashlib.blake2b(f"{seed}/{shard.name}/{episode}".encode(), digest_size=16)
                yield lot.digest(), shard.name, number, shard

    drawn = dict[File, list[int]]()
    for _, _, number, shard in heapq.nsmallest(count, lots()):
        drawn.setdefault(shard, []).append(number)
    return {shard: np.array(sorted(drawn[shard])) for shard in sorted(drawn, key=lambda own: own.name)}


def shard_key(content: str, models: str, names: ColumnNames, settings: Mapping[str, Any]) -> str:
    """Stands for all that an output shard is made from: the input, the models, the columns, the code."""
    return digest([FORMAT, content, models, asdict(names), dict(settings), made_by()])


def kept_facts(file: File, key: str) -> dict[str, Any] | None:
    """The facts in an output shard, if it is there and was made from what `key` stands for."""
    try:
        metadata = parquet_metadata(file)
        return json.loads(metadata[FACTS]) if metadata.get(KEY) == key.encode() else None
    except (RciError, KeyError, ValueError, RecursionError):
        return None


@cache
def made_by() -> str:
    """The code and the versions of packages that step costs depend on."""
    own = [(Path(__file__).parent / name).read_text() for name in ("listing.py", "chunks.py", "work.py")]
    packages = {**versions(()), "pyarrow": str(optional("pyarrow", "pyarrow").__version__)}
    return digest([code_digest(), packages, own])


def digest(value: Any) -> str:
    """sha256 of something plain."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """sha256 of the bytes of a file."""
    found = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while block := file.read(READ):
                found.update(block)
    except OSError as error:
        raise RciError(f"cannot read {path}: {error.strerror or error}.") from None
    return found.hexdigest()


def remove_stale_files(folders: Iterable[Path]) -> None:
    """Remove what killed writers left. Only for who has the folders for himself."""
    for folder in folders:
        for file in folder.glob(".*.tmp-*"):
            file.unlink(missing_ok=True)


def _runs(shard: Path, column: str) -> Iterator[str]:
    """The values of a column without those that follow an equal one in the same batch, as texts."""
    arrow, compute = optional("pyarrow", "pyarrow"), optional("pyarrow.compute", "pyarrow")
    whole = column if column in parquet_schema(shard).names else column.split(".")[0]
    first = 0
    for batch in parquet_batches(shard, [whole]):
        table = arrow.Table.from_batches([batch])
        table = table if column in table.column_names else table.flatten()
        values = arrow.concat_arrays(table.column(column).chunks)
        if arrow.types.is_dictionary(values.type):
            values = values.dictionary_decode()
        runs = compute.run_end_encode(values, run_end_type=arrow.int64())
        lines = first + np.concatenate([[0], runs.run_ends.to_numpy()[:-1]])
        yield from texts(Block(shard, {column: runs.values.to_pylist()}, lines), column)
        first += len(batch)


def _id(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
