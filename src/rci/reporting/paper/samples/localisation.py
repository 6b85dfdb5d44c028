"""The paper's figure of localisation: how well the step costs of each redistributor rank truly risky steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from rci.data.errors import RciError
from rci.reporting.comparison.figures import limit_correlations
from rci.reporting.comparison.results import VariantResult, broken
from rci.reporting.figures.axes import name_rows, ticks
from rci.reporting.figures.palette import INK, Look, sheet, variant_looks
from rci.reporting.figures.picture import Picture, render
from rci.reporting.numbers import number

WIDTH = 7.2  # inches
LINE, HEAD = 0.17, 0.95  # inches of a line of names, and of all that stands above and below the bars
BAR, SPACE = 0.62, 0.45  # thickness of a bar, and space between two names; in lines
# What is known of the true risk on a task, best first: the exact risk, or else how near the violation is.
TRUTHS = {
    "rise_correlation": "exact rise of risk",
    "risk_correlation": "exact risk",
    "time_correlation": "time to violation",
}
HALO = withStroke(linewidth=2.6, foreground="white")  # an interval is seen on dark bars too
EXACT = ("rise_correlation", "risk_correlation")

Panel = tuple[str, str]  # task, figure


def localisation(comparisons: Mapping[str, Sequence[VariantResult]]) -> Picture:
    """Rank correlations of step costs within stopped episodes, by task; variants in the order of the first task."""
    shown = panels(comparisons)
    correlations = "; ".join(
        f"{task}, {TRUTHS[name]}: "
        + ", ".join(
            f"{result.variant} {number(result.mean(name))}"
            for result in comparisons[task]
            if result.values.get(name)
        )
        for task, name in shown
    )
    return render(
        "localisation",
        f"Bars of the rank correlation of step costs with the true risk. {correlations}.",
        "How well step costs rank truly risky steps: rank correlation within stopped episodes, mean over seeds with "
        "95% intervals. Where the exact chance of a violation is known (point), with what each step added to it and "
        "with that chance itself; elsewhere with how near the violation is, which favours late costs. Costs that are "
        "constant within an episode have 0. The numbers are those of results/redistributors-*.json, made by rci "
        "redistribute --compare.",
        partial(_figure, comparisons, shown),
    )


def panels(comparisons: Mapping[str, Sequence[VariantResult]]) -> list[Panel]:
    """What is shown of each task: the correlations with the exact risk where that is known, else the one with time."""
    shown = []
    for task, results in comparisons.items():
        truths = [name for name in TRUTHS if any(result.values.get(name) for result in results)]
        exact = [name for name in truths if name in EXACT]
        if not truths:
            raise RciError(f"the comparison on {task!r} holds no rank correlation.")
        shown += [(task, name) for name in exact or truths]
    if not shown:
        raise RciError("localisation needs the comparison of redistributors on at least one task.")
    return shown


def _figure(comparisons: Mapping[str, Sequence[VariantResult]], shown: Sequence[Panel]) -> Figure:
    variants = list(dict.fromkeys(result.variant for results in comparisons.values() for result in results))
    style, names = variant_looks(variants), [broken(variant, 22) for variant in variants]
    lines = np.array([name.count("\n") + 1 for name in names])
    place = np.cumsum(lines + SPACE) - (lines + SPACE) / 2
    high = float((lines + SPACE).sum())
    figure = sheet(HEAD + LINE * high, width=WIDTH)
    axes_of = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, (task, name) in zip(axes_of, shown):
        results = {result.variant: result for result in comparisons[task]}
        axes.axvline(0.0, color="#9aa1ac", linewidth=0.7)
        for y, variant in zip(place, variants):
            if variant in results:
                _bar(axes, y, results[variant], name, style[variant])
        axes.set_title(f"{task}\n{TRUTHS[name]}")
        axes.set_xlabel("rank correlation")
        limit_correlations(axes)
        ticks(axes.xaxis, 4)
        name_rows(axes)
    axes_of[0].set_yticks(place, names)
    axes_of[0].set_ylim(high, 0.0)
    for label, variant in zip(axes_of[0].get_yticklabels(), variants):
        label.set_color(style[variant].ink)
    return figure


def _bar(axes: Axes, y: float, result: VariantResult, name: str, look: Look) -> None:
    mean, half = result.mean(name), result.half_width.get(name)
    if mean is None:
        return
    axes.barh(y, mean, height=BAR, color=look.color, linewidth=0)
    if half:
        axes.plot(
            [mean - half, mean + half],
            [y, y],
            color=INK,
            linewidth=1.1,
            solid_capstyle="butt",
            path_effects=[HALO],
        )
