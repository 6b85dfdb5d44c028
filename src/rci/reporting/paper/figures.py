"""Every figure of the paper's experiments, rendered, with the words that go with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from matplotlib.figure import Figure

from rci.reporting.figures.palette import Look, study_looks
from rci.reporting.figures.picture import Picture, render
from rci.reporting.paper import bar_figures as paper_bar_figures
from rci.reporting.paper import curve_figures as paper_curve_figures
from rci.reporting.paper import map_figures as paper_map_figures
from rci.reporting.paper.contents import MATCHED_SHARE, Experiment, Outcome, PaperSummary
from rci.reporting.paper.overview import overview, shown_sides

OVERVIEW = "overview"
BARS = "Bars: means over seeds; lines: standard errors; dots: seeds."
COMPARED = ("best-learner", "best-learner-arm")
MAPPED = ("when-it-pays", "imperfect-labels", "horizon")
MATCHED = f"{100 * MATCHED_SHARE:g}% of the way from the lowest return to that of reward-only"


class Drawing(NamedTuple):
    """A figure that can be drawn: what it shows, its caption, and how."""

    shows: str
    caption: str
    build: Callable[[], Figure]


def paper_looks(summary: PaperSummary) -> dict[str, Look]:
    """One look per method, the same in all experiments."""
    return study_looks(one.method for experiment in summary.experiments for one in experiment.frontiers)


def paper_pictures(summary: PaperSummary) -> list[Picture]:
    """The answer, and a picture for each experiment that has enough rows; name and section are the experiment's."""
    style = paper_looks(summary)
    pictures = _overview(summary)
    for experiment in summary.experiments:
        drawing = drawing_of(experiment, style)
        if drawing is not None:
            alt = f"{drawing.shows} {experiment.answer}"
            picture = render(experiment.name, alt, drawing.caption, drawing.build)
            pictures.append(replace(picture, section=experiment.name))
    return pictures


def _overview(summary: PaperSummary) -> list[Picture]:
    """The answer in one picture, once there are rows for it; it belongs to the claims."""
    experiments = {experiment.name: experiment for experiment in summary.experiments}
    references = {task: drivers for one in summary.experiments for task, drivers in one.references.items()}
    if not shown_sides(experiments):
        return []
    picture = render(
        OVERVIEW,
        "Mean return against violation rate: the paper's system, the default learner, and what is possible.",
        "Up and to the left is better. Marks: the policy that the paper's rule selects, means over seeds with standard "
        "errors. Curves: what mixtures of the thresholds of one training reach. Stars: drivers trained online with the "
        "danger known.",
        lambda: overview(experiments, references),
    )
    return [replace(picture, section="claims")]


def drawing_of(experiment: Experiment, style: dict[str, Look]) -> Drawing | None:
    """The figure of an experiment; None if its rows do not suffice for one yet."""
    outcomes, frontiers = experiment.outcomes, experiment.frontiers
    if experiment.name in COMPARED:
        if not frontiers:
            return None
        return Drawing(
            "Mean return against violation rate.",
            "Up and to the left is better. Marks: policies. Curves: what a method reaches by mixing its policies and "
            "those of reward-only, chosen on selection episodes and measured on evaluation episodes; means over "
            "seeds. Broken lines: what is possible when the danger is known, to drivers trained online with the "
            "truth.",
            partial(paper_curve_figures.frontier, frontiers, style, experiment.references),
        )
    if experiment.name in MAPPED:
        if not paper_map_figures.pays_panels(frontiers)[1]:
            return None
        return Drawing(
            "Map of the ratio of violation rates, by kind of logs and length of training.",
            f"Violation rate at the same return ({MATCHED}), divided by that of the labels as they are. Blue, below "
            "1: redistributed costs violate less. Grey: not measured, or the return is not reached.",
            partial(paper_map_figures.when_it_pays, frontiers),
        )
    if not outcomes:
        return None
    shows = "Bars of normalised return and violation rate."
    return Drawing(
        shows, f"{BARS} {_seeds(outcomes)}", partial(paper_bar_figures.outcome_bars, outcomes, style)
    )


def _seeds(outcomes: Sequence[Outcome]) -> str:
    counts = sorted({len(one.seeds) for one in outcomes})
    seeds = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Seeds of each: {seeds}."
