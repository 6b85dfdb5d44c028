"""Figures of the results: violations and returns of each method, the trade between them, and the policies' paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import harmonic_mean
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from rci.data.record import Array
from rci.data.types import Episodes
from rci.reporting.figures.axes import heading, marked_line, name_rows, percent_tick, ticks, tidy
from rci.reporting.figures.palette import FAINT, INK, KNOWN, QUIET, Look, sheet
from rci.reporting.numbers import column_decimals, fixed, percent
from rci.reporting.run.contents import KnownDanger, LadderOf
from rci.reporting.run.rows import ResultRow

if TYPE_CHECKING:
    from rci.tasks.base import View

ROW_HEIGHT = 0.23  # inches
PATHS_WIDTH = 2.4  # inches, of one view
WORDS = 0.15  # inches that the name of a view or of an axis takes
Looks = Mapping[str, Look]
Groups = list[tuple[str, list[tuple[str, ResultRow]]]]  # heading, then the label of each row


def groups(rows: Sequence[ResultRow]) -> Groups:
    """Rows to be compared stand together: by budget, or by method where methods do not share their budgets."""
    budgets = list(dict.fromkeys(row.asked for row in rows if not math.isinf(row.budget)))
    shared = all(sum(row.asked == budget for row in rows) > 1 for budget in budgets)
    if shared or len(budgets) == 1:
        order = ["none", *budgets]
        named = [(f"budget {b}", [(r.method, r) for r in rows if r.asked == b]) for b in order]
    else:
        named = [
            (name, [(f"budget {r.asked}", r) for r in rows if r.method == name])
            for name in dict.fromkeys(row.method for row in rows)
        ]
    return [("no budget" if name == "budget none" else name, group) for name, group in named if group]


def violation_bars(rows: Sequence[ResultRow], style: Looks) -> Figure:
    """Violation rate of each method with its interval; dots are seeds, the broken line is the budget."""
    figure, axes, lines = _rows_figure("Episodes with a violation", rows, style)
    for row, y in lines:
        color = style[row.method].color
        axes.barh(y, row.violation_rate, height=0.66, color=color, linewidth=0)
        _seed_dots(axes, row.seed_violation_rates, y)
        axes.plot([row.violation_low, row.violation_high], [y, y], color=INK, linewidth=1.3)
        if math.isfinite(row.budget):
            axes.plot([row.budget] * 2, [y - 0.5, y + 0.5], color=INK, linewidth=0.9, linestyle=(0, (2, 1.5)))
    _values(axes, [(percent(row.violation_rate), y) for row, y in lines])
    highest = max(max(row.violation_high, *row.seed_violation_rates) for row in rows)
    asked = max((row.budget for row in rows if math.isfinite(row.budget)), default=0.0)
    axes.set_xlim(0.0, min(1.0, 1.05 * max(highest, min(asked, 1.0), 0.01)))
    axes.xaxis.set_major_formatter(percent_tick)
    ticks(axes.xaxis, 5)
    return figure


def return_dots(rows: Sequence[ResultRow], style: Looks) -> Figure:
    """Mean return of each method with its standard error over seeds; small dots are seeds."""
    figure, axes, lines = _rows_figure("Mean return", rows, style)
    decimals = column_decimals(row.mean_return for row in rows)
    lowest = min(min(row.seed_returns) for row in rows)
    highest = max(max(row.seed_returns) for row in rows)
    room = (highest - lowest) or abs(highest) or 1.0
    for row in rows:
        if math.isinf(row.budget):
            axes.axvline(row.mean_return, color=style[row.method].color, linewidth=0.8, linestyle=(0, (2, 2)))
    for row, y in lines:
        _seed_dots(axes, row.seed_returns, y)
        error = row.return_error or 0.0
        look = style[row.method]
        axes.plot([row.mean_return - error, row.mean_return + error], [y, y], color=look.ink, linewidth=1.4)
        axes.plot(row.mean_return, y, look.marker, color=look.color, markeredgecolor="white", markersize=7)
    _values(axes, [(fixed(row.mean_return, decimals), y) for row, y in lines])
    axes.set_xlim(lowest - 0.08 * room, highest + 0.08 * room)
    ticks(axes.xaxis, 5)
    return figure


def trade_off(rows: Sequence[ResultRow], style: Looks, reference: Sequence[KnownDanger] = ()) -> Figure:
    """Mean return against violation rate, one line per method over its budgets; up and to the left is better.

    The broken line is what is possible when the danger is known.
    """
    figure = sheet(3.1)
    axes = figure.add_subplot(
        title="Return against violations", xlabel="violation rate", ylabel="mean return"
    )
    ends = []
    if reference:
        x, y = (
            np.array([getattr(driver, name) for driver in reference])
            for name in ("violation_rate", "mean_return")
        )
        axes.plot(
            x, y, color=KNOWN.color, marker=KNOWN.marker, markersize=5.0, markeredgecolor="white",
            markeredgewidth=0.7, linewidth=1.1, linestyle=(0, (4, 2)), zorder=2,
        )  # fmt: skip
        ends.append(("danger known", float(x[0]), float(y[0]), KNOWN))
    for name in dict.fromkeys(row.method for row in rows):
        look = style[name]
        line = [row for row in rows if row.method == name]
        x, y = np.array([r.violation_rate for r in line]), np.array([r.mean_return for r in line])
        low, high = np.array([r.violation_low for r in line]), np.array([r.violation_high for r in line])
        error = np.array([r.return_error or 0.0 for r in line])
        axes.hlines(y, low, high, color=look.color, linewidth=0.9, alpha=0.8)
        axes.vlines(x, y - error, y + error, color=look.color, linewidth=0.9, alpha=0.8)
        marked_line(axes, x, y, look)
        last = int(np.argmax(x))
        ends.append((name, float(x[last]), float(y[last]), look))
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    axes.xaxis.set_major_formatter(percent_tick)
    tidy(axes)
    _end_labels(axes, ends)
    axes.annotate(
        "better", (0.02, 0.98), (0.12, 0.90), xycoords="axes fraction", textcoords="axes fraction", color=QUIET,
        fontsize=7.5, ha="left", va="center", arrowprops={"arrowstyle": "->", "color": QUIET, "linewidth": 0.8},
    )  # fmt: skip
    return figure


def budget_calibration(limited: Sequence[ResultRow], style: Looks) -> Figure:
    """Realised violation rate against the finite budget asked for; below the diagonal the budget was kept."""
    figure = sheet(3.1)
    axes = figure.add_subplot(title="Asked and realised", xlabel="budget asked for", ylabel="violation rate")
    right = 1.08 * max(row.budget for row in limited) or 0.05
    top = 1.08 * max(max(row.violation_high for row in limited), right)
    axes.fill_between([0, right], [0, right], 0, color="#f1f3f6", linewidth=0, zorder=0)
    axes.plot([0, right], [0, right], color=FAINT, linewidth=1.0, zorder=1)
    ends = []
    names = list(dict.fromkeys(row.method for row in limited))
    for i, name in enumerate(names):
        line = [row for row in limited if row.method == name]
        aside = (i - (len(names) - 1) / 2) * 0.008 * right  # intervals at one budget stay apart
        x, y = np.array([r.budget for r in line]) + aside, np.array([r.violation_rate for r in line])
        axes.vlines(
            x, [r.violation_low for r in line], [r.violation_high for r in line], color=style[name].color,
            linewidth=0.9, alpha=0.8,
        )  # fmt: skip
        marked_line(axes, x, y, style[name])
        ends.append((name, float(x[-1]), float(y[-1]), style[name]))
    axes.set(xlim=(0.0, right), ylim=(-0.02 * top, top))
    axes.text(0.98 * right, 0.03 * top, "budget kept", color=QUIET, fontsize=7.5, ha="right")
    axes.xaxis.set_major_formatter(percent_tick)
    axes.yaxis.set_major_formatter(percent_tick)
    tidy(axes)
    _end_labels(axes, ends)
    return figure


def paths(views: Sequence[View], row: ResultRow, rollouts: Episodes, look: Look) -> Figure:
    """The rollouts of one policy drawn over the task's world, from each side: a dot where each begins, a cross where
    it ends."""
    figure = sheet(PATHS_WIDTH, width=PATHS_WIDTH * len(views))
    panels = figure.subplots(1, len(views), squeeze=False)[0]
    for axes, view in zip(panels, views):
        _draw_paths(axes, view, rollouts, look)
    shapes = [_shape(axes) for axes in panels]
    panels[0].get_gridspec().set_width_ratios([1.0 / shape for shape in shapes])  # all are equally high
    named = any(view.name for view in views)
    below, beside = any(axes.get_xlabel() for axes in panels), any(axes.get_ylabel() for axes in panels)
    words = 0.22 + WORDS * named + WORDS * below
    figure.set_figheight(words + (PATHS_WIDTH - WORDS * beside) * harmonic_mean(shapes))
    title = row.method if math.isinf(row.budget) else f"{row.method}, budget {row.asked}"
    if named or len(views) > 1:
        figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    else:
        panels[0].set_title(title, fontsize=10.5)
    return figure


def spread(positions: Array, gap: float) -> Array:
    """The nearest positions, in least squares, that keep their order and at least `gap` between neighbours."""
    order = np.argsort(positions, kind="stable")
    ladder = gap * np.arange(len(positions))
    placed = np.empty(len(positions))
    placed[order] = isotonic_regression(positions[order] - ladder).x + ladder
    return placed


def _draw_paths(axes: Axes, view: View, rollouts: Episodes, look: Look) -> None:
    """Rollouts seen from one side. Names of axes stay, ticks go: how the paths run matters, not where exactly."""
    view.draw(axes)
    for episode in rollouts:
        place = np.asarray(view.position(episode.obs), np.float64)
        axes.plot(place[:, 0], place[:, 1], color=look.color, linewidth=1.1, alpha=0.75, zorder=4)
        axes.plot(*place[0], "o", color=look.ink, markersize=2.5, zorder=5)
        axes.plot(*place[-1], "x", color=look.ink, markersize=3.5, markeredgewidth=1.0, zorder=5)
    axes.set(xticks=[], yticks=[])
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_fontsize(7.5)
    if view.name:
        axes.set_title(view.name, fontsize=8.0, fontweight="normal", color=QUIET, pad=3.0)
    for spine in axes.spines.values():
        spine.set(visible=True, color=FAINT)


def _shape(axes: Axes) -> float:
    """How many times as high as wide a drawing is, within limits."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    shape = 0.8 if axes.get_aspect() == "auto" else abs((top - bottom) / (right - left))
    return min(max(shape, 0.4), 1.6)


