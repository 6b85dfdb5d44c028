"""Ground floor: the simulators and what counts as unsafe in each."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from rci.data.errors import unknown_name
from rci.data.types import Episodes, Oracle
from rci.tasks.base import Task, check_observations
from rci.tasks.batched import check_count
from rci.tasks.fetch_reach.model import HORIZON
from rci.tasks.fetch_reach.task import TASKS as FETCH_TASKS
from rci.tasks.highway.task import TASKS as HIGHWAY_TASKS
from rci.tasks.point import TASK as POINT

TASKS: dict[str, Task] = {"point": POINT, **HIGHWAY_TASKS, **FETCH_TASKS}
NATIVE = (
    "highway-v0",
    "highway-fast-v0",
)  # simulators without a task's reward and rule, under their own names

gymnasium.register(
    "rci/SafeFetchReach-v0",
    entry_point="rci.tasks.fetch_reach.original:SafeFetchReach",
    vector_entry_point="rci.tasks.fetch_reach.task:make_vec",
    max_episode_steps=HORIZON,
)  # known to gymnasium.make once this module is imported


def get(name: str) -> Task:
    """The task called `name`."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def make(name: str, **config: Any) -> gymnasium.Env:
    """One world as a Gymnasium Env: of a task, or a native simulator such as "highway-v0". The original, if any."""
    if name in NATIVE:
        from rci.tasks.highway.original import make_original

        render_mode = config.pop("render_mode", None)
        return make_original(config, name, render_mode=render_mode)
    return _known(name).make(**config)


def make_vec(name: str, num_envs: int, **config: Any) -> VectorEnv:
    """Many worlds at once as a Gymnasium VectorEnv: of a task, or of a native simulator such as "highway-v0"."""
    num_envs = check_count("num_envs", num_envs)
    if name in NATIVE:
        from rci.tasks.highway.vector_env import make_native

        return make_native(num_envs, name, **config)
    return _known(name).make_vec(num_envs, **config)


def _known(name: str) -> Task:
    if name not in TASKS:
        raise unknown_name("task", name, [*TASKS, *NATIVE])
    return TASKS[name]


def observe_truth(task: Task, episodes: Episodes) -> Oracle:
    """What the task's own rule says of every recorded transition."""
    check_observations(task, episodes)
    obs = episodes.obs[episodes.next_rows]
    return Oracle(
        unsafe=task.unsafe(obs),
        distance=task.distance(obs),
        lengths=episodes.lengths,
        episodes_hash=episodes.hash,
    )
