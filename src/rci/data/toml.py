"""TOML that somebody else may have written."""

from __future__ import annotations

import re
import tomllib
from typing import Any

MOST_PARTS = 64  # of a dotted key; the standard library takes memory with their square
NAME = r"""(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')"""
LONG_KEY = re.compile(rf"(?<![\w-])(?:{NAME}[ \t]*\.[ \t]*){{{MOST_PARTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML text; whatever is wrong with it is a ValueError."""
    if LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
