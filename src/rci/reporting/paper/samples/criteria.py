"""The paper's drawings of what unsafe means: another car too close on the highway, the arm inside a sphere."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Ellipse, Polygon, Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MultipleLocator

from rci.data.record import Array
from rci.reporting.figures.palette import DANGER, DANGER_INK, INK, QUIET
from rci.reporting.figures.picture import Picture, render
from rci.reporting.paper.samples.maps import draw_bench
from rci.tasks.fetch_reach.hazard import GOAL_REACH, HAZARD, START
from rci.tasks.fetch_reach.scene import DANGER_FILL, GOAL_COLOR, slice_axes
from rci.tasks.highway.physics.layout import LANE_WIDTH, REAR_VIEW, SAFE_DISTANCE, TASK_SCALE
from rci.tasks.highway.scene import CAR_COLOR, EGO_COLOR, ROAD, ROAD_COLOR, car_corners, draw_road

# Inches
WIDTH, LEFT, RIGHT, HEAD, FOOT, BETWEEN = 7.2, 0.55, 0.15, 0.3, 0.45, 0.62

ALONG = (-46.0, 74.0)  # m around the ego that are drawn
EGO_ACROSS = 2 * LANE_WIDTH  # m
# Cars around the ego: (m ahead, lanes to its right). The first is too close; those beside and behind it are not.
CARS = ((29.0, 0), (7.0, -1), (-24.0, 0), (53.0, -1), (62.0, 1), (38.0, -2), (-33.0, -2), (-38.0, 1))
REACH = SAFE_DISTANCE * np.array(TASK_SCALE)  # m along and across within which a car is too close
MEASURE = {"arrowstyle": "<|-|>,head_length=0.25,head_width=0.1", "color": INK, "linewidth": 0.7}
MEASURE |= {"shrinkA": 0, "shrinkB": 0}
SEEN_LOOKS: tuple[dict[str, Any], ...] = (
    {"facecolor": DANGER, "alpha": 0.25, "linewidth": 0},
    {"fill": False, "edgecolor": DANGER, "linewidth": 1.2},
)
SLICE = (-0.06, 0.28), (-0.17, 0.17)  # m
GOALS = 60  # drawn as examples
GOAL_SEED = 0


def unsafe_criteria(workbench: Array | None) -> Picture:
    """The highway from above, the workbench, and where its goals lie.

    workbench: a picture of it [height, width, 3]; None where it cannot be rendered, then a plain drawing stands there.
    """
    drawn = "drawn to scale without its arm" if workbench is None else "as the simulator draws it"
    return render(
        "unsafe-criteria",
        f"An ellipse around a car, {REACH[0]:g} m ahead and {REACH[1]:g} m sideways, with one other car in it; and a "
        f"sphere with a radius of {100 * HAZARD.radius:g} cm between the start of an arm and its goals.",
        "What is unsafe. (a) Highway: after the step, the centre of another car lies within "
        f"{SAFE_DISTANCE:g} of the ego's in normalised coordinates, an ellipse that reaches {REACH[0]:g} m ahead and "
        f"{REACH[1]:g} m sideways. A car beside the ego in the next lane is outside, and one that is more than "
        f"{REAR_VIEW:g} m behind is not seen (broken line). (b) Safe-FetchReach: after the step, the end-effector is "
        f"inside the sphere, whose radius is {100 * HAZARD.radius:g} cm. The workbench, {drawn}; the small ball is a "
        f"goal. (c) Start (cross), hazard, and {GOALS} goals (dots), all turned about the line through start and "
        f"hazard into one slice. Goals lie at least {100 * HAZARD.clearance:g} cm from the hazard and at most "
        f"{HAZARD.cone:g} degrees aside (broken lines).",
        partial(_figure, workbench),
    )


def sample_goals(count: int, seed: int) -> Array:
    """Goals of Safe-FetchReach, drawn by its rule: [count, 3]."""
    rng = np.random.default_rng(seed)
    goals = START + rng.uniform(-GOAL_REACH, GOAL_REACH, (200 * count, 3))  # most are refused
    return goals[~HAZARD.refuses(goals)][:count]


def turned_into_slice(place: Array) -> Array:
    """Metres towards the hazard's centre, and aside of the line to it, [..., 2]; places below the line are negative."""
    along, up = slice_axes(HAZARD)
    away = np.asarray(place) - START
    forward = away @ along
    aside = np.linalg.norm(away - forward[..., None] * along, axis=-1)
    return np.stack([forward, np.where(away @ up < 0, -aside, aside)], -1)


def _figure(workbench: Array | None) -> Figure:
    road_width = WIDTH - LEFT - RIGHT
    road_high = road_width * (ROAD[1] - ROAD[0]) / (ALONG[1] - ALONG[0])
    side = (road_width - BETWEEN) / 2
    high = HEAD + road_high + FOOT + HEAD + side + FOOT
    figure = Figure(figsize=(WIDTH, high))

    def panel(left: float, top: float, width: float, height: float) -> Axes:
        """Inches from the upper left corner."""
        return figure.add_axes((left / WIDTH, 1.0 - (top + height) / high, width / WIDTH, height / high))

    _draw_highway(panel(LEFT, HEAD, road_width, road_high))
    below = HEAD + road_high + FOOT + HEAD
    bench = panel(LEFT, below, side, side)
    draw_bench(bench, workbench)
    bench.set_title("(b) Fetch arm: unsafe inside the sphere", pad=4.0)
    _draw_goals(panel(LEFT + side + BETWEEN, below, side, side))
    return figure


