"""highway-env's configuration: which keys and values are understood, and what they mean to the kernels.

Every key of highway-env is either supported, or accepted with the one value that it has an effect-free meaning for,
or refused by name. Nothing is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.tasks.highway.physics.layout import LANE_WIDTH, MAX_SPEED
from rci.tasks.highway.physics.observation import FEATURES
from rci.tasks.highway.physics.worlds import FASTER, IDLE, LANE_LEFT, LANE_RIGHT, SLOWER, Rules

Config = dict[str, Any]

DEFAULTS: Config = {
    "observation": {"type": "Kinematics"},
    "action": {"type": "DiscreteMetaAction"},
    "simulation_frequency": 15,  # Hz
    "policy_frequency": 1,  # Hz
    "lanes_count": 4,
    "vehicles_count": 50,  # besides the ego
    "initial_lane_id": None,
    "duration": 40,  # s
    "ego_spacing": 2,
    "vehicles_density": 1,
    "collision_reward": -1,
    "right_lane_reward": 0.1,
    "high_speed_reward": 0.4,
    "reward_speed_range": [20, 30],  # m/s
    "normalize_reward": True,
    "offroad_terminal": False,
    "screen_width": 600,  # px
    "screen_height": 150,  # px
    "centering_position": [0.3, 0.5],  # where on the screen the ego is
    "scaling": 5.5,  # px per m
}
FAST_DEFAULTS: Config = {
    **DEFAULTS,
    "simulation_frequency": 5,
    "lanes_count": 3,
    "vehicles_count": 20,
    "duration": 30,
    "ego_spacing": 1.5,
}
# Keys of highway-env that the simulator has only one value for.
FIXED: dict[str, tuple[Any, ...]] = {
    "controlled_vehicles": (1,),
    "other_vehicles_type": ("highway_env.vehicle.behavior.IDMVehicle",),
    "lane_change_reward": (0,),  # highway-v0 never pays it
    "neighbour_vehicles_connected_lanes": (False, True),  # one road, so it makes no difference
    "show_trajectories": (False,),
    "render_agent": (True,),
    "offscreen_rendering": (None, True),
    "manual_control": (False,),
    "real_time_rendering": (False,),
}
OBSERVATION: Config = {
    "type": "Kinematics",
    "features": ["presence", "x", "y", "vx", "vy"],
    "vehicles_count": 5,
    "features_range": None,
    "absolute": False,
    "order": "sorted",
    "normalize": True,
    "clip": True,
    "see_behind": False,
    "observe_intentions": False,  # nobody has a route, so there are none to see
    "include_obstacles": True,  # there are none
}
CONTINUOUS: Config = {
    "type": "ContinuousAction",
    "acceleration_range": [-5, 5.0],  # m/s2
    "steering_range": [-math.pi / 4, math.pi / 4],  # rad
    "speed_range": None,  # m/s
    "longitudinal": True,
    "lateral": True,
    "clip": True,
}
META: Config = {
    "type": "DiscreteMetaAction",
    "longitudinal": True,
    "lateral": True,
    "target_speeds": [20, 25, 30],  # m/s
}
ACTIONS = {"ContinuousAction": CONTINUOUS, "DiscreteMetaAction": META}
FIXED_ACTION: dict[str, tuple[Any, ...]] = {"dynamical": (False,)}


def complete(config: Mapping[str, Any], defaults: Mapping[str, Any] = DEFAULTS) -> Config:
    """The whole configuration, checked. `observation` and `action` are replaced whole, as in highway-env."""
    chosen = merge(plain(config), plain(defaults), FIXED, "highway-env's config")
    observation = chosen["observation"]
    kind = _type_of(observation, "observation", ["Kinematics"])
    chosen["observation"] = merge(observation, plain(OBSERVATION), {}, f"the {kind} observation")
    kind = _type_of(chosen["action"], "action", ACTIONS)
    chosen["action"] = merge(chosen["action"], plain(ACTIONS[kind]), FIXED_ACTION, kind)
    _check(chosen)
    return chosen


def plain(value: Any) -> Any:
    """A copy with lists for arrays and tuples, and Python's flags and whole numbers for numpy's.

    numpy's floats stay what they are: an action of 32 bits is mapped to a range of numpy's 64-bit numbers in 64 bits,
    but to one of Python's numbers in 32, in highway-env and so here.
    """
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    return value.item() if isinstance(value, np.bool_ | np.integer | np.str_) else value


def merge(
    given: Mapping[str, Any], defaults: Mapping[str, Any], fixed: Mapping[str, tuple[Any, ...]], where: str
) -> Config:
    """Defaults under what is given; a key that is in neither table, or a value that is fixed otherwise, is refused."""
    for key, value in given.items():
        if key in fixed:
            if not any(
                isinstance(value, bool) is isinstance(one, bool) and value == one for one in fixed[key]
            ):
                allowed = " or ".join(repr(v) for v in fixed[key])
                raise RciError(
                    f"{key} = {value!r} is not supported by the batched simulator: only {allowed} is."
                )
        elif key not in defaults:
            raise unknown_name(f"key of {where}", key, [*defaults, *fixed])
    return {**defaults, **{key: value for key, value in given.items() if key in defaults}}


def rules_of(config: Config, ego_only: bool = False, off_road_pays: bool = False) -> Rules:
    """What the kernels need of a complete configuration."""
    observation, action = config["observation"], config["action"]
    ranges = feature_ranges(config)
    features = list(observation["features"])
    meta = action["type"] == "DiscreteMetaAction"
    slowest, fastest = (
        (action.get("speed_range") or (-MAX_SPEED, MAX_SPEED)) if not meta else (-MAX_SPEED, MAX_SPEED)
    )
    names = ("collision_reward", "right_lane_reward", "high_speed_reward")
    lane = config["initial_lane_id"]
    return Rules(
        lanes=int(config["lanes_count"]),
        frames=int(config["simulation_frequency"] // config["policy_frequency"]),
        dt=1 / config["simulation_frequency"],
        period=1 / config["policy_frequency"],
        duration=float(config["duration"]),
        meta=meta,
        target_speeds=np.array(action.get("target_speeds", [0, 1]), np.float64),
        slowest=float(slowest),
        fastest=float(fastest),
        ego_only=ego_only,
        offroad_terminal=bool(config["offroad_terminal"]),
        off_road_pays=off_road_pays,
        weights=np.array([config[name] for name in names], np.float64),
        slow=float(config["reward_speed_range"][0]),
        fast=float(config["reward_speed_range"][1]),
        normalised=bool(config["normalize_reward"]),
        initial_lane=-1 if lane is None else int(lane),
        ego_spacing=float(config["ego_spacing"]),
        spacing=1 / config["vehicles_density"],
        crowding=float(np.exp(-5 / 40 * int(config["lanes_count"]))),
        features=np.array([FEATURES.index(name) for name in features], np.int64),
        has_range=np.array([name in ranges for name in features], bool),
        low=np.array([float(ranges.get(name, (0, 1))[0]) for name in features]),
        high=np.array([float(ranges.get(name, (0, 1))[1]) for name in features]),
        clipped=bool(observation["clip"]),
        absolute=bool(observation["absolute"]),
        see_behind=bool(observation["see_behind"]),
        shuffled=observation["order"] == "shuffled",
    )


def feature_ranges(config: Config) -> Mapping[str, Sequence[float]]:
    """What is mapped to [-1, 1], by feature."""
    observation = config["observation"]
    if not observation["normalize"]:
        return {}
    width = LANE_WIDTH * config["lanes_count"]
    usual = {
        "x": [-5.0 * MAX_SPEED, 5.0 * MAX_SPEED],
        "y": [-width, width],
        "vx": [-2 * MAX_SPEED, 2 * MAX_SPEED],
        "vy": [-2 * MAX_SPEED, 2 * MAX_SPEED],
    }
    return observation["features_range"] or usual


def observation_shape(config: Config) -> tuple[int, int]:
    """Rows and features."""
    return int(config["observation"]["vehicles_count"]), len(config["observation"]["features"])


def observation_space(config: Config) -> gymnasium.spaces.Box:
    """Rows of features, unbounded as in highway-env."""
    return gymnasium.spaces.Box(-np.inf, np.inf, observation_shape(config), np.float32)


def action_space(config: Config) -> gymnasium.Space:
    """Throttle and steering in [-1, 1], or the index of a meta-action."""
    action = config["action"]
    if action["type"] == "DiscreteMetaAction":
        return gymnasium.spaces.Discrete(len(meta_actions(action)))
    return gymnasium.spaces.Box(
        -1.0, 1.0, (int(action["longitudinal"]) + int(action["lateral"]),), np.float32
    )


def meta_actions(action: Config) -> np.ndarray:
    """What each index of a meta-action means."""
    if action["longitudinal"] and action["lateral"]:
        return np.array([LANE_LEFT, IDLE, LANE_RIGHT, FASTER, SLOWER])
    return np.array([SLOWER, IDLE, FASTER] if action["longitudinal"] else [LANE_LEFT, IDLE, LANE_RIGHT])


def commands(config: Config, action: np.ndarray) -> np.ndarray:
    """Actions as the kernels take them, [worlds, 2] float64.

    A continuous action is clipped and mapped in the precision in which it comes, as in highway-env.
    """
    settings = config["action"]
    command = np.zeros((len(action), 2))
    if settings["type"] == "DiscreteMetaAction":
        command[:, 0] = meta_actions(settings)[action]
        return command
    if not np.issubdtype(action.dtype, np.floating):
        action = action.astype(np.float64)
    if settings["clip"]:
        action = np.clip(action, -1, 1)
    columns = iter(action.T)
    for place, (switch, name) in enumerate((("longitudinal", "acceleration"), ("lateral", "steering"))):
        if settings[switch]:
            low, high = settings[f"{name}_range"]
            command[:, place] = low + (next(columns) - -1) * (high - low) / 2
    return command


def _type_of(table: Any, name: str, known: Any) -> str:
    if not isinstance(table, Mapping) or "type" not in table:
        raise RciError(f"{name} must be a table with a type, such as {next(iter(known))!r}, got {table!r}.")
    if not isinstance(table["type"], str) or table["type"] not in known:
        raise unknown_name(f"or unsupported {name} type", str(table["type"]), known)
    return str(table["type"])


def _check(config: Config) -> None:
    """Refuse values that make no sense, where highway-env would fail later or go on with nonsense."""
    for name, least in (("lanes_count", 1), ("vehicles_count", 0), ("screen_width", 1), ("screen_height", 1)):
        _whole(name, config[name], least)
    for name in (
        "simulation_frequency",
        "policy_frequency",
        "duration",
        "vehicles_density",
        "ego_spacing",
        "scaling",
    ):
        if not _number(name, config[name]) > 0:
            raise RciError(f"{name} must be above 0, got {config[name]!r}.")
    if config["simulation_frequency"] < config["policy_frequency"]:
        raise RciError(
            f"simulation_frequency ({config['simulation_frequency']} Hz) must be at least policy_frequency "
            f"({config['policy_frequency']} Hz): otherwise nothing would ever move."
        )
    weights = [_number(n, config[n]) for n in ("collision_reward", "right_lane_reward", "high_speed_reward")]
    _switches(config, "normalize_reward", "offroad_terminal")
    if config["normalize_reward"] and weights[2] + weights[1] == weights[0]:
        raise RciError(
            "normalize_reward maps from collision_reward to high_speed_reward + right_lane_reward, and these are equal."
        )
    _interval("reward_speed_range", config["reward_speed_range"])
    centre = config["centering_position"]
    if not isinstance(centre, list) or len(centre) != 2:
        raise RciError(f"centering_position must be two shares of the screen, got {centre!r}.")
    for share in centre:
        _number("centering_position", share)
    lane = config["initial_lane_id"]
    if lane is not None and not 0 <= _whole("initial_lane_id", lane, 0) < config["lanes_count"]:
        raise RciError(f"initial_lane_id must be 0 to {config['lanes_count'] - 1} or None, got {lane}.")
    _check_observation(config["observation"])
    _check_action(config["action"])


def _check_observation(observation: Config) -> None:
    _whole("observation.vehicles_count", observation["vehicles_count"], 1)
    names = ("absolute", "normalize", "clip", "see_behind", "observe_intentions", "include_obstacles")
    _switches(observation, *names)
    if observation["order"] not in ("sorted", "shuffled"):
        raise unknown_name("order of observed vehicles", str(observation["order"]), ["sorted", "shuffled"])
    features = observation["features"] = observation["features"] or list(OBSERVATION["features"])
    if not isinstance(features, list):
        raise RciError(f"features must be a list of names, got {features!r}.")
    for name in features:
        if name not in FEATURES:
            raise unknown_name("feature", str(name), FEATURES)
        if features.count(name) > 1:
            raise RciError(f"the feature {name!r} is named twice.")
    ranges = observation["features_range"] or {}
    if not isinstance(ranges, Mapping):
        raise RciError(f"features_range must be a table of two numbers by feature, got {ranges!r}.")
    for name, bounds in ranges.items():
        if name not in FEATURES:
            raise unknown_name("feature with a range", str(name), FEATURES)
        _interval(f"features_range.{name}", bounds)


def _check_action(action: Config) -> None:
    _switches(action, "longitudinal", "lateral")
    if not action["longitudinal"] and not action["lateral"]:
        raise RciError("an action must be longitudinal, lateral or both.")
    if action["type"] == "DiscreteMetaAction":
        speeds = META["target_speeds"] if action["target_speeds"] is None else action["target_speeds"]
        if not isinstance(speeds, list) or len(speeds) < 2:
            raise RciError(f"target_speeds must be at least two rising speeds, got {speeds!r}.")
        action["target_speeds"] = [_number("target_speeds", speed) for speed in speeds]
        if not (np.diff(action["target_speeds"]) > 0).all():
            raise RciError(f"target_speeds must be at least two rising speeds, got {speeds!r}.")
        return
    _switches(action, "clip")
    for name in ("acceleration_range", "steering_range"):
        if action[name] is None:
            action[name] = list(CONTINUOUS[name])
        _interval(name, action[name])
    if action["speed_range"] is not None:
        _interval("speed_range", action["speed_range"])


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating) or not np.isfinite(value):
        raise RciError(f"{name} must be a finite number, got {value!r}.")
    return float(value)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise RciError(f"{name} must be a whole number, at least {least}, got {value!r}.")
    return int(value)


def _switches(table: Config, *names: str) -> None:
    for name in names:
        if not isinstance(table[name], bool):
            raise RciError(f"{name} must be true or false, got {table[name]!r}.")


def _interval(name: str, bounds: Any) -> None:
    if not isinstance(bounds, list) or len(bounds) != 2:
        raise RciError(f"{name} must be two numbers, got {bounds!r}.")
    low, high = (_number(name, bound) for bound in bounds)
    if not low < high:
        raise RciError(f"{name} must be two rising numbers, got {bounds!r}.")