def _rows_figure(
    title: str, rows: Sequence[ResultRow], style: Looks
) -> tuple[Figure, Axes, list[tuple[ResultRow, float]]]:
    """An empty figure with a line for each row under the headings of its group, and the height of each row."""
    heights, names, y = [], [], 0.0
    named = groups(rows)
    lines = sum(1.35 + len(group) for _, group in named)
    figure = sheet(0.75 + ROW_HEIGHT * lines)
    axes = figure.add_subplot(title=title)
    for name, group in named:
        heading(axes, y, name)
        for label, row in group:
            y += 1.0
            heights.append((row, y))
            names.append((y, label, style[row.method].ink))
        y += 1.35
    axes.set_ylim(y - 0.7, -0.6)
    axes.set_yticks([place for place, _, _ in names], [label for _, label, _ in names])
    for text, (_, _, ink) in zip(axes.get_yticklabels(), names):
        text.set(color=ink, fontsize=8.5)
    name_rows(axes)
    return figure, axes, heights


def _seed_dots(axes: Axes, values: Sequence[float], y: float) -> None:
    if len(values) > 1:
        axes.plot(
            values, [y] * len(values), "o", color="white", markersize=3.0, markeredgecolor=QUIET, markeredgewidth=0.6,
        )  # fmt: skip


