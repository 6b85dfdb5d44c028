"""Every figure of the paper's experiments, rendered, with the words that go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from matplotlib.figure import Figure

from rci.reporting import paper_bar_figures, paper_curve_figures, paper_map_figures
from rci.reporting.figures import Picture, render
from rci.reporting.palette import Look, family_looks
from rci.reporting.paper_contents import (
    FIRST_VIOLATIONS,
    MATCHED_SHARE,
    Experiment,
    Outcome,
    PaperSummary,
    budget_share,
    matched_at,
)

BARS = "Bars: means over seeds; lines: standard errors; dots: seeds."
MATCHED = f"{100 * MATCHED_SHARE:g}% of the way from the lowest return to that of reward-only"


class Drawing(NamedTuple):
    """A figure that can be drawn: what it shows, its caption, and how."""

    shows: str
    caption: str
    build: Callable[[], Figure]


def paper_looks(summary: PaperSummary) -> dict[str, Look]:
    """One look per family of methods, the same in all experiments."""
    return family_looks(one.method for experiment in summary.experiments for one in experiment.frontiers)


def paper_pictures(summary: PaperSummary) -> list[Picture]:
    """A picture for each experiment that has enough rows for one; name and section are those of the experiment."""
    style = paper_looks(summary)
    pictures = []
    for experiment in summary.experiments:
        drawing = drawing_of(experiment, style)
        if drawing is not None:
            alt = f"{drawing.shows} {experiment.answer}"
            picture = render(experiment.name, alt, drawing.caption, drawing.build)
            pictures.append(replace(picture, section=experiment.name))
    return pictures


def drawing_of(experiment: Experiment, style: dict[str, Look]) -> Drawing | None:
    """The figure of an experiment; None if its rows do not suffice for one yet."""
    outcomes, frontiers = experiment.outcomes, experiment.frontiers
    if experiment.name == "calibration":
        if not any(budget_share(p.budget) is not None for one in frontiers for p in one.policies):
            return None
        return Drawing(
            "Realised violation rates against the budgets asked for.",
            "On the grey line budgets come true; in the shaded half they are kept. Large marks: means over seeds; "
            "small marks: seeds.",
            partial(paper_curve_figures.calibration, frontiers, style),
        )
    if experiment.name == "frontier":
        if not frontiers:
            return None
        return Drawing(
            "Mean return against violation rate.",
            "Up and to the left is better. Marks: policies. Curves: what a method reaches by mixing its policies and "
            "those of reward-only, chosen on selection episodes and told on evaluation episodes; means over seeds. "
            "Broken lines: what is possible when the danger is known, to drivers trained online with the truth.",
            partial(paper_curve_figures.frontier, frontiers, style, experiment.references),
        )
    if experiment.name == "label-efficiency":
        if not any(one.method != "reward-only" and matched_at(one, MATCHED_SHARE) for one in frontiers):
            return None
        return Drawing(
            "Violation rate at the same return over the number of labelled episodes.",
            f"Violation rate of mixtures that return as much as is {MATCHED}, after the longest training. Lines: "
            "standard errors over seeds.",
            partial(paper_curve_figures.label_efficiency, frontiers, style),
        )
    if experiment.name == "when-it-pays":
        if not all(paper_map_figures.pays_panels(frontiers)):
            return None
        return Drawing(
            "Maps of the ratio of violation rates over labelled episodes and updates.",
            f"Violation rate of rci at the same return ({MATCHED}), divided by that of another method. Blue, below 1: "
            "rci violates less. Grey: not measured, or the return is not reached.",
            partial(paper_map_figures.when_it_pays, frontiers),
        )
    if experiment.name == "grid":
        if not any(one.method != "reward-only" for one in outcomes):
            return None
        return Drawing(
            "Map of violation rates, redistributors by learners.",
            "In each cell the violation rate, which is also its colour, and below it the mean return.",
            partial(paper_map_figures.grid, outcomes),
        )
    if not outcomes:
        return None
    if any(one.channels for one in outcomes):
        shows = "Bars of normalised return, of violation rates, and of first violations by kind of danger."
        caption = f"{BARS} {FIRST_VIOLATIONS} {_seeds(outcomes)}"
        return Drawing(shows, caption, partial(paper_bar_figures.channel_bars, outcomes, style))
    shows = "Bars of normalised return and violation rate."
    return Drawing(
        shows, f"{BARS} {_seeds(outcomes)}", partial(paper_bar_figures.outcome_bars, outcomes, style)
    )


def _seeds(outcomes: Sequence[Outcome]) -> str:
    counts = sorted({len(one.seeds) for one in outcomes})
    told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Seeds of each: {told}."
