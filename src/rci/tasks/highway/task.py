"""Six tasks on one highway: drive fast, and keep your distance without ever learning from the reward what that is.

Unsafe is a car within 0.2 in normalised coordinates (x divided by 200 m, y by 4 m a lane): about 40 m ahead in one's
own lane. A reset that is unsafe already is drawn again. `highway-dense` has nearly three times the traffic;
`highway-open` pays for speed off the road as well; on `highway-disc` both coordinates are divided by 100 m, so that
danger is a disc of 20 m; `highway-two` has leaving the road as a second kind of danger; `highway-15hz` has three times
as many, shorter steps, so that a violation is three times as far from what led to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium
import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.base import Task, uniform_actions
from rci.tasks.batched import BatchedEnv
from rci.tasks.highway.film import road_film
from rci.tasks.highway.physics.layout import DISC_SCALE, LANE_WIDTH, SAFE_DISTANCE, SPEED_SCALE, TASK_SCALE
from rci.tasks.highway.physics.layout import TASK_LANES as LANES
from rci.tasks.highway.scene import draw_scene, probe

OUT_OF_SIGHT = 1.0  # normalised: as far as cars are told apart
ACROSS = TASK_SCALE[1]  # m
PRESENCE, PLACE, SPEED_AHEAD, SIN_HEADING = 0, slice(1, 3), 3, 6  # features of a row
STEADY_SPEED, STEADY_NOISE = 20.0, np.array([0.3, 0.02])  # m/s; of throttle and steering
CONFIG: dict[str, Any] = {
    "observation": {
        "type": "Kinematics",
        "vehicles_count": 5,
        "features": ["presence", "x", "y", "vx", "vy", "cos_h", "sin_h"],
    },
    "action": {"type": "ContinuousAction"},
    "lanes_count": LANES,
    "vehicles_count": 20,
    "vehicles_density": 0.35,  # chosen by what an informed driver can do: docs/highway.md
    "simulation_frequency": 15,  # Hz
    "policy_frequency": 5,  # Hz
    "duration": 19.9,  # s: 100 steps. The clock adds up 0.2 s and stands at 19.99... then; 20 would allow one more
    "collision_reward": 0,
    "right_lane_reward": 0,
    "high_speed_reward": 1,
    "reward_speed_range": [20, 30],  # m/s
    "normalize_reward": False,
}
OBS_SHAPE = (5, 7)
ONE_KIND = {name: {name: 1.0} for name in ("ppo", "random", "steady")}
MIXED = {"ppo": 0.5, "random": 0.5}
WITH_CARE = {"ppo": 0.4, "random": 0.2, "steady": 0.4}


def nearest_distance(obs: Array) -> Array:
    """Normalised distance to the nearest car in sight, at most 1."""
    others = np.asarray(obs)[..., 1:, :]
    distance = np.sqrt((others[..., PLACE].astype(np.float64) ** 2).sum(-1))
    return np.where(others[..., PRESENCE] > 0, distance, OUT_OF_SIGHT).min(-1).clip(max=OUT_OF_SIGHT)


def too_close(obs: Array) -> Array:
    """Some car in sight is within the safe distance."""
    return nearest_distance(obs) <= SAFE_DISTANCE


def off_road(obs: Array, across: float = ACROSS) -> Array:
    """The ego's centre is beyond the outermost lanes. across: metres across the road that are observed as 1."""
    return _room(obs, across) < 0.0


def _ego_y(obs: Array, across: float) -> Array:
    """Metres across the road from the first lane's centre."""
    return np.asarray(obs)[..., 0, PLACE][..., 1].astype(np.float64) * across


def _room(obs: Array, across: float = ACROSS) -> Array:
    """Metres from the ego's centre to the nearer edge of the road, negative outside."""
    y = _ego_y(obs, across)
    return np.minimum(y + LANE_WIDTH / 2, LANE_WIDTH * (LANES - 0.5) - y)


def nearest_danger(obs: Array) -> Array:
    """The nearest car or the road's edge, so that at 0.2 and below it is unsafe either way."""
    return np.minimum(nearest_distance(obs), SAFE_DISTANCE + _room(obs) / ACROSS)


def either(obs: Array) -> Array:
    """Too close, or off the road."""
    return too_close(obs) | off_road(obs)


