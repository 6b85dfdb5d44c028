"""The behaviour as a mixture of Gaussians, fitted by likelihood: what it proposes covers what was recorded."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from rci.nets.mixture import Mixture, draw_actions, log_density


class MixtureBehaviour(eqx.Module):
    """The density, and how far from the middle of a Gaussian its proposals may lie."""

    density: Mixture
    noise_limit: float = eqx.field(static=True)

    def draws(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """What `near` makes actions of, [*shape, 1 + a]: a place among the weights, and normal draws, clipped.

        The n places of an observation, the last axis of `shape`, are evenly spaced: each Gaussian has its share of n.
        """
        place = (jnp.arange(shape[-1]) + 0.5) / shape[-1]
        normal = jax.random.normal(key, (*shape, self.density.action_size))
        clipped = jnp.clip(normal, -self.noise_limit, self.noise_limit)
        return jnp.concatenate([jnp.broadcast_to(place[:, None], (*shape, 1)), clipped], axis=-1)

    def near(self, obs: jax.Array, draws: jax.Array) -> jax.Array:
        """Actions that might have been taken: obs [B, d], draws [B, n, 1 + a] -> [B, n, a]."""
        return draw_actions(self.density(obs), draws[..., 0], draws[..., 1:])

    def log_prob(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        """log of the density at actions: obs [B, d], action [B, n, a] -> [B, n]."""
        return log_density(self.density(obs), action)

    def loss(self, key: jax.Array, obs: jax.Array, action: jax.Array) -> jax.Array:
        """Mean negative log-likelihood of recorded actions [B, a]."""
        return -jnp.mean(self.log_prob(obs, action[:, None]))
