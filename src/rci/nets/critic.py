"""Critics: networks of an observation and an action that come in pairs."""

from __future__ import annotations

import equinox as eqx
import jax

from rci.nets.dense import PairMlp


class Critic(eqx.Module):
    """Two networks of (obs, action), [..., outputs] each."""

    first: PairMlp
    second: PairMlp

    def __init__(self, key: jax.Array, obs_size: int, action_size: int, hidden: int, outputs: int) -> None:
        keys = jax.random.split(key)
        # Near zero at first: a random answer would move the multiplier before anything was learned.
        self.first, self.second = (
            PairMlp(k, obs_size, action_size, (hidden, hidden, outputs), last_scale=0.01) for k in keys
        )

    def __call__(self, obs: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.first(obs, action), self.second(obs, action)
