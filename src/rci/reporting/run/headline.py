"""The sentences at the top of a report."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rci.reporting.numbers import interval, number, percent, signed_percent
from rci.reporting.run.contents import ReportInput
from rci.reporting.run.rows import ResultRow, main_method, result_rows

VERDICTS = {
    "yes": "The budget was kept.",
    "no": "The budget was not kept.",
    "undecided": "Whether the budget was kept, this many episodes cannot tell.",
}


EARNING = 0.8  # of reward-only's return: what a useful policy keeps


def headline(report: ReportInput) -> list[str]:
    """The result in two or three sentences: the main method at its tightest budget, then the others there."""
    rows = result_rows(report)
    if not rows:
        return ["No policy was evaluated."]
    name = main_method(row.method for row in rows)
    main = next((row for row in rows if row.method == name), rows[0])
    asked = "" if math.isinf(main.budget) else f"With a budget of {main.asked}, "
    sentences = [
        f"{asked}{main.method} violated in {percent(main.violation_rate)} of {main.episodes:,} evaluation episodes "
        f"({interval(main)}) at a mean return of {number(main.mean_return)}{_share_kept(main)}."
    ]
    if main.idle:
        sentences.append("That is hardly more than random actions earn: it is safe because it does nothing.")
    sentences += safest_that_earns(rows)
    if main.channels:
        listed = ", ".join(f"{row.channel} {percent(row.violation_rate)}" for row in main.channels)
        sentences.append(f"By kind of danger: {listed}.")
    if main.budget_kept:
        sentences.append(VERDICTS[main.budget_kept])
    verdicts = [row.budget_kept for row in rows if row.method == main.method and row.budget_kept]
    if len(verdicts) > 1:
        sentences.append(
            f"Over {len(verdicts)} budgets: {verdicts.count('yes')} kept, {verdicts.count('no')} not kept, "
            f"{verdicts.count('undecided')} too close to tell."
        )
    others = [
        row
        for row in rows
        if row.method != main.method and (math.isinf(row.budget) or row.asked == main.asked)
    ]
    if others:
        listed = "; ".join(
            f"{row.method} {percent(row.violation_rate)} ({interval(row)}) at {number(row.mean_return)}"
            for row in others
        )
        sentences.append(f"In comparison: {listed}.")
    if report.reference:
        listed = ", or ".join(
            f"{percent(driver.violation_rate)} at {number(driver.mean_return)}"
            for driver in report.reference
            if driver.price != 0.0
        )
        sentences.append(f"What is possible when the danger is known: {listed}.")
    return sentences


def safest_that_earns(rows: Sequence[ResultRow]) -> list[str]:
    """Which policy violated least among those that still earn most of what reward-only does."""
    if len(rows) < 2 or all(row.return_kept is None for row in rows):
        return []
    earning = [row for row in rows if row.method != "reward-only" and (row.return_kept or 0.0) >= EARNING]
    if not earning:
        return [f"No budget kept {EARNING:.0%} of reward-only's return."]
    best = min(earning, key=lambda row: row.violation_rate)
    return [
        f"With {EARNING:.0%} or more of reward-only's return, {best.method} at a budget of {best.asked} violated "
        f"least: in {percent(best.violation_rate)} ({interval(best)})."
    ]


def _share_kept(row: ResultRow) -> str:
    if row.return_kept is None or row.method == "reward-only":
        return ""
    return f", {signed_percent(row.return_kept)} of reward-only's"
