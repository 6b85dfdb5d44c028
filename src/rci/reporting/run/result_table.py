"""The table of results as Markdown, to be pasted into a README or an issue."""

from __future__ import annotations

from rci.reporting.markdown import table
from rci.reporting.numbers import column_decimals, interval, number, percent, with_error
from rci.reporting.run.contents import ReportInput
from rci.reporting.run.rows import ResultRow, result_rows

HEADERS = (
    "method", "budget", "violation rate", "95% interval", "over seeds", "return", "return until violation",
    "violations, ratio to reward-only", "return, p against reward-only",
)  # fmt: skip


CHANNEL_HEADERS = ("method", "budget", "channel", "violation rate", "95% interval", "threshold", "multiplier")


def result_table(report: ReportInput) -> str:
    """One line per method and budget; below, where there are several kinds of danger, one per kind as well."""
    rows = result_rows(report)
    decimals = column_decimals([row.mean_return for row in rows])
    text = table(HEADERS, [_cells(row, decimals) for row in rows])
    by_channel = [
        (
            row.method, channel.asked, channel.channel, percent(channel.violation_rate), interval(channel),
            number(channel.threshold), number(channel.multiplier),
        )
        for row in rows
        for channel in row.channels
    ]  # fmt: skip
    return f"{text}\n{table(CHANNEL_HEADERS, by_channel)}" if by_channel else text


def _cells(row: ResultRow, decimals: int) -> tuple[str, ...]:
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
        with_error(row.mean_return, row.return_error, decimals),
        with_error(row.return_until_violation, row.until_violation_error, decimals),
        ratio,
        p,
    )
