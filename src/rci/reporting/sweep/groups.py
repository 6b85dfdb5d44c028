"""What a sweep found, by group of policies: its records, its table, and the lines of its figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rci.reporting import markdown
from rci.reporting.figures.palette import LOOKS, OTHERS, Look
from rci.reporting.numbers import column_decimals, fixed, interval, percent

ANY = "any"  # in place of a value: the policies are the same whatever it is
BUDGETS = "compare.budgets"  # the policies of one line in the figure differ in it
FREE_LOOKS = (*LOOKS.values(), *OTHERS)
INTERVALS = (
    "95% intervals: Student's t over seeds, that of violations widened to the Clopper-Pearson interval of all test "
    "episodes together; of a single policy, those of its test episodes."
)


class SweepGroup(NamedTuple):
    """Policies that differ in their seeds alone, as means with 95% intervals; None where one cannot be estimated."""

    values: dict[str, str]  # of the grid, without the seed; `any` if policies are the same for all of an axis
    task: str
    method: str
    budget: str
    seeds: int
    violation_rate: float
    violation_low: float
    violation_high: float
    mean_return: float
    return_low: float | None
    return_high: float | None


class SweepFacts(NamedTuple):
    """What was run. missing: how many policies have no row because something failed."""

    command: str
    points: int
    policies: int
    missing: int
    versions: dict[str, str]


def columns(groups: Sequence[SweepGroup]) -> dict[str, list[str]]:
    """The cells of the table, column by column."""
    cells = {name: [group.values[name] for group in groups] for name in groups[0].values}
    decimals = column_decimals(group.mean_return for group in groups)
    return cells | {
        "method": [group.method for group in groups],
        "budget": [group.budget for group in groups],
        "seeds": [str(group.seeds) for group in groups],
        "violation rate": [percent(group.violation_rate) for group in groups],
        "95% interval": [interval(group) for group in groups],
        "return": [fixed(group.mean_return, decimals) for group in groups],
        "95% interval of the return": [_return_interval(group, decimals) for group in groups],
    }


def _return_interval(group: SweepGroup, decimals: int) -> str:
    if group.return_low is None or group.return_high is None:
        return "–"
    return f"{fixed(group.return_low, decimals)} to {fixed(group.return_high, decimals)}"


def sweep_table(groups: Sequence[SweepGroup]) -> str:
    """The table as Markdown."""
    if not groups:
        return ""
    cells = columns(groups)
    lines = [[cell.replace("|", "\\|") for cell in line] for line in zip(*cells.values())]
    return markdown.table(list(cells), lines)


def series(groups: Sequence[SweepGroup]) -> dict[tuple[str, str], list[SweepGroup]]:
    """Task and name of each line of the figure, with its policies: all that differ in the budget alone.

    The name says what differs between lines, so that it stays short.
    """
    varying = [
        name
        for name in groups[0].values
        if name not in (BUDGETS, "task") and len({group.values[name] for group in groups}) > 1
    ]
    lines: dict[tuple[str, str], list[SweepGroup]] = {}
    for group in groups:
        own = [f"{key}={group.values[key]}" for key in varying if group.values[key] != ANY]
        name = ", ".join([group.method, *own])
        lines.setdefault((group.task, name), []).append(group)
    return lines


def series_looks(groups: Sequence[SweepGroup]) -> dict[str, Look]:
    """A look for every name of a line. Where there are more names than colours, the same colour has another mark."""
    names = list(dict.fromkeys(name for _, name in series(groups)))
    if all(name in LOOKS for name in names):
        return {name: LOOKS[name] for name in names}
    marks = list(dict.fromkeys(look.marker for look in FREE_LOOKS))
    found = {}
    for i, name in enumerate(names):
        used, look = divmod(i, len(FREE_LOOKS))  # how often each colour was given already
        first = FREE_LOOKS[look]
        found[name] = first._replace(marker=marks[(marks.index(first.marker) + used) % len(marks)])
    return found
