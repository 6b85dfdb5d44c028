"""The table of results as Markdown, to be pasted into a README or an issue."""

from __future__ import annotations

from collections.abc import Sequence


def table(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headers, ["---"] * len(headers), *cells]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
