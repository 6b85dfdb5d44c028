"""Vector fields of the policies over the task's world: where each action pushes, and what the critics make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rci.data.record import Array
from rci.reporting.contents import FieldMap
from rci.reporting.map_figures import map_panels
from rci.reporting.palette import INK, WORTH, Look

if TYPE_CHECKING:
    from rci.tasks.base import Probe

MOST_ARROWS = 20  # along the longer side of the world
CELL_SHARE = 0.92  # how much of its cell the longest arrow fills


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
