"""Redistributors that are one network and one loss: what they share beside the contract.

A method of this kind says how its network is built, what it is trained to do and how it scores; the optimiser, the
statistics of the inputs and the chunks of `predict` are the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.batch import Sequences
from rci.data.record import Array
from rci.nets.dense import Mlp, Normaliser, normaliser, rows_of
from rci.redistribution.base import Redistributor, predict_with

OPTIMISER = optax.chain(optax.clip_by_global_norm(1.0), optax.scale_by_adam())


class State(NamedTuple):
    """Everything that changes."""

    network: Any
    optimiser: Any


class Info(NamedTuple):
    """Diagnostics of one update."""

    loss: jax.Array


class StepNetwork(eqx.Module):
    """Normalised (obs, action) -> [..., outputs]: what a single step says, whatever came before it."""

    normalise: Normaliser
    body: Mlp

    def __init__(
        self, key: jax.Array, data: Sequences, hidden: int, outputs: int, last_scale: float = 1.0
    ) -> None:
        inputs = data.obs.shape[-1] + data.action.shape[-1]
        self.normalise = input_statistics(data)
        self.body = Mlp(key, (inputs, hidden, hidden, outputs), last_scale)

    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        return self.body(self.normalise(pairs(obs, action)))


def learned(
    build: Callable[[jax.Array, Sequences], Any],
    loss: Callable[[jax.Array, Any, Sequences], jax.Array],
    score: Callable[[Any, Any, Any], jax.Array],
    scores: Literal["prefix", "step"],
    ahead: int = 0,
    **promises: Any,
) -> Redistributor:
    """A redistributor from a network and its loss.

    build(key, data) -> network;  loss(key, network, batch) -> number;  score(network, obs, action) -> [B, T]
    The traced settings of the method must have a `learning_rate`. `ahead`: which observation is scored with
    each action, see `predict_with`. `promises` are further fields of Redistributor.
    """

    def init(key: jax.Array, data: Sequences) -> State:
        network = build(key, data)
        return State(network, OPTIMISER.init(network))

    def update(key: jax.Array, state: State, batch: Sequences, hyper: Any) -> tuple[State, Info]:
        value, gradient = jax.value_and_grad(loss, argnums=1)(key, state.network, batch)
        change, optimiser = OPTIMISER.update(_without_statistics(gradient), state.optimiser)
        step = jax.tree.map(lambda x: -hyper.learning_rate * x, change)
        return State(eqx.apply_updates(state.network, step), optimiser), Info(value)

    return Redistributor(
        init=init,
        update=update,
        # The same draws each time, so that epochs can be compared.
        held_out_loss=lambda state, batch: loss(jax.random.key(0), state.network, batch),
        predict=predict_with(lambda state, obs, action: score(state.network, obs, action), ahead),
        scores=scores,
        **promises,
    )


def running_sum(scores: Array) -> Array:
    """The episodic cost expected after each step by a method whose step costs predict it by their sum. [N, T]."""
    return np.cumsum(scores, axis=1)


def pairs(obs: jax.Array, action: jax.Array) -> jax.Array:
    """[..., d], [..., a] -> [..., d + a]."""
    return jnp.concatenate([obs, action], -1)


def input_statistics(data: Sequences) -> Normaliser:
    """Scales (obs, action) to mean 0 and deviation 1 over the valid steps of `data`."""
    return statistics(pairs(data.obs, data.action), jnp.asarray(data.mask))


def statistics(features: jax.Array, mask: jax.Array) -> Normaliser:
    """Scales features [N, T, d] to mean 0 and deviation 1 over the steps that the mask [N, T] holds valid."""
    count = mask.sum()
    mean = jnp.sum(features * mask[..., None], (0, 1)) / count
    square = jnp.sum((features - rows_of(mean, features)) ** 2 * mask[..., None], (0, 1)) / count
    return normaliser(mean, jnp.sqrt(square))


def _without_statistics(gradient: Any) -> Any:
    """The statistics of the inputs are part of a network but not learned."""
    return jax.tree.map(
        lambda leaf: jax.tree.map(jnp.zeros_like, leaf) if isinstance(leaf, Normaliser) else leaf,
        gradient,
        is_leaf=lambda leaf: isinstance(leaf, Normaliser),
    )
