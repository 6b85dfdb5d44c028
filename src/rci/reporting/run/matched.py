"""Methods at the same return: how safe is each where it keeps a share of what reward-only earns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rci.reporting.run.rows import ResultRow

MATCHED_SHARES = (0.95, 0.8, 0.5)  # of reward-only's return


class MatchedRow(NamedTuple):
    """The safest budget of a method that keeps a share of reward-only's return."""

    method: str
    share: float
    row: ResultRow | None  # None where no budget keeps so much


def matched_rows(rows: Sequence[ResultRow]) -> list[MatchedRow]:
    """Methods at the same return: for each share and method, the budget with the fewest violations that keeps it."""
    methods = [name for name in dict.fromkeys(row.method for row in rows) if name != "reward-only"]
    with_return = [(row, row.return_kept) for row in rows if row.return_kept is not None]
    if not with_return:
        return []
    return [
        MatchedRow(
            method,
            share,
            _safest([row for row, kept in with_return if row.method == method and kept >= share]),
        )
        for share in MATCHED_SHARES
        for method in methods
    ]


def _safest(rows: Sequence[ResultRow]) -> ResultRow | None:
    return min(rows, key=lambda row: row.violation_rate, default=None)
