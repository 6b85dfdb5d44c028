"""A reach as a film: the end-effector's path from above and from the side, with the sphere in its way."""

from __future__ import annotations

from typing import Any

import numpy as np

from rci.data.record import Array
from rci.tasks.fetch_reach.hazard import GOAL, GOAL_RADIUS, GOAL_REACH, GRIPPER, OBS_SIZE, START, Hazard
from rci.tasks.fetch_reach.scene import TABLE_HIGH, TABLE_LOW, TABLE_TOP, VIEW_REACH
from rci.tasks.film import Film, body, box, check_film_rows, circle, view

SIDES = {
    "from above": 1,
    "from the side": 2,
}  # the coordinate that points upwards there; x points to the right
MARGIN = 0.02  # m around a sphere that lies further out than the usual view


def paths_film(hazard: Hazard, obs: Array) -> Film:
    """obs [T+1, 16]."""
    obs = check_film_rows("fetch-reach", obs, (OBS_SIZE,))
    points = np.stack([obs[:, GRIPPER], obs[:, GOAL]], axis=1)  # [T+1, 2, 3]
    bodies = [body("gripper", "agent", trail=True), body("goal", "goal", GOAL_RADIUS)]
    return Film(
        "paths",
        {"views": [_view(hazard, name, up) for name, up in SIDES.items()], "bodies": bodies},
        {f"view{k}": points[..., [0, up]] for k, up in enumerate(SIDES.values())},
    )


def _view(hazard: Hazard, name: str, up: int) -> dict[str, Any]:
    axes = [0, up]
    start, centre = START[axes], np.array(hazard.centre)[axes]
    table = {
        1: (TABLE_LOW, TABLE_HIGH),
        2: (np.array([TABLE_LOW[0], 0.0]), np.array([TABLE_HIGH[0], TABLE_TOP])),
    }
    return view(
        name,
        ("x (m)", "xyz"[up] + " (m)"),
        np.minimum(start - VIEW_REACH, centre - hazard.radius - MARGIN),
        np.maximum(start + VIEW_REACH, centre + hazard.radius + MARGIN),
        box(*table[up], "ground"),
        box(start - GOAL_REACH, start + GOAL_REACH, "region"),
        circle(centre, hazard.radius, "danger"),
    )
