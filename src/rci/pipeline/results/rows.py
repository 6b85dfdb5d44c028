"""Rows of numbers that a study writes as they come and goes on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rci.data.errors import RciError

Row = dict[str, Any]
RESULTS = Path("results")  # where rows are kept unless somewhere else is named; reports look for them here


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, none if it is not there yet."""
    try:
        rows = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise RciError(f"the rows of {file} cannot be read: {error}.") from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise RciError(f"{file} does not hold rows: it should be a list of objects.")
    return rows
