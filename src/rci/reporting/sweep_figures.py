"""The figure of a sweep: return against violation rate, one panel per task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from rci.reporting.palette import ROUND, Look, sheet
from rci.reporting.paper_bar_figures import percent_tick
from rci.reporting.summary import tightness
from rci.reporting.sweep import SweepGroup

PANEL_WIDTH, PANEL_HEIGHT = 5.2, 3.4  # inches
LINE_HEIGHT = 0.19  # inches, of one line of the legend
LETTERS_ABREAST = 90  # of all columns of the legend, beside which a panel of one task has room


def trade_offs(lines: Mapping[tuple[str, str], Sequence[SweepGroup]], style: Mapping[str, Look]) -> Figure:
    """Mean return against violation rate with intervals; marks of one line differ in the budget alone."""
    tasks = list(dict.fromkeys(task for task, _ in lines))
    longest = max(map(len, style))
    columns = max(1, min(len(style), LETTERS_ABREAST * len(tasks) // (longest + 8)))
    legend = LINE_HEIGHT * math.ceil(len(style) / columns)
    figure = sheet(PANEL_HEIGHT + legend, width=PANEL_WIDTH * len(tasks))
    panels = dict(zip(tasks, figure.subplots(1, len(tasks), squeeze=False).ravel()))
    for (task, name), groups in lines.items():
        axes, look = panels[task], style[name]
        line = sorted(groups, key=lambda group: tightness(group.budget))
        for one in line:
            x, y = one.violation_rate, one.mean_return
            axes.hlines(y, one.violation_low, one.violation_high, color=look.color, linewidth=0.9, alpha=0.7)
            if one.return_low is not None and one.return_high is not None:
                axes.vlines(x, one.return_low, one.return_high, color=look.color, linewidth=0.9, alpha=0.7)
        axes.plot(
            [one.violation_rate for one in line], [one.mean_return for one in line], color=look.color,
            marker=look.marker, markersize=6.0, markeredgecolor="white", markeredgewidth=0.7, linewidth=1.1, zorder=3,
        )  # fmt: skip
    for task, axes in panels.items():
        axes.set(title=task, xlabel="violation rate")
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        axes.xaxis.set_major_formatter(FuncFormatter(percent_tick))
        axes.grid(True)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, steps=ROUND))
    panels[tasks[0]].set_ylabel("mean return")
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, markersize=5.0, linewidth=1.1)
        for look in style.values()
    ]
    figure.legend(handles, list(style), loc="outside lower center", ncols=columns)
    return figure
