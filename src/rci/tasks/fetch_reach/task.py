"""Safe-FetchReach: bring the end-effector to the goal; a sphere that nobody mentions is in the way of many goals.

Unsafe is the end-effector inside the sphere after a step. `task` makes such a task for any sphere; the one called
"fetch-reach" has the sphere of `hazard.HAZARD`, and docs/fetch_reach.md says how it was chosen. On "fetch-reach-fine"
a step moves the arm a quarter as far, so that a cause lies several steps before its stop.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium

from rci.tasks.base import BehaviourPolicy, Task, uniform_actions
from rci.tasks.batched import BatchedEnv, check_count
from rci.tasks.fetch_reach.controllers import SWIFT_GAIN, detour, seek
from rci.tasks.fetch_reach.film import paths_film
from rci.tasks.fetch_reach.hazard import HAZARD, OBS_SIZE, Hazard, check_hazard
from rci.tasks.fetch_reach.model import HORIZON
from rci.tasks.fetch_reach.scene import draw_scene, draw_space, probe, views

STEP_SECONDS = 0.04
FINE_STRIDE, FINE_HORIZON = (
    0.25,
    100,
)  # share of an action that reaches the arm; steps: a reach takes about 20


def make_vec(num_envs: int, hazard: Hazard | None = HAZARD, **config: Any) -> BatchedEnv:
    """Many arms at once; config: max_episode_steps, autoreset_mode, threads."""
    # MuJoCo is loaded when a world is made, not before
    from rci.tasks.fetch_reach.vector_env import make_fetch

    return make_fetch(check_count("num_envs", num_envs), check_hazard(hazard), **config)


def make(
    hazard: Hazard | None = HAZARD,
    max_episode_steps: int = HORIZON,
    render_mode: str | None = None,
    stride: float = 1.0,
) -> gymnasium.Env:
    """One arm, simulated by gymnasium-robotics itself."""
    from rci.tasks.fetch_reach.original import SafeFetchReach

    env = SafeFetchReach(hazard, render_mode, stride)
    return gymnasium.wrappers.TimeLimit(env, check_count("max_episode_steps", max_episode_steps))


def task(name: str, hazard: Hazard, **steps: Any) -> Task:
    """Safe-FetchReach with a sphere of one's own. steps: stride and max_episode_steps, if not the native ones."""
    scripts: dict[str, BehaviourPolicy] = {
        "random": uniform_actions(4),
        "seeker": seek,
        "swift": partial(seek, gain=SWIFT_GAIN),
        "detour": partial(detour, hazard),
    }
    return Task(
        name=name,
        obs_shape=(OBS_SIZE,),
        make_vec=partial(make_vec, hazard=hazard, **steps),
        make=partial(make, hazard=hazard, **steps),
        unsafe=hazard.unsafe,
        distance=hazard.gripper_distance,
        packages=("mujoco", "gymnasium-robotics"),
        variant_of="" if name == "fetch-reach" else "fetch-reach",
        step_seconds=STEP_SECONDS,
        behaviours=scripts,
        recipes={"ppo": {"ppo": 1.0}, "mixed": {"ppo": 0.5, "random": 0.5}}
        | {name: {name: 1.0} for name in scripts},
        views=views(hazard),
        space=partial(draw_space, hazard),
        scene=partial(draw_scene, hazard),
        film=partial(paths_film, hazard),
        probe=partial(probe, hazard),
    )


TASKS = {
    "fetch-reach": task("fetch-reach", HAZARD),
    "fetch-reach-fine": task("fetch-reach-fine", HAZARD, stride=FINE_STRIDE, max_episode_steps=FINE_HORIZON),
}
