"""Run highway-env and the batched simulator side by side, with the same seeds and actions, and compare every number.

highway-env is not bit-reproducible across machines itself: numpy takes tan, arctan, arcsin, power and exp from
AVX-512 code where there is some, which differs from the C library in the last bit now and then, and OpenBLAS fuses
the products of short dot products on some cores. In the strict mode, numpy runs without the first and OpenBLAS in a
way that makes no difference for vectors of two; then all bits are equal. The variables must be set before numpy is
loaded, so the strict mode is a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.highway.original import make_original
from rci.tasks.highway.physics.layout import DISC_SCALE, LANE
from rci.tasks.highway.task import CONFIG as TASK_CONFIG
from rci.tasks.highway.task import scaled
from rci.tasks.highway.vector_env import HighwayVectorEnv, make_highway
from rci.tasks.parity import Parity

STRICT = {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL", "OPENBLAS_CORETYPE": "Haswell"}
TOLERANCE = 1e-9  # as installed, in the units of each quantity
ANSWER = ("obs", "reward", "terminated", "truncated")
Driver = Callable[[np.random.Generator, int], Array]


def _dash(rng: np.random.Generator, step: int) -> Array:
    return np.array([1.0, 0.0], np.float32)


def gentle(rng: np.random.Generator, step: int) -> Array:
    """Throttle at will and steer a little: the ego stays among the traffic for a while."""
    return (rng.uniform(-1, 1, 2) * [1.0, 0.05]).astype(np.float32)


def _wild(rng: np.random.Generator, step: int) -> Array:
    return rng.uniform(-1, 1, 2).astype(np.float32)


def _weave(rng: np.random.Generator, step: int) -> Array:
    return np.array([1.0, 0.08 * np.sin(0.9 * step)], np.float32)


def _reverse(rng: np.random.Generator, step: int) -> Array:
    return np.array([-1.0, 0.01 * np.sin(step)], np.float32)


def _precise(rng: np.random.Generator, step: int) -> Array:
    return rng.uniform(-1.3, 1.3, 2) * [1.0, 0.1]  # float64, and beyond the limits


def _one(rng: np.random.Generator, step: int) -> Array:
    return rng.uniform(-0.2, 1, 1).astype(np.float32)


def _slight(rng: np.random.Generator, step: int) -> Array:
    return rng.uniform(-0.05, 0.05, 1).astype(np.float32)


def _choose(count: int) -> Driver:
    return lambda rng, step: np.int64(rng.integers(count))  # type: ignore[return-value]


CONTINUOUS = {"action": {"type": "ContinuousAction"}}
ALL_FEATURES = [
    "presence", "x", "y", "vx", "vy", "heading", "cos_h", "sin_h", "cos_d", "sin_d", "long_off", "lat_off", "ang_off",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A configuration and a way to drive in it."""

    name: str
    config: dict[str, Any]
    driver: Driver
    env: str = "highway-v0"
    off_road_pays: bool = False


