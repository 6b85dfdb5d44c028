"""Rows of a table of somebody else, as they come from the file; every value knows its file and line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array

BLOCK_ROWS = 1 << 14
EMPTY = ("", "none", "null", "nan", "na")
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
EXACT = 1 << 53  # larger whole numbers are rounded by float64


class Numbers(NamedTuple):
    """A column that the file itself says is numbers: [n] or [n, ...]. Missing ones are 0."""

    values: Array
    missing: Array


class Block(NamedTuple):
    """Consecutive rows of one file, by the name of the column: numbers, or a list of whatever was there."""

    path: Path
    columns: dict[str, list[Any] | Numbers]
    lines: Array  # where each row stands in the file

    def where(self, row: int, column: str) -> str:
        """File, line and column, for messages."""
        return f"{place(self.path, self.lines[row])}, column {column!r}"


def place(path: Path, line: int) -> str:
    """File and line, for messages; a binary table has rows instead of lines."""
    return f"{path}, {'row' if path.suffix.lower() == '.parquet' else 'line'} {line}"


def numbers(block: Block, name: str, wanted: str = "a number") -> Numbers:
    """A column as numbers, [n] or [n, k], and where they are missing. Messages say what was `wanted`."""
    raw = block.columns[name]
    if isinstance(raw, Numbers):
        return raw
    try:  # nearly always every value is there
        array = np.array(raw, np.float64)
        if array.ndim == 1 and not np.isnan(array).any():
            return Numbers(array, np.zeros(len(raw), bool))
    except (ValueError, TypeError, OverflowError):
        pass
    raw = [_unfolded(value) for value in raw]
    missing = np.array([is_empty(value) for value in raw], bool)
    vectors = [value for value in raw if isinstance(value, list)]
    blank: Any = [0.0] * len(vectors[0]) if vectors else 0.0
    values = [blank if empty else value for value, empty in zip(raw, missing)]
    try:
        array = np.array(values, np.float64)
        if array.ndim == (2 if vectors else 1):
            return Numbers(array, missing)
    except (ValueError, TypeError, OverflowError):
        pass
    if vectors:
        wanted = f"a list of {len(vectors[0])} numbers, as in other rows"
    return Numbers(_one_by_one(block, name, values, len(vectors[0]) if vectors else None, wanted), missing)


def large_whole_numbers(block: Block, name: str) -> Array | None:
    """A column of whole numbers without rounding, if some are so large that float64 would round them; else None."""
    raw = block.columns[name]
    if isinstance(raw, Numbers):
        return raw.values.astype(np.int64) if raw.values.dtype.kind in "iu" else None
    if not all(isinstance(value, str | int) for value in raw):
        return None
    try:
        exact = [int(value) for value in raw]
        return np.array(exact, np.int64) if max(map(abs, exact), default=0) > EXACT else None
    except (ValueError, OverflowError):
        return None


def texts(block: Block, name: str, required: bool = True) -> Array:
    """A column as texts, for names of episodes; 1 and 1.0 are the same. Unless `required`, empty ones are ""."""
    raw = block.columns[name]
    values: list[Any] = raw if isinstance(raw, list) else raw.values.tolist()
    empty = [is_empty(v) for v in values] if isinstance(raw, list) else raw.missing.tolist()
    for row, value in enumerate(values):
        if empty[row] and required:
            raise RciError(f"{block.where(row, name)} is missing: every row must name its episode.")
        if isinstance(value, list | dict):
            raise RciError(f"{block.where(row, name)} must name an episode, got {value!r}.")
    return np.array(["" if no else _identity(value) for value, no in zip(values, empty)], dtype=object)


def _identity(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _unfolded(value: Any) -> Any:
    """The text "[0.1, 0.2]" as a list: so a list looks in a CSV file."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            pass
    return value


def _one_by_one(block: Block, name: str, values: list[Any], width: int | None, wanted: str) -> Array:
    """The slow way, which understands true and false, and finds the value that cannot be read as a number."""
    found: list[Any] = []
    for row, value in enumerate(values):
        try:
            found.append(_number(value) if width is None else _list(value, width))
        except (ValueError, TypeError, OverflowError):
            comma = isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d*,\d+\s*", value)
            cure = ": write decimals with a point, not with a comma" if comma else ""
            raise RciError(
                f"{block.where(row, name)} must be {wanted}, got {str(value)[:80]!r}{cure}."
            ) from None
    return np.array(found, np.float64)


def _number(value: Any) -> float:
    word = WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    return float(value) if word is None else word


def _list(value: Any, width: int) -> list[float]:
    if not isinstance(value, list) or len(value) != width:
        raise ValueError
    if not all(isinstance(number, int | float) for number in value):
        raise TypeError
    return [float(number) for number in value]


def is_empty(value: Any) -> bool:
    """Whether nothing stands there."""
    if isinstance(value, str):
        return value.strip().lower() in EMPTY
    return value is None or (isinstance(value, float) and value != value)
