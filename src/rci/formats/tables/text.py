"""Tables as text: CSV with a header, and JSON lines with one object per row."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.disk.files import saying
from rci.data.errors import RciError
from rci.formats.tables.block import BLOCK_ROWS, Block

BLOCK_TEXT = 1 << 23  # characters of rows that are held at a time
LONGEST_LINE = 1 << 24  # characters


def csv_columns(path: Path) -> list[str]:
    """The header of a CSV file."""
    with _text(path) as file:
        return [name for name in _header(path, csv.reader(file, delimiter=_delimiter(path))) if name]


def json_columns(path: Path) -> list[str]:
    """Names in any of the lines: a JSON object may leave out what is empty, so all are looked at."""
    names: dict[str, None] = {}
    for _, row, _ in _json_rows(path):
        names.update(dict.fromkeys(row))
    if not names:
        raise RciError(f"{path} has no rows.")
    return list(names)


def csv_blocks(path: Path, names: Sequence[str], first: int = 0) -> Iterator[Block]:
    """Rows of a CSV file."""
    delimiter = _delimiter(path)
    with _text(path) as file:
        reader = csv.reader(_lines(path, file), delimiter=delimiter)
        header = _header(path, reader)
        chosen = {name: header.index(name) for name in names}
        rows: list[list[str]] = []
        lines: list[int] = []
        size = 0
        for row in islice(filter(None, reader), first, None):
            if len(row) != len(header):
                raise RciError(
                    f"{path}, line {reader.line_num} has {len(row)} fields, but there are {len(header)} columns."
                )
            rows.append(row)
            lines.append(reader.line_num)
            size += sum(map(len, row))
            if len(rows) == BLOCK_ROWS or size >= BLOCK_TEXT:
                yield _block(path, chosen, rows, lines)
                rows, lines, size = [], [], 0
        yield _block(path, chosen, rows, lines)


def json_blocks(path: Path, names: Sequence[str], first: int = 0) -> Iterator[Block]:
    """Rows of a file of JSON lines."""
    rows: list[dict[str, Any]] = []
    lines: list[int] = []
    size = 0

    def block() -> Block:
        return Block(path, {name: [row.get(name) for row in rows] for name in names}, np.array(lines))

    for number, row, length in islice(_json_rows(path), first, None):
        rows.append(row)
        lines.append(number)
        size += length
        if len(rows) == BLOCK_ROWS or size >= BLOCK_TEXT:
            yield block()
            rows, lines, size = [], [], 0
    yield block()


def _block(path: Path, chosen: dict[str, int], rows: list[list[str]], lines: list[int]) -> Block:
    columns = list(zip(*rows)) if rows else [()] * (max(chosen.values()) + 1)
    return Block(path, {name: list(columns[i]) for name, i in chosen.items()}, np.array(lines))


@contextmanager
def _text(path: Path) -> Iterator[Any]:
    """A text file; spreadsheets like to put a mark at the beginning."""
    try:
        with saying("read", path), open(path, encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise RciError(f"{path} is not UTF-8 text: {error}. Save it again as UTF-8.") from None
    except csv.Error as error:
        raise RciError(f"{path} is not CSV: {error}.") from None


def _delimiter(path: Path) -> str:
    with _text(path) as file:
        header = file.readline(1 << 16)
    return max(",;\t", key=header.count)


def _header(path: Path, reader: Any) -> list[str]:
    names = [name.strip() for name in next(reader, [])]
    if not any(names):
        raise RciError(f"{path} is empty: its first line must name the columns.")
    if "\0" in "".join(names):
        raise RciError(f"{path} is not UTF-8 text: it looks like UTF-16. Save it again as UTF-8.")
    for name in names:
        if len(name.splitlines()) > 1:
            raise RciError(f"{path}: a quote in the first line, at {name[:20]!r}, is not closed.")
    for name in filter(None, names):  # columns without a name are not read, however many there are
        if names.count(name) > 1:
            raise RciError(f"{path}: two columns have the name {name!r}.")
    return names


def _lines(path: Path, file: Any) -> Iterator[str]:
    """The lines of a text, none of them endless: what was not written to its end may be zeros, gigabytes of them."""
    for number in count(1):
        line = file.readline(LONGEST_LINE)
        if len(line) == LONGEST_LINE:
            raise RciError(
                f"{path}, line {number} is longer than {LONGEST_LINE} characters; write one row per line, or store "
                "long rows as Parquet."
            )
        if not line:
            return
        yield line


def _json_rows(path: Path) -> Iterator[tuple[int, dict[str, Any], int]]:
    """The number of each line, what is in it, and how long it is."""
    with _text(path) as file:
        for number, line in enumerate(_lines(path, file), 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise RciError(f"{path}, line {number} must be a JSON object, got {line.strip()[:80]}.")
                flat = dict(_dotted(row))
            except RciError:
                raise
            except (ValueError, RecursionError) as error:
                raise RciError(f"{path}, line {number} is not JSON: {error}.") from None
            yield number, flat, len(line)


def _dotted(row: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """{"obs": {"x": 1}} as obs.x = 1."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
