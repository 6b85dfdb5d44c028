"""Methods at the same return: how safe is each where it keeps a share of what reward-only earns."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from rci.reporting.markup import method_name, table
from rci.reporting.palette import Look
from rci.reporting.summary import ResultRow, interval, percent, signed_percent

MATCHED_SHARES = (0.95, 0.8, 0.5)  # of reward-only's return


class MatchedRow(NamedTuple):
    """The safest budget of a method that keeps a share of reward-only's return."""

    method: str
    share: float
    row: ResultRow | None  # None where no budget keeps so much


def matched_rows(rows: Sequence[ResultRow]) -> list[MatchedRow]:
    """Methods at the same return: for each share and method, the budget with the fewest violations that keeps it."""
    methods = [m for m in dict.fromkeys(row.method for row in rows) if m != "reward-only"]
    if all(row.return_kept is None for row in rows):
        return []
    return [
        MatchedRow(
            method,
            share,
            min(
                (
                    r
                    for r in rows
                    if r.method == method and r.return_kept is not None and r.return_kept >= share
                ),
                key=lambda row: row.violation_rate,
                default=None,
            ),
        )
        for share in MATCHED_SHARES
        for method in methods
    ]


def matched_table(rows: Sequence[ResultRow], style: dict[str, Look]) -> str:
    """Methods at the same return, where several are compared."""
    lines = matched_rows(rows)
    if not lines:
        return ""
    return table(
        "At the same return",
        ("method", "return at least", "budget", "violation rate", "interval", "return"),
        [
            [method_name(line.method, style[line.method]), percent(line.share), *_matched_cells(line.row)]
            for line in lines
        ],
        note="Returns as shares of reward-only's. For each method the budget with the fewest violations among those "
        "that keep so much of the return. It is picked after the test, from a few budgets, so it flatters all methods "
        "alike: a comparison, no forecast.",
    )


def _matched_cells(row: ResultRow | None) -> list[str]:
    if row is None or row.return_kept is None:
        return ["none", "–", "–", "–"]
    return [escape(row.asked), percent(row.violation_rate), interval(row), signed_percent(row.return_kept)]
