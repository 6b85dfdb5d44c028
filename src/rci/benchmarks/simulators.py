"""`rci bench`: speeds against the reference, measured in the same run, and how equal the results are.

A row is a plain table with `name`, `config`, `value`, `unit`, and where there is one `reference`, `ratio`,
`parity_max_abs`. Rounds of the reference and of ours alternate and the best of each counts, so that a machine that
slows down for a while slows both.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

Row = dict[str, Any]
SIM_ROWS = 20  # that bench_sim gives
STRICTLY, INSTALLED, ARM = "strict", "as installed", "fetch-reach"  # only as installed may bits differ
AFTER_THE_END = 5  # steps that are compared after an episode has ended, in the strict mode
VEHICLES = (15, 20, 50)
BATCHES = (1, 64, 1024)
ARMS = ((1, 1), (64, 1), (64, 2), (512, 2))  # (batch, threads)
ROUNDS = 3
SGEMM_SIZE = 1024
WARM_START = """
import sys, time
began = time.perf_counter()
from rci.tasks.highway.vector_env import make_native
loaded = time.perf_counter()
envs = make_native(1, "highway-v0")
envs.reset(seed=0)
envs.step(envs.action_space.sample())
sys.stdout.write(f"{loaded - began} {time.perf_counter() - loaded}")
"""


def bench_sim(seconds: float = 1.0) -> Iterator[Row]:
    """Steps per second of the batched simulators. seconds: how long each round of each measurement takes."""
    from rci.tasks.fetch_reach.model import import_mujoco

    import_mujoco()  # if it is not there, say so now
    yield from bench_highway(seconds)
    yield warm_start()
    yield from bench_fetch(seconds)


def bench_highway(seconds: float) -> Iterator[Row]:
    """highway-v0 (15 Hz frames, 1 Hz policy) against highway-env."""
    from rci.tasks.highway.parity import Case, compare, gentle

    for vehicles in VEHICLES:
        config = {"action": {"type": "ContinuousAction"}, "vehicles_count": vehicles}
        reference = _original_runner(config)
        runners = {
            (batch, threads): _batched_runner(config, batch, threads)
            for batch in BATCHES
            for threads in ((1,) if batch == 1 else (1, 2))
        }
        best = dict.fromkeys(runners, 0.0)
        original = 0.0
        for _ in range(ROUNDS):
            original = max(original, steps_per_second(reference, seconds))
            for setting, runner in runners.items():
                best[setting] = max(best[setting], steps_per_second(runner, seconds / 2))
        parity = compare(Case("bench", {**config, "duration": 20}, gentle), range(2)).largest
        for (batch, threads), value in best.items():
            yield {
                "name": "highway-v0",
                "config": {"vehicles": vehicles, "batch": batch, "threads": threads},
                "value": value,
                "unit": "steps/s",
                "reference": original,
                "ratio": value / original,
                "parity_max_abs": parity,
            }


def bench_fetch(seconds: float) -> Iterator[Row]:
    """Safe-FetchReach against gymnasium-robotics, and against MuJoCo's own 20 substeps, times the threads."""
    from rci.tasks.fetch_reach.parity import CASES, compare

    reference, limit = _arm_runner(), _substep_runner()
    runners = {setting: _arms_runner(*setting) for setting in ARMS}
    best = dict.fromkeys(runners, 0.0)
    original = substeps = 0.0
    for _ in range(ROUNDS):
        original = max(original, steps_per_second(reference, seconds))
        substeps = max(substeps, steps_per_second(limit, seconds / 2))
        for setting, runner in runners.items():
            best[setting] = max(best[setting], steps_per_second(runner, seconds))
    parity = compare(CASES[0], range(2)).largest
    for (batch, threads), value in best.items():
        yield {
            "name": "fetch-reach",
            "config": {"batch": batch, "threads": threads},
            "value": value,
            "unit": "steps/s",
            "reference": original,
            "ratio": value / original,
            "limit": substeps * threads,
            "share_of_limit": value / (substeps * threads),
            "parity_max_abs": parity,
        }


def bench_parity(episodes: int) -> Iterator[Row]:
    """Whole episodes of every kind in both simulators: of the highway bitwise and as installed, and of the arm."""
    from rci.tasks.fetch_reach.parity import run_cases as run_arm
    from rci.tasks.highway.parity import run_cases, run_strictly
    from rci.tasks.parity import Parity

    def row(mode: str, parity: Parity) -> Row:
        counts = {
            "case": parity.case,
            "episodes": parity.episodes,
            "steps": parity.steps,
            "crashes": parity.crashed,
        }
        return {
            "name": f"parity, {mode}",
            "config": counts,
            "value": parity.bitwise,
            "unit": "episodes bitwise equal",
            "parity_max_abs": parity.largest,
            "first_difference": parity.first_difference,
        }

    for parity in run_strictly(None, episodes, beyond=AFTER_THE_END):
        yield row(STRICTLY, parity)
    for parity in run_cases(None, episodes, first=0, beyond=0):
        yield row(INSTALLED, parity)
    for parity in run_arm(episodes):
        yield row(ARM, parity)


def parity_failures(rows: list[Row]) -> list[str]:
    """What is not as it should be: any bit, except on the highway as installed, where it is more than rounding."""
    from rci.tasks.highway.parity import TOLERANCE

    return [
        f"{row['name']}: {row['first_difference']}"
        for row in rows
        if (not row["name"].endswith(INSTALLED) and row["value"] < row["config"]["episodes"])
        or row["parity_max_abs"] > TOLERANCE
    ]


