"""What a sequence model that predicts the episodic cost from every prefix is trained on.

Shapes: prediction and mask [B, T], cost [B]. Steps behind the mask have no influence.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

AUXILIARY_WEIGHT = 0.5  # Arjona-Medina et al. 2019, their code


def final_loss(prediction: jax.Array, mask: jax.Array, cost: jax.Array) -> jax.Array:
    """mean over episodes of (C^(whole episode) - C)^2. Paper: the loss above Eq. (2)."""
    last = mask.sum(axis=1).astype(jnp.int32) - 1
    at_end = jnp.take_along_axis(prediction, last[:, None], axis=1)[:, 0]
    return jnp.mean((at_end - cost) ** 2)


def prefix_loss(prediction: jax.Array, mask: jax.Array, cost: jax.Array) -> jax.Array:
    """Squared error of the eventual cost at every valid (episode, step), each pair weighted equally.

    Averaging within an episode first would give the early steps of short episodes far more weight, and with it
    the leak that short means unsafe.
    """
    return jnp.sum(mask * (prediction - cost[:, None]) ** 2) / jnp.sum(mask)


def auxiliary_loss(prediction: jax.Array, mask: jax.Array, cost: jax.Array) -> jax.Array:
    """mean over episodes of (g_T - C)^2 + 0.5 mean_t (g_t - C)^2. RUDDER's authors; averaged within the episode."""
    error = mask * (prediction - cost[:, None]) ** 2
    along = jnp.mean(error.sum(axis=1) / mask.sum(axis=1))
    return final_loss(prediction, mask, cost) + AUXILIARY_WEIGHT * along


EPISODE_LOSSES = {"final": final_loss, "prefix": prefix_loss, "auxiliary": auxiliary_loss}
