"""Arms that follow a script: two that go straight for the goal, gently or swiftly, and one that knows of the hazard."""

from __future__ import annotations

import numpy as np

from rci.data.record import Array
from rci.tasks.fetch_reach.hazard import GOAL, GRIPPER, Hazard

GAIN = 10.0  # full speed from 10 cm on
SWIFT_GAIN = 30.0  # full speed on every axis until the goal is near
SHAKE = 0.1  # standard deviation of the straight arm's actions
BERTH = 0.025  # m: how far the careful arm stays away from the sphere, if it can
ASIDE = np.array([0.1, 0.2, 1.0])  # some direction, which no way to a goal is parallel to by chance
PUSH = 20.0  # action per metre that it is too near


def seek(rng: np.random.Generator, obs: Array, gain: float = GAIN) -> Array:
    """Head for the goal with a slightly shaky hand, blind to the hazard."""
    aim = gain * _to_goal(obs)
    return _actions(aim + SHAKE * rng.standard_normal(aim.shape))


def detour(hazard: Hazard, rng: np.random.Generator, obs: Array) -> Array:
    """Head for the goal; where the sphere is in the way, slide along it, a berth away from its surface."""
    towards = _to_goal(obs)
    outwards = np.asarray(obs, np.float64)[..., GRIPPER] - hazard.centre
    distance = np.linalg.norm(outwards, axis=-1, keepdims=True)
    outwards = outwards / np.maximum(distance, 1e-9)
    aim = GAIN * towards
    along = aim - (aim * outwards).sum(-1, keepdims=True) * outwards  # without what leads inwards or outwards
    # right behind the sphere no direction is better: any will do
    lost = np.linalg.norm(along, axis=-1, keepdims=True) < 1e-3
    along = np.where(lost, np.cross(outwards, ASIDE), along)
    along = along / np.maximum(np.linalg.norm(along, axis=-1, keepdims=True), 1e-9)
    room = distance - hazard.radius - BERTH
    slide = along - PUSH * np.minimum(room, 0.0) * outwards
    return _actions(np.where(_blocked(hazard, obs), slide, aim))


def _blocked(hazard: Hazard, obs: Array) -> Array:
    """Whether the straight way to the goal comes nearer to the sphere than the berth: [..., 1]."""
    place = np.asarray(obs, np.float64)[..., GRIPPER]
    towards = _to_goal(obs)
    length = (towards * towards).sum(-1, keepdims=True)
    ahead = ((hazard.centre - place) * towards).sum(-1, keepdims=True) / np.maximum(length, 1e-12)
    nearest = place + np.clip(ahead, 0.0, 1.0) * towards
    goal = np.asarray(obs, np.float64)[..., GOAL]
    berth = np.minimum(BERTH, 0.9 * hazard.distance(goal))  # less, or a goal near the sphere is never free
    return (hazard.distance(nearest) < berth)[..., None]


def _to_goal(obs: Array) -> Array:
    obs = np.asarray(obs, np.float64)
    return obs[..., GOAL] - obs[..., GRIPPER]


def _actions(aim: Array) -> Array:
    """Three directions -> actions; the gripper stays as it is."""
    still = np.zeros((*aim.shape[:-1], 1))
    return np.clip(np.concatenate([aim, still], -1), -1.0, 1.0).astype(np.float32)