def _draw_highway(axes: Axes) -> None:
    """The road from left to right, metres from the ego; left lanes on top."""
    axes.set(xlim=ALONG, ylim=ROAD[::-1], aspect="equal", xlabel="m ahead of the ego", ylabel="m across")
    draw_road(axes, upright=False)
    centre, (long, wide) = (0.0, EGO_ACROSS), 2 * REACH
    axes.add_patch(
        Ellipse(
            centre, long, wide, fill=False, edgecolor=DANGER, linewidth=0.7, linestyle=(0, (3, 2)), zorder=2
        )
    )
    seen = Rectangle((-REAR_VIEW, ROAD[0]), long, ROAD[1] - ROAD[0], transform=axes.transData)
    for look in SEEN_LOOKS:
        axes.add_patch(part := Ellipse(centre, long, wide, zorder=2, **look))
        part.set_clip_path(seen)
    place = np.array([(0.0, 0.0), *CARS]) * [1.0, LANE_WIDTH] + [0.0, EGO_ACROSS]
    away = place - place[0]
    close = (np.hypot(*(away / np.array(TASK_SCALE)).T) <= SAFE_DISTANCE) & (away[:, 0] > -REAR_VIEW)
    straight = np.ones(len(place)), np.zeros(len(place))
    for i, corners in enumerate(car_corners(place[:, 0], place[:, 1], *straight)):
        color = EGO_COLOR if i == 0 else DANGER if close[i] else CAR_COLOR
        axes.add_patch(Polygon(corners, facecolor=color, edgecolor="white", linewidth=0.8, zorder=4))
    low, halo = EGO_ACROSS + REACH[1], withStroke(linewidth=2.5, foreground=ROAD_COLOR)
    for begin, end in (((0.0, low + 1.2), (REACH[0], low + 1.2)), ((0.0, EGO_ACROSS), (0.0, low))):
        axes.annotate("", end, begin, zorder=5, arrowprops=MEASURE)
    axes.plot([REACH[0]] * 2, [EGO_ACROSS, low + 1.2], color=QUIET, linewidth=0.6, zorder=3)
    for x, y, text, ink, side in (
        (REACH[0] + 1.0, low + 1.2, f"{REACH[0]:g} m", INK, "left"),
        (1.2, low - 0.9, f"{REACH[1]:g} m", INK, "left"),
        (CARS[0][0] + 3.4, EGO_ACROSS, "unsafe", DANGER_INK, "left"),
        (-3.2, EGO_ACROSS, "ego", EGO_COLOR, "right"),
    ):
        axes.text(x, y, text, fontsize=7.0, color=ink, ha=side, va="center", zorder=5, path_effects=[halo])
    axes.xaxis.set_major_locator(MultipleLocator(20))
    axes.yaxis.set_major_locator(MultipleLocator(LANE_WIDTH))
    axes.set_title(f"(a) highway: unsafe within a normalised distance of {SAFE_DISTANCE:g}", pad=4.0)


def _draw_goals(axes: Axes) -> None:
    """The slice through start and hazard, with goals turned into it."""
    away = float(np.linalg.norm(np.array(HAZARD.centre) - START))
    ball = partial(Circle, (away, 0.0))
    axes.add_patch(ball(HAZARD.radius, facecolor=DANGER_FILL, edgecolor=DANGER, linewidth=1.2))
    axes.add_patch(
        ball(
            HAZARD.radius + HAZARD.clearance,
            fill=False,
            edgecolor=DANGER,
            linewidth=0.7,
            linestyle=(0, (3, 2)),
        )
    )
    slope = np.tan(np.deg2rad(HAZARD.cone))
    for side in (-1.0, 1.0):
        axes.plot([0.0, 1.0], [0.0, side * slope], color=GOAL_COLOR, linewidth=0.8, linestyle=(0, (4, 3)))
    goals = turned_into_slice(sample_goals(GOALS, GOAL_SEED))
    axes.scatter(goals[:, 0], goals[:, 1], s=13, color=GOAL_COLOR, edgecolor="white", linewidth=0.4, zorder=3)
    axes.plot(0.0, 0.0, "+", color=INK, markersize=8, markeredgewidth=1.4, zorder=4)
    for x, y, text, ink, side_of in (
        (away, 0.0, "hazard", DANGER_INK, "center"),
        (-0.011, 0.0, "start", INK, "right"),
        (0.09, 0.145, "goals", "#007a59", "right"),
    ):
        axes.text(x, y, text, fontsize=7.5, color=ink, ha=side_of, va="center", zorder=4)
    axes.set(xlim=SLICE[0], ylim=SLICE[1], aspect="equal")
    axes.set(xlabel="m from the start towards the hazard", ylabel="m aside")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MultipleLocator(0.1))
    axes.set_title("(c) where goals lie", pad=4.0)
