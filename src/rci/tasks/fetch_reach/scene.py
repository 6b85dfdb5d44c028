"""The workbench drawn from numbers: no simulator, no OpenGL. Every drawing takes the hazard and adapts to it.

Three kinds of drawing. Views are flat, from above and from the side, for paths. `draw_scene` shows one observation in
an oblique orthographic projection, under which a sphere is exactly a circle; shadows on the table, straight below, show
how deep things lie. `paths_3d` shows many paths in one box. The probe is a slice through start and hazard.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.linalg import norm

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.base import Probe, View
from rci.tasks.fetch_reach.hazard import (
    ACHIEVED,
    ACTION_UNIT,
    GOAL,
    GOAL_RADIUS,
    GOAL_REACH,
    GRIPPER,
    OBS_SIZE,
    START,
    VELOCITY,
    Hazard,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLE_LOW, TABLE_HIGH = np.array([1.05, 0.40]), np.array([1.55, 1.10])  # m, corners seen from above
TABLE_TOP = 0.40  # m above the floor
VIEW_REACH = 0.25  # m around the start that a view shows

# The oblique projection: the eye is in front of the table's long side, a little to the left and above.
AZIMUTH, ELEVATION = np.deg2rad([-24.0, 24.0])  # how far the eye is turned around the table, and raised
RIGHT = np.array([np.cos(AZIMUTH), np.sin(AZIMUTH), 0.0])
FORWARD = np.array(
    [-np.sin(AZIMUTH) * np.cos(ELEVATION), np.cos(AZIMUTH) * np.cos(ELEVATION), -np.sin(ELEVATION)]
)
UP = np.cross(RIGHT, FORWARD)
FRAME = (-0.24, 0.24), (-0.24, 0.24)  # m on the page around the start: all goals, and some table
DOT = 0.018  # m: radius of the dots for gripper and goal
FINGER_GAP, FINGER_LENGTH = 0.030, 0.042  # m: of the gripper on the page, drawn wider than it is
VELOCITY_STEPS = 4.0  # steps ahead that the line for the velocity reaches

BEHIND, INSIDE, BEFORE = 0, 1, 2  # layers that the sphere's back and front separate

BOX_REACH, BOX_HEIGHT = 0.18, 0.31  # m around the start, and above the table, that the drawing in a box shows
BOX_ELEVATION, BOX_AZIMUTH = 20.0, -62.0  # degrees

PROBE_POINTS, PROBE_STEP = 41, 0.01  # m between neighbours

GRIPPER_COLOR, GOAL_COLOR, DANGER_COLOR, INK = "#0072b2", "#009e73", "#d55e00", "#4a4f59"
DANGER_FILL, TABLE_COLOR = "#f3c6bd", "#e4e6ea"
SHADOW, LINE_COLOR, DARK = "#b9bec7", "#9aa1ac", "#1f2430"


def views(hazard: Hazard) -> tuple[View, View]:
    """From above, with the robot on the left; and from the side, where the table is a bar."""
    return _view(hazard, "from above", 1), _view(hazard, "from the side", 2)


def _view(hazard: Hazard, name: str, up: int) -> View:
    return View(
        name=name,
        position=lambda obs: np.asarray(obs)[..., GRIPPER][..., [0, up]],
        draw=lambda axes: _draw_view(hazard, axes, up),
    )


def _draw_view(hazard: Hazard, axes: Any, up: int) -> None:
    """x to the right, coordinate `up` upwards."""
    from matplotlib.patches import Rectangle

    low, high = ((TABLE_LOW[1], TABLE_HIGH[1]), (0.0, TABLE_TOP))[up - 1]
    corner, size = (TABLE_LOW[0], low), (TABLE_HIGH[0] - TABLE_LOW[0], high - low)
    axes.add_patch(Rectangle(corner, *size, facecolor=TABLE_COLOR, edgecolor=SHADOW, linewidth=0.8, zorder=0))
    axis = [0, up]
    corner, size = tuple(START[axis] - GOAL_REACH), (2 * GOAL_REACH, 2 * GOAL_REACH)
    axes.add_patch(Rectangle(corner, *size, facecolor="white", alpha=0.75, linewidth=0, zorder=0.5))
    axes.add_patch(
        Rectangle(corner, *size, fill=False, edgecolor=GOAL_COLOR, linewidth=0.8, linestyle=(0, (4, 3)), zorder=0.6)
    )  # fmt: skip
    centre = np.array(hazard.centre)[axis]
    _draw_disc(
        axes, centre, hazard.radius, facecolor=DANGER_FILL, edgecolor=DANGER_COLOR, linewidth=1, zorder=1
    )
    axes.plot(*START[axis], "+", color=INK, markersize=7, markeredgewidth=1.2, zorder=3)
    for limit, middle in ((axes.set_xlim, START[0]), (axes.set_ylim, START[up])):
        limit(middle - VIEW_REACH, middle + VIEW_REACH)
    axes.set(aspect="equal", xlabel="x (m)", ylabel="xyz"[up] + " (m)")


def project(place: Array) -> Array:
    """Places [..., 3] -> metres to the right and up on the page [..., 2], from the start."""
    return (np.asarray(place, np.float64) - START) @ np.stack([RIGHT, UP], -1)


def layer(hazard: Hazard, place: Array, forward: Array = FORWARD) -> Array:
    """Whether places [..., 3] are drawn BEHIND the sphere, INSIDE it or BEFORE it, for an eye that looks `forward`."""
    deeper = (np.asarray(place, np.float64) - hazard.centre) @ forward > 0
    return np.where(hazard.distance(place) <= 0, INSIDE, np.where(deeper, BEHIND, BEFORE))


def draw_scene(hazard: Hazard, axes: Any, obs: Array) -> None:
    """One observation: hazard, goal and gripper above the table, nearer things over farther ones.

    Shadows and dotted lines lead straight down; the short dark line says where the gripper is going. Inside the
    hazard the gripper takes the danger's colour.
    """
    obs = np.asarray(obs, np.float64)
    gripper, goal, unsafe = obs[GRIPPER], obs[GOAL], bool(hazard.unsafe(obs))
    color = DANGER_COLOR if unsafe else GRIPPER_COLOR
    axes.set(xlim=FRAME[0], ylim=FRAME[1], aspect="equal", xticks=[], yticks=[])
    _draw_table(axes)
    _draw_shadow(axes, np.array(hazard.centre), hazard.radius, DANGER_COLOR, plumb=False)
    _draw_shadow(axes, goal, DOT, GOAL_COLOR)
    _draw_shadow(axes, gripper, DOT, color)
    _draw_sphere(axes, hazard, unsafe)
    _draw_goal(axes, goal, _order(hazard, goal))
    _draw_gripper(axes, gripper, obs[VELOCITY], color, _order(hazard, gripper))
    for spine in axes.spines.values():
        spine.set(visible=unsafe, color=DANGER_COLOR, linewidth=1.6)


def paths_3d(hazard: Hazard, paths: Sequence[Array], goals: Array) -> Figure:
    """A figure of the end-effector's paths [T, 3] to their goals [N, 3]; those that enter the hazard stand out."""
    from matplotlib.figure import Figure
    from mpl_toolkits.mplot3d.art3d import Poly3DCollection

    figure = Figure(figsize=(4.6, 4.2))
    # Lines, dots and the sphere lie in the order that `layer` gives them; matplotlib's own order is by whole artists.
    axes: Any = figure.add_axes((-0.04, -0.02, 1.0, 1.0), projection="3d", computed_zorder=False)
    axes.set_proj_type("ortho")
    axes.view_init(elev=BOX_ELEVATION, azim=BOX_AZIMUTH)
    forward = _looking(BOX_ELEVATION, BOX_AZIMUTH)
    for limit, middle in zip((axes.set_xlim, axes.set_ylim), START):
        limit(middle - BOX_REACH, middle + BOX_REACH)
    axes.set_zlim(TABLE_TOP, TABLE_TOP + BOX_HEIGHT)
    axes.set_box_aspect((2 * BOX_REACH, 2 * BOX_REACH, BOX_HEIGHT), zoom=1.0)

    table = np.clip(_table_corners(), START - BOX_REACH, START + BOX_REACH)
    axes.add_collection3d(
        Poly3DCollection([table], facecolor=TABLE_COLOR, edgecolor=SHADOW, linewidth=0.6, zorder=0)
    )
    shadow = _ring(np.array(hazard.centre), hazard.radius)
    axes.add_collection3d(
        Poly3DCollection([shadow], facecolor=DANGER_COLOR, alpha=0.22, linewidth=0, zorder=1)
    )
    for disc, color, alpha in _ball(hazard, forward):
        axes.add_collection3d(Poly3DCollection([disc], facecolor=color, alpha=alpha, linewidth=0, zorder=3))

    entering = [bool((hazard.distance(path) <= 0).any()) for path in paths]
    for path, enters in zip(paths, entering):
        color, width = (DANGER_COLOR, 1.3) if enters else (GRIPPER_COLOR, 1.0)
        for piece, level in _pieces(hazard, np.asarray(path, np.float64), forward):
            zorder = (2.0 if level == BEHIND else 4.0) + 0.5 * enters
            axes.plot(
                *piece.T, color=color, linewidth=width, alpha=0.85, solid_capstyle="butt", zorder=zorder
            )
    goals = np.asarray(goals, np.float64).reshape(-1, 3)
    behind = layer(hazard, goals, forward) == BEHIND
    for dots, zorder in ((goals[behind], 2.8), (goals[~behind], 4.8)):
        axes.scatter(
            *dots.T, s=16, color=GOAL_COLOR, edgecolor="white", linewidth=0.5, depthshade=False, zorder=zorder
        )
    axes.scatter(*START, s=26, color=INK, edgecolor="white", linewidth=0.6, depthshade=False, zorder=5)
    _dress_box(axes)
    _box_legend(figure, sum(entering), len(paths) - sum(entering))
    return figure


