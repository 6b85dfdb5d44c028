"""Maps over the task's world: what cost critics expect there, and where policies push.

Each policy has a panel; all have the edge of danger and, where that shows something, one key of colours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure

from rci.data.record import Array
from rci.reporting.figures.axes import ticks
from rci.reporting.figures.palette import HEAT, INK, WORTH, Look
from rci.reporting.numbers import number
from rci.reporting.run.contents import CriticMap, FieldMap

if TYPE_CHECKING:
    from rci.tasks.base import Probe

# Inches
WIDTH, WIDEST = 10.0, 4.0  # of the figure, and of one map that does not have a row to itself
LEFT, RIGHT, HEAD, FOOT = 0.6, 0.65, 0.3, 0.45  # around the maps; each has its own head
KEY = 0.11  # how wide the key of the colours is, and how far from the map
GAP = {True: 0.22, False: 0.75}  # between neighbours, by whether they share one key

MOST_COLUMNS = 3
MOST_ARROWS = 20  # along the longer side of the world
CELL_SHARE = 0.92  # how much of its cell the longest arrow fills
FLAT = 0.35  # worlds flatter than this have a row to themselves
FAINTEST = 1 / 3  # share of the common range that every map must fill, or each has colours of its own

Maps = Sequence[CriticMap | FieldMap]


class Arrangement(NamedTuple):
    """How maps share the page: its width in inches, maps side by side (None: as fits), places left free before them."""

    width: float = WIDTH
    columns: int | None = None
    free: int = 0


ROOMY = Arrangement()


def critic_maps(
    maps: Sequence[CriticMap], probe: Probe, style: Mapping[str, Look], distance: Array, danger: float
) -> Figure:
    """One map per method; the line surrounds what is truly unsafe. distance: at the points of the probe."""
    figure, _ = map_panels(maps, probe, style, distance, danger, HEAT)
    return figure


def vector_fields(
    maps: Sequence[FieldMap], probe: Probe, style: Mapping[str, Look], distance: Array, danger: float
) -> Figure:
    """One map per policy, arrows over colours; all maps have one scale of arrows. distance: at the probe's points."""
    figure, panels = map_panels(maps, probe, style, distance, danger, WORTH)
    draw_arrows(panels, maps, probe)
    return figure


def draw_arrows(panels: Sequence[Axes], maps: Sequence[FieldMap], probe: Probe) -> None:
    """The arrows of every map on its panel, all in one scale."""
    rows, columns, cell = arrow_places(probe.x, probe.y)
    picked = [entry.arrow[np.ix_(rows, columns)] for entry in maps]
    longest = max(float(np.hypot(arrow[..., 0], arrow[..., 1]).max()) for arrow in picked)
    for axes, arrow in zip(panels, picked):  # not clipped: arrows at the edge of the world stay whole
        axes.quiver(
            probe.x[columns], probe.y[rows], arrow[..., 0], arrow[..., 1], angles="xy", scale_units="xy",
            scale=(longest or 1.0) / (CELL_SHARE * cell), pivot="mid", units="inches", width=0.013, headwidth=4.0,
            headlength=4.5, headaxislength=4.0, minshaft=1.2, color=INK, zorder=4, clip_on=False,
        )  # fmt: skip


def value_range(entry: CriticMap | FieldMap) -> str:
    """The lowest and the highest value of a map, in words."""
    return f"{number(float(entry.value.min()))} to {number(float(entry.value.max()))}"


def share_colours(maps: Maps) -> bool:
    """Whether one range of colours shows something on every map."""
    low, high = colour_range(maps)
    return min(float(np.ptp(entry.value)) for entry in maps) >= FAINTEST * (high - low)


def colour_range(maps: Maps) -> tuple[float, float]:
    """The lowest and the highest value of some maps."""
    return min(float(entry.value.min()) for entry in maps), max(float(entry.value.max()) for entry in maps)


