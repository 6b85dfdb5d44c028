"""Run one episode in each world of a batch and record it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from gymnasium.vector import VectorEnv

from rci.data.record import Array
from rci.data.types import Episodes

# What episodes are for. Each purpose has its own stream of seeds, so that no test repeats a training episode.
COLLECTION, EVALUATION, ROLLOUTS, TRAINING, SELECTION = 0, 1, 2, 3, 4
BLIND, PRICED, REFERENCE = 5, 6, 7  # of the reference: training without and with a price, and its tests


def episode_seeds(seed: int, purpose: int, first: int, count: int) -> list[int]:
    """The reset seeds of episodes first .. first + count of a purpose; a hash, so that seeds do not overlap."""
    return [
        int(np.random.SeedSequence(seed, spawn_key=(purpose, i)).generate_state(1, np.uint64)[0] >> 1)
        for i in range(first, first + count)
    ]


def record(envs: VectorEnv, act: Callable[[Array], Array], seeds: Sequence[int], task: str) -> Episodes:
    """Episode i is world i from its reset with seeds[i] to its first end. Nothing is stopped early."""
    obs, _ = envs.reset(seed=list(seeds))  # type: ignore[arg-type]  # every vector environment takes a list
    observations, actions, rewards = [obs], [], []
    count = envs.num_envs
    lengths = np.zeros(count, np.int64)
    terminated, truncated = np.zeros(count, bool), np.zeros(count, bool)
    running = np.ones(count, bool)
    while running.any():
        action = act(obs)
        obs, reward, ends, cut, _ = envs.step(action)
        observations.append(obs)
        actions.append(action)
        rewards.append(reward)
        lengths += running
        terminated |= running & ends
        truncated |= running & cut
        running &= ~(ends | cut)
    # [T, N, ...] -> flat, episode after episode; what came after an episode's end is dropped
    kept = np.arange(len(actions)) < lengths[:, None]
    seen = np.arange(len(observations)) <= lengths[:, None]
    return Episodes(
        obs=np.stack(observations, 1)[seen],
        action=np.stack(actions, 1)[kept],
        reward=np.stack(rewards, 1)[kept],
        lengths=lengths,
        terminated=terminated,
        truncated=truncated,
        task=task,
    )