CASES = (
    Case("task, gentle", TASK_CONFIG, gentle),
    Case("task, wild", TASK_CONFIG, _wild),
    Case("task on the dense road", {**TASK_CONFIG, "vehicles_density": 1}, gentle),
    Case("task on the open road", TASK_CONFIG, _wild, off_road_pays=True),
    Case("task with the disc", scaled(DISC_SCALE), gentle),
    Case("crash: full throttle, 3 lanes", {**CONTINUOUS, "vehicles_count": 15, "lanes_count": 3}, _dash),
    Case("crash: weaving at 5 Hz", {**TASK_CONFIG, "vehicles_count": 30, "vehicles_density": 2}, _weave),
    Case("crash: reversing into traffic", {**TASK_CONFIG, "ego_spacing": 0.5, "duration": 30}, _reverse),
    Case("50 vehicles, meta-actions", {"duration": 8}, _choose(5)),
    Case("6 lanes, dense", {**TASK_CONFIG, "lanes_count": 6, "vehicles_density": 2.5, "initial_lane_id": 2}, gentle),
    Case("1 lane", {**CONTINUOUS, "lanes_count": 1, "vehicles_count": 12, "duration": 15}, gentle),
    Case("2 lanes, sparse traffic", {**TASK_CONFIG, "lanes_count": 2, "vehicles_density": 0.5}, gentle),
    Case("nobody else", {**CONTINUOUS, "vehicles_count": 0, "duration": 10}, _wild),
    Case("5 Hz frames", {**TASK_CONFIG, "simulation_frequency": 5}, gentle),
    Case("frames that do not divide", {**TASK_CONFIG, "simulation_frequency": 15, "policy_frequency": 2}, gentle),
    Case("highway-fast-v0", {}, _choose(5), env="highway-fast-v0"),
    Case("highway-fast-v0, continuous", CONTINUOUS, _weave, env="highway-fast-v0"),
    Case(
        "all features, absolute, both ways, plain",
        {**TASK_CONFIG, "observation": {
            "type": "Kinematics", "features": ALL_FEATURES, "absolute": True, "see_behind": True, "normalize": False,
        }},
        gentle,
    ),
    Case(
        "all features, own ranges, unclipped, many rows",
        {**TASK_CONFIG, "observation": {
            "type": "Kinematics", "features": ALL_FEATURES[::-1], "vehicles_count": 25, "clip": False,
            "features_range": {"x": [-100, 100], "vy": [-3, 5], "heading": [-1, 1], "cos_h": [0, 1]},
        }},
        gentle,
    ),
    Case(
        "shuffled rows",
        {**TASK_CONFIG, "observation": {"type": "Kinematics", "order": "shuffled", "vehicles_count": 8}},
        gentle,
    ),
    Case(
        "own reward, ends off the road",
        {**TASK_CONFIG, "collision_reward": -2, "right_lane_reward": 0.3, "high_speed_reward": 0.7,
         "reward_speed_range": [15, 35], "normalize_reward": True, "offroad_terminal": True},
        _wild,
    ),
    Case("throttle only", {**TASK_CONFIG, "action": {"type": "ContinuousAction", "lateral": False}}, _one),
    Case("steering only", {**TASK_CONFIG, "action": {"type": "ContinuousAction", "longitudinal": False}}, _slight),
    Case(
        "own ranges, float64, unclipped",
        {**TASK_CONFIG, "action": {
            "type": "ContinuousAction", "acceleration_range": [-7, 4], "steering_range": [-0.3, 0.2],
            "speed_range": [10, 32], "clip": False,
        }},
        _precise,
    ),
    Case(
        "ranges of numpy's numbers",
        {**TASK_CONFIG, "action": {"type": "ContinuousAction", "steering_range": list(np.deg2rad([-30, 30]))}},
        gentle,
    ),
    Case("meta-actions, speed only", {"action": {"type": "DiscreteMetaAction", "lateral": False}, "duration": 12,
                                      "vehicles_count": 15}, _choose(3)),
    Case(
        "meta-actions, lanes only, own speeds",
        {"action": {"type": "DiscreteMetaAction", "longitudinal": False, "target_speeds": [5, 15, 25, 35]},
         "duration": 12, "vehicles_count": 15},
        _choose(3),
    ),
)  # fmt: skip


def compare(case: Case, seeds: range, beyond: int = 0) -> Parity:
    """Drive each seed's episode in both simulators, and `beyond` steps more after its end."""
    original = make_original(case.config, case.env, off_road_pays=case.off_road_pays)
    batched = make_highway(1, case.config, case.env, "Disabled", off_road_pays=case.off_road_pays)
    result = Parity(case.name)
    for seed in seeds:
        result.episodes += 1
        result.bitwise += _episode(case, seed, beyond, original, batched, result)
    return result


