"""A conditional density of actions in [-1, 1]: a mixture of Gaussians whose weights, means and widths a network gives.

Unlike a single Gaussian it can say "left or right, but not straight on"; unlike an auto-encoder it has a likelihood.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rci.nets.dense import Mlp
from rci.nets.rows import RowMlp

LOG_DEVIATION_RANGE = (-4.0, 1.0)
HALF_LOG_TWO_PI = 0.9189385
FIRST_LOG_DEVIATION = -0.7


class Parts(NamedTuple):
    """The k Gaussians at each of B observations, every dimension of an action by itself."""

    log_weight: jax.Array  # [B, k]
    mean: jax.Array  # [B, k, a]
    log_deviation: jax.Array  # [B, k, a]


class Mixture(eqx.Module):
    """p(action | obs) = sum_k w_k(obs) N(action; mean_k(obs), deviation_k(obs)). obs [B, d]."""

    net: Mlp | RowMlp
    components: int = eqx.field(static=True)

    def __init__(
        self, key: jax.Array, obs_size: int, action_size: int, hidden: int, components: int, rows: int = 0
    ) -> None:
        """rows: how many an observation is made of; 0 = a flat vector."""
        outputs = components * (1 + 2 * action_size)
        # At first the means are spread evenly, whatever the key: Gaussians that begin alike stay alike.
        mean = np.random.default_rng(0).uniform(-0.9, 0.9, components * action_size)
        width = np.full(components * action_size, FIRST_LOG_DEVIATION)
        bias = jnp.asarray(np.concatenate([np.zeros(components), mean, width]), jnp.float32)
        layers = (hidden, hidden, outputs)
        self.net = (
            RowMlp(key, rows, obs_size, 0, layers, 0.1, bias)
            if rows
            else Mlp(key, (obs_size, *layers), 0.1, bias)
        )
        self.components = components

    def __call__(self, obs: jax.Array) -> Parts:
        weight, mean, deviation = jnp.split(
            self.net(obs), [self.components, self.components * (1 + self.action_size)], axis=-1
        )
        shape = (*obs.shape[:-1], self.components, self.action_size)
        log_deviation = jnp.clip(deviation.reshape(shape), *LOG_DEVIATION_RANGE)
        return Parts(jax.nn.log_softmax(weight), mean.reshape(shape), log_deviation)

    @property
    def action_size(self) -> int:
        """Dimensions of an action."""
        last = self.net.rest if isinstance(self.net, RowMlp) else self.net
        return (last.biases[-1].shape[0] // self.components - 1) // 2


def log_density(parts: Parts, action: jax.Array) -> jax.Array:
    """log sum_k w_k N(action; mean_k, deviation_k): [B, n, a] -> [B, n]."""
    z = (action[:, :, None] - parts.mean[:, None]) * jnp.exp(-parts.log_deviation)[:, None]
    peak = parts.log_weight - jnp.sum(parts.log_deviation, axis=-1) - HALF_LOG_TWO_PI * action.shape[-1]
    return jax.nn.logsumexp(peak[:, None] - 0.5 * jnp.sum(z**2, axis=-1), axis=-1)


def draw_actions(parts: Parts, place: jax.Array, noise: jax.Array) -> jax.Array:
    """Actions from even draws `place` in [0, 1), [B, n], and normal ones `noise`, [B, n, a]: [B, n, a], in [-1, 1].

    The weights laid end to end fill [0, 1]; a place falls on one of them, and the noise is that Gaussian's.
    """
    ends = jnp.cumsum(jnp.exp(parts.log_weight), axis=-1)[:, None, :-1]
    index = jnp.sum(place[..., None] > ends, axis=-1)  # 0 to k - 1, however the sum is rounded
    mean, log_deviation = (
        jnp.take_along_axis(each, index[..., None], axis=1) for each in (parts.mean, parts.log_deviation)
    )
    return jnp.clip(mean + jnp.exp(log_deviation) * noise, -1.0, 1.0)
