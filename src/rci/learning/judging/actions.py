"""What a policy does at recorded observations: the actions that it is judged by."""

from __future__ import annotations

import jax
import numpy as np

from rci.data.artefacts.models import Policy
from rci.data.errors import RciError
from rci.data.record import Array

PIECE = 2048  # episodes that are stepped at once


def policy_actions(policy: Policy, obs: Array, counts: Array) -> Array:
    """What the policy does at each recorded observation, [observations, a], as when it is evaluated.

    A policy with a memory goes along every episode, `counts` observations each; to others each one stands alone.
    """
    if policy.step is None:
        raise RciError("this policy holds weights only; read it with rci.load to judge it.")
    if not jax.tree.leaves(policy.memory):
        counts = np.ones(len(obs), int)
    start = np.cumsum(counts) - counts
    size = min(PIECE, len(counts))
    action = np.zeros((len(obs), int(policy.info["action_size"])), np.float32)
    for first in range(0, len(counts), size):
        piece = np.arange(first, first + size) % len(counts)  # always of one size: compiled once
        memory = policy.begin(size)
        for t in range(int(counts[piece].max())):
            row = start[piece] + np.minimum(t, counts[piece] - 1)
            there = t < counts[piece]
            answer, memory = policy.step(0, memory, obs[row])
            action[row[there]] = answer[there]
    if not np.isfinite(action).all():
        raise RciError("the policy does something that is not finite at a recorded observation.")
    return action
