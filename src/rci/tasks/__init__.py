"""Ground floor: the simulators and what counts as unsafe in each."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from rci.data.errors import RciError, unknown_name
from rci.data.types import Episodes, Oracle
from rci.tasks import point
from rci.tasks.base import Task, check_observations

TASKS: dict[str, Task] = {"point": point.TASK}


def get(name: str) -> Task:
    """The task called `name`."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def make(name: str, **config: Any) -> gymnasium.Env:
    """One world of a task as a Gymnasium Env."""
    return get(name).make(**config)


def make_vec(name: str, num_envs: int, **config: Any) -> VectorEnv:
    """Many worlds of a task at once, as a Gymnasium VectorEnv."""
    if num_envs < 1:
        raise RciError(f"num_envs must be at least 1, got {num_envs}.")
    return get(name).make_vec(num_envs, **config)


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
