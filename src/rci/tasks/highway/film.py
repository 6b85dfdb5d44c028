"""A drive as a film: every car of every observation, in metres, seen from the ego.

Observations are clipped. The ego's way along the road soon is, so it is summed up from its speed. Across the road
everything further away than the road is wide is held at that limit: an ego far off the road is shown at the edge of
what is seen, all others at their true distance from it up to that limit, and none of them drifts beyond it.
"""

from __future__ import annotations

import numpy as np

from rci.data.record import Array
from rci.tasks.film import Film, check_film_rows
from rci.tasks.highway.layout import CAR_LENGTH, CAR_WIDTH, LANE_WIDTH, MAX_SPEED, PERCEPTION
from rci.tasks.highway.layout import TASK_LANES as LANES

AHEAD, BEHIND = 100.0, 30.0  # m shown
FEATURES = 7  # presence, x, y, vx, vy, cos_h, sin_h


def road_film(obs: Array, step_seconds: float, lanes: int = LANES) -> Film:
    """obs [T+1, V, 7], normalised; V is any number of cars, the ego first, the others relative to it."""
    obs = check_film_rows("highway", obs, (None, FEATURES))
    present = obs[..., 0] > 0.5
    present[:, 0] = True
    across_scale = lanes * LANE_WIDTH
    along, across = obs[..., 1] * PERCEPTION, obs[..., 2] * across_scale
    ahead_speed, side_speed = obs[..., 3] * 2 * MAX_SPEED, obs[..., 4] * 2 * MAX_SPEED
    side_speed[np.abs(obs[..., 2]) >= 1.0] = 0.0  # held at the limit, so it does not move there
    travelled = way(ahead_speed[:, 0], step_seconds)
    along[:, 0] = 0.0
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


def way(speed: Array, step_seconds: float) -> Array:
    """Metres driven by each moment, from the speed [T+1] then: as if it changed evenly between two moments."""
    return np.concatenate([[0.0], np.cumsum((speed[:-1] + speed[1:]) / 2 * step_seconds)])
