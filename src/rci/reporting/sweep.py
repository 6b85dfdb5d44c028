"""A sweep over settings: its table over seeds as text and Markdown, and a page with one figure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import NamedTuple

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.reporting import markdown
from rci.reporting.figures import Picture, render
from rci.reporting.markup import document, figure, method_name, table
from rci.reporting.palette import LOOKS, OTHERS, Look
from rci.reporting.summary import column_places, fixed, percent

BUDGETS = "compare.budgets"  # the policies of one line in the figure differ in it
FREE_LOOKS = (*LOOKS.values(), *OTHERS)
INTERVALS = (
    "95% intervals: Student's t over seeds, that of violations widened to the Clopper-Pearson interval of all test "
    "episodes together; of a single policy, those of its test episodes."
)


class SweepGroup(NamedTuple):
    """Policies that differ in their seeds alone, as means with 95% intervals; None where one cannot be told."""

    values: dict[str, str]  # of the grid, without the seed
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
    places = column_places(group.mean_return for group in groups)
    return cells | {
        "method": [group.method for group in groups],
        "budget": [group.budget for group in groups],
        "seeds": [str(group.seeds) for group in groups],
        "violation rate": [percent(group.violation_rate) for group in groups],
        "95% interval": [f"{100 * g.violation_low:.1f}–{percent(g.violation_high)}" for g in groups],
        "return": [fixed(group.mean_return, places) for group in groups],
        "95% interval of the return": [_return_interval(group, places) for group in groups],
    }


def _return_interval(group: SweepGroup, places: int) -> str:
    if group.return_low is None or group.return_high is None:
        return "–"
    return f"{fixed(group.return_low, places)} to {fixed(group.return_high, places)}"


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
        name = ", ".join([group.method, *(f"{key}={group.values[key]}" for key in varying)])
        lines.setdefault((group.task, name), []).append(group)
    return lines


def series_looks(groups: Sequence[SweepGroup]) -> dict[str, Look]:
    """A look for every name of a line; they repeat where there are more names than looks."""
    names = list(dict.fromkeys(name for _, name in series(groups)))
    if all(name in LOOKS for name in names):
        return {name: LOOKS[name] for name in names}
    return {name: FREE_LOOKS[i % len(FREE_LOOKS)] for i, name in enumerate(names)}


def write_sweep(groups: Sequence[SweepGroup], facts: SweepFacts, folder: Path) -> Path:
    """Write `index.html`, `sweep.md` and `figures/` into `folder`; the path of the page."""
    from rci.reporting.sweep_figures import trade_offs

    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RciError(
            f"cannot write the page of the sweep to {folder}: {error.strerror or error}."
        ) from error
    style = series_looks(groups)
    picture = render(
        "sweep",
        f"Return against violation rate of {len(groups)} groups of policies; the table has the same numbers.",
        f"Each mark is the mean of the policies that differ in their seeds alone; lines join budgets. {INTERVALS}",
        partial(trade_offs, series(groups), style),
    )
    write_file(folder / "figures" / "sweep.svg", picture.svg)
    write_file(folder / "figures" / "sweep.png", picture.png)
    write_file(folder / "sweep.md", sweep_table(groups).encode())
    write_file(folder / "index.html", page(groups, facts, style, picture).encode())
    return folder / "index.html"


def headline(groups: Sequence[SweepGroup], facts: SweepFacts) -> list[str]:
    """What came out, in a sentence for each task, and how much was run."""
    sentences = []
    for task in dict.fromkeys(group.task for group in groups):
        own = [group for group in groups if group.task == task]
        safest = min(own, key=lambda group: (group.violation_rate, -group.mean_return))
        richest = max(own, key=lambda group: (group.mean_return, -group.violation_rate))
        places = column_places(group.mean_return for group in own)
        told = f"Fewest violations on {task}: {_told(safest, places)}."
        if richest is not safest:
            told += f" Highest return: {_told(richest, places)}."
        sentences.append(told)
    done = facts.policies - facts.missing
    sentences.append(f"{done} of {facts.policies} policies at {facts.points} points of the grid are tested.")
    return sentences


def _told(group: SweepGroup, places: int) -> str:
    settings = "".join(f", {name}={value}" for name, value in group.values.items() if name != "task")
    return (
        f"{group.method} at a budget of {group.budget}{settings}, with violations in "
        f"{percent(group.violation_rate)} of episodes and a return of {fixed(group.mean_return, places)}"
    )


def page(groups: Sequence[SweepGroup], facts: SweepFacts, style: dict[str, Look], picture: Picture) -> str:
    """The whole page."""
    sections = [
        ("figure", "Return against violations", figure(picture)),
        ("table", "Every group", _table(groups, style)),
        ("run", "What was run", _run(facts)),
    ]
    tasks = list(dict.fromkeys(group.task for group in groups))
    return document(
        "A sweep over settings",
        f"Task {tasks[0]}" if len(tasks) == 1 else f"Tasks {', '.join(tasks)}",
        headline(groups, facts),
        sections,
        "Every policy is a row of <code>sweep.json</code> and <code>sweep.csv</code>; the figure is also in "
        "<code>figures/</code> as SVG and PNG.",
    )


def _table(groups: Sequence[SweepGroup], style: dict[str, Look]) -> str:
    """The table, with the mark of its line in the figure before every method."""
    line_of = {id(group): name for (_, name), own in series(groups).items() for group in own}
    cells = columns(groups)
    shown = {"method": [method_name(group.method, style[line_of[id(group)]]) for group in groups]}
    shown |= {name: [escape(cell) for cell in column] for name, column in cells.items() if name != "method"}
    return table("Means over seeds", list(shown), list(zip(*shown.values())), INTERVALS)


def _run(facts: SweepFacts) -> str:
    versions = [(escape(name), escape(version)) for name, version in facts.versions.items()]
    title = f"Versions ({len(versions)})"
    return (
        "<p>This command repeats the sweep, and goes on with it where it was not finished:</p>"
        f'<pre tabindex="0"><code>{escape(facts.command)}</code></pre>'
        f"<details><summary>{title}</summary>{table(title, ('name', 'value'), versions)}</details>"
    )