def _values(axes: Axes, column: Sequence[tuple[str, float]]) -> None:
    """The numbers of the rows in a column to the right, filled up with spaces as wide as a digit."""
    width = max(len(text) for text, _ in column)
    for text, y in column:
        filled = text.rjust(width, "\u2007")
        axes.text(1.03, y, filled, transform=axes.get_yaxis_transform(), va="center", fontsize=8.0, color=INK)


def _end_labels(axes: Axes, ends: Sequence[tuple[str, float, float, Look]]) -> None:
    """Name each line at the right edge, pushed apart, with a thin lead to the line's end."""
    bottom, top = axes.get_ylim()
    heights = np.array([(y - bottom) / (top - bottom) for _, _, y, _ in ends])
    for (name, x, y, look), height in zip(ends, spread(heights, gap=0.075)):
        axes.annotate(
            name, (x, y), (1.03, height), textcoords="axes fraction", va="center", fontsize=8.0, color=look.ink,
            arrowprops={"arrowstyle": "-", "color": FAINT, "linewidth": 0.7, "shrinkA": 1, "shrinkB": 5},
        )  # fmt: skip


def ladder(ladders: Sequence[LadderOf], style: Mapping[str, Look]) -> Figure:
    """Expected violations over thresholds, one line per method; tested policies as points. "none" is the last place."""
    figure = sheet(3.2, width=4.6)
    axes = figure.subplots()
    finite = [t for one in ladders for t in one.threshold if math.isfinite(t)]
    logarithmic = min(finite) > 0
    end = max(finite) * 2 if logarithmic else max(finite) + 0.15 * (max(finite) - min(finite))
    for one in ladders:
        look = style[one.method]
        across = [t if math.isfinite(t) else end for t in one.threshold]
        axes.plot(across, one.estimate, color=look.color, linewidth=1.2, label=one.method)
        axes.fill_between(across, one.estimate, one.bound, color=look.color, alpha=0.2, linewidth=0)
        if one.tested:
            places = [t if math.isfinite(t) else end for t, _ in one.tested]
            rates = [rate for _, rate in one.tested]
            axes.scatter(places, rates, color=look.color, marker=look.marker, s=16, zorder=3)
    if logarithmic:
        axes.set_xscale("log")
    axes.axvline(end, color=QUIET, linewidth=0.6, linestyle=":")
    axes.annotate("none", (end, 0.02), rotation=90, fontsize=7, color=QUIET, ha="right")
    axes.set(xlabel="threshold", ylabel="chance of a violation", ylim=(-0.02, 1.02))
    axes.grid(axis="y")
    axes.legend(loc="upper left", fontsize=7.5)
    return figure