def map_columns(maps: int, ratio: float) -> int:
    """How many maps stand side by side, so that the rows are about equally full. ratio: height to width."""
    rows = maps if ratio < FLAT else -(-maps // MOST_COLUMNS)
    return -(-maps // rows)


def map_panels(
    maps: Maps,
    probe: Probe,
    style: Mapping[str, Look],
    distance: Array,
    danger: float,
    colours: Colormap,
    arrangement: Arrangement = ROOMY,
) -> tuple[Figure, list[Axes]]:
    """The values of each map in colours; the line surrounds what is truly unsafe. distance: at the probe's points.

    Free places come first and hold empty axes.
    """
    shared, ratio, free = share_colours(maps), _ratio(probe), arrangement.free
    cells = free + len(maps)
    columns = arrangement.columns or map_columns(cells, ratio)
    rows, gaps = -(-cells // columns), (columns - 1) * GAP[shared]
    width = (arrangement.width - LEFT - RIGHT - gaps) / columns
    width = width if ratio < FLAT else min(width, WIDEST)
    height = width * ratio
    across, total = LEFT + columns * width + gaps + RIGHT, rows * (HEAD + height) + FOOT
    figure, panels = Figure(figsize=(across, total)), list[Axes]()
    for i, entry in enumerate([*[None] * free, *maps]):
        left = LEFT + (i % columns) * (width + GAP[shared])
        bottom = total - (i // columns + 1) * (HEAD + height)
        axes = figure.add_axes((left / across, bottom / total, width / across, height / total))
        panels.append(axes)
        if entry is None:
            continue
        norm = Normalize(*colour_range(maps if shared else [entry]))
        _draw_map(axes, entry.value, probe, norm, colours)
        if distance.min() < danger < distance.max():
            axes.contour(probe.x, probe.y, distance, [danger], colors=INK, linewidths=0.9, zorder=3)
        budget = "" if entry.budget in ("inf", "none") else f", budget {entry.budget}"
        channel = f": {entry.channel}" if isinstance(entry, CriticMap) and entry.channel else ""
        axes.set_title(f"{entry.method}{budget}{channel}", color=style[entry.method].ink, pad=4.0)
        lowest, leftmost = i + columns >= cells, i % columns == 0
        axes.tick_params(labelbottom=lowest, labelleft=leftmost)
        axes.set(xlabel=probe.x_label if lowest else "", ylabel=probe.y_label if leftmost else "")
        if not shared or i == cells - 1:
            # One key beside all rows, or one beside each map.
            high = total - FOOT - HEAD if shared else height
            right = (across - RIGHT if shared else left + width) + KEY
            place = (right / across, (FOOT if shared else bottom) / total, KEY / across, high / total)
            bar = figure.colorbar(ScalarMappable(norm, colours), cax=figure.add_axes(place))
            ticks(bar.ax.yaxis, 5 if shared else 3)
            bar.outline.set_visible(False)
    return figure, panels


def _draw_map(axes: Axes, value: Array, probe: Probe, norm: Normalize, colours: Colormap) -> None:
    """The colours between the ground and the lines and cars that the probe draws."""
    x, y, (rows, columns) = probe.x, probe.y, value.shape
    half_x, half_y = (x[-1] - x[0]) / (columns - 1) / 2, (y[-1] - y[0]) / (rows - 1) / 2
    axes.imshow(
        value, extent=(x[0] - half_x, x[-1] + half_x, y[0] - half_y, y[-1] + half_y), origin="lower", norm=norm,
        cmap=colours, aspect="auto", interpolation="bilinear", zorder=1,
    )  # fmt: skip
    probe.draw(axes)
    ticks(axes.xaxis, 7)
    ticks(axes.yaxis, 4)


def _ratio(probe: Probe) -> float:
    """How many times as high as wide the world is."""
    axes = Figure().add_subplot()
    probe.draw(axes)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return abs((top - bottom) / (right - left))


def arrow_places(x: Array, y: Array) -> tuple[Array, Array, float]:
    """The rows and the columns that have arrows, about as far apart across as up, and the side of an arrow's cell."""
    long, short = sorted((x, y), key=lambda side: -float(np.ptp(side)))
    stride = -(-len(long) // MOST_ARROWS)
    apart = stride * _gap(long)
    other = max(1, round(apart / _gap(short)))
    columns, rows = (_centred(len(side), stride if side is long else other) for side in (x, y))
    return rows, columns, min(apart, other * _gap(short))


def _gap(side: Array) -> float:
    return float(np.ptp(side)) / (len(side) - 1)


def _centred(points: int, stride: int) -> Array:
    """The middle points of groups of so many, with as much left over at one end as at the other."""
    groups = max(1, points // stride)
    first = (points - 1 - (groups - 1) * stride) // 2
    return first + stride * np.arange(groups)
