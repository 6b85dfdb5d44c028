"""RUDDER: an LSTM predicts the episodic cost from every prefix; what a step adds to the prediction is its cost.

Paper: Eq. (2); Arjona-Medina et al., "RUDDER: Return Decomposition for Delayed Rewards", 2019.

The network reads (obs[t], action[t]) and, after each step, says what the whole episode will cost. It never reads
the time. With `loss = "final"`, the paper's, it is trained on whole episodes only; since unsafe episodes are
short, it may then learn that short means unsafe, and put most of the cost on the first step. With
`loss = "prefix"` it is trained to predict the eventual cost from every prefix.

Deviates:
- from RUDDER's authors: a standard LSTM cell instead of their reduced one, and no auxiliary loss, as the paper
  asks for; the prediction is linear and unbounded, as theirs.
- from the paper: Adam and early stopping on held-out episodes, about which it is silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from rci.data.batch import Sequences
from rci.data.options import require_positive
from rci.nets.dense import Mlp, Normaliser, normaliser, rows_of
from rci.nets.sequence import Lstm
from rci.redistribution.base import Redistributor, predict_with


@dataclass(frozen=True)
class Config:
    """What shapes the network and its loss."""

    hidden: int = 32
    loss: Literal["final", "prefix"] = "final"

    def __post_init__(self) -> None:
        require_positive(self, "hidden")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 3e-3


class Network(eqx.Module):
    """Normalised (obs, action) -> LSTM -> predicted episodic cost at every step."""

    normalise: Normaliser
    lstm: Lstm
    head: Mlp

    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        return self.head(self.lstm(self.normalise(jnp.concatenate([obs, action], -1))))[..., 0]


class State(NamedTuple):
    """Everything that changes."""

    network: Network
    optimiser: Any


class Info(NamedTuple):
    """Diagnostics of one update."""

    loss: jax.Array


def final_loss(prediction: jax.Array, mask: jax.Array, cost: jax.Array) -> jax.Array:
    """mean over episodes of (C^(whole episode) - C)^2. Paper: the loss above Eq. (2).

    prediction, mask: [B, T]; cost: [B]. Steps behind the mask have no influence.
    """
    last = mask.sum(axis=1).astype(jnp.int32) - 1
    at_end = jnp.take_along_axis(prediction, last[:, None], axis=1)[:, 0]
    return jnp.mean((at_end - cost) ** 2)


def prefix_loss(prediction: jax.Array, mask: jax.Array, cost: jax.Array) -> jax.Array:
    """Squared error of the eventual cost at every valid (episode, step), each pair weighted equally.

    Averaging within an episode first would give the early steps of short episodes far more weight, and with it
    the leak that short means unsafe.
    """
    return jnp.sum(mask * (prediction - cost[:, None]) ** 2) / jnp.sum(mask)


LOSSES = {"final": final_loss, "prefix": prefix_loss}
OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def init(key: jax.Array, data: Sequences) -> State:
        lstm_key, head_key = jax.random.split(key)
        features = jnp.concatenate([data.obs, data.action], -1)
        network = Network(
            _statistics(features, jnp.asarray(data.mask)),
            Lstm(lstm_key, features.shape[-1], config.hidden),
            Mlp(head_key, (config.hidden, 1)),
        )
        return State(network, OPTIMISER.init(network))

    def loss(network: Network, batch: Sequences) -> jax.Array:
        return LOSSES[config.loss](network(batch.obs, batch.action), batch.mask, batch.cost)

    def update(key: jax.Array, state: State, batch: Sequences, hyper: Hyper) -> tuple[State, Info]:
        value, gradient = jax.value_and_grad(loss)(state.network, batch)
        # The statistics of the inputs are part of the network but not learned.
        gradient = eqx.tree_at(
            lambda net: net.normalise, gradient, jax.tree.map(jnp.zeros_like, gradient.normalise)
        )
        change, optimiser = OPTIMISER.update(gradient, state.optimiser)
        step = jax.tree.map(lambda x: -hyper.learning_rate * x, change)
        return State(eqx.apply_updates(state.network, step), optimiser), Info(value)

    return Redistributor(
        init=init,
        update=update,
        held_out_loss=lambda state, batch: loss(state.network, batch),
        predict=predict_with(lambda state, obs, action: state.network(obs, action)),
        scores="prefix",
    )


def _statistics(features: jax.Array, mask: jax.Array) -> Normaliser:
    count = mask.sum()
    mean = jnp.sum(features * mask[..., None], (0, 1)) / count
    square = jnp.sum((features - rows_of(mean, features)) ** 2 * mask[..., None], (0, 1)) / count
    return normaliser(mean, jnp.sqrt(square))
