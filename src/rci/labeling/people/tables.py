"""Rows of CSV and JSONL files that people and spreadsheets write, and the numbers in them."""

from __future__ import annotations

import csv
import json
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rci.data.errors import RciError

MISSING: Any = object()  # a column that a row does not have


def read_rows(path: Path, what: str, if_empty: str) -> list[tuple[int, dict[str, Any]]]:
    """Every row of a .csv or .jsonl file with the number of its line; a column that a row lacks is MISSING.

    `what` the file should hold and what to do `if_empty` are for the messages.
    """
    if not path.is_file():
        raise RciError(f"there is no file {path}.")
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets like to put a mark at the beginning
    except (UnicodeDecodeError, OSError) as error:
        raise RciError(f"{path} cannot be read as UTF-8 text: {error}.") from None
    if path.suffix == ".csv":
        if not text.strip():
            raise RciError(f"{path} is empty; {if_empty}")
        reader = csv.DictReader(text.splitlines(), restval=MISSING, skipinitialspace=True)
        try:
            return [(reader.line_num, row) for row in reader]
        except csv.Error as error:
            raise RciError(f"{path} is not CSV after line {reader.line_num}: {error}.") from None
    if path.suffix != ".jsonl":
        raise RciError(f"{what} are read from .csv or .jsonl files, not from {path.name}.")
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RciError(f"{path}, line {number} is not JSON: {error}.") from None
        if not isinstance(row, dict):
            raise RciError(f"{path}, line {number} must be a JSON object, got {line.strip()}.")
        rows.append((number, row))
    return rows


def is_empty(value: Any) -> bool:
    """Whether a field says nothing, in any of the ways in which programs write that."""
    return str(value).strip().lower() in ("", "none", "null", "nan")


def whole_number(value: Any, where: str) -> int:
    """A whole number from a file, where everything may be text."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value) if isinstance(value, str | float) else operator.index(value)
        if number != int(number):
            raise ValueError
        return int(number)  # a column with gaps is often written as 4.0
    except (TypeError, ValueError, OverflowError):
        raise RciError(f"{where} must be a whole number, got {value!r}.") from None


def amount(value: Any, where: str) -> float:
    """A number from 0 on, from a file."""
    return _number(value, where, "from 0 on", lambda number: 0 <= number < math.inf)


def grade(value: Any, where: str) -> float:
    """How bad a stop was, from a file or a caller."""
    return _number(value, where, "above 0 and at most 1", lambda number: 0 < number <= 1)


def _number(value: Any, where: str, limits: str, fits: Callable[[float], bool]) -> float:
    try:
        if isinstance(value, bool) or not fits(number := float(value)):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise RciError(f"{where} must be a number {limits}, got {value!r}.") from None
    return number


def flag(value: Any, where: str) -> bool:
    """Yes or no, from a file: true and false as JSON, a spreadsheet or a program writes them."""
    word = str(value).strip().lower()
    if word not in ("true", "false", "1", "0"):
        raise RciError(f"{where} must be true or false, got {value!r}.")
    return word in ("true", "1")
