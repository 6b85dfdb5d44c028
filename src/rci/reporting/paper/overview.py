"""The answer of the study in one picture: what each system reaches, and what is possible when the danger is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rci.reporting.figures.axes import percent_tick
from rci.reporting.figures.palette import KNOWN, LOOKS, ROUND, Look, sheet
from rci.reporting.paper.contents import Experiment, Frontier, Outcome
from rci.reporting.run.contents import KnownDanger

PANEL_WIDTH, PANEL_HEIGHT = 4.1, 3.3  # inches


class Side(NamedTuple):
    """One task: the experiment of the paper's system, and that of the best learner."""

    task: str
    papers: str
    best: str


SIDES = (Side("highway", "highway", "best-learner"), Side("fetch-reach", "fetch-reach", "best-learner-arm"))
# What is drawn of the best learner, and how it is called: labels as they are are the default of `rci learn`.
CURVES = {"sparse": "default: feasible, labels", "rudder": "feasible, costs of rudder"}
MARKS = {
    "reward-only": "no budget",
    "sparse": "paper's learner, sparse",
    "hazard": "paper's learner, hazard",
    "rudder": "paper's learner, rudder (RCI)",
}


def overview(
    experiments: Mapping[str, Experiment], references: Mapping[str, Sequence[KnownDanger]]
) -> Figure:
    """A panel for each task that has rows, which one at least must have."""
    sides = shown_sides(experiments)
    figure = sheet(PANEL_HEIGHT, width=max(PANEL_WIDTH * len(sides), 5.4))
    handles: dict[str, Line2D] = {}
    for place, (axes, side) in enumerate(zip(figure.subplots(1, len(sides), squeeze=False)[0], sides)):
        best = experiments.get(side.best)
        handles |= _curves(axes, () if best is None else best.frontiers)
        handles |= _selected(axes, experiments[side.papers].outcomes)
        handles |= _known(axes, references.get(side.task, ()))
        axes.set(title=side.task, xlabel="violation rate", ylabel="" if place else "mean return")
        axes.set_xlim(left=min(-0.02, axes.get_xlim()[0]))
        axes.xaxis.set_major_formatter(FuncFormatter(percent_tick))
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
        axes.grid(True)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2)
    return figure


def shown_sides(experiments: Mapping[str, Experiment]) -> list[Side]:
    """The tasks that have rows of the paper's system."""
    return [side for side in SIDES if side.papers in experiments and experiments[side.papers].rows]


def _curves(axes: Axes, frontiers: Sequence[Frontier]) -> dict[str, Line2D]:
    """What mixtures of the thresholds of one training reach."""
    drawn = {}
    for frontier in frontiers:
        if frontier.method in CURVES:
            look = _look(frontier.method)
            rates, returns = [rate for _, rate in frontier.curve], [gain for gain, _ in frontier.curve]
            (drawn[CURVES[frontier.method]],) = axes.plot(rates, returns, color=look.color, linewidth=2.0)
    return drawn


def _selected(axes: Axes, outcomes: Sequence[Outcome]) -> dict[str, Line2D]:
    """The selected policies of the paper's system, with the spread over seeds."""
    drawn = {}
    for outcome in outcomes:
        if outcome.method in MARKS:
            look = _look(outcome.method)
            drawn[MARKS[outcome.method]] = axes.errorbar(
                outcome.violation.mean,
                outcome.mean_return.mean,
                xerr=outcome.violation.error,
                yerr=outcome.mean_return.error,
                fmt=look.marker,
                color=look.color,
                markersize=8,
                markeredgecolor="white",
                zorder=4,
            )[0]
    return drawn


def _known(axes: Axes, points: Sequence[KnownDanger]) -> dict[str, Line2D]:
    """Drivers who know the danger."""
    if not points:
        return {}
    (line,) = axes.plot(
        [point.violation_rate for point in points],
        [point.mean_return for point in points],
        KNOWN.marker,
        linestyle=(0, (4, 2)),
        color=KNOWN.color,
        markersize=9,
        zorder=5,
    )
    return {"possible when the danger is known": line}


def _look(method: str) -> Look:
    return LOOKS["rci"] if method == "rudder" else LOOKS[method]
