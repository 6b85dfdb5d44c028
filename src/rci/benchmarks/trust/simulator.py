"""What a small simulator of this benchmark is, and how episodes of it are recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rci.data.record import Array
from rci.data.types import Episodes

Act = Callable[[int, Array], Array]  # (step, obs [n, d]) -> action [n, a] in [-1, 1]


class Simulator(NamedTuple):
    """Dynamics of n worlds at once, as plain functions; a state is a NamedTuple of arrays [n, ...]."""

    name: str
    steps: int  # of an episode
    begin: Callable[[np.random.Generator, int], Any]  # (rng, n) -> state
    advance: Callable[[np.random.Generator, Any, Array], Any]  # (rng, state, action [n, a]) -> state
    observe: Callable[[Any], Array]  # state -> [n, d]
    reward: Callable[[Any, Any], Array]  # (state before, state after) -> [n]
    unsafe: Callable[[Any], Array]  # state -> [n]
    driver: Callable[[np.random.Generator, int], Act]  # what records logs: n operators of different care


class Recording(NamedTuple):
    """Episodes that nobody stopped, and the truth about them."""

    episodes: Episodes
    unsafe: Array  # flat, one flag for each step: where it led to was unsafe
    first: Array  # [n]: the first unsafe step, -1 = none


def record(simulator: Simulator, rng: np.random.Generator, count: int, act: Act) -> Recording:
    """So many episodes, from their beginnings to the time limit."""
    state = simulator.begin(rng, count)
    obs, actions, rewards, unsafe = [simulator.observe(state)], [], [], []
    for step in range(simulator.steps):
        action = np.clip(np.asarray(act(step, obs[-1]), np.float32), -1.0, 1.0)
        after = simulator.advance(rng, state, action)
        actions.append(action)
        rewards.append(simulator.reward(state, after))
        unsafe.append(simulator.unsafe(after))
        obs.append(simulator.observe(after))
        state = after
    danger = np.stack(unsafe, axis=1)
    episodes = Episodes(
        obs=_flat(obs).astype(np.float32),
        action=_flat(actions),
        reward=_flat(rewards).astype(np.float32),
        lengths=np.full(count, simulator.steps),
        terminated=np.zeros(count, bool),
        truncated=np.ones(count, bool),
        task=simulator.name,
    )
    first = np.where(danger.any(axis=1), danger.argmax(axis=1), -1)
    return Recording(episodes, danger.ravel(), first)


def record_logs(simulator: Simulator, count: int, seed: int) -> Recording:
    """Episodes of its operators."""
    rng = np.random.default_rng(seed)
    return record(simulator, rng, count, simulator.driver(rng, count))


def _flat(steps: list[Array]) -> Array:
    """[T] of [n, ...] -> episode after episode."""
    array = np.stack(steps, axis=1)
    return array.reshape(-1, *array.shape[2:])
