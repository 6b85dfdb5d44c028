"""What one observation of the road shows, drawn to scale, and the grid over the road at which critics are asked.

Drawings of single observations stand upright: the ego drives up the page and its right is on the right, so that many
of them fit side by side. Maps lie flat: the road runs from left to right, and the rightmost lane is at the bottom.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rci.data.record import Array
from rci.tasks.base import Probe
from rci.tasks.highway.physics.layout import (
    CAR_LENGTH,
    CAR_WIDTH,
    LANE_WIDTH,
    PERCEPTION,
    REAR_VIEW,
    SAFE_DISTANCE,
    SPEED_SCALE,
    TASK_SCALE,
)
from rci.tasks.highway.physics.layout import TASK_LANES as LANES

SEEN_CARS = 4  # rows of an observation after the ego's own
ROAD = (-LANE_WIDTH / 2, (LANES - 0.5) * LANE_WIDTH)  # m, from the left edge to the right one

VIEW = (-15.0, 100.0)  # m behind and ahead of the ego
SHOULDER = 2.0  # m shown beside the road
EGO_COLOR, CAR_COLOR, DANGER_COLOR = "#0072b2", "#4a4f59", "#d55e00"
ROAD_COLOR, LINE_COLOR = "#e4e6ea", "#ffffff"

# The traffic of the probe: (m along the road, lane). The first three are on the map; the others are far enough ahead
# to endanger nobody on it, and fill the rows of the observation as in real traffic.
PROBE_CARS = ((45.0, 1), (75.0, 3), (100.0, 2), (165.0, 0), (172.0, 3), (180.0, 1), (190.0, 2))
PROBE_SPEED, EGO_SPEED = 22.0, 28.0  # m/s
PROBE_LENGTH = 120.0  # m
PROBE_SHAPE = (33, 60)  # points across and along the road


class Seen(NamedTuple):
    """The present cars of an observation, ego first; metres, `along` from the ego, `across` on the road."""

    along: Array
    across: Array
    cos: Array
    sin: Array
    danger: Array  # whether the car makes the observation unsafe


def read_scene(obs: Array, scale: tuple[float, float] = TASK_SCALE) -> Seen:
    """obs [5, 7] -> the cars in it. scale: metres along and across the road that are observed as 1."""
    obs = np.asarray(obs, np.float64)
    present = obs[:, 0] > 0.5
    present[0] = True
    along, across = obs[:, 1] * scale[0], obs[:, 2] * scale[1]
    along[0] = 0.0
    across[1:] += across[0]
    danger = np.hypot(obs[:, 1], obs[:, 2]) <= SAFE_DISTANCE
    danger[0] = False
    return Seen(*(column[present] for column in (along, across, obs[:, 5], obs[:, 6], danger)))


def car_corners(along: Array, across: Array, cos: Array, sin: Array) -> Array:
    """Corners of cars centred at (along, across) and turned by their headings: [n, 4, 2]."""
    forward = np.array([1, 1, -1, -1]) * CAR_LENGTH / 2
    sideways = np.array([-1, 1, 1, -1]) * CAR_WIDTH / 2
    x = along[:, None] + cos[:, None] * forward - sin[:, None] * sideways
    y = across[:, None] + sin[:, None] * forward + cos[:, None] * sideways
    return np.stack([x, y], -1)


def draw_scene(axes: Any, obs: Array, scale: tuple[float, float] = TASK_SCALE) -> None:
    """The road around the ego: metres across it to the right, metres ahead of the ego upwards, in one scale.

    The faint ellipse is where another car's centre is too close; with one inside, it and the car stand out.
    """
    from matplotlib.patches import Ellipse, Polygon

    cars = read_scene(obs, scale)
    ego, unsafe = float(cars.across[0]), bool(cars.danger.any())
    left, right = ROAD[0] - SHOULDER, ROAD[1] + SHOULDER
    shift = max(0.0, ego + CAR_WIDTH - right) + min(
        0.0, ego - CAR_WIDTH - left
    )  # keep the ego in sight off the road
    axes.set(xlim=(left + shift, right + shift), ylim=VIEW, aspect="equal", xticks=[], yticks=[])
    draw_road(axes, upright=True)
    reach = 2 * SAFE_DISTANCE * np.array(scale)
    axes.add_patch(
        Ellipse(
            (ego, 0.0), reach[1], reach[0], facecolor=DANGER_COLOR, alpha=0.40 if unsafe else 0.12, linewidth=0,
        )
    )  # fmt: skip
    axes.add_patch(
        Ellipse(
            (ego, 0.0), reach[1], reach[0], fill=False, edgecolor=DANGER_COLOR,
            linewidth=1.2 if unsafe else 0.5, linestyle="-" if unsafe else (0, (3, 2)),
        )
    )  # fmt: skip
    corners = car_corners(*cars[:4])[..., ::-1]
    for i, (car, danger) in enumerate(zip(corners, cars.danger)):
        color = EGO_COLOR if i == 0 else DANGER_COLOR if danger else CAR_COLOR
        axes.add_patch(Polygon(car, facecolor=color, edgecolor="white", linewidth=0.4, zorder=4))
    for spine in axes.spines.values():
        spine.set(visible=unsafe, color=DANGER_COLOR, linewidth=1.6)


def observe(
    ego: Array, cars: Array, ego_speed: float, car_speed: float, scale: tuple[float, float] = TASK_SCALE
) -> Array:
    """What egos far down the road, all driving straight ahead, see of the same cars: [..., 5, 7].

    ego: [..., 2], cars: [n, 2], metres along and across the road; n is at least 4.
    """
    away = cars - ego[..., None, :]  # [..., n, 2]
    seen = (away[..., 0] > -REAR_VIEW) & (np.hypot(away[..., 0], away[..., 1]) < PERCEPTION)
    order = np.argsort(np.where(seen, np.abs(away[..., 0]), np.inf), axis=-1, kind="stable")[..., :SEEN_CARS]
    away, seen = np.take_along_axis(away, order[..., None], -2), np.take_along_axis(seen, order, -1)
    obs = np.zeros((*ego.shape[:-1], SEEN_CARS + 1, 7))
    obs[..., (0, 5)] = 1.0
    obs[..., 0, 1] = 1.0  # saturated: the ego has left the start far behind
    obs[..., 0, 2] = ego[..., 1] / scale[1]
    obs[..., 0, 3] = ego_speed / SPEED_SCALE
    obs[..., 1:, 1:3] = away / np.array(scale)
    obs[..., 1:, 3] = (car_speed - ego_speed) / SPEED_SCALE
    obs[..., 1:, :] *= seen[..., None]
    return np.clip(obs, -1.0, 1.0).astype(np.float32)


def probe(scale: tuple[float, float] = TASK_SCALE) -> Probe:
    """The ego at every point of a stretch of road with three slower cars on it."""
    y, x = (np.linspace(*ends, points) for ends, points in zip((ROAD, (0.0, PROBE_LENGTH)), PROBE_SHAPE))
    ego = np.stack(np.broadcast_arrays(x[None, :], y[:, None]), -1)
    cars = np.array(PROBE_CARS) * [1.0, LANE_WIDTH]
    return Probe(
        obs=observe(ego, cars, EGO_SPEED, PROBE_SPEED, scale),
        x=x,
        y=y,
        x_label="m along the road",
        y_label="m across",
        draw=_draw_probe,
    )


def _draw_probe(axes: Any) -> None:
    from matplotlib.patches import Polygon

    axes.set(xlim=(0.0, PROBE_LENGTH), ylim=ROAD[::-1], aspect="equal")
    draw_road(axes, upright=False)
    cars = np.array(PROBE_CARS) * [1.0, LANE_WIDTH]
    straight = np.ones(len(cars)), np.zeros(len(cars))
    for corners in car_corners(cars[:, 0], cars[:, 1], *straight):
        axes.add_patch(Polygon(corners, facecolor=CAR_COLOR, edgecolor="white", linewidth=0.8, zorder=4))


def draw_road(axes: Any, upright: bool) -> None:
    """The road: asphalt below everything, the lines between lanes above maps. It runs upwards or from left to right."""
    span, line = (axes.axvspan, axes.axvline) if upright else (axes.axhspan, axes.axhline)
    span(*ROAD, color=ROAD_COLOR, linewidth=0, zorder=0)
    for border in np.linspace(*ROAD, LANES + 1)[1:-1].tolist():
        line(border, color=LINE_COLOR, linewidth=0.8, linestyle=(0, (5, 5)), zorder=3)
