"""A drive as a film: every car of every observation, in metres, seen from the ego.

Observations are clipped: the ego's way along the road after 200 m, and its place across the road where it has left the
road by far, as bad drivers do for most of their time. Both are then summed up from its speed. Another car that is
further away than observations reach is not shown; nobody knows where it is, except that it is too far to be a danger.
"""

from __future__ import annotations

import numpy as np

from rci.data.record import Array
from rci.tasks.film import Film, check_film_rows
from rci.tasks.highway.physics.layout import CAR_LENGTH, CAR_WIDTH, LANE_WIDTH, PERCEPTION, SPEED_SCALE
from rci.tasks.highway.physics.layout import TASK_LANES as LANES

AHEAD, BEHIND = 100.0, 30.0  # m shown
FEATURES = 7  # presence, x, y, vx, vy, cos_h, sin_h


def road_film(
    obs: Array, step_seconds: float, lanes: int = LANES, scale: tuple[float, float] | None = None
) -> Film:
    """obs [T+1, V, 7], normalised; V is any number of cars, the ego first, the others relative to it.

    scale: metres along and across the road that are observed as 1; highway-env's own for so many lanes, if not given.
    """
    obs = check_film_rows("highway", obs, (None, FEATURES))
    present = (obs[..., 0] > 0.5) & (np.abs(obs[..., 1:3]) < 1.0).all(-1)
    present[:, 0] = True
    reach, limit = scale or (PERCEPTION, lanes * LANE_WIDTH)
    along, across = obs[..., 1] * reach, obs[..., 2] * limit
    ahead_speed, side_speed = obs[..., 3] * SPEED_SCALE, obs[..., 4] * SPEED_SCALE
    travelled = way(ahead_speed[:, 0], step_seconds)
    along[:, 0], across[:, 0] = 0.0, unclipped(across[:, 0], side_speed[:, 0], step_seconds, limit)
    for relative in (across, ahead_speed, side_speed):
        relative[:, 1:] += relative[:, :1]
    columns = [present, along, across, obs[..., 5], obs[..., 6], ahead_speed, side_speed]
    facts = {
        "lanes": lanes,
        "lane_width": LANE_WIDTH,
        "car_length": CAR_LENGTH,
        "car_width": CAR_WIDTH,
        "step_seconds": step_seconds,
        "ahead": AHEAD,
        "behind": BEHIND,
    }
    return Film("road", facts, {"cars": np.stack(columns, -1) * present[..., None], "travelled": travelled})


def unclipped(place: Array, speed: Array, step_seconds: float, limit: float) -> Array:
    """Places [T+1] across the road; those at the limit are carried on from the one before, never to within it."""
    place, moved = place.copy(), np.diff(way(speed, step_seconds))
    for t in np.flatnonzero(np.abs(place[1:]) >= limit) + 1:
        side = np.sign(place[t])
        place[t] = side * max(limit, side * (place[t - 1] + moved[t - 1]))
    return place


def way(speed: Array, step_seconds: float) -> Array:
    """Metres driven by each moment, from the speed [T+1] then: as if it changed evenly between two moments."""
    return np.concatenate([[0.0], np.cumsum((speed[:-1] + speed[1:]) / 2 * step_seconds)])