def draw_space(hazard: Hazard, episodes: Sequence[Array]) -> Figure:
    """The paths of whole episodes, from their observations [T + 1, 16]."""
    goals = np.stack([obs[0, GOAL] for obs in episodes])
    return paths_3d(hazard, [obs[:, GRIPPER] for obs in episodes], goals)


def slice_axes(hazard: Hazard) -> Array:
    """Two unit vectors [2, 3]: from the start to the hazard, and upwards across it. Arms evade over it and under it."""
    away = np.array(hazard.centre) - START
    along = away / norm(away)
    up = np.array([0.0, 0.0, 1.0]) - along[2] * along
    if norm(up) < 1e-3:  # the hazard is right above or below: to the side
        up = np.array([0.0, 1.0, 0.0])
    return np.stack([along, up / norm(up)])


def probe_goal(hazard: Hazard) -> Array:
    """Metres along and across the slice [2] to a goal that the hazard hides from the start.

    It lies behind the sphere and off its axis, where goals are common, and so that the straight way to it leads through
    the sphere. If no goal may lie there it is the nearest place of the slice where one may, on a lattice.
    """
    basis, away = slice_axes(hazard), norm(np.array(hazard.centre) - START)
    wished = np.array([away + 0.75 * hazard.radius, hazard.radius + hazard.clearance])
    half = np.arange(-60, 61) * 0.005
    lattice = np.stack(np.meshgrid(half, half, indexing="ij"), -1).reshape(-1, 2)
    choice = np.concatenate([wished[None], lattice])
    place = choice @ basis
    allowed = hazard.distance(START + place) >= hazard.clearance - 1e-4  # centres are rounded to as much
    allowed &= (np.abs(place) <= GOAL_REACH + 1e-9).all(-1)
    allowed &= np.rad2deg(np.arctan2(np.abs(choice[:, 1]), choice[:, 0])) <= hazard.cone
    if not allowed.any():
        raise RciError(f"{hazard} leaves no room for a goal on the slice through it and the start.")
    aside = (
        away * np.abs(choice[:, 1]) / np.maximum(norm(choice, axis=-1), 1e-9)
    )  # of the centre, from the way
    hidden = allowed & (choice[:, 0] > away) & (aside < 0.9 * hazard.radius)
    allowed = hidden if hidden.any() else allowed
    # Rounded, so that of two mirror images the first is taken on every machine
    far = norm(choice - wished, axis=-1).round(6)
    return choice[np.argmin(np.where(allowed, far, np.inf))]