def _episode(
    case: Case, seed: int, beyond: int, original: Any, batched: HighwayVectorEnv, result: Parity
) -> bool:
    rng = np.random.default_rng(seed)
    identical, left, step, ended = True, beyond, 0, False
    obs, info = original.reset(seed=seed)
    mine_obs, mine_info = batched.reset(seed=seed)
    mine: dict[str, Any] = {"obs": mine_obs[0], **_infos(mine_info)}
    theirs: dict[str, Any] = {"obs": obs, **_infos(info)}
    while True:
        mine.update(batched_state(batched))
        theirs.update(original_state(original.unwrapped))
        if not _agree(theirs, mine, result, f"{case.name}, seed {seed}, step {step}"):
            identical = False
        if ended:
            if left == 0 or not identical:
                break
            left -= 1
        action = case.driver(rng, step)
        obs, reward, terminated, truncated, info = original.step(action)
        batched._ended[:] = False  # on purpose: what happens after the end is compared as well
        answer = batched.step(np.asarray(action)[None])
        theirs = {
            "obs": obs,
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
            **_infos(info),
        }
        *values, info = answer
        mine = {**{name: value[0] for name, value in zip(ANSWER, values)}, **_infos(info)}
        step += 1
        if not ended:
            result.steps += 1
            result.crashed += bool(theirs["info crashed"])
        ended = ended or terminated or truncated
    return identical


def batched_state(envs: HighwayVectorEnv) -> dict[str, Any]:
    """The only world's state, and its lanes."""
    return {
        **{name: value[0] for name, value in envs.state().items()},
        "lane": envs.simulator.worlds.tag[0, LANE],
    }


def original_state(env: Any) -> dict[str, Any]:
    """highway-env's vehicles under the names of the batched state. What plain vehicles lack is left out."""
    cars = env.road.vehicles
    return {
        "x": np.array([car.position[0] for car in cars]),
        "y": np.array([car.position[1] for car in cars]),
        "heading": np.array([car.heading for car in cars], np.float64),
        "speed": np.array([car.speed for car in cars], np.float64),
        "lane": np.array([car.lane_index[2] for car in cars]),
        "crashed": np.array([car.crashed for car in cars], np.int32),
        "traffic target_lane": np.array([car.target_lane_index[2] for car in cars[1:]]),
        "traffic target_speed": np.array([car.target_speed for car in cars[1:]], np.float64),
        "traffic timer": np.array([car.timer for car in cars[1:]], np.float64),
        "traffic exponent": np.array([car.DELTA for car in cars[1:]], np.float64),
        "clock": np.float64(env.time),
    }


def _infos(info: dict[str, Any]) -> dict[str, Any]:
    terms = {name: np.ravel(value)[0] for name, value in info["rewards"].items() if not name.startswith("_")}
    return {"info speed": np.ravel(info["speed"])[0], "info crashed": np.ravel(info["crashed"])[0], **terms}


def _agree(theirs: dict[str, Any], mine: dict[str, Any], result: Parity, where: str) -> bool:
    """Note differences; whether there were none at all."""
    agree = True
    for name, value in theirs.items():
        other = mine[name.removeprefix("traffic ")]
        other = np.asarray(other)[1:] if name.startswith("traffic ") else other
        agree = result.same(name, value, other, where) and agree
    return agree


def run_cases(names: list[str] | None, episodes: int, first: int, beyond: int) -> Iterator[Parity]:
    """Compare all cases, or those named, over `episodes` seeds each."""
    for case in CASES:
        if names is None or case.name in names:
            yield compare(case, range(first, first + episodes), beyond)


def run_strictly(names: list[str] | None, episodes: int, first: int = 0, beyond: int = 0) -> Iterator[Parity]:
    """The same in a process of its own, in the strict mode; results come as they are ready."""
    request = json.dumps({"names": names, "episodes": episodes, "first": first, "beyond": beyond})
    command = [sys.executable, "-m", "rci.tasks.highway.parity", request]
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            command, env={**os.environ, **STRICT}, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child:
            for line in child.stdout or ():
                yield Parity(**json.loads(line))
        if child.returncode:
            errors.seek(0)
            reason = errors.read().strip().splitlines() or ["no reason given"]
            raise RciError(f"the strict comparison failed: {reason[-1]}")


if __name__ == "__main__":
    for parity in run_cases(**json.loads(sys.argv[1])):
        sys.stdout.write(json.dumps(asdict(parity)) + "\n")
        sys.stdout.flush()
