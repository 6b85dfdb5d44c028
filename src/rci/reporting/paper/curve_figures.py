"""Frontiers of the paper's experiments: return against violation rate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rci.reporting.figures.axes import percent_tick, tidy
from rci.reporting.figures.palette import KNOWN, Look, sheet
from rci.reporting.paper.contents import Frontier, Setting, setting_names
from rci.reporting.run.contents import KnownDanger

PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.9  # inches
PANELS_ABREAST = 3
LEGEND_COLUMNS = 5
ENTRY_WIDTH, ENTRY_HEIGHT = 1.9, 0.18  # of the legend, in inches
REWARD_ONLY = "reward-only"
Looks = Mapping[str, Look]


def frontier(
    frontiers: Sequence[Frontier], style: Looks, references: Mapping[str, Sequence[KnownDanger]] | None = None
) -> Figure:
    """Return against violation rate: a curve for what each method reaches, a mark for each of its policies.

    references: what is possible when the danger is known, by task.
    """
    references = references or {}
    figure, panels = _panels([one.setting for one in frontiers])
    for setting, axes in panels.items():
        for one in (one for one in frontiers if one.setting == setting):
            look = style[one.method]
            rates, returns = [p.violation_rate for p in one.policies], [p.mean_return for p in one.policies]
            axes.plot(rates, returns, look.marker, color=look.color, markersize=2.8, alpha=0.35, linewidth=0)
            if one.method != REWARD_ONLY:
                axes.plot(
                    [rate for _, rate in one.curve],
                    [gain for gain, _ in one.curve],
                    color=look.color,
                    linewidth=1.6,
                    zorder=3,
                )
        if drivers := references.get(setting.task, ()):
            rates, returns = [one.violation_rate for one in drivers], [one.mean_return for one in drivers]
            axes.plot(
                rates, returns, KNOWN.marker, linestyle=(0, (4, 2)), color=KNOWN.color, markersize=7, zorder=5
            )
        axes.set_xlim(left=min(-0.01, axes.get_xlim()[0]))
        axes.set_xlabel("violation rate")
        axes.xaxis.set_major_formatter(percent_tick)
        tidy(axes)
    next(iter(panels.values())).set_ylabel("mean return")
    marks = {}
    if any(one.method == REWARD_ONLY for one in frontiers):
        look = style[REWARD_ONLY]
        marks[REWARD_ONLY] = Line2D([], [], marker=look.marker, color=look.color, linestyle="", markersize=5)
    if any(setting.task in references for setting in panels):
        marks["danger known"] = Line2D(
            [], [], marker=KNOWN.marker, color=KNOWN.color, linestyle="", markersize=8
        )
    _legend(figure, [one.method for one in frontiers if one.method != REWARD_ONLY], style, marks)
    return figure


def _panels(settings: Sequence[Setting]) -> tuple[Figure, dict[Setting, Axes]]:
    """A panel for each setting, named by its task and by what else differs."""
    titles = _titles(settings)
    unique = list(titles)
    stories, abreast = math.ceil(len(unique) / PANELS_ABREAST), min(len(unique), PANELS_ABREAST)
    figure = sheet(PANEL_HEIGHT * stories, width=max(PANEL_WIDTH * abreast, 4.2))
    drawn = figure.subplots(stories, abreast, squeeze=False).ravel()
    for spare in drawn[len(unique) :]:
        spare.set_axis_off()
    panels = dict(zip(unique, drawn))
    for setting, axes in panels.items():
        axes.set_title(titles[setting])
    return figure, panels


def _titles(settings: Sequence[Setting]) -> dict[Setting, str]:
    """The task of each setting and what else differs."""
    names = setting_names(list(dict.fromkeys(settings)), leave_out=("task", "labelled", "updates"))
    return {
        setting: ", ".join(part for part in (setting.task, name) if part) for setting, name in names.items()
    }


def _legend(
    figure: Figure, methods: Sequence[str], style: Looks, others: Mapping[str, Line2D] | None = None
) -> None:
    handles = {
        method: Line2D([], [], color=look.color, marker=look.marker, markersize=5.0, linewidth=1.4)
        for method, look in style.items()
        if method in methods
    }
    handles |= others or {}
    abreast = min(LEGEND_COLUMNS, int(figure.get_figwidth() / ENTRY_WIDTH))
    rows = math.ceil(len(handles) / abreast)
    columns = math.ceil(len(handles) / rows)  # rows of about the same length
    figure.set_figheight(figure.get_figheight() + ENTRY_HEIGHT * (rows - 1))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
