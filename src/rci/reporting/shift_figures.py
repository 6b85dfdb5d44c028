"""The figure of `rci.run.shift`: the error of costs by how far the members of the ensemble disagree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rci.reporting.figures import Picture, render
from rci.reporting.palette import Look, sheet, variant_looks

Row = dict[str, Any]
KINDS = {"episode_groups": "error of the prediction at the end", "step_groups": "error of a step's cost"}


def shift_picture(rows: Sequence[Row]) -> Picture:
    """The figure as a file, with its description."""
    alt = "The error of predictions and of step costs for five groups of growing spread, one line per behaviour."
    caption = "Five groups of equal size, from the least spread to the most; bands span the seeds."
    return render("shift", alt, caption, lambda: shift(rows))


def shift(rows: Sequence[Row]) -> Figure:
    """One panel per task and kind of error, one line per behaviour, from the least spread to the most."""
    panels = [
        (task, kind)
        for task in dict.fromkeys(row["task"] for row in rows)
        for kind in KINDS
        if any(row["task"] == task and row[kind] for row in rows)
    ]
    looks = variant_looks(list(dict.fromkeys(row["scored"] for row in rows)))
    figure = sheet(2.6, width=2.7 * len(panels))
    for axes, (task, kind) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels):
        _draw(axes, [row for row in rows if row["task"] == task and row[kind]], kind, looks)
        axes.set(title=task, xlabel="spread of the step costs", ylabel=KINDS[kind])
    return figure


def _draw(axes: Axes, rows: Sequence[Row], kind: str, looks: dict[str, Look]) -> None:
    for scored in dict.fromkeys(row["scored"] for row in rows):
        look = looks[scored]
        groups = np.array([row[kind] for row in rows if row["scored"] == scored])  # [seeds, groups, 3]
        spread, error = groups[..., 0].mean(axis=0), groups[..., 1]
        name = f"{scored} (known)" if scored == rows[0]["fitted"] else scored
        axes.plot(
            spread, error.mean(axis=0), "-", color=look.color, marker=look.marker, markersize=3.5, label=name
        )
        axes.fill_between(spread, error.min(axis=0), error.max(axis=0), color=look.color, alpha=0.15)
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)
    axes.grid(axis="y")
    axes.legend(loc="best", fontsize=7.5)