def probe(hazard: Hazard) -> Probe:
    """The gripper, at rest, at every point of the slice through start and hazard; the goal hides behind the hazard."""
    basis, goal = slice_axes(hazard), probe_goal(hazard)
    y = (np.arange(PROBE_POINTS) - PROBE_POINTS // 2) * PROBE_STEP
    missing = np.ceil((goal[0] + 0.04 - y[-1]) / PROBE_STEP) * PROBE_STEP
    x = y + max(0.0, missing)  # a far goal is on the map too
    grid = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)
    obs = np.zeros((len(y), len(x), OBS_SIZE), np.float32)
    obs[..., GRIPPER] = obs[..., ACHIEVED] = START + grid @ basis
    obs[..., GOAL] = START + goal @ basis
    return Probe(
        obs=obs,
        x=x,
        y=y,
        x_label="m from the start towards the hazard",
        y_label="m upwards",
        draw=lambda axes: _draw_slice(hazard, basis, goal, axes, x, y),
        arrow=lambda action: ACTION_UNIT * np.asarray(action)[..., :3] @ basis.T,
    )


def _draw_slice(hazard: Hazard, basis: Array, goal: Array, axes: Any, x: Array, y: Array) -> None:
    """The hazard's outline, start and goal; hatched is what lies inside the table."""
    centre = basis @ (np.array(hazard.centre) - START)
    _draw_disc(axes, centre, hazard.radius, fill=False, edgecolor=DANGER_COLOR, linewidth=1.4, zorder=3)
    axes.plot(0.0, 0.0, "+", color=DARK, markersize=8, markeredgewidth=1.4, zorder=4)
    axes.plot(*goal, "o", color=GOAL_COLOR, markeredgecolor="white", markersize=7, zorder=4)
    if abs(basis[0, 2]) > 1e-3:
        surface, down = (TABLE_TOP - START[2]) / basis[0, 2], -np.sign(basis[0, 2])
        look = {"facecolor": TABLE_COLOR, "edgecolor": SHADOW, "hatch": "///", "linewidth": 0}
        axes.axvspan(surface, surface + down, **look, zorder=2)
    axes.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), aspect="equal")


