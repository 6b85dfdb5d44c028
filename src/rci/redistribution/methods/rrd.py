"""RRD: a network of single steps whose mean over a few random ones predicts the cost of the whole episode.

Ren et al., "Learning Long-Term Reward Redistribution via Randomized Return Decomposition", ICLR 2022
(arXiv 2111.13485).

Least squares on the sum over an episode would need the network at every step of it. A random subset is an
unbiased estimate of the same sum, so `steps` random steps per episode are enough, however long it is. Squaring
an estimate adds its variance, which draws the costs of an episode together; `unbiased` subtracts it again.
A cost that needs no history is what a critic on (s, a) can learn without averaging over histories.

Deviates:
- steps are drawn with replacement, so that episodes shorter than `steps` need no case of their own.
- `target = "rate"` compares costs per step, C / T, instead of whole costs: every episode then weighs the same, where
  the authors' loss weighs it by T^2. The default is theirs; on `point` it localises slightly better.
- the sum is made exact afterwards, as for all methods; the authors leave it as it is.
- Adam with early stopping on held-out episodes, instead of fitting beside a learning agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.redistribution.base import Redistributor
from rci.redistribution.learned import StepNetwork, learned, running_sum

Target = Literal["rate", "return"]
FIRST_SCALE = 0.1  # of the last layer: a new network answers about 0, near the cost of most steps


@dataclass(frozen=True)
class Config:
    """What shapes the network and its loss."""

    hidden: int = 64
    steps: int = 64  # drawn from each episode and update
    target: Target = "return"
    unbiased: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "steps")
        if self.unbiased and self.steps < 2:
            raise RciError("unbiased needs at least 2 steps to estimate a variance from, got 1.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 3e-3


def draw_steps(key: jax.Array, mask: jax.Array, count: int) -> jax.Array:
    """[B, T] -> [B, count]: indices of valid steps, uniform and with replacement. Valid ones come first."""
    length = mask.sum(axis=1, keepdims=True).astype(jnp.int32)
    return jax.random.randint(key, (len(mask), count), 0, length)


def at_steps(block: jax.Array, index: jax.Array) -> jax.Array:
    """block [B, T, d] at index [B, K] -> [B, K, d]."""
    return jnp.take_along_axis(block, index[..., None], axis=1)


def variance_of_mean(sample: jax.Array) -> jax.Array:
    """s^2 / K with s^2 = sum (x - mean)^2 / (K - 1): how far the mean of K draws is off. [B, K] -> [B]."""
    return jnp.var(sample, axis=1, ddof=1) / sample.shape[1]


def subset_loss(
    step: jax.Array, cost: jax.Array, length: jax.Array, target: Target, unbiased: bool
) -> jax.Array:
    """mean over episodes of (C / T - mean_I c)^2, or for `return` of (C - T mean_I c)^2.

    step: [B, K] costs of drawn steps; cost, length: [B]. `unbiased` subtracts the variance of mean_I c from its
    square, in the same scale: then the loss is on average the one of the whole episode.
    """
    error = (cost / length - step.mean(axis=1)) ** 2
    if unbiased:
        error = error - variance_of_mean(step)
    return jnp.mean(error if target == "rate" else length**2 * error)


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> StepNetwork:
        return StepNetwork(key, data, config.hidden, 1, FIRST_SCALE)

    def loss(key: jax.Array, network: StepNetwork, batch: Sequences) -> jax.Array:
        index = draw_steps(key, batch.mask, config.steps)
        step = network(at_steps(batch.obs, index), at_steps(batch.action, index))[..., 0]
        return subset_loss(step, batch.cost, batch.mask.sum(axis=1), config.target, config.unbiased)

    def score(network: StepNetwork, obs: jax.Array, action: jax.Array) -> jax.Array:
        return network(obs, action)[..., 0]

    return learned(build, loss, score, scores="step", forecast=running_sum)
