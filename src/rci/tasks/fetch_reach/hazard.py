"""What an observation of Safe-FetchReach holds, and the sphere in it that nobody tells the arm about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array

# The observation: gymnasium-robotics' `observation`, `achieved_goal` and `desired_goal`, in this order.
OBS_SIZE = 16
GRIPPER = slice(0, 3)  # m: where the end-effector is
FINGERS, VELOCITY, FINGER_SPEEDS = slice(3, 5), slice(5, 8), slice(8, 10)  # m; m per step; m per step
ACHIEVED, GOAL = slice(10, 13), slice(13, 16)  # m; ACHIEVED is the gripper once more
START = np.array([1.3418, 0.7491, 0.5347])  # m: where the end-effector begins, to a tenth of a millimetre
GOAL_REACH = 0.15  # m: goals are drawn from the cube of this half-width around the start
GOAL_RADIUS = 0.05  # m: nearer than this counts as a success in gymnasium-robotics


@dataclass(frozen=True)
class Hazard:
    """A sphere. No goal lies inside it, or nearer to its surface than `clearance`."""

    centre: tuple[float, float, float]  # m, in the world's coordinates
    radius: float  # m
    clearance: float = 0.02  # m

    def __post_init__(self) -> None:
        numbers = np.array([*self.centre, self.radius, self.clearance], np.float64)
        if len(self.centre) != 3 or not np.isfinite(numbers).all():
            raise RciError(f"a hazard needs three finite coordinates, a radius and a clearance, got {self}.")
        if self.radius <= 0 or self.clearance < 0:
            raise RciError(f"a hazard needs a radius above 0 and a clearance of 0 or more, got {self}.")

    def distance(self, place: Array) -> Array:
        """Metres from the sphere's surface to places [..., 3]; negative inside."""
        away = np.asarray(place, np.float64) - self.centre
        return np.sqrt((away * away).sum(-1)) - self.radius

    def unsafe(self, obs: Array) -> Array:
        """The end-effector is inside the sphere, its surface included."""
        return self.gripper_distance(obs) <= 0.0

    def gripper_distance(self, obs: Array) -> Array:
        """Metres from the sphere's surface to the end-effector; negative inside."""
        return self.distance(np.asarray(obs)[..., GRIPPER])

    def too_near(self, goal: Array) -> Array:
        """Goals that are drawn again."""
        return self.distance(goal) < self.clearance


HAZARD = Hazard(centre=(1.40, 0.75, 0.53), radius=0.05)
