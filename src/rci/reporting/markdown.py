"""The table of results as Markdown, to be pasted into a README or an issue."""

from __future__ import annotations

from rci.reporting.contents import ReportInput
from rci.reporting.summary import ResultRow, column_places, fixed, interval, number, percent, result_rows

HEADERS = (
    "method", "budget", "violation rate", "95% interval", "over seeds", "return", "return until violation",
    "violations, ratio to reward-only", "return, p against reward-only",
)  # fmt: skip


def result_table(report: ReportInput) -> str:
    """One line per method and budget."""
    rows = result_rows(report)
    places = column_places([row.mean_return for row in rows])
    lines = [HEADERS, ("---",) * len(HEADERS), *(_cells(row, places) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cells(row: ResultRow, places: int) -> tuple[str, ...]:
    against = row.contrast
    ratio = p = ""
    if against is not None:
        ratio = f"{number(against.ratio)} ({number(against.ratio_low)} to {number(against.ratio_high)})"
        p = number(against.return_p)
    return (
        row.method,
        row.asked,
        percent(row.violation_rate),
        interval(row),
        f"{percent(min(row.seed_violation_rates))} to {percent(max(row.seed_violation_rates))}",
        _with_error(row.mean_return, row.return_error, places),
        _with_error(row.return_until_violation, row.until_violation_error, places),
        ratio,
        p,
    )


def _with_error(value: float, error: float | None, places: int) -> str:
    return fixed(value, places) if error is None else f"{fixed(value, places)} ± {fixed(error, places)}"
