"""The page of a sweep over settings: one table and one figure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rci.reporting.figures.picture import Picture, render
from rci.reporting.html.markup import fill, make_folders, write_page
from rci.reporting.numbers import column_decimals, fixed, percent
from rci.reporting.sweep.figures import trade_offs
from rci.reporting.sweep.groups import (
    ANY,
    INTERVALS,
    SweepFacts,
    SweepGroup,
    columns,
    series,
    series_looks,
    sweep_table,
)


def write_sweep(groups: Sequence[SweepGroup], facts: SweepFacts, folder: Path) -> Path:
    """Write `index.html`, `sweep.md` and `figures/` into `folder`; the path of the page."""
    make_folders(folder, ["figures"], "the page of the sweep")
    picture = render(
        "sweep",
        f"Return against violation rate of {len(groups)} groups of policies; the table has the same numbers.",
        f"Each mark is the mean of the policies that differ in their seeds alone; lines join budgets. {INTERVALS}",
        partial(trade_offs, series(groups), series_looks(groups)),
    )
    return write_page(
        folder, page(groups, facts, [picture]), {"sweep.md": sweep_table(groups).encode()}, [picture]
    )


def headline(groups: Sequence[SweepGroup], facts: SweepFacts) -> list[str]:
    """What came out, in a sentence for each task, and how much was run."""
    sentences = []
    for task in dict.fromkeys(group.task for group in groups):
        own = [group for group in groups if group.task == task]
        safest = min(own, key=lambda group: (group.violation_rate, -group.mean_return))
        richest = max(own, key=lambda group: (group.mean_return, -group.violation_rate))
        decimals = column_decimals(group.mean_return for group in own)
        sentence = f"Fewest violations on {task}: {_description(safest, decimals)}."
        if richest is not safest:
            sentence += f" Highest return: {_description(richest, decimals)}."
        sentences.append(sentence)
    done = facts.policies - facts.missing
    sentences.append(f"{done} of {facts.policies} policies at {facts.points} points of the grid are tested.")
    return sentences


def _description(group: SweepGroup, decimals: int) -> str:
    settings = "".join(
        f", {name}={value}" for name, value in group.values.items() if name != "task" and value != ANY
    )
    return (
        f"{group.method} at a budget of {group.budget}{settings}, with violations in "
        f"{percent(group.violation_rate)} of episodes and a return of {fixed(group.mean_return, decimals)}"
    )


def page(groups: Sequence[SweepGroup], facts: SweepFacts, pictures: Sequence[Picture]) -> str:
    """The whole page. In the table, every method has the mark of its line in the figure."""
    style = series_looks(groups)
    line_of = {id(group): name for (_, name), own in series(groups).items() for group in own}
    cells = columns(groups)
    return fill(
        "sweep.html",
        sentences=headline(groups, facts),
        facts=facts,
        tasks=list(dict.fromkeys(group.task for group in groups)),
        pictures=pictures,
        cells={"method": cells.pop("method"), **cells},
        looks=[style[line_of[id(group)]] for group in groups],
        intervals=INTERVALS,
    )
