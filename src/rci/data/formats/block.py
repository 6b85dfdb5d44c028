"""Rows of a table of somebody else, as they come from the file; every value knows its file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array

BLOCK_ROWS = 1 << 14
EMPTY = ("", "none", "null", "nan", "na")
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}


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
        unit = "row" if self.path.suffix == ".parquet" else "line"
        return f"{self.path}, {unit} {self.lines[row]}, column {column!r}"


def numbers(block: Block, name: str) -> Numbers:
    """A column as numbers, [n] or [n, k], and where they are missing."""
    raw = block.columns[name]
    if isinstance(raw, Numbers):
        return raw
    try:  # nearly always every value is there
        array = np.array(raw, np.float64)
        if array.ndim == 1 and not np.isnan(array).any():
            return Numbers(array, np.zeros(len(raw), bool))
    except (ValueError, TypeError, OverflowError):
        pass
    missing = np.array([_is_empty(value) for value in raw], bool)
    vectors = [value for value in raw if isinstance(value, list)]
    blank: Any = [0.0] * len(vectors[0]) if vectors else 0.0
    values = [blank if empty else value for value, empty in zip(raw, missing)]
    try:
        array = np.array(values, np.float64)
        if array.ndim == (2 if vectors else 1):
            return Numbers(array, missing)
    except (ValueError, TypeError, OverflowError):
        pass
    return Numbers(_one_by_one(block, name, values, len(vectors[0]) if vectors else 0), missing)


def texts(block: Block, name: str) -> Array:
    """A column as texts, for names of episodes; 1 and 1.0 are the same."""
    raw = block.columns[name]
    values: list[Any] = raw if isinstance(raw, list) else raw.values.tolist()
    empty = [_is_empty(v) for v in values] if isinstance(raw, list) else raw.missing.tolist()
    for row, value in enumerate(values):
        if empty[row] or isinstance(value, list | dict):
            raise RciError(f"{block.where(row, name)} must name an episode, got {value!r}.")
    return np.array([_identity(value) for value in values], dtype=object)


def _identity(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _one_by_one(block: Block, name: str, values: list[Any], width: int) -> Array:
    """The slow way, which understands true and false, and finds the value that is no number."""
    found: list[float] = []
    for row, value in enumerate(values):
        try:
            if width:
                flat = isinstance(value, list) and len(value) == width
                if not flat or not all(isinstance(number, int | float) for number in value):
                    raise ValueError
                continue
            word = WORDS.get(value.strip().lower()) if isinstance(value, str) else None
            found.append(float(value) if word is None else word)
        except (ValueError, TypeError, OverflowError):
            wanted = f"a list of {width} numbers, as in the rows before" if width else "a number"
            raise RciError(f"{block.where(row, name)} must be {wanted}, got {str(value)[:80]!r}.") from None
    if width:
        raise RciError(f"{block.where(0, name)}: the lists are no numbers that fit together.")
    return np.array(found)


def _is_empty(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in EMPTY
    return value is None or (isinstance(value, float) and value != value)
