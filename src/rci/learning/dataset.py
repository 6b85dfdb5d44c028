"""Transitions on the device, scaled once, and indexed from inside compiled code."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.record import Array
from rci.data.types import Transitions
from rci.nets.dense import Normaliser, normaliser, rows_of


class Scaling(NamedTuple):
    """How observations and actions of the outside world become the networks' own, and back."""

    obs: Normaliser
    action_centre: jax.Array
    action_reach: jax.Array

    def encode_action(self, action: jax.Array) -> jax.Array:
        """The range seen in the data becomes [-1, 1]."""
        reach = jnp.where(self.action_reach > 0, self.action_reach, 1.0)
        return (action - rows_of(self.action_centre, action)) / rows_of(reach, action)

    def decode_action(self, action: jax.Array) -> jax.Array:
        """[-1, 1] becomes the range seen in the data."""
        return rows_of(self.action_centre, action) + rows_of(self.action_reach, action) * action


class Dataset(NamedTuple):
    """Scaled transitions; the next observation of row r is row r + 1."""

    obs: jax.Array
    row: jax.Array
    action: jax.Array
    reward: jax.Array
    cost: jax.Array  # [rows, K]: one column per channel, one in all where they have no names
    terminated: jax.Array
    truncated: jax.Array
    stopped: jax.Array
    last: jax.Array
    initial: jax.Array


class Batch(NamedTuple):
    """B transitions with candidate actions, n of them after the transition, and B0 initial states with theirs."""

    obs: jax.Array  # [B, d]
    action: jax.Array  # [B, a]
    reward: jax.Array  # [B]
    cost: jax.Array  # [B, K]
    next_obs: jax.Array  # [B, d]
    terminated: jax.Array  # [B]
    truncated: jax.Array  # [B]
    stopped: jax.Array  # [B]
    last: jax.Array  # [B]
    candidate: jax.Array  # [B, m, a]
    next_candidate: jax.Array  # [B, n, a]
    initial_obs: jax.Array  # [B0, d]
    initial_candidate: jax.Array  # [B0, n, a]


def flat_features(array: Array) -> Array:
    """[rows, ...] -> [rows, features] in float32."""
    return np.asarray(array, np.float32).reshape(len(array), -1)


def measure_scaling(transitions: Transitions) -> Scaling:
    """Mean and deviation of the observations that were acted on, range of the actions that were taken."""
    obs = flat_features(transitions.obs[transitions.row])
    action = flat_features(transitions.action)
    low, high = action.min(0), action.max(0)
    return Scaling(
        normaliser(jnp.asarray(obs.mean(0)), jnp.asarray(obs.std(0))),
        jnp.asarray((low + high) / 2),
        jnp.asarray((high - low) / 2),
    )


def to_device(transitions: Transitions, scaling: Scaling) -> Dataset:
    """Scale everything once, so that an update only indexes."""
    numbers = {
        name: jnp.asarray(getattr(transitions, name), jnp.float32)
        for name in ("reward", "terminated", "truncated", "stopped", "last")
    }
    return Dataset(
        obs=scaling.obs(jnp.asarray(flat_features(transitions.obs))),
        row=jnp.asarray(transitions.row, jnp.int32),
        action=scaling.encode_action(jnp.asarray(flat_features(transitions.action))),
        cost=jnp.asarray(flat_features(transitions.cost)),
        initial=jnp.asarray(transitions.initial, jnp.int32),
        **numbers,
    )
