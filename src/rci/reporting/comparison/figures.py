"""Figures of a comparison of redistributors: where each sent the cost, how well it points, how far to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rci.data.record import Array
from rci.data.types import Labels, Oracle, StepCosts
from rci.reporting.comparison.results import FIGURES, ComparisonInput, VariantResult, broken
from rci.reporting.figures.axes import diagonal, name_rows, show_steps, stack_in_time, ticks
from rci.reporting.figures.episodes import draw_costs, draw_distance, pooled, sampled_episodes
from rci.reporting.figures.palette import INK, QUIET, Look, sheet, variant_looks
from rci.reporting.figures.picture import Picture, render
from rci.reporting.numbers import number

WIDE = 7.8  # inches
CORRELATIONS = ("rise_correlation", "time_correlation")
LONGEST_NAME = 96  # letters over a row of the wide figure


def pictures(comparison: ComparisonInput) -> dict[str, Picture]:
    """The figures of a comparison, by name; calibration only if some variant predicts from prefixes."""
    style = variant_looks(list(comparison.costs))
    picked = sampled_episodes(comparison.labels)
    drawn = {
        "episodes": render(
            "episodes",
            f"Step costs of {len(comparison.costs)} variants in episodes {', '.join(map(str, picked))}: "
            f"{', '.join(comparison.costs)}.",
            "",
            partial(episode_costs, comparison, style),
        ),
        "correlations": render(
            "correlations",
            "Rank correlations of step costs within stopped episodes: "
            + "; ".join(f"{result.variant} {_correlations_text(result)}" for result in comparison.results)
            + ".",
            "Rank correlation of the step costs within stopped episodes, with what each step added to the exact risk "
            "where that is known, and with time. Lines: 95% intervals over seeds; small dots: single seeds.",
            partial(correlation_dots, comparison.results, style),
        ),
    }
    tables = {
        name: table for name, costs in comparison.costs.items() if (table := pooled(costs.info)) is not None
    }
    if tables:
        drawn["calibration"] = render(
            "calibration",
            f"Reliability of predictions from prefixes of held-out episodes: {', '.join(tables)}.",
            "Predictions from every prefix of the held-out episodes, grouped by what was predicted, with the first "
            "seed. On the grey line, predictions come true; larger marks hold more of them.",
            partial(reliability_lines, tables, style),
        )
    return drawn


def episode_costs(comparison: ComparisonInput, style: Mapping[str, Look]) -> Figure:
    """The sampled episodes of a comparison with the costs of every variant."""
    picked = sampled_episodes(comparison.labels)
    return cost_columns(
        picked, comparison.labels, comparison.costs, style, comparison.oracle, comparison.danger
    )


def cost_columns(
    picked: Sequence[int],
    labels: Labels,
    costs: Mapping[str, StepCosts],
    style: Mapping[str, Look],
    oracle: Oracle | None,
    danger: float,
    nearest: str = "distance to the nearest danger",
) -> Figure:
    """Episodes in columns; in rows the sparse cost, that of every method, and the distance to danger, where known."""
    rows = len(costs) + (1 if oracle is None else 2)
    figure = sheet(0.74 * rows + 0.75, width=WIDE)
    layout: Any = figure.get_layout_engine()
    layout.set(hspace=0.2)
    panels = figure.subplots(rows, len(picked), sharex="col", sharey="row", squeeze=False)
    sparse = [_sparse(labels.channel_cost[i].sum(), labels.kept_lengths[i]) for i in picked]
    _row_of_bars(panels[0], "cost of the label", sparse, INK, INK)
    for row, (name, own) in zip(panels[1:], costs.items()):
        note = "" if own.return_equivalent else "  (sums not exact)"
        dense = episodes_of(own, picked)
        _row_of_bars(row, _shortened(name) + note, dense, style[name].color, style[name].ink)
    if oracle is not None:
        begin = np.cumsum(labels.lengths) - labels.lengths
        kept = [begin[i] + np.arange(labels.kept_lengths[i]) for i in picked]
        for axes, steps in zip(panels[-1], kept):
            draw_distance(axes, np.arange(len(steps)), oracle.distance[steps], oracle.unsafe[steps], danger)
            axes.set_ylabel("")
        shown = np.append(oracle.distance[np.concatenate(kept)], [0.0, danger])
        room = 0.06 * max(float(np.ptp(shown)), 1e-9)
        panels[-1][0].set_ylim(float(shown.min()) - room, float(shown.max()) + room)
        _name_row(panels[-1][0], nearest, QUIET)
    for column, i in zip(panels.T, picked):
        length = int(labels.kept_lengths[i])
        end = f"stopped at step {length - 1}" if labels.stopped[i] else f"safe, {length} steps"
        column[0].set_title(f"Episode {i}: {end}", pad=19.0, fontsize=8.5)
        show_steps(column[0], length)
        stack_in_time(column)
    for axes in panels.flat:
        axes.tick_params(axis="y", labelsize=7.0)
    return figure


def correlation_dots(results: Sequence[VariantResult], style: Mapping[str, Look]) -> Figure:
    """One line per variant: its mean with an interval, and its seeds."""
    shown = [name for name in CORRELATIONS if any(result.values.get(name) for result in results)]
    names = [broken(result.variant) for result in results]
    lines = [name.count("\n") + 1 for name in names]
    place = np.cumsum([0.0, *(0.5 * (a + b) + 0.15 for a, b in pairwise(lines))])
    figure = sheet(0.9 + 0.2 * float(place[-1] + 1), width=4.8)
    panels = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
    for axes, name in zip(panels, shown):
        axes.axvline(0.0, color="#9aa1ac", linewidth=0.7)
        for y, result in zip(place, results):
            _dot(axes, y, result, name, style[result.variant])
        axes.set(title=FIGURES[name].capitalize(), xlabel="rank correlation")
        limit_correlations(axes)
        ticks(axes.xaxis, 4)
        name_rows(axes)
    panels[0].set_yticks(place, names)
    panels[0].set_ylim(place[-1] + 0.7, -0.7)
    for label, result in zip(panels[0].get_yticklabels(), results):
        label.set_color(style[result.variant].ink)
    return figure


def reliability_lines(tables: Mapping[str, Array], style: Mapping[str, Look]) -> Figure:
    """Held-out predictions against what came true, a line per variant. tables: [[predicted, observed, count]]."""
    legend = 0.17 * sum(broken(name, 60).count("\n") + 1 for name in tables)
    figure = sheet(3.9 + legend, width=4.8)
    axes = figure.add_subplot(
        title="Calibration on held-out episodes", xlabel="predicted episodic cost", ylabel="observed cost"
    )
    diagonal(axes)
    for name, table in tables.items():
        look = style[name]
        axes.plot(table[:, 0], table[:, 1], color=look.color, linewidth=1.1, alpha=0.6)
        area = 10.0 + 60.0 * table[:, 2] / table[:, 2].max()
        axes.scatter(
            table[:, 0], table[:, 1], s=area, color=look.color, marker=look.marker, edgecolor="white",
            linewidth=0.5, zorder=3, alpha=0.9, label=broken(name, 60),
        )  # fmt: skip
    every = np.concatenate([table[:, :2] for table in tables.values()])
    low, high = np.minimum(0.0, every.min(axis=0)) - 0.04, np.maximum(1.0, every.max(axis=0)) + 0.04
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    axes.grid(True)
    handles, names = axes.get_legend_handles_labels()
    drawn = figure.legend(handles, names, loc="outside lower left", handletextpad=0.4, borderaxespad=0.2)
    for handle in drawn.legend_handles:
        handle.set_sizes([26.0])  # type: ignore[union-attr]
    return figure


def episodes_of(costs: StepCosts, episodes: Sequence[int]) -> list[Array]:
    """The step costs of some episodes, channels added up: [T] each."""
    offset = costs.step_offset
    return [costs.total[offset[i] : offset[i + 1]] for i in episodes]


def _row_of_bars(panels: Sequence[Axes], name: str, costs: Sequence[Array], color: str, ink: str) -> None:
    """The same signed costs in every column, in one scale."""
    among = np.concatenate(costs)
    for axes, cost in zip(panels, costs):
        draw_costs(axes, cost, color, among)
    _name_row(panels[0], name, ink)


def _name_row(axes: Axes, name: str, ink: str) -> None:
    """A name over the left panel of a row, which may run on over the other panels."""
    axes.annotate(
        name, (0, 1), (0, 2.5), xycoords="axes fraction", textcoords="offset points", fontsize=7.5, color=ink,
        va="bottom", annotation_clip=False,
    ).set_in_layout(False)  # fmt: skip


def _dot(axes: Axes, y: float, result: VariantResult, name: str, look: Look) -> None:
    mean, half = result.mean(name), result.half_width.get(name)
    if mean is None:
        return
    values = result.values[name]
    if len(values) > 1:
        axes.plot(values, [y] * len(values), ".", color=look.color, markersize=4.0, alpha=0.45)
    if half is not None:
        axes.plot([mean - half, mean + half], [y, y], color=look.color, linewidth=1.3)
    axes.plot(
        mean, y, look.marker, color=look.color, markersize=6.0, markeredgecolor="white", markeredgewidth=0.6
    )


def _sparse(cost: float, steps: int) -> Array:
    return np.append(np.zeros(steps - 1), cost)


def limit_correlations(axes: Axes) -> None:
    """An interval may be wider than correlations can be; the axis is not."""
    low, high = axes.get_xlim()
    axes.set_xlim(max(low, -1.06), min(high, 1.06))


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def _correlations_text(result: VariantResult) -> str:
    names = [name for name in CORRELATIONS if result.values.get(name)]
    return " and ".join(f"{number(result.mean(name))} ({FIGURES[name].split()[0]})" for name in names)
