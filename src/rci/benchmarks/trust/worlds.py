"""The six tasks of the benchmark: how logs of each are recorded, and how often a policy is stopped in truth.

Nothing that was recorded here was chosen by a trained driver: scripts of the tasks, each episode with an unsteadiness
of its own, so that logs hold safe and unsafe episodes and no training comes before them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rci.benchmarks.trust import rover, tank
from rci.benchmarks.trust.simulator import record, record_logs
from rci.data.artefacts.models import Policy
from rci.data.errors import unknown_name
from rci.data.record import Array
from rci.data.types import Episodes, Labels
from rci.tasks import get, observe_truth
from rci.tasks.rollout import COLLECTION, EVALUATION, episode_seeds
from rci.tasks.rollout import record as record_task

SMALL = {own.name: own for own in (rover.SIMULATOR, tank.SIMULATOR)}
# Of the tasks of the package: the scripts that record, how unsteady they are at most, and what is added to the first
# number of their actions, which on the highway is the acceleration.
SCRIPTS = {
    "point": (("seeker", "random"), 0.6, (0.0, 0.0)),
    "highway": (("steady",), 0.6, (0.2, 1.0)),
    "highway-dense": (("steady",), 0.4, (-0.9, 0.0)),
    "fetch-reach": (("seeker", "swift", "detour"), 0.6, (0.0, 0.0)),
}
TASKS = ("rover", "tank", "point", "fetch-reach", "highway", "highway-dense")


class Truth(NamedTuple):
    """What became of a policy in the simulator."""

    episodes: int
    stopped: int
    earned: float  # mean until the stop or the end


def logs_of(task: str, count: int, seed: int) -> tuple[Episodes, Labels]:
    """Episodes that were recorded without a stop, and where somebody who sees all would have pressed it."""
    if task not in TASKS:
        raise unknown_name("task of the benchmark", task, TASKS)
    if task in SMALL:
        recording = record_logs(SMALL[task], count, seed)
        episodes, first = recording.episodes, recording.first
    else:
        episodes = _record_task(task, count, seed)
        first = observe_truth(get(task), episodes).first_unsafe()
    return episodes, Labels.for_episodes(episodes, first)


def truth_of(policy: Policy, task: str, count: int, seed: int) -> Truth:
    """The policy in new episodes of the simulator."""
    if task in SMALL:
        episodes, first = _drive_small(policy, task, count, seed)
    else:
        envs = get(task).make_vec(count)
        seeds = episode_seeds(seed, EVALUATION, 0, count)
        episodes = record_task(envs, _acting(policy, count), seeds, task)
        envs.close()
        first = observe_truth(get(task), episodes).first_unsafe()
    labels = Labels.for_episodes(episodes, first)
    steps = np.arange(len(episodes.reward)) - np.repeat(episodes.step_offset[:-1], episodes.lengths)
    kept = steps < np.repeat(labels.kept_lengths, episodes.lengths)
    return Truth(count, int(labels.stopped.sum()), float(np.sum(episodes.reward[kept]) / count))


def _drive_small(policy: Policy, task: str, count: int, seed: int) -> tuple[Episodes, Array]:
    act = _acting(policy, count)
    rng = np.random.default_rng([seed, EVALUATION])
    recording = record(SMALL[task], rng, count, lambda step, obs: act(obs))
    return recording.episodes, recording.first


def _acting(policy: Policy, count: int) -> Callable[[Array], Array]:
    memory = policy.begin(count)

    def act(obs: Array) -> Array:
        nonlocal memory
        flat = np.asarray(obs, np.float32).reshape(len(obs), -1)
        action, memory = policy.step(0, memory, flat)  # type: ignore[misc]
        return action

    return act


def _record_task(name: str, count: int, seed: int) -> Episodes:
    """Scripts of the task whose actions drift away and come back."""
    task, (scripts, most, hurry) = get(name), SCRIPTS[name]
    rng = np.random.default_rng([seed, COLLECTION])
    which = rng.integers(len(scripts), size=count)
    unsteady = rng.uniform(0.05, most, (count, 1))
    size = int(np.prod(task.make_vec(1).single_action_space.shape or (1,)))
    lean = 0.3 * unsteady * rng.normal(size=(count, size))
    lean[:, 0] += rng.uniform(*hurry, count)
    drift = np.zeros((count, size))

    def act(obs: Array) -> Array:
        nonlocal drift
        asked = np.stack([task.behaviours[script](rng, obs) for script in scripts])[which, np.arange(count)]
        drift = 0.8 * drift + 0.6 * unsteady * rng.normal(size=asked.shape)
        return np.clip(asked + lean + drift, -1.0, 1.0).astype(np.float32)

    envs = task.make_vec(count)
    episodes = record_task(envs, act, episode_seeds(seed, COLLECTION, 0, count), name)
    envs.close()
    return episodes
