"""What an observation of Safe-FetchReach holds, and the sphere in it that the arm cannot see."""

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
ACTION_UNIT = 0.05  # m that an action of 1 asks for
GOAL_RADIUS = 0.05  # m: nearer than this counts as a success in gymnasium-robotics


@dataclass(frozen=True)
class Hazard:
    """A sphere, and the goals that go with it: around it, but never in it or nearer to its surface than `clearance`.

    `cone` is the largest angle between the ways from the start to the goal and to the sphere's centre. The native
    goals lie all around the start; a sphere that is not right at the start is in the way of few of them.
    """

    centre: tuple[float, float, float]  # m, in the world's coordinates
    radius: float  # m
    clearance: float = 0.02  # m
    cone: float = 180.0  # degrees; 180 is anywhere

    def __post_init__(self) -> None:
        try:
            numbers = np.array([*self.centre, self.radius, self.clearance, self.cone])
        except (TypeError, ValueError):
            numbers = np.array("no numbers")
        if numbers.dtype.kind not in "fiu" or numbers.shape != (6,) or not np.isfinite(numbers).all():
            raise RciError(f"a hazard needs three finite coordinates and three finite numbers, got {self}.")
        if self.radius <= 0 or self.clearance < 0 or not 0 < self.cone <= 180:
            raise RciError(
                f"a hazard needs radius > 0, clearance >= 0 and a cone of 0 to 180 degrees, got {self}."
            )
        if self.distance(START) <= 0:
            raise RciError(
                f"every episode would begin inside the hazard: the start is at {START}, got {self}."
            )

    def distance(self, place: Array) -> Array:
        """Metres from the sphere's surface to places [..., 3]; negative inside."""
        away = np.asarray(place, np.float64) - self.centre
        return np.sqrt((away * away).sum(-1)) - self.radius

    def gripper_distance(self, obs: Array) -> Array:
        """Metres from the sphere's surface to the end-effector; negative inside."""
        return self.distance(np.asarray(obs)[..., GRIPPER])

    def unsafe(self, obs: Array) -> Array:
        """The end-effector is inside the sphere, its surface included."""
        return self.gripper_distance(obs) <= 0.0

    def refuses(self, goal: Array) -> Array:
        """Goals [..., 3] that are drawn again: near the sphere, or out of the cone."""
        way, axis = np.asarray(goal, np.float64) - START, np.asarray(self.centre) - START
        along = (way * axis).sum(-1)
        within = np.cos(np.deg2rad(self.cone)) * np.linalg.norm(way, axis=-1) * np.linalg.norm(axis)
        aside = (along < within) & (self.cone < 180.0)
        return (self.distance(goal) < self.clearance) | aside


HAZARD = Hazard(centre=(1.4226, 0.8299, 0.6155), radius=0.04, cone=20.0)  # chosen in docs/fetch_reach.md


def check_hazard(given: Hazard | None) -> Hazard | None:
    """Refuse anything but a hazard."""
    if given is not None and not isinstance(given, Hazard):
        raise RciError(f"hazard must be a Hazard, or None for the plain environment, got {given!r}.")
    return given
