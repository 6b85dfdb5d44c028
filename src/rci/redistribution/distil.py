"""Step costs as a function of (obs, action) alone.

Costs inferred from whole histories are noisy targets for a critic that sees only the present pair. Here a small
network is fitted to them; its answers replace them, and are made exact again afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.batch import Sequences
from rci.data.options import require_positive
from rci.data.record import Array
from rci.nets.dense import PairMlp, normaliser
from rci.nets.keys import stage_key

CHUNK = 65_536  # rows answered at once


@dataclass(frozen=True)
class Distillation:
    """Whether to distil, and how long to fit."""

    distil: bool = False
    distil_hidden: int = 64
    distil_updates: int = 2000
    distil_batch_size: int = 256
    distil_learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        require_positive(self, "distil_hidden", "distil_updates", "distil_batch_size")


def distil(step: Array, data: Sequences, settings: Distillation, seed: int) -> Array:
    """[N, T] step costs -> [N, T] what (obs, action) says of them; zeros behind the mask."""
    valid = np.asarray(data.mask) > 0
    obs, action = jnp.asarray(data.obs[valid]), jnp.asarray(data.action[valid])
    scale = normaliser(obs.mean(0), obs.std(0)), normaliser(action.mean(0), action.std(0))
    obs, action, cost = scale[0](obs), scale[1](action), jnp.asarray(step[valid], jnp.float32)
    init_key, train_key = jax.random.split(stage_key(seed, "distil"))
    sizes = (settings.distil_hidden, settings.distil_hidden, 1)
    network = PairMlp(init_key, obs.shape[-1], action.shape[-1], sizes)
    network = _fit(settings, train_key, network, obs, action, cost)
    result = np.zeros(step.shape)
    result[valid] = np.concatenate(
        [_answer(network, obs[i : i + CHUNK], action[i : i + CHUNK]) for i in range(0, len(cost), CHUNK)]
    )
    return result


@jax.jit
def _answer(network: PairMlp, obs: jax.Array, action: jax.Array) -> jax.Array:
    return network(obs, action)[:, 0]


@partial(jax.jit, static_argnums=0)
def _fit(
    settings: Distillation,
    key: jax.Array,
    network: PairMlp,
    obs: jax.Array,
    action: jax.Array,
    cost: jax.Array,
) -> PairMlp:
    optimise = optax.adam(settings.distil_learning_rate)

    def loss(network: PairMlp, index: jax.Array) -> jax.Array:
        return jnp.mean((network(obs[index], action[index])[:, 0] - cost[index]) ** 2)

    def update(i: jax.Array, carry: tuple[PairMlp, Any]) -> tuple[PairMlp, Any]:
        network, optimiser = carry
        index = jax.random.randint(jax.random.fold_in(key, i), (settings.distil_batch_size,), 0, len(cost))
        change, optimiser = optimise.update(jax.grad(loss)(network, index), optimiser)
        return eqx.apply_updates(network, change), optimiser

    return jax.lax.fori_loop(0, settings.distil_updates, update, (network, optimise.init(network)))[0]
