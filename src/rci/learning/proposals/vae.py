"""The behaviour model of BCQ: a conditional variational auto-encoder of actions. Fujimoto et al. 2019, Section 5.

Its draws lie close together: on logs of several drivers it proposes about the mean of what they did. It is here
because the paper uses it; `rci.learning.proposals.mixture` reaches what was recorded.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from rci.learning.losses import gaussian_kl
from rci.nets.dense import PairMlp

LOG_DEVIATION_RANGE = (-4.0, 4.0)


class Vae(eqx.Module):
    """encoder: (obs, action) -> latent mean and log deviation; decoder: (obs, latent) -> action in [-1, 1]."""

    encoder: PairMlp
    decoder: PairMlp
    latent_limit: float = eqx.field(static=True)
    kl_weight: float = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        obs_size: int,
        action_size: int,
        hidden: int,
        latent_per_action: int = 2,
        latent_limit: float = 0.5,
        kl_weight: float = 0.5,
    ) -> None:
        encoder_key, decoder_key = jax.random.split(key)
        latent = latent_per_action * action_size
        self.encoder = PairMlp(encoder_key, obs_size, action_size, (hidden, hidden, 2 * latent))
        self.decoder = PairMlp(decoder_key, obs_size, latent, (hidden, hidden, action_size))
        self.latent_limit, self.kl_weight = latent_limit, kl_weight

    @property
    def latent_size(self) -> int:
        """Dimensions of the latent."""
        return self.decoder.action_weight.shape[0]

    def decode(self, obs: jax.Array, latent: jax.Array) -> jax.Array:
        """obs [..., d], latent [..., l] or [..., n, l] -> action."""
        return jnp.tanh(self.decoder(obs, latent))

    def fresh(self, key: jax.Array, hidden: int) -> Vae:
        """A new model of the same kind, of another width."""
        obs_size, action_size = self.encoder.obs_weight.shape[0], self.encoder.action_weight.shape[0]
        latents = self.latent_size // action_size
        return Vae(key, obs_size, action_size, hidden, latents, self.latent_limit, self.kl_weight)

    def draws(self, key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
        """What `near` makes actions of: latents near the middle, [*shape, l]."""
        normal = jax.random.normal(key, (*shape, self.latent_size))
        return jnp.clip(normal, -self.latent_limit, self.latent_limit)

    def near(self, obs: jax.Array, draws: jax.Array) -> jax.Array:
        """Actions that might have been taken: obs [B, d], draws [B, n, l] -> [B, n, a]."""
        return self.decode(obs, draws)

    def loss(self, key: jax.Array, obs: jax.Array, action: jax.Array) -> jax.Array:
        """Mean squared reconstruction error plus weighted divergence from the prior. Fujimoto et al. 2019."""
        mean, log_deviation = jnp.split(self.encoder(obs, action), 2, axis=-1)
        log_deviation = jnp.clip(log_deviation, *LOG_DEVIATION_RANGE)
        latent = mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape)
        reconstruction = jnp.mean((self.decode(obs, latent) - action) ** 2)
        return reconstruction + self.kl_weight * gaussian_kl(mean, log_deviation)
