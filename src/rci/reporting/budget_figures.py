"""The figure of `rci.run.variants budgets`: the violation rate that was asked for, and the one that came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rci.reporting.figures import Picture, render
from rci.reporting.palette import QUIET, sheet, variant_looks

Row = dict[str, Any]


def budget_picture(rows: Sequence[Row]) -> Picture:
    """The figure as a file, with its description."""
    alt = "Asked budget against realised violation rate, one panel per task, one line per way to estimate the cost."
    caption = "On the grey line budgets come true; above it they are broken. Points are policies, lines their means."
    return render("budgets", alt, caption, lambda: budgets(rows))


def budgets(rows: Sequence[Row]) -> Figure:
    """One panel per task, one line per variant over the budgets."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    looks = variant_looks(list(dict.fromkeys(row["variant"] for row in rows)))
    columns = min(3, len(tasks) + 1)  # of the legend, which is as wide as one panel and a half
    figure = sheet(3.4, width=max(4.6, 3.0 * len(tasks)))
    panels = np.atleast_1d(figure.subplots(1, len(tasks), sharey=True))
    top = max(max(row["violation_rate"], row["budget"]) for row in rows)
    for axes, task in zip(panels, tasks):
        own = [row for row in rows if row["task"] == task]
        asked = np.array(sorted({row["budget"] for row in own}))
        axes.plot([0.0, asked[-1]], [0.0, asked[-1]], color=QUIET, linewidth=0.8, alpha=0.6)
        for variant, look in looks.items():
            points = [(r["budget"], r["violation_rate"]) for r in own if r["variant"] == variant]
            if not points:
                continue
            known = sorted({budget for budget, _ in points})
            means = [np.mean([rate for budget, rate in points if budget == b]) for b in known]
            axes.plot(
                known,
                means,
                "-",
                color=look.color,
                marker=look.marker,
                markersize=3.5,
                linewidth=1.2,
                label=variant,
            )
            axes.scatter(*zip(*points), color=look.color, marker=look.marker, s=12)
        axes.set(title=task, xlabel="asked", ylim=(-0.02, 1.05 * top))
        axes.grid(axis="y")
    panels[0].set_ylabel("realised violation rate")
    handles = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=7.5)
    return figure
