"""Rows of numbers that a study writes as they come and goes on from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rci.data.errors import RciError

Row = dict[str, Any]


def read_rows(file: Path) -> list[Row]:
    """The rows of a file, none if it is not there yet."""
    try:
        return list(json.loads(file.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise RciError(f"{file} is damaged: {error}.") from None
