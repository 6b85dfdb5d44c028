"""TraCeS: every step has a chance of surviving it; the cost of a step is minus the logarithm of that chance.

Low and Kumar, "TraCeS: Trajectory Based Credit Assignment From Sparse Safety Feedback", 2025 (arXiv 2504.12557).

A recurrent network reads (obs[t], action[t]) and gives each step a log-survival l[t] in [-7, 0]. An episode is safe
after step t with chance exp(l[0] + ... + l[t]). A logged stop says of every prefix whether it was safe: those of a
safe episode were, those that end before a stop were, the stopped episode was not. Cross-entropy fits these answers.
Costs -l[t] add up to -log P(safe), so a budget d on the chance of a violation is -log(1 - d) on the sum.

With `prefixes = "survived"`, this method's own, the cost gathers where the violation happens, not where it becomes
inevitable. With `prefixes = "eventual"` a prefix is asked whether its episode will ever be stopped, as in RUDDER's
prefix loss; the costs then follow the risk, as far as costs that are never negative can.

Deviates:
- offline: the log is all there is, no new episodes are labelled while a policy learns.
- a graded cost C is a soft answer: the stopped episode is unsafe with chance C.
- `survived` averages the safe prefixes of each episode before it adds the stopped end. With every (episode, t) alike,
  the one unsafe end of a stopped episode would drown among tens of safe prefixes, most of them of long safe episodes.
- the network starts at the constant chance that fits the data: as much cost per step as was logged per step.
- `conserve = True` makes the costs sum to the episodic cost like those of other methods, no longer to -log P(safe).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rci.data.batch import Sequences
from rci.data.options import require_positive
from rci.data.record import Array
from rci.nets.dense import Mlp, Normaliser
from rci.nets.sequence import Gru
from rci.redistribution.base import Redistributor
from rci.redistribution.learned import input_statistics, learned, pairs

LOWEST = -7.0  # the least log-survival of one step: a chance of 0.0009
GAP = 1e-6  # between sure survival and the surest that a logarithm is taken of


@dataclass(frozen=True)
class Config:
    """What shapes the network and its loss."""

    hidden: int = 32
    prefixes: Literal["survived", "eventual"] = "survived"  # what is asked of each prefix
    conserve: bool = False  # whether the costs are made to sum to the episodic cost

    def __post_init__(self) -> None:
        require_positive(self, "hidden")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 3e-3


class Network(eqx.Module):
    """Normalised (obs, action) -> gated recurrent unit -> log-survival of every step."""

    normalise: Normaliser
    cell: Gru
    head: Mlp

    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        return step_log_survival(self.head(self.cell(self.normalise(pairs(obs, action))))[..., 0])


def step_log_survival(x: jax.Array) -> jax.Array:
    """l = -7 sigmoid(x): from 0, surely survived, down to -7."""
    return LOWEST * jax.nn.sigmoid(x)


def starting_bias(mask: jax.Array, cost: jax.Array) -> jax.Array:
    """x with 7 sigmoid(x) = sum of C / number of steps: the constant cost per step that fits the data."""
    rate = jnp.sum(cost) / jnp.sum(mask)
    return jnp.log(rate) - jnp.log(-LOWEST - rate)


def log1mexp(s: jax.Array) -> jax.Array:
    """log(1 - exp(s)) for s <= 0: through expm1 near 0, through log1p elsewhere. Maechler 2012.

    s is first lowered by 1e-6: at 0 the value is then log(1e-6), and the gradient -1e6 instead of infinite or 0.
    """
    s = s - GAP
    near = s > -jnp.log(2.0)
    # The branch that is not taken must be finite too, otherwise its gradient is 0 * inf.
    return jnp.where(near, jnp.log(-jnp.expm1(s)), jnp.log1p(-jnp.exp(jnp.where(near, -1.0, s))))


def cross_entropy(s: jax.Array, unsafe: jax.Array) -> jax.Array:
    """-(y log(1 - exp(s)) + (1 - y) s), where exp(s) is the chance of being safe and y that of being unsafe."""
    return -(unsafe * log1mexp(s) + (1.0 - unsafe) * s)


def survived_loss(step: jax.Array, mask: jax.Array, cost: jax.Array) -> jax.Array:
    """Was this prefix safe? mean over episodes of (mean over its safe prefixes of -s_t) + (its end, if stopped).

    step: [B, T] log-survival; s_t = sum_{u <= t} l_u; the end of a stopped episode is unsafe with chance C.
    """
    s = jnp.cumsum(step * mask, axis=1)
    length = mask.sum(axis=1, keepdims=True)
    last = jnp.arange(mask.shape[1])[None] == length - 1
    end = last & (cost > 0)[:, None]
    safe = mask * ~end
    along = jnp.sum(safe * cross_entropy(s, jnp.zeros_like(s)), axis=1) / jnp.maximum(safe.sum(axis=1), 1.0)
    at_end = jnp.sum(end * cross_entropy(s, cost[:, None]), axis=1)
    return jnp.mean(along + at_end)


def eventual_loss(step: jax.Array, mask: jax.Array, cost: jax.Array) -> jax.Array:
    """Will this prefix's episode be stopped? Cross-entropy of C, every valid (episode, t) alike."""
    s = jnp.cumsum(step * mask, axis=1)
    return jnp.sum(mask * cross_entropy(s, cost[:, None])) / jnp.sum(mask)


PREFIX_LOSSES = {"survived": survived_loss, "eventual": eventual_loss}


def violation_chance(step_cost: Array) -> Array:
    """1 - exp(-sum_{u <= t} c_u): the chance of a violation that costs -log P(safe) stand for. [N, T]."""
    return -np.expm1(-np.cumsum(step_cost, axis=1))


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> Network:
        cell_key, head_key = jax.random.split(key)
        cell = Gru(cell_key, data.obs.shape[-1] + data.action.shape[-1], config.hidden)
        head = Mlp(head_key, (config.hidden, 1), last_scale=0.1)
        bias = starting_bias(data.mask, data.cost)[None]
        return Network(input_statistics(data), cell, eqx.tree_at(lambda mlp: mlp.biases, head, (bias,)))

    def loss(key: jax.Array, network: Network, batch: Sequences) -> jax.Array:
        return PREFIX_LOSSES[config.prefixes](network(batch.obs, batch.action), batch.mask, batch.cost)

    return learned(
        build,
        loss,
        lambda network, obs, action: -network(obs, action),
        scores="step",
        return_equivalent=config.conserve,
        unit="cost" if config.conserve else "log-survival",
        forecast=violation_chance,
    )
