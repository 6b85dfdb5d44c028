"""Potential: the danger of a state, learned from where episodes that were stopped had been; a step costs what it adds.

Ng, Harada and Russell, "Policy Invariance Under Reward Transformations", 1999. Paper: Eq. (2), for a model that
forgets everything but the state that the prefix has led to.

A network Phi(s) predicts from a state alone whether the episode will be stopped. The step from s to s' costs
Phi(s') - Phi(s). A sequence model also knows who is at the wheel, and hands that knowledge back at the next step: to a
critic that sees only (s, a), the actions of a dangerous driver then look cheap. A potential of states has no such
memory: its plain sum from (s, a) on is Q_c(s, a) - Phi(s), and Phi(s) is the same for all actions. What is left to
learn is by how much the policy differs from those who made the log.

This holds after the first step, for plain sums and the paper's rule. The first step is charged Phi(s_1) in full, so a
state that begins episodes and is met later too has two kinds of targets; with a cost discount below 1, with
`sign = "nonnegative"` or with `compensation = "uniform"`, Phi no longer cancels.

Deviates:
- the prediction after step t is made from obs[t + 1], which the paper's prefix (obs[0..t], action[0..t]) does not hold.
  The last of them, where the episode was stopped, has no say: there the sum is made exact.
- trained on every state alike, as with `loss = "prefix"` of rudder; it never reads an episode as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from rci.data.batch import Sequences
from rci.data.options import require_positive
from rci.nets.dense import Mlp, Normaliser
from rci.redistribution.base import Redistributor
from rci.redistribution.episode_losses import prefix_loss
from rci.redistribution.learned import learned, statistics


@dataclass(frozen=True)
class Config:
    """What shapes the network."""

    hidden: int = 64

    def __post_init__(self) -> None:
        require_positive(self, "hidden")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 1e-3


class Network(eqx.Module):
    """Normalised obs -> the chance that the episode will be stopped. No action, no memory."""

    normalise: Normaliser
    body: Mlp

    def __call__(self, obs: jax.Array) -> jax.Array:
        return self.body(self.normalise(obs))[..., 0]


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> Network:
        sizes = (data.obs.shape[-1], config.hidden, config.hidden, 1)
        return Network(statistics(jnp.asarray(data.obs), jnp.asarray(data.mask)), Mlp(key, sizes))

    def loss(key: jax.Array, network: Network, batch: Sequences) -> jax.Array:
        return prefix_loss(network(batch.obs), batch.mask, batch.cost)

    return learned(build, loss, lambda network, obs, action: network(obs), scores="prefix", ahead=1)
