"""Figures of single studies: a line per variant over what was asked for, or over how uncertain a model is.

Budgets: the violation rate that was asked for, and the one that came. Detection: what a monitor detects, and how early,
for the false alarms that one is ready to bear. Shift: the error of costs by how far members of an ensemble disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rci.reporting.figures.axes import percent_tick, thin_line
from rci.reporting.figures.palette import QUIET, Look, sheet, variant_looks
from rci.reporting.figures.picture import Picture, render

Row = dict[str, Any]
# Groups of an ensemble's spread, by the error that is shown over them.
SHIFT_ERRORS = {
    "episode_groups": "error of the prediction at the end",
    "step_groups": "error of a step's cost",
}


def budget_picture(rows: Sequence[Row]) -> Picture:
    """Budgets as a file, with its description."""
    alt = "Asked budget against realised violation rate, one panel per task, one line per way to estimate the cost."
    caption = "On the grey line budgets come true; above it they are broken. Points are policies, lines their means."
    return render("budgets", alt, caption, partial(budgets, rows))


def detection_picture(rows: Sequence[Row], step_seconds: float | None = None) -> Picture:
    """Detection as a file. rows: the fields of rci.evaluation.detection.Detection, and the `method` of the monitor."""
    alt = "Share of stops detected, lead time and realised false alarms against the asked false-alarm rate."
    caption = (
        "Levels are chosen on safe episodes for the rate asked for; what comes of it is measured on others. Bands are "
        "95% intervals of the shares, and the quartiles of the lead times. On the grey line rates come true."
    )
    return render("detection", alt, caption, partial(detection, rows, step_seconds))


def shift_picture(rows: Sequence[Row]) -> Picture:
    """Shift as a file, with its description."""
    alt = "The error of predictions and of step costs for five groups of growing spread, one line per behaviour."
    caption = "Five groups of equal size, from the least spread to the most; bands span the seeds."
    return render("shift", alt, caption, partial(shift, rows))


def budgets(rows: Sequence[Row]) -> Figure:
    """One panel per task, one line per variant over the budgets."""
    tasks, looks = _values(rows, "task"), variant_looks(_values(rows, "variant"))
    columns = min(3, len(tasks) + 1)  # of the legend, which is as wide as one panel and a half
    figure = sheet(3.4, width=max(4.6, 3.0 * len(tasks)))
    panels = np.atleast_1d(figure.subplots(1, len(tasks), sharey=True))
    top = max(max(row["violation_rate"], row["budget"]) for row in rows)
    for axes, task in zip(panels, tasks):
        on_task = [row for row in rows if row["task"] == task]
        _came_true(axes, max(row["budget"] for row in on_task), alpha=0.6)
        for variant, look in looks.items():
            points = [(row["budget"], row["violation_rate"]) for row in on_task if row["variant"] == variant]
            if not points:
                continue
            asked = sorted({budget for budget, _ in points})
            means = [np.mean([rate for budget, rate in points if budget == one]) for one in asked]
            thin_line(axes, asked, means, look, variant)
            axes.scatter(*zip(*points), color=look.color, marker=look.marker, s=12)
        axes.set(title=task, xlabel="asked", ylim=(-0.02, 1.05 * top))
        axes.grid(axis="y")
    panels[0].set_ylabel("realised violation rate")
    handles = {label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=7.5)
    return figure


def detection(rows: Sequence[Row], step_seconds: float | None = None) -> Figure:
    """Three panels over the asked rate, one line per method."""
    looks = variant_looks(_values(rows, "method"))
    figure = sheet(3.1, width=8.4)
    shares, leads, realised = figure.subplots(1, 3)
    unit, length = ("steps", 1.0) if step_seconds is None else ("seconds", step_seconds)
    for method, look in looks.items():
        ordered = sorted(
            (row for row in rows if row["method"] == method), key=lambda row: row["false_alarm_rate"]
        )
        _detection_line(shares, ordered, "detected", look, method)
        _detection_line(
            leads, [row for row in ordered if row["lead"] is not None], "lead", look, method, length
        )
        _detection_line(realised, ordered, "false_alarms", look, method)
    asked = sorted({row["false_alarm_rate"] for row in rows})
    _came_true(realised, asked[-1], zorder=1)
    shares.set(title="Stops detected", ylim=(0.0, 1.02))
    leads.set_title(f"Lead time, {unit}")
    realised.set_title("Safe episodes interrupted")
    realised.set_xlim(left=0.0)
    for axes in (leads, realised):
        axes.set_ylim(bottom=0.0)
    for axes in (shares, realised):
        axes.yaxis.set_major_formatter(percent_tick)
    for axes in (shares, leads):
        axes.set_xscale("log")
        axes.set_xticks(asked)
        axes.minorticks_off()
    for axes in (shares, leads, realised):
        axes.xaxis.set_major_formatter(percent_tick)
        axes.set_xlabel("false alarms asked for")
        axes.grid(axis="y")
    if len(looks) > 1:
        figure.legend(*shares.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7.5)
    return figure


def shift(rows: Sequence[Row]) -> Figure:
    """One panel per task and kind of error, one line per behaviour, from the least spread to the most."""
    panels = [
        (task, kind)
        for task in _values(rows, "task")
        for kind in SHIFT_ERRORS
        if any(row["task"] == task and row[kind] for row in rows)
    ]
    looks = variant_looks(_values(rows, "scored"))
    figure = sheet(2.6, width=2.7 * len(panels))
    for axes, (task, kind) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels):
        on_task = [row for row in rows if row["task"] == task and row[kind]]
        for scored in _values(on_task, "scored"):
            groups = np.array([row[kind] for row in on_task if row["scored"] == scored])  # [seeds, groups, 3]
            spread, error = groups[..., 0].mean(axis=0), groups[..., 1]
            name = f"{scored} (known)" if scored == on_task[0]["fitted"] else scored
            thin_line(axes, spread, error.mean(axis=0), looks[scored], name, width=1.5)
            _band(axes, spread, error.min(axis=0), error.max(axis=0), looks[scored], alpha=0.15)
        axes.set(title=task, xlabel="spread of the step costs", ylabel=SHIFT_ERRORS[kind])
        axes.set_xlim(left=0.0)
        axes.set_ylim(bottom=0.0)
        axes.grid(axis="y")
        axes.legend(loc="best", fontsize=7.5)
    return figure


def _detection_line(
    axes: Axes, rows: Sequence[Row], name: str, look: Look, label: str, scale: float = 1.0
) -> None:
    """A line with the band around it; nothing without rows."""
    rate = [row["false_alarm_rate"] for row in rows]
    middle, low, high = (
        scale * np.array([row[key] for row in rows], float) for key in (name, f"{name}_low", f"{name}_high")
    )
    thin_line(axes, rate, middle, look, label)
    _band(axes, rate, low, high, look, alpha=0.12, linewidth=0)


def _band(axes: Axes, x: Any, low: Any, high: Any, look: Look, **style: Any) -> None:
    axes.fill_between(x, low, high, color=look.color, **style)


def _came_true(axes: Axes, end: float, **style: Any) -> None:
    """The line on which what was asked for came true."""
    axes.plot([0.0, end], [0.0, end], color=QUIET, linewidth=0.8, **style)


def _values(rows: Sequence[Row], name: str) -> list[str]:
    """The values of a column, each once, in the order of the rows."""
    return list(dict.fromkeys(row[name] for row in rows))
