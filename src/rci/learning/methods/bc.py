"""Behaviour cloning: do what was done, and ask neither what it earned nor what it cost.

Pomerleau, "ALVINN: An Autonomous Land Vehicle in a Neural Network", 1988; "BC-All" in Liu et al., "Datasets and
Benchmarks for Offline Safe Reinforcement Learning", 2023.

A network answers an observation with one action, and is trained by squared error to answer with the recorded one. Where
several actions were recorded it answers with their mean, which may be none of them. It is the yardstick of what the
logs hold without any learning from costs, so it takes no budget.

With what a person drove after taking over, drawn often, and the steps before it, drawn hardly ever, this is the
weighted behaviour cloning of Sirius; see `rci.learning.demonstrations`.

Deviates:
- from OSRL: nothing but the size of the network; there, too, the policy is one action without noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from rci.data.options import require_positive
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.dataset import Dataset, draw_fitted
from rci.learning.losses import Number, squared_error
from rci.nets.dense import Mlp


@dataclass(frozen=True)
class Config:
    """What changes a shape."""

    hidden: int = 128
    batch_size: int = 256

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "batch_size")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    threshold: Number = 0.0  # set from the budget, which is inf: [K]
    learning_rate: float = 1e-3


class Batch(NamedTuple):
    """B recorded steps."""

    obs: jax.Array  # [B, d]
    action: jax.Array  # [B, a]


class State(NamedTuple):
    """Everything that changes."""

    network: Mlp
    optimiser: Any


class Info(NamedTuple):
    """Diagnostics of one update."""

    loss: jax.Array


class Actor(NamedTuple):
    """What acting needs."""

    network: Mlp
    behaviour: FrozenBehaviour


def answer(network: Mlp, obs: jax.Array) -> jax.Array:
    """The action for each observation, tanh of the network: [B, d] -> [B, a] in [-1, 1]."""
    return jnp.tanh(network(obs))


def rows(data: Dataset, index: jax.Array) -> Batch:
    """The recorded steps with these numbers."""
    return Batch(data.obs[data.row[index]], data.action[index])


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        return rows(data, draw_fitted(key, data, config.batch_size))

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        sizes = batch.obs.shape[-1], config.hidden, config.hidden, batch.action.shape[-1]
        network = Mlp(key, sizes)
        return State(network, optimise.init(network))

    def loss(network: Mlp, batch: Batch) -> jax.Array:
        return squared_error(answer(network, batch.obs), batch.action)

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        value, gradient = jax.value_and_grad(loss)(state.network, batch)
        change, optimiser = optimise.update(gradient, state.optimiser)
        network = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.network, change)
        return State(network, optimiser), Info(value)

    return Learner(
        sample=sample,
        init=init,
        update=update,
        policy=lambda state, behaviour, hyper: Actor(state.network, behaviour),
        act=lambda key, actor, memory, obs: (answer(actor.network, obs), memory),
    )
