"""A Gaussian policy over actions in [-1, 1]: a normal draw, squashed by tanh."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from rci.nets.dense import Mlp

LOG_DEVIATION_RANGE = (-5.0, 1.0)
EDGE = 1e-3  # a recorded action of exactly 1 would need an infinite draw; it counts as 1 - EDGE


class GaussianActor(eqx.Module):
    """action = tanh(u), u ~ N(mean(obs), deviation(obs)), every dimension by itself. obs [B, d]."""

    net: Mlp

    def __init__(self, key: jax.Array, obs_size: int, action_size: int, hidden: int) -> None:
        # Wide and centred at first, whatever the key.
        self.net = Mlp(key, (obs_size, hidden, hidden, 2 * action_size), last_scale=0.01)

    def __call__(self, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Mean and log deviation of u, [B, a] each."""
        mean, log_deviation = jnp.split(self.net(obs), 2, axis=-1)
        return mean, jnp.clip(log_deviation, *LOG_DEVIATION_RANGE)

    def mode(self, obs: jax.Array) -> jax.Array:
        """The action of the mean, [B, a]."""
        return jnp.tanh(self(obs)[0])

    def squash(self, obs: jax.Array, noise: jax.Array) -> jax.Array:
        """The actions of normal draws: noise [B, n, a] -> [B, n, a]."""
        mean, log_deviation = self(obs)
        return jnp.tanh(mean[:, None] + jnp.exp(log_deviation)[:, None] * noise)

    def sample(self, key: jax.Array, obs: jax.Array) -> jax.Array:
        """One action for each observation, [B, a]."""
        return self.samples(key, obs, 1)[:, 0]

    def samples(self, key: jax.Array, obs: jax.Array, count: int) -> jax.Array:
        """Several actions for each observation, [B, count, a]."""
        action_size = self.net.biases[-1].shape[0] // 2
        return self.squash(obs, jax.random.normal(key, (len(obs), count, action_size)))

    def log_prob(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        """log of the density at recorded actions [B, a], summed over dimensions: [B]."""
        return squashed_log_prob(*self(obs), action)


def squashed_log_prob(mean: jax.Array, log_deviation: jax.Array, action: jax.Array) -> jax.Array:
    """log N(u; mean, deviation) - log(1 - action^2) with u = atanh(action), summed over the last axis."""
    action = jnp.clip(action, EDGE - 1.0, 1.0 - EDGE)
    z = (jnp.arctanh(action) - mean) * jnp.exp(-log_deviation)
    normal = -0.5 * (z**2 + jnp.log(2 * jnp.pi)) - log_deviation
    return jnp.sum(normal - jnp.log1p(-(action**2)), axis=-1)
