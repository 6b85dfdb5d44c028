"""RLSF: a classifier of single steps that blames every step of an unsafe segment.

Chirra, Varakantham and Paruchuri, "Safety through feedback in Constrained RL", NeurIPS 2024 (arXiv 2406.19626).

Somebody judged segments of a recording, safe or unsafe. Each step inherits the word on its segment, which is noise
for the harmless ones among them; where a pair is seen more often in unsafe segments than in safe ones, its cost is
1, otherwise 0. With stop labels the unsafe segment is the last `segment` steps up to the stop; all others are safe.
It redistributes nothing: costs do not sum to the episodic cost, unless `conserve` asks for it.

Deviates:
- segments are not judged one by one: the last `segment` steps before a stop are the unsafe one, and what came before,
  which nobody stopped, counts as safe. `segment = 0` blames the whole episode.
- both classes weigh the same in every batch, so that P > 1/2 means "more at home among the unsafe ones". Unsafe
  steps are few, and without this P would almost never be above a half. The authors balance by what they show to
  the evaluator.
- graded costs: the target of an unsafe step is C instead of 1. One of at most a half is then never costly.
- no choice of what to show, and the cost is fitted once, before learning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.redistribution.base import Redistributor
from rci.redistribution.learned import StepNetwork, learned


@dataclass(frozen=True)
class Config:
    """What shapes the network and its targets."""

    hidden: int = 64
    segment: int = 10  # steps up to the stop that count as unsafe; 0: the whole episode
    conserve: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "hidden")
        if self.segment < 0:
            raise RciError(f"segment must be at least 0 (0: the whole episode), got {self.segment}.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 1e-3


def segment_targets(mask: jax.Array, cost: jax.Array, segment: int) -> jax.Array:
    """C at the last `segment` steps of an episode, 0 before; 0: at all of its steps. [B, T], [B] -> [B, T]."""
    left = jnp.cumsum(mask[:, ::-1], axis=1)[:, ::-1]  # valid steps from here to the end
    inside = mask if segment == 0 else mask * (left <= segment)
    return inside * cost[:, None]


def balanced_weights(target: jax.Array, mask: jax.Array) -> jax.Array:
    """Weights of valid steps, half of them on the unsafe ones and half on the safe ones. [B, T] -> [B, T]."""
    unsafe, safe = mask * (target > 0), mask * (target == 0)
    return 0.5 * (unsafe / jnp.maximum(unsafe.sum(), 1.0) + safe / jnp.maximum(safe.sum(), 1.0))


def classifier_loss(logit: jax.Array, target: jax.Array, weight: jax.Array) -> jax.Array:
    """sum of w * -(y log p + (1 - y) log(1 - p)), p = sigmoid(logit). All [B, T]."""
    return jnp.sum(weight * (jax.nn.softplus(logit) - target * logit))


def step_cost(logit: jax.Array) -> jax.Array:
    """1[p > 1/2]."""
    return (logit > 0).astype(logit.dtype)


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> StepNetwork:
        return StepNetwork(key, data, config.hidden, 1)

    def loss(key: jax.Array, network: StepNetwork, batch: Sequences) -> jax.Array:
        target = segment_targets(batch.mask, batch.cost, config.segment)
        logit = network(batch.obs, batch.action)[..., 0]
        return classifier_loss(logit, target, balanced_weights(target, batch.mask))

    def score(network: StepNetwork, obs: jax.Array, action: jax.Array) -> jax.Array:
        return step_cost(network(obs, action)[..., 0])

    unit = "cost" if config.conserve else "score"
    return learned(build, loss, score, scores="step", return_equivalent=config.conserve, unit=unit)