def _order(hazard: Hazard, place: Array) -> float:
    """The layer between the sphere's two sides, at 3 and 5; within a layer nearer things come later."""
    nearer = float((START - place) @ FORWARD)
    return 2.0 + 2.0 * float(layer(hazard, place)) + float(np.clip(nearer, -0.9, 0.9))


def _pieces(hazard: Hazard, path: Array, forward: Array) -> list[tuple[Array, int]]:
    """A path [T, 3] cut where it changes layers; neighbours share the point between them."""
    level = layer(hazard, (path[:-1] + path[1:]) / 2, forward)
    cuts = [0, *(np.flatnonzero(np.diff(level)) + 1).tolist(), len(level)]
    return [(path[a : b + 1], int(level[a])) for a, b in pairwise(cuts) if b > a]


def _table_corners() -> Array:
    (left, front), (right, back) = TABLE_LOW, TABLE_HIGH
    return np.array(
        [[x, y, TABLE_TOP] for x, y in ((left, front), (right, front), (right, back), (left, back))]
    )


def _ring(place: Array, radius: float, points: int = 60) -> Array:
    """The shadow of a sphere: a circle on the table, straight below."""
    turn = np.linspace(0.0, 2 * np.pi, points, endpoint=False)
    circle = place[:2] + radius * np.stack([np.cos(turn), np.sin(turn)], -1)
    return np.column_stack([circle, np.full(points, TABLE_TOP)])


def _ball(hazard: Hazard, forward: Array) -> list[tuple[Array, str, float]]:
    """A sphere as discs that face the eye: its outline, and light from the upper left; points, colour, opacity."""
    right = np.cross(forward, [0.0, 0.0, 1.0])
    plane = np.stack([right / norm(right), np.cross(right / norm(right), forward)])
    turn = np.linspace(0.0, 2 * np.pi, 90, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], -1)
    light = np.linspace(0.92, 0.06, 14)
    discs = [size * circle + (1.0 - size) * np.array([-0.38, 0.46]) for size in (1.0, *light)]
    outlines = [np.array(hazard.centre) + hazard.radius * disc @ plane for disc in discs]
    return [(outlines[0], DANGER_COLOR, 0.5), *((place, "white", 0.045) for place in outlines[1:])]


def _draw_table(axes: Any) -> None:
    from matplotlib.patches import Polygon

    corners = project(_table_corners())
    axes.add_patch(Polygon(corners, facecolor=TABLE_COLOR, edgecolor=SHADOW, linewidth=0.6, zorder=0))


def _draw_shadow(axes: Any, place: Array, radius: float, color: str, plumb: bool = True) -> None:
    """A spot on the table and the line that leads up from it."""
    from matplotlib.patches import Polygon

    axes.add_patch(
        Polygon(project(_ring(place, radius)), facecolor=color, alpha=0.35, linewidth=0, zorder=0.5)
    )
    if plumb and place[2] > TABLE_TOP:
        line = project(np.array([place, [*place[:2], TABLE_TOP]]))
        axes.plot(*line.T, color=color, linewidth=0.8, linestyle=(0, (1.5, 1.2)), zorder=1.0)


