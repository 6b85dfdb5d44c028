"""Figures of stage two: where the cost of an episode went, and how good the model was that sent it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from rci.data.record import Array
from rci.data.types import Labels
from rci.reporting.figures.axes import diagonal, show_steps, stack_in_time, ticks
from rci.reporting.figures.palette import DANGER, INK, QUIET, Look, sheet
from rci.reporting.run.contents import ReportInput
from rci.reporting.run.rows import method_looks

SHORTEST_SHOWN = 5  # steps
BINS = 10  # of a reliability plot


def sampled_episodes(labels: Labels) -> list[int]:
    """Three episodes picked by rule: stopped ones at the quartiles of kept length, and a safe one in the middle.

    Stopped ones have at least five steps, if three of them do: in fewer there is little to distribute. Where there are
    no episodes of one kind, the other kind fills up.
    """
    kept, stopped = labels.kept_lengths, labels.stopped
    long = stopped & (kept >= SHORTEST_SHOWN)
    unsafe, safe = (
        group[np.argsort(kept[group], kind="stable")]
        for group in (np.flatnonzero(long if long.sum() >= 3 else stopped), np.flatnonzero(~stopped))
    )
    shares = {(True, True): ((0.25, 0.75), (0.5,)), (True, False): ((0.25, 0.5, 0.75), ())}
    of_unsafe, of_safe = shares.get((len(unsafe) > 0, len(safe) > 0), ((), (0.25, 0.5, 0.75)))
    picked = [int(unsafe[int(share * (len(unsafe) - 1))]) for share in of_unsafe]
    picked += [int(safe[int(share * (len(safe) - 1))]) for share in of_safe]
    return list(dict.fromkeys(picked))


def redistributed_episode(
    report: ReportInput, episode: int, method: str | None, danger: float = 0.0
) -> Figure:
    """One episode in rows: sparse cost, redistributed cost, its running sum beside the exact risk, distance.

    With channels, costs are summed over them.
    danger: the distance at and below which a step is unsafe.
    """
    labels = report.labels
    steps, stopped = int(labels.kept_lengths[episode]), bool(labels.stopped[episode])
    begin = int(labels.kept_lengths[:episode].sum())
    kept = slice(begin, begin + steps)
    recorded = report.episodes.step_offset[episode] + np.arange(steps)
    rows = 2 if method is None else 3 if report.risk is None else 4
    figure = sheet(1.05 * rows + 0.5, width=3.5)
    panels: list[Axes] = list(figure.subplots(rows, 1, sharex=True))
    end = f"stopped at step {steps - 1}" if stopped else f"never stopped, {steps} steps"
    panels[0].set_title(f"Episode {episode}: {end}")
    draw_costs(panels[0], np.append(np.zeros(steps - 1), labels.channel_cost[episode].sum()), INK)
    panels[0].set_ylabel("sparse cost")
    if method is not None:
        look, cost = method_looks(report)[method], report.costs[method].total[kept]
        draw_costs(panels[1], cost, look.color)
        panels[1].set_ylabel("step cost")
        if report.risk is not None:
            _running_sum(panels[2], method, cost, report.risk[kept], look)
    draw_distance(
        panels[-1], np.arange(steps), report.oracle.distance[recorded], report.oracle.unsafe[recorded], danger
    )
    show_steps(panels[0], steps)
    stack_in_time(panels)
    figure.align_ylabels(panels)
    return figure


def reliability_plot(calibration: ArrayLike, look: Look) -> Figure:
    """Held-out predictions against what came true: on the diagonal, 30% means 30%. Area grows with the count."""
    table = np.asarray(calibration, np.float64)
    figure = sheet(3.1)
    axes = figure.add_subplot(
        title="Calibration on held-out episodes", xlabel="predicted episodic cost", ylabel="observed share"
    )
    diagonal(axes)
    axes.plot(table[:, 0], table[:, 1], color=look.color, linewidth=1.0, alpha=0.6)
    area = 12.0 + 160.0 * table[:, 2] / table[:, 2].max()
    axes.scatter(
        table[:, 0], table[:, 1], s=area, color=look.color, edgecolor="white", linewidth=0.8, zorder=3
    )
    low, high = min(0.0, table[:, :2].min()), max(1.0, table[:, :2].max())
    axes.set(xlim=(low - 0.04, high + 0.04), ylim=(low - 0.04, high + 0.04), aspect="equal")
    axes.grid(True)
    return figure


def pooled(info: Mapping[str, Any]) -> Array | None:
    """The reliability table that a fit reports, [bins, 3], of all channels as one; None if it has none."""
    parts = list(info["by_channel"].values()) if "by_channel" in info else [info]
    rows = [row for part in parts for row in part.get("calibration") or []]
    if not rows:
        return None
    table = np.asarray(rows, np.float64)
    group = np.clip((table[:, 0] * BINS).astype(int), 0, BINS - 1)
    merged = []
    for own in (table[group == b] for b in np.unique(group)):
        count = own[:, 2].sum()
        merged.append([own[:, 0] @ own[:, 2] / count, own[:, 1] @ own[:, 2] / count, count])
    return np.array(merged)


def loss_curves(train: Sequence[float], held_out: Sequence[float], look: Look) -> Figure:
    """Loss over epochs, on training and on held-out episodes."""
    figure = sheet(2.5)
    axes = figure.add_subplot(title="Training the redistributor", xlabel="epoch", ylabel="squared error")
    for name, values, color, style in (
        ("training", train, QUIET, "--"),
        ("held out", held_out, look.color, "-"),
    ):
        if len(values):
            axes.plot(np.arange(1, len(values) + 1), values, style, color=color, label=name)
    axes.set_ylim(bottom=0.0)
    ticks(axes.xaxis, 6, integer=True)
    ticks(axes.yaxis, 4)
    axes.grid(axis="y")
    axes.legend(loc="upper right", handlelength=1.6)
    return figure


def _running_sum(axes: Axes, method: str, cost: Array, risk: Array, look: Look) -> None:
    """The cost so far, which is what the model expects of the episode, beside the exact chance of a violation."""
    total = np.cumsum(cost)
    axes.plot(total, color=look.color, label=f"{method} so far")
    axes.plot(risk, color=INK, linewidth=0.9, linestyle=(0, (3, 1.5)), label="exact risk")
    axes.set_ylim(min(0.0, float(total.min())) - 0.06, max(1.0, float(total.max())) + 0.06)
    axes.set_ylabel("sum, risk")
    axes.grid(axis="y")
    axes.legend(loc="best", fontsize=7.5, handlelength=1.5, borderaxespad=0.2)


def draw_costs(axes: Axes, values: Array, color: str, among: Array | None = None) -> None:
    """Signed costs as bars. The axis has room for all values of `among`, or else for these."""
    axes.axhline(0.0, color="#9aa1ac", linewidth=0.7)
    axes.bar(np.arange(len(values)), values, width=0.9, color=color, linewidth=0)
    shown = values if among is None else among
    low, high = min(0.0, float(shown.min())), max(0.0, float(shown.max()))
    if low == high:
        low, high = 0.0, 1.0
    axes.set_ylim(low - 0.06 * (high - low), high + 0.12 * (high - low))


def draw_distance(axes: Axes, moment: Array, distance: Array, unsafe: Array, danger: float) -> None:
    """The distance to the nearest danger at some moments, a step apart; those that are truly unsafe are shaded."""
    axes.plot(moment, distance, color=QUIET, linewidth=1.3)
    for place in moment[unsafe].tolist():
        axes.axvspan(place - 0.5, place + 0.5, color=DANGER, alpha=0.25, linewidth=0)
    axes.axhline(danger, color=DANGER, linewidth=0.9, linestyle=(0, (3, 1.5)))
    axes.set_ylim(bottom=min(0.0, danger, float(distance.min())))
    axes.set_ylabel("distance")
    axes.grid(axis="y")
