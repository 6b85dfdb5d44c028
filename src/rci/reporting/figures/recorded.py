"""Figures of the recorded data: how long episodes are and what they return, and how its demonstrators learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, PercentFormatter

from rci.data.record import Array
from rci.reporting.figures.axes import ticks
from rci.reporting.figures.palette import DANGER, FAINT, INK, sheet
from rci.reporting.run.contents import ReportInput
from rci.reporting.run.rows import recorded_returns


def length_histogram(report: ReportInput) -> Figure:
    """Kept lengths, after the stop."""
    lengths = report.labels.kept_lengths
    width = max(1, -(-int(lengths.max()) // 30))  # whole steps, about 30 bars
    edges = np.arange(0.5, lengths.max() + width + 0.5, width)
    return _histogram("Steps kept", "steps", lengths, report.labels.stopped, edges)


def return_histogram(report: ReportInput) -> Figure:
    """Returns of the recorded episodes, stops ignored."""
    returns = recorded_returns(report)
    edges = np.histogram_bin_edges(returns, bins=30)
    return _histogram("Return recorded", "return", returns, report.labels.stopped, edges)


def training_curve(demonstrators: Mapping[str, Any]) -> Figure:
    """Return and violation rate over the demonstrators' training; dots are the checkpoints that recorded the data."""
    curve, checkpoints = demonstrators["curve"], demonstrators["checkpoints"]
    steps = np.asarray(curve["steps"], np.float64)
    used = np.array([checkpoint["steps"] for checkpoint in checkpoints], np.float64)
    figure = sheet(3.3)
    upper, lower = figure.subplots(2, 1, sharex=True)
    upper.set_title("Training the demonstrators")
    for axes, name, color in ((upper, "return", INK), (lower, "violation_rate", DANGER)):
        values = np.asarray(curve[name], np.float64)
        axes.plot(steps, values, color=color, linewidth=1.3)
        for step in used.tolist():
            axes.axvline(step, color=FAINT, linewidth=0.7, zorder=0)
        if len(steps) and len(used):
            axes.plot(
                used, np.interp(used, steps, values), "o", color=color, markersize=5.0, markeredgecolor="white",
                markeredgewidth=0.7, clip_on=False, zorder=4,
            )  # fmt: skip
        ticks(axes.yaxis, 4)
        axes.grid(axis="y")
    upper.set_ylabel("return")
    upper.tick_params(axis="x", length=0)
    upper.spines["bottom"].set_visible(False)
    lower.set(xlabel="environment steps", ylabel="violation rate", ylim=(0.0, None))
    lower.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ticks(lower.xaxis, 5)
    lower.xaxis.set_major_formatter(EngFormatter(sep=""))
    figure.align_ylabels([upper, lower])
    return figure


def _histogram(title: str, quantity: str, values: Array, stopped: Array, edges: Array) -> Figure:
    figure = sheet(2.2)
    axes = figure.add_subplot(title=title, xlabel=quantity, ylabel="episodes")
    groups = {"never stopped": (values[~stopped], FAINT), "stopped": (values[stopped], INK)}
    shown = {name: entry for name, entry in groups.items() if len(entry[0])}
    axes.hist(
        [entry[0] for entry in shown.values()],
        bins=edges.tolist(),
        stacked=True,
        color=[entry[1] for entry in shown.values()],
        label=list(shown),
        edgecolor="white",
        linewidth=0.4,
    )
    ticks(axes.yaxis, 4, integer=True)
    axes.grid(axis="y")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.legend(
        loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, handlelength=1.0, handleheight=1.0, borderaxespad=0.3,
        columnspacing=1.2, reverse=True,
    )  # fmt: skip
    return figure
