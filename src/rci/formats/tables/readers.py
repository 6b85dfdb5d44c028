"""The tables at a place: CSV, JSON lines or Parquet, a file or a folder of them, read block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rci.data.disk.files import saying
from rci.data.errors import RciError
from rci.formats.importing.imported import CHUNK_BYTES
from rci.formats.tables.block import Block
from rci.formats.tables.parquet import parquet_blocks, parquet_columns, parquet_rows
from rci.formats.tables.text import csv_blocks, csv_columns, json_blocks, json_columns

COLUMNS = {".csv": csv_columns, ".jsonl": json_columns, ".parquet": parquet_columns}
BLOCKS = {".csv": csv_blocks, ".jsonl": json_blocks, ".parquet": parquet_blocks}


def files_of(path: Path) -> tuple[list[Path], list[str]]:
    """The table at `path`, or all tables of one kind in a folder, sorted by name; names of files that are none."""
    suffixes = ", ".join(BLOCKS)
    if path.is_file():
        if path.suffix.lower() not in BLOCKS:
            raise RciError(
                f"logs are read from {suffixes} files, not from {path.name}: convert or unpack it."
            )
        return [path], []
    if not path.is_dir():
        raise RciError(f"there is nothing at {path}.")
    inside = sorted(p for p in path.iterdir() if p.is_file() and not p.name.startswith("."))
    tables = [p for p in inside if p.suffix.lower() in BLOCKS]
    if not tables:
        raise RciError(f"there are no {suffixes} files in {path}.")
    kinds = sorted({p.suffix.lower() for p in tables})
    if len(kinds) > 1:
        raise RciError(
            f"{path} has files of several kinds, {' and '.join(kinds)}; keep one kind in a folder."
        )
    return tables, [p.name for p in inside if p not in tables]


def has_tables(folder: Path) -> bool:
    """Whether there are tables right in the folder."""
    return any(path.suffix.lower() in BLOCKS and path.is_file() for path in folder.iterdir())


def columns_of(path: Path) -> list[str]:
    """The names of the columns of a file, in its order."""
    return COLUMNS[path.suffix.lower()](path)


def check_columns(path: Path, names: Sequence[str], other: Path | str = "another one") -> None:
    """Refuse a file that lacks a column which another file of its folder has."""
    present = columns_of(path)
    lacking = [name for name in names if name not in present]
    if lacking:
        raise RciError(
            f"{path} has no column {', '.join(map(repr, lacking))}, which {other} has; all files must have the same "
            f"columns. It has: {', '.join(present)}."
        )


def count_rows(path: Path) -> int:
    """About how many rows a file has."""
    if path.suffix.lower() == ".parquet":
        return parquet_rows(path)
    with saying("read", path), open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(CHUNK_BYTES), b""))


def blocks_of(path: Path, names: Sequence[str], first: int = 0) -> Iterator[Block]:
    """The rows of a file from the first one on, with these columns, in blocks. Text has to be read to be skipped."""
    rows = 0
    for block in BLOCKS[path.suffix.lower()](path, names, first):
        rows += len(block.lines)
        if len(block.lines):
            yield block
    if rows == 0:
        raise RciError(f"{path} has no rows.")