def bench_table(rows: list[Row]) -> str:
    """Rows as a Markdown table, one for each set of columns."""
    blocks: list[list[str]] = []
    header = ""
    for row in rows:
        cells = {"": row["name"], **row["config"], row["unit"]: row["value"]}
        extra = ("reference", "ratio", "limit", "share_of_limit", "parity_max_abs", "differing")
        cells |= {name: row[name] for name in extra if name in row}
        if (line := " | ".join(cells)) != header:
            header = line
            blocks.append([f"| {header} |", "|" + " --- |" * len(cells)])
        blocks[-1].append("| " + " | ".join(_shown(cell) for cell in cells.values()) + " |")
    return "\n\n".join("\n".join(block) for block in blocks)


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    if value and abs(value) < 1e-3:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def warm_start() -> Row:
    """Seconds from having imported numba to the first step, with the machine code on disk."""
    command = [sys.executable, "-W", "ignore", "-c", WARM_START]
    subprocess.run(command, check=True, capture_output=True)  # compiles, unless that was done before
    seconds = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return {
        "name": "highway-v0 warm start",
        "config": {"import_seconds": float(seconds[0])},
        "value": float(seconds[1]),
        "unit": "s",
    }


def steps_per_second(run: Callable[[], int], seconds: float) -> float:
    """How many steps `run` does in a second, over at least `seconds`. run() -> steps done."""
    began, done = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        done += run()
    return done / spent


def per_cpu_second(run: Callable[[], float], seconds: float) -> float:
    """How much `run` does in a second of this process's time. run() -> amount done."""
    run()  # compiles
    began, done = time.process_time(), 0.0
    while (spent := time.process_time() - began) < seconds:
        done += run()
    return done / spent


def sgemm_runner() -> Callable[[], float]:
    """A product of square matrices in float32, in floating-point operations."""
    import jax

    one_key, two_key = jax.random.split(jax.random.key(0))
    one, two = (jax.random.normal(key, (SGEMM_SIZE, SGEMM_SIZE)) for key in (one_key, two_key))
    product = jax.jit(lambda a, b: a @ b)

    def run() -> float:
        jax.block_until_ready(product(one, two))
        return 2.0 * SGEMM_SIZE**3

    return run


def _actions(rng: np.random.Generator, worlds: int) -> np.ndarray:
    """Throttle at will and steer a little, so that egos stay among the traffic."""
    return (rng.uniform(-1, 1, (worlds, 2)) * [1.0, 0.05]).astype(np.float32)


def _original_runner(config: dict[str, Any]) -> Callable[[], int]:
    from rci.tasks.highway.original import make_original

    env, rng = make_original(config), np.random.default_rng(0)
    env.reset(seed=0)

    def run() -> int:
        _, _, terminated, truncated, _ = env.step(_actions(rng, 1)[0])
        if terminated or truncated:
            env.reset()
        return 1

    return run


def _batched_runner(config: dict[str, Any], worlds: int, threads: int) -> Callable[[], int]:
    from rci.tasks.highway.vector_env import make_native

    # a world that ends begins anew in the same step, so that every step counts
    mode = AutoresetMode.SAME_STEP
    envs = make_native(worlds, "highway-v0", autoreset_mode=mode, threads=threads, **config)
    rng = np.random.default_rng(0)
    envs.reset(seed=0)
    envs.step(_actions(rng, worlds))  # loads the machine code

    def run() -> int:
        envs.step(_actions(rng, worlds))
        return worlds

    return run


def _arm_runner() -> Callable[[], int]:
    """gymnasium-robotics, as one gets it from gymnasium.make."""
    from rci.tasks.fetch_reach.model import make_native

    env, rng = make_native(), np.random.default_rng(0)
    env.reset(seed=0)

    def run() -> int:
        *_, truncated, _ = env.step(rng.uniform(-1, 1, 4).astype(np.float32))
        if truncated:
            env.reset()
        return 1

    return run


def _arms_runner(worlds: int, threads: int) -> Callable[[], int]:
    from rci.tasks.fetch_reach.task import make_vec

    envs = make_vec(worlds, autoreset_mode=AutoresetMode.SAME_STEP, threads=threads)
    rng = np.random.default_rng(0)
    envs.reset(seed=0)

    def run() -> int:
        envs.step(rng.uniform(-1, 1, (worlds, 4)).astype(np.float32))
        return worlds

    return run


def _substep_runner() -> Callable[[], int]:
    """Nothing but the physics of the steps of an episode of random actions, with the full model on one core."""
    import mujoco

    from rci.tasks.fetch_reach.model import HORIZON, SUBSTEPS, load_arm
    from rci.tasks.fetch_reach.vector_env import make_fetch

    arm, envs, rng = load_arm(), make_fetch(1, hazard=None), np.random.default_rng(0)
    envs.reset(seed=0)
    states = [arm.start]
    for _ in range(HORIZON - 1):
        envs.step(rng.uniform(-1, 1, (1, 4)).astype(np.float32))
        states.append(envs.simulator.state[0].copy())
    data = mujoco.MjData(arm.model)

    def run() -> int:
        for state in states:
            mujoco.mj_setState(arm.model, data, state, arm.layout.flags)
            mujoco.mj_step(arm.model, data, nstep=SUBSTEPS)
        return len(states)

    return run
