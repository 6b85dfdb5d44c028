"""Maps of the cost critics over the task's world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rci.data.record import Array
from rci.reporting.contents import CriticMap
from rci.reporting.palette import HEAT, INK, ROUND, Look

if TYPE_CHECKING:
    from rci.tasks.base import Probe

# Inches
WIDTH, WIDEST = 10.0, 4.0  # of the figure, and of one map that does not have a row to itself
LEFT, RIGHT, HEAD, FOOT = 0.6, 0.65, 0.3, 0.45  # around a map
KEY = 0.11  # how wide the key of the colours is, and how far from the map

FLAT = 0.35  # worlds flatter than this have a row to themselves
FAINTEST = 1 / 3  # share of the common range that every map must fill, or each has colours of its own


def share_colours(maps: Sequence[CriticMap]) -> bool:
    """Whether one range of colours shows something on every map."""
    ends = colour_range(maps)
    return min(float(np.ptp(entry.value)) for entry in maps) >= FAINTEST * (ends[1] - ends[0])


def colour_range(maps: Sequence[CriticMap]) -> tuple[float, float]:
    """The lowest and the highest value of some maps."""
    return min(float(entry.value.min()) for entry in maps), max(float(entry.value.max()) for entry in maps)


def critic_maps(
    maps: Sequence[CriticMap], probe: Probe, style: Mapping[str, Look], distance: Array, danger: float
) -> Figure:
    """One map per method; the line surrounds what is truly unsafe. distance: at the points of the probe."""
    shared, ratio = share_colours(maps), _ratio(probe)
    columns = 1 if ratio < FLAT else min(len(maps), 3)
    rows = -(-len(maps) // columns)
    width = WIDTH / columns - LEFT - RIGHT
    width = width if columns == 1 and ratio < FLAT else min(width, WIDEST)
    height = width * ratio
    across, total = columns * (LEFT + width + RIGHT), rows * (HEAD + height) + FOOT
    figure = Figure(figsize=(across, total))
    for i, entry in enumerate(maps):
        left = (i % columns) * (LEFT + width + RIGHT) + LEFT
        bottom = total - (i // columns + 1) * (HEAD + height)
        axes = figure.add_axes((left / across, bottom / total, width / across, height / total))
        norm = Normalize(*colour_range(maps if shared else [entry]))
        _draw_map(axes, entry, probe, norm)
        if distance.min() < danger < distance.max():
            axes.contour(probe.x, probe.y, distance, [danger], colors=INK, linewidths=0.9, zorder=3)
        budget = "" if entry.budget in ("inf", "none") else f", budget {entry.budget}"
        axes.set_title(f"{entry.method}{budget}", color=style[entry.method].ink, pad=4.0)
        below = i + columns >= len(maps)
        axes.tick_params(axis="x", labelbottom=below)
        axes.set(xlabel=probe.x_label if below else "", ylabel=probe.y_label if i % columns == 0 else "")
        if not shared or i == len(maps) - 1:
            high = (
                total - FOOT - HEAD if shared else height
            )  # one key beside all rows, or one beside each map
            right = (across - RIGHT if shared else left + width) + KEY
            place = (right / across, (FOOT if shared else bottom) / total, KEY / across, high / total)
            bar = figure.colorbar(ScalarMappable(norm, HEAT), cax=figure.add_axes(place))
            bar.ax.yaxis.set_major_locator(MaxNLocator(5 if shared else 3, steps=ROUND))
            bar.outline.set_visible(False)
    return figure


def _draw_map(axes: Axes, entry: CriticMap, probe: Probe, norm: Normalize) -> None:
    """The colours between the ground and the lines and cars that the probe draws."""
    x, y, (rows, columns) = probe.x, probe.y, entry.value.shape
    half_x, half_y = (x[-1] - x[0]) / (columns - 1) / 2, (y[-1] - y[0]) / (rows - 1) / 2
    axes.imshow(
        entry.value, extent=(x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y), origin="lower", norm=norm,
        cmap=HEAT, aspect="auto", interpolation="bilinear", zorder=1,
    )  # fmt: skip
    probe.draw(axes)
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=ROUND))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=ROUND))


def _ratio(probe: Probe) -> float:
    """How many times as high as wide the world is."""
    axes = Figure().add_subplot()
    probe.draw(axes)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return abs((top - bottom) / (right - left))