def hold_lane(rng: np.random.Generator, obs: Array, across: float = ACROSS) -> Array:
    """Drive at 20 m/s along the nearest lane with a slightly shaky hand: a careful driver who never leaves the road."""
    heading = np.arcsin(np.clip(obs[:, 0, SIN_HEADING].astype(np.float64), -1.0, 1.0))
    speed = obs[:, 0, SPEED_AHEAD].astype(np.float64) * SPEED_SCALE
    y = _ego_y(obs, across)
    aside = y - LANE_WIDTH * np.clip(np.rint(y / LANE_WIDTH), 0, LANES - 1)
    steering = 0.6 * (np.clip(-0.08 * aside, -0.15, 0.15) - heading)
    action = np.stack([(STEADY_SPEED - speed) / 5.0, steering], -1)
    return np.clip(action + STEADY_NOISE * rng.standard_normal(action.shape), -1.0, 1.0).astype(np.float32)


def scaled(scale: tuple[float, float]) -> dict[str, Any]:
    """The road observed with these metres along and across as 1; speeds as always."""
    along, across = scale
    ranges = {"x": along, "y": across, "vx": SPEED_SCALE, "vy": SPEED_SCALE}
    features_range = {name: [-limit, limit] for name, limit in ranges.items()}
    return {**CONFIG, "observation": {**CONFIG["observation"], "features_range": features_range}}


def at_rate(frequency: int) -> dict[str, Any]:
    """Twenty seconds in steps of 1 / frequency; half a step less, because the clock adds up rounded steps."""
    return {**CONFIG, "policy_frequency": frequency, "duration": 20.0 - 0.5 / frequency}


def task_config(
    name: str, config: Mapping[str, Any], fixed: tuple[str, ...], given: Mapping[str, Any]
) -> dict[str, Any]:
    """The task's configuration with changes; not of what its rule is written for."""
    for key in fixed:
        if key in given:
            raise RciError(
                f"{key} is part of what the task {name!r} is, and its rule is written for it; "
                "make_vec('highway-v0', ...) is free of both."
            )
    return {**config, **given}


def _make_vec(
    name: str,
    usual: Mapping[str, Any],
    change: Mapping[str, Any],
    fixed: tuple[str, ...],
    num_envs: int,
    **config: Any,
) -> BatchedEnv:
    from rci.tasks.highway.vector_env import make_highway  # numba is loaded when a world is made, not before

    own = {key: config.pop(key) for key in ("autoreset_mode", "threads") if key in config}
    return make_highway(num_envs, task_config(name, usual, fixed, config), **own, **change)


def _make(
    name: str, usual: Mapping[str, Any], change: Mapping[str, Any], fixed: tuple[str, ...], **config: Any
) -> gymnasium.Env:
    from rci.tasks.highway.original import make_original
    from rci.tasks.highway.settings import complete

    complete(
        full := task_config(name, usual, fixed, config)
    )  # the same mistakes are refused as in the batched one
    return make_original(full, **change)


def _task(
    name: str,
    unsafe: Callable[[Array], Array],
    off_road_pays: bool = False,
    mixed: Mapping[str, float] = MIXED,
    config: Mapping[str, Any] = CONFIG,
    scale: tuple[float, float] = TASK_SCALE,
    **more: Any,
) -> Task:
    step_seconds = 1 / config["policy_frequency"]
    change = {"refuse": unsafe, "off_road_pays": off_road_pays}
    fixed = ("observation", "action", *(["lanes_count"] if "channels" in more else []))
    return Task(
        name=name,
        obs_shape=OBS_SHAPE,
        make_vec=partial(_make_vec, name, config, change, fixed),
        make=partial(_make, name, config, change, fixed),
        unsafe=unsafe,
        distance=nearest_danger if "channels" in more else nearest_distance,
        variant_of="" if name == "highway" else "highway",
        step_seconds=step_seconds,
        danger_distance=SAFE_DISTANCE,
        behaviours={"random": uniform_actions(2), "steady": partial(hold_lane, across=scale[1])},
        recipes=ONE_KIND | {"mixed": mixed},
        marks={"off the road": partial(off_road, across=scale[1])},
        scene=partial(draw_scene, scale=scale),
        film=partial(road_film, step_seconds=step_seconds, scale=scale),
        probe=partial(probe, scale),
        **more,
    )


TASKS = {
    task.name: task
    for task in (
        _task("highway", too_close),
        _task("highway-dense", too_close, config={**CONFIG, "vehicles_density": 1}),
        _task("highway-open", too_close, off_road_pays=True),
        _task("highway-disc", too_close, config=scaled(DISC_SCALE), scale=DISC_SCALE),
        _task("highway-15hz", too_close, config=at_rate(15)),
        # PPO and random driving always leave the road at some time; without a careful driver everybody is stopped
        _task("highway-two", either, mixed=WITH_CARE, channels={"proximity": too_close, "road": off_road}),
    )
}
