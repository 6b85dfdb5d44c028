"""The paper's maps: what cost critics expect over the road, and where policies push the arm's end-effector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.patheffects import withStroke

from rci.data.errors import RciError
from rci.data.record import Array
from rci.reporting.figures.maps import Arrangement, Maps, draw_arrows, map_panels, share_colours, value_range
from rci.reporting.figures.palette import HEAT, INK, QUIET, WORTH, looks
from rci.reporting.figures.picture import Picture, render
from rci.reporting.run.contents import CriticMap, FieldMap
from rci.tasks.fetch_reach.hazard import ACHIEVED, GRIPPER, HAZARD, START
from rci.tasks.fetch_reach.scene import draw_scene
from rci.tasks.fetch_reach.scene import probe as fetch_probe
from rci.tasks.highway.physics.layout import CAR_LENGTH, LANE_WIDTH, SAFE_DISTANCE
from rci.tasks.highway.scene import EGO_COLOR, EGO_SPEED, PROBE_SPEED, car_corners
from rci.tasks.highway.scene import probe as highway_probe
from rci.tasks.highway.task import nearest_distance

HEATMAPS = Arrangement(width=7.0, columns=1)
FIELDS = Arrangement(width=6.6, columns=2, free=1)
EGO_PLACE = (9.0, 2 * LANE_WIDTH)  # m along and across: somewhere safe
EGO_ARROW = 7.0  # m
FIELD_NAMES = ("permissive", "balanced", "restrictive")


def heatmaps(maps: Sequence[CriticMap]) -> Picture:
    """The cost critics of several methods over one stretch of highway, one map below the other in the order given."""
    if not maps:
        raise RciError("heatmaps need the cost critic of at least one method.")
    return render(
        "heatmaps",
        f"Maps of the cost that critics expect with the ego at each point of the road: {_ranges(maps)}.",
        "Learned cost critics over the road. The colour at a point is the cumulative cost that the critic expects with "
        f"the ego's centre there, at {EGO_SPEED:g} m/s; the ego is drawn at one such point, the other cars drive at "
        f"{PROBE_SPEED:g} m/s. Warmer means more. Inside the black lines the state is unsafe. {_scale(maps)} The "
        "numbers over each map are its lowest and its highest value; critics of different signals have different "
        "offsets, and that of redistributed costs may be negative.",
        partial(_heatmap_figure, maps),
    )


def vector_fields(maps: Sequence[FieldMap], workbench: Array | None) -> Picture:
    """The workbench and the vector fields of policies at three budgets, from a permissive one to a restrictive one.

    workbench: a picture of it [height, width, 3]; None where it cannot be rendered, then a plain drawing stands there.
    """
    if len(maps) != len(FIELD_NAMES):
        raise RciError(f"vector fields are drawn for {len(FIELD_NAMES)} budgets, got {len(maps)}.")
    drawn = "drawn to scale without its arm" if workbench is None else "as the simulator draws it"
    panels = ", ".join(f"({b}) {name} ({entry.budget})" for b, name, entry in zip("bcd", FIELD_NAMES, maps))
    return render(
        "vector-fields",
        f"The workbench, and arrows of the actions of {maps[0].method} at three budgets: {_ranges(maps)}.",
        f"(a) The workbench, {drawn}: the large ball is the hazard, the small one the goal. Policies of "
        f"{maps[0].method} under three budgets: {panels}. The maps are the slice through the start (cross) and "
        "the hazard; the goal (dot) lies behind it. Arrows: where the action pushes, longer where it pushes harder. "
        "Colours: the expected return minus the multiplier times the expected cost; darker means more. Inside the "
        f"black line the state is unsafe. {_scale(maps)}",
        partial(_field_figure, maps, workbench),
    )


def _heatmap_figure(maps: Sequence[CriticMap]) -> Figure:
    probe, style = highway_probe(), looks(entry.method for entry in maps)
    distance = nearest_distance(probe.obs)
    figure, panels = map_panels(maps, probe, style, distance, SAFE_DISTANCE, HEAT, HEATMAPS)
    for i, (axes, entry) in enumerate(zip(panels, maps)):
        axes.set_title(
            value_range(entry), loc="right", pad=4.0, fontsize=8.0, fontweight="normal", color=QUIET
        )
        _draw_ego(axes, named=i == 0)
    return figure


def _field_figure(maps: Sequence[FieldMap], workbench: Array | None) -> Figure:
    probe, style = fetch_probe(HAZARD), looks(entry.method for entry in maps)
    distance = HAZARD.gripper_distance(probe.obs)
    figure, (first, *panels) = map_panels(maps, probe, style, distance, 0.0, WORTH, FIELDS)
    draw_arrows(panels, maps, probe)
    draw_bench(first, workbench)
    first.set_title("(a) workbench", color=INK, pad=4.0)
    for letter, name, axes, entry in zip("bcd", FIELD_NAMES, panels, maps):
        title = f"({letter}) {name}, budget {entry.budget}"
        axes.set_title(title, color=style[entry.method].ink, pad=4.0)
    return figure


def draw_bench(axes: Axes, workbench: Array | None) -> None:
    """A picture of the workbench or, without one, a plain drawing of it; the gripper is where episodes begin."""
    if workbench is None:
        obs = fetch_probe(HAZARD).obs[0, 0].copy()  # with the goal of the maps
        obs[GRIPPER] = obs[ACHIEVED] = START
        draw_scene(HAZARD, axes, obs)
    else:
        axes.imshow(workbench)
        axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _draw_ego(axes: Axes, named: bool) -> None:
    """The ego at one of the places that the map is about, and where it goes."""
    along, across = EGO_PLACE
    one = np.ones(1)
    [corners] = car_corners(along * one, across * one, one, 0 * one)
    axes.add_patch(Polygon(corners, facecolor=EGO_COLOR, edgecolor="white", linewidth=0.8, zorder=5))
    begin, halo = along + CAR_LENGTH / 2, withStroke(linewidth=2.2, foreground="white")
    way = {"arrowstyle": "-|>", "color": EGO_COLOR, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate(
        "",
        (begin + EGO_ARROW, across),
        (begin, across),
        zorder=5,
        arrowprops={**way, "path_effects": [halo]},
    )
    if named:
        axes.annotate(
            "ego", (along, across), (0, -5.5), textcoords="offset points", ha="center", va="top", fontsize=7.5,
            color=EGO_COLOR, zorder=5, path_effects=[halo],
        )  # fmt: skip


def _ranges(maps: Maps) -> str:
    return "; ".join(f"{entry.method} at budget {entry.budget}, from {value_range(entry)}" for entry in maps)


def _scale(maps: Maps) -> str:
    """How far colours can be compared."""
    if share_colours(maps):
        return "All maps share one scale of colours."
    return "Each map has its own scale of colours, because their ranges differ too much: compare shapes, not shades."