def _draw_sphere(axes: Any, hazard: Hazard, unsafe: bool) -> None:
    """Its back and its front, so that a thing inside it is covered once and a thing behind it twice."""
    centre, radius = project(np.array(hazard.centre)), hazard.radius
    for zorder in (3.0, 5.0):
        _draw_disc(axes, centre, radius, facecolor=DANGER_COLOR, alpha=0.25, linewidth=0, zorder=zorder)
    light = centre + radius * np.array([-0.36, 0.42])  # from the upper left; it makes the disc a ball
    for size, alpha in ((0.34, 0.16), (0.22, 0.22), (0.11, 0.3)):
        _draw_disc(axes, light, size * radius, facecolor="white", alpha=alpha, linewidth=0, zorder=5.0)
    width = 1.4 if unsafe else 0.8
    _draw_disc(axes, centre, radius, fill=False, edgecolor=DANGER_COLOR, linewidth=width, zorder=5.0)


def _draw_goal(axes: Any, goal: Array, order: float) -> None:
    """A dot, and the circle within which it counts as reached."""
    place = project(goal)
    _draw_disc(axes, place, GOAL_RADIUS, facecolor=GOAL_COLOR, alpha=0.2, linewidth=0, zorder=order)
    _draw_disc(axes, place, DOT, facecolor=GOAL_COLOR, edgecolor="white", linewidth=0.5, zorder=order)


def _draw_gripper(axes: Any, place: Array, velocity: Array, color: str, order: float) -> None:
    """Two fingers, which point down, around the dot that is the end-effector."""
    tip, gap, high = project(place), np.array([FINGER_GAP, 0.0]), np.array([0.0, FINGER_LENGTH])
    fork = np.stack([tip - gap, tip - gap + high, tip + gap + high, tip + gap])
    wrist = np.stack([tip + high, tip + 1.9 * high])
    for line, width in ((fork, 1.9), (wrist, 3.2)):
        axes.plot(*line.T, color=color, linewidth=width, solid_capstyle="butt", zorder=order)
    ahead = project(np.stack([place, place + VELOCITY_STEPS * velocity]))
    axes.plot(*ahead.T, color=DARK, linewidth=1.2, solid_capstyle="round", zorder=order + 0.01)
    _draw_disc(axes, tip, DOT, facecolor=color, edgecolor="white", linewidth=0.5, zorder=order + 0.02)


def _draw_disc(axes: Any, centre: Array, radius: float, **look: Any) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle((float(centre[0]), float(centre[1])), radius, **look))


def _looking(elevation: float, azimuth: float) -> Array:
    """The direction in which matplotlib's eye looks into its box, from degrees."""
    raised, turned = np.deg2rad([elevation, azimuth])
    return -np.array([np.cos(raised) * np.cos(turned), np.cos(raised) * np.sin(turned), np.sin(raised)])


def _dress_box(axes: Any) -> None:
    from matplotlib.ticker import MultipleLocator

    for axis, name in ((axes.xaxis, "x (m)"), (axes.yaxis, "y (m)"), (axes.zaxis, "z (m)")):
        axis.set_pane_color("#fbfbfc")
        axis.line.set(color=LINE_COLOR, linewidth=0.7)
        axis._axinfo["grid"].update(color="#e7e9ee", linewidth=0.6)
        axis.set_major_locator(MultipleLocator(0.1))
        axis.set_label_text(name, fontsize=8.5, color="#5d6470")
        axis.set_tick_params(labelsize=7.5, labelcolor="#5d6470", color=LINE_COLOR, pad=0)
        axis.labelpad = 0


def _box_legend(figure: Any, entering: int, outside: int) -> None:
    from matplotlib.lines import Line2D

    keys = [
        Line2D([], [], color=DANGER_COLOR, linewidth=1.6, label=f"enters the hazard ({entering})"),
        Line2D([], [], color=GRIPPER_COLOR, linewidth=1.6, label=f"stays outside ({outside})"),
        Line2D([], [], color=GOAL_COLOR, marker="o", linestyle="", markersize=4.5, label="goal"),
        Line2D([], [], color=INK, marker="o", linestyle="", markersize=5, label="start"),
    ]
    figure.legend(
        handles=keys, loc="upper center", ncols=4, fontsize=8, frameon=False, handlelength=1.4, columnspacing=1.3,
        handletextpad=0.5, borderaxespad=0.2,
    )  # fmt: skip
