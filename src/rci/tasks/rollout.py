"""Run one episode in each world of a batch and record it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gymnasium.vector import VectorEnv

from rci.data.record import Array
from rci.data.types import Episodes


def record(envs: VectorEnv, act: Callable[[Array], Array], seed: int, task: str) -> Episodes:
    """Episode i is world i from its reset with seed + i to its first end. Nothing is stopped early."""
    obs, _ = envs.reset(seed=seed)
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
