"""Bars of the paper's experiments: one line per method, one panel per number, seeds as dots."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rci.reporting.figures.axes import heading, name_rows, percent_tick, ticks
from rci.reporting.figures.palette import INK, QUIET, Look, sheet
from rci.reporting.numbers import fixed, percent
from rci.reporting.paper.contents import Estimate, Outcome, setting_names

PANEL_WIDTH = 3.3  # inches
PANELS_ABREAST = 2
LINE_HEIGHT = 0.23
LETTER, USUAL_NAME = 0.065, 12  # inches of a letter; letters of a name that need no extra room
HEADING = 1.35  # lines between groups
Looks = Mapping[str, Look]


class Panel(NamedTuple):
    """A number that is drawn of every outcome."""

    title: str
    value: Callable[[Outcome], Estimate | None]
    text: Callable[[float], str]
    is_share: bool


class Line(NamedTuple):
    """Where an outcome is drawn."""

    outcome: Outcome
    height: float


RETURN = Panel("Normalised return", lambda outcome: outcome.return_norm, lambda value: fixed(value, 2), False)
VIOLATIONS = Panel("Violation rate", lambda outcome: outcome.violation, percent, True)


def outcome_bars(outcomes: Sequence[Outcome], style: Looks) -> Figure:
    """Normalised return and violation rate of every method, setting by setting."""
    return panel_bars(outcomes, (RETURN, VIOLATIONS), style)


def panel_bars(outcomes: Sequence[Outcome], panels: Sequence[Panel], style: Looks) -> Figure:
    """One line per outcome under the heading of its setting, the same lines in every panel that has a number."""
    panels = [panel for panel in panels if any(panel.value(one) is not None for one in outcomes)]
    lines, headings, end = _heights(outcomes)
    stories = math.ceil(len(panels) / PANELS_ABREAST)
    abreast = min(len(panels), PANELS_ABREAST)
    names = max(len(one.method) for one in outcomes)
    width = PANEL_WIDTH * abreast + 0.4 + LETTER * max(0, names - USUAL_NAME)
    figure = sheet(stories * (0.6 + LINE_HEIGHT * (end + 0.7)), width=width)
    # Long names come out a little wider than they are measured.
    figure.set_layout_engine("constrained", w_pad=0.08)
    drawn = figure.subplots(stories, abreast, sharey=True, squeeze=False).ravel()
    for spare in drawn[len(panels) :]:
        spare.set_axis_off()
    for place, (axes, panel) in enumerate(zip(drawn, panels)):
        _draw(axes, panel, lines, style)
        for text, height in headings:
            axes.axhline(height, color="white", linewidth=6, zorder=0.5)  # no grid behind a heading
            if place % abreast == 0:
                heading(axes, height, text)
    drawn[0].set_ylim(end, -0.7)
    drawn[0].set_yticks([line.height for line in lines], [line.outcome.method for line in lines])
    for axes in drawn[::abreast]:
        for label, line in zip(axes.get_yticklabels(), lines):
            label.set(color=style[line.outcome.method].ink, fontsize=8.5)
    return figure


def _heights(outcomes: Sequence[Outcome]) -> tuple[list[Line], list[tuple[str, float]], float]:
    """The height of every line and heading, from the top down, and where the panel ends."""
    names = setting_names(list(dict.fromkeys(outcome.setting for outcome in outcomes)))
    lines: list[Line] = []
    headings: list[tuple[str, float]] = []
    height = 0.0
    for setting, name in names.items():
        if name:
            headings.append((name, height))
            height += 1.0
        for outcome in outcomes:
            if outcome.setting == setting:
                lines.append(Line(outcome, height))
                height += 1.0
        height += HEADING - 1.0
    return lines, headings, height - HEADING + 0.7


def _draw(axes: Axes, panel: Panel, lines: Sequence[Line], style: Looks) -> None:
    highest, lowest = 0.0, 0.0
    for outcome, height in lines:
        value = panel.value(outcome)
        if value is None:
            continue
        axes.barh(height, value.mean, height=0.66, color=style[outcome.method].color, linewidth=0, zorder=2)
        error = value.error or 0.0
        if (
            len(value.values) > 1
        ):  # seeds above and the error below the middle, so that neither hides the other
            axes.plot(
                value.values, [height - 0.15] * len(value.values), "o", color="white", markersize=3.2, zorder=5,
                markeredgecolor=QUIET, markeredgewidth=0.7, clip_on=False,
            )  # fmt: skip
            ends = [value.mean - error, value.mean + error]
            axes.plot(
                ends, [height + 0.15] * 2, color="white", linewidth=2.8, zorder=3
            )  # seen on dark bars too
            axes.plot(ends, [height + 0.15] * 2, color=INK, linewidth=1.3, zorder=4)
        axes.text(
            1.02, height, panel.text(value.mean), transform=axes.get_yaxis_transform(), va="center", fontsize=8.0,
            color=INK,
        )  # fmt: skip
        highest = max(highest, value.mean + error, *value.values)
        lowest = min(lowest, value.mean - error, *value.values)
    axes.set(title=panel.title)
    axes.set_xlim(1.05 * lowest, 1.06 * max(highest, 0.01))
    ticks(axes.xaxis, 5)
    if panel.is_share:
        axes.xaxis.set_major_formatter(percent_tick)
    name_rows(axes)
