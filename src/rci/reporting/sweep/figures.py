"""The figure of a sweep: return against violation rate, one panel per task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from rci.reporting.figures.axes import marked_line, percent_tick, tidy
from rci.reporting.figures.palette import Look, sheet
from rci.reporting.numbers import tightness
from rci.reporting.sweep.groups import SweepGroup

PANEL_WIDTH, PANEL_HEIGHT = 7.6, 3.6  # inches
LINE_HEIGHT = 0.19  # inches, of one line of the legend
LETTERS_ABREAST = 130  # of one line of the legend


def trade_offs(lines: Mapping[tuple[str, str], Sequence[SweepGroup]], style: Mapping[str, Look]) -> Figure:
    """Mean return against violation rate with intervals; marks of one line differ in the budget alone."""
    tasks = list(dict.fromkeys(task for task, _ in lines))
    longest = max(map(len, style))
    columns = max(1, min(len(style), LETTERS_ABREAST // (longest + 8)))
    legend = LINE_HEIGHT * math.ceil(len(style) / columns)
    figure = sheet(PANEL_HEIGHT * len(tasks) + legend, width=PANEL_WIDTH)
    panels = dict(zip(tasks, figure.subplots(len(tasks), squeeze=False).ravel()))
    for (task, name), groups in lines.items():
        axes, look = panels[task], style[name]
        line = sorted(groups, key=lambda group: tightness(group.budget))
        for one in line:
            x, y = one.violation_rate, one.mean_return
            axes.hlines(y, one.violation_low, one.violation_high, color=look.color, linewidth=0.9, alpha=0.7)
            if one.return_low is not None and one.return_high is not None:
                axes.vlines(x, one.return_low, one.return_high, color=look.color, linewidth=0.9, alpha=0.7)
        marked_line(axes, [one.violation_rate for one in line], [one.mean_return for one in line], look, 1.1)
    for task, axes in panels.items():
        axes.set(title=task, ylabel="mean return")
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.xaxis.set_major_formatter(percent_tick)
        tidy(axes)
    panels[tasks[-1]].set_xlabel("violation rate")
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, markersize=5.0, linewidth=1.1)
        for look in style.values()
    ]
    figure.legend(handles, list(style), loc="outside lower center", ncols=columns)
    return figure
