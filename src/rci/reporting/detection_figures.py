"""The figure of a monitor: what it detects and how early, for the false alarms that one is ready to bear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rci.reporting.figures import Picture, render
from rci.reporting.palette import QUIET, Look, sheet, variant_looks

Row = dict[str, Any]  # the fields of rci.evaluation.detection.Detection, and the `method` of the monitor


def detection_picture(rows: Sequence[Row], step_seconds: float | None = None) -> Picture:
    """The figure as a file, with its description."""
    alt = "Share of stops detected, lead time and realised false alarms against the asked false-alarm rate."
    caption = (
        "Levels are chosen on safe episodes for the rate asked for; what comes of it is measured on others. Bands are "
        "95% intervals of the shares, and the quartiles of the lead times. On the grey line rates come true."
    )
    return render("detection", alt, caption, lambda: detection(rows, step_seconds))


def detection(rows: Sequence[Row], step_seconds: float | None = None) -> Figure:
    """Three panels over the asked rate, one line per method."""
    looks = variant_looks(list(dict.fromkeys(row["method"] for row in rows)))
    figure = sheet(3.1, width=8.4)
    shares, leads, realised = figure.subplots(1, 3)
    unit, length = ("steps", 1.0) if step_seconds is None else ("seconds", step_seconds)
    for method, look in looks.items():
        own = sorted(
            (row for row in rows if row["method"] == method), key=lambda row: row["false_alarm_rate"]
        )
        _line(shares, own, ("detected", "detected_low", "detected_high"), look, method)
        known = [row for row in own if row["lead"] is not None]
        _line(leads, known, ("lead", "lead_low", "lead_high"), look, method, length)
        _line(realised, own, ("false_alarms", "false_alarms_low", "false_alarms_high"), look, method)
    asked = sorted({row["false_alarm_rate"] for row in rows})
    realised.plot([0.0, asked[-1]], [0.0, asked[-1]], color=QUIET, linewidth=0.8, zorder=1)
    shares.set(title="Stops detected", ylim=(0.0, 1.02))
    shares.yaxis.set_major_formatter(FuncFormatter(_percent))
    leads.set(title=f"Lead time, {unit}")
    leads.set_ylim(bottom=0.0)
    realised.set(title="Safe episodes interrupted")
    realised.set_xlim(left=0.0)
    realised.set_ylim(bottom=0.0)
    realised.yaxis.set_major_formatter(FuncFormatter(_percent))
    for axes in (shares, leads):
        axes.set_xscale("log")
        axes.set_xticks(asked)
        axes.minorticks_off()
    for axes in (shares, leads, realised):
        axes.xaxis.set_major_formatter(FuncFormatter(_percent))
        axes.set_xlabel("false alarms asked for")
        axes.grid(axis="y")
    if len(looks) > 1:
        figure.legend(*shares.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7.5)
    return figure


def _line(
    axes: Axes, rows: Sequence[Row], names: tuple[str, str, str], look: Look, label: str, scale: float = 1.0
) -> None:
    """A line with the band around it; nothing where there are no rows."""
    rate = [row["false_alarm_rate"] for row in rows]
    middle, low, high = (scale * np.array([row[name] for row in rows], float) for name in names)
    axes.plot(
        rate, middle, "-", color=look.color, marker=look.marker, markersize=3.5, linewidth=1.2, label=label
    )
    axes.fill_between(rate, low, high, color=look.color, alpha=0.12, linewidth=0)


def _percent(share: float, _: object = None) -> str:
    return f"{100.0 * share:.3g}%"
