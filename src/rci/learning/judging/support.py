"""How much of what a policy does the logs have seen: distances to recorded steps, held against those among them.

A state lies outside of the data if its nearest recorded state is farther than that of 99% of recorded states is in
other episodes; an action, if of the recorded steps in the nearest states none has an action as near.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rci.data.record import Array

NEIGHBOURS = 20
RECORDED, LOOKED_AT = 4000, 1500  # steps: of the logs, and of a policy
USUAL = 0.99
PIECE = 250  # steps whose distances are in memory at once


class Recorded(NamedTuple):
    """Recorded steps in the networks' own scale, and what is usual among them."""

    obs: Array  # [n, d]
    action: Array  # [n, a]
    state_limit: float
    action_limit: float


def measure_recorded(obs: Array, action: Array, episode: Array, seed: int) -> Recorded:
    """What is usual: distances from recorded steps to those of other episodes. obs [N, d], action [N, a]."""
    rng = np.random.default_rng([seed, 0])
    kept = rng.permutation(len(obs))[:RECORDED]
    looked = rng.permutation(len(obs))[:LOOKED_AT]
    state, act = distances(
        obs[looked], action[looked], obs[kept], action[kept], episode[looked][:, None] == episode[kept]
    )
    usual = np.isfinite(state)
    limits = [float(np.quantile(each[usual], USUAL)) if usual.any() else 0.0 for each in (state, act)]
    return Recorded(obs[kept], action[kept], *limits)


def distances(
    obs: Array, action: Array, recorded_obs: Array, recorded_action: Array, barred: Array | None = None
) -> tuple[Array, Array]:
    """To the nearest recorded state, and to the nearest action in the 20 nearest states: [n] and [n].

    barred: which recorded steps do not count, [n, N]. Infinite where none counts.
    """
    near, alike = [], []
    for first in range(0, len(obs), PIECE):
        rows = slice(first, first + PIECE)
        square = (
            np.sum(obs[rows] ** 2, axis=1)[:, None]
            - 2.0 * obs[rows] @ recorded_obs.T
            + np.sum(recorded_obs**2, axis=1)
        )
        square = np.maximum(square, 0.0)
        if barred is not None:
            square[barred[rows]] = np.inf
        count = min(NEIGHBOURS, square.shape[1])
        index = np.argpartition(square, count - 1, axis=1)[:, :count]
        apart = np.linalg.norm(recorded_action[index] - action[rows][:, None], axis=-1)
        apart[np.isinf(np.take_along_axis(square, index, axis=1))] = np.inf
        near.append(np.sqrt(square.min(axis=1)))
        alike.append(apart.min(axis=1))
    return np.concatenate(near), np.concatenate(alike)


def shares_outside(
    recorded: Recorded, obs: Array, action: Array, weight: Array, seed: int
) -> tuple[float, float, float]:
    """Shares of steps: outside in either, by their action, by their state. obs [n, d], weight [n]."""
    chance = weight / weight.sum()
    chosen = np.random.default_rng([seed, 1]).choice(len(obs), LOOKED_AT, p=chance)
    state, act = distances(obs[chosen], action[chosen], recorded.obs, recorded.action)
    far, strange = state > recorded.state_limit, act > recorded.action_limit
    return float(np.mean(far | strange)), float(strange.mean()), float(far.mean())
