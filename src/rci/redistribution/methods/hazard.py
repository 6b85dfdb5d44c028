"""Hazard: a classifier of single steps with two heads. The paper's baseline.

Paper: Section V, the baseline "Hazard"; focal loss: Lin et al., "Focal Loss for Dense Object Detection", 2017.

P1 is the chance that a pair (obs, action) occurs in an unsafe episode, P2 that it is the one at which somebody
pressed STOP; the cost of a step is P1 + P2. Most steps are harmless and easy, so focal loss turns their weight
down. It redistributes nothing: costs do not sum to the episodic cost, unless `conserve` asks for it.

Deviates:
- graded costs: the target is C instead of 1, and the modulating factor is |target - P|^gamma, which for targets 0
  and 1 is Lin's (1 - p_t)^gamma.
- the paper gives no numbers: gamma = 2 and alpha = 0.25, Lin's best pair, where alpha weighs the unsafe class and
  1 - alpha the other. Below a half looks odd for the rare class; gamma has already turned the other down.
- both heads share one body and weigh the same.
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

SMALLEST = 1e-6  # of |target - P|, so that powers below 1 have a gradient


@dataclass(frozen=True)
class Config:
    """What shapes the network and its loss."""

    hidden: int = 64
    gamma: float = 2.0  # how strongly easy steps are turned down; 0 is cross-entropy
    alpha: float = 0.25  # weight of the unsafe class
    conserve: bool = False

    def __post_init__(self) -> None:
        require_positive(self, "hidden")
        if not self.gamma >= 0:
            raise RciError(f"gamma must be at least 0, got {self.gamma}.")
        if not 0 < self.alpha < 1:
            raise RciError(f"alpha must lie between 0 and 1, got {self.alpha}.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 1e-3


def head_targets(mask: jax.Array, cost: jax.Array) -> jax.Array:
    """C at every step of an episode for P1, C at its last step for P2. mask: [B, T]; cost: [B]; result: [B, T, 2]."""
    after = jnp.concatenate([mask[:, 1:], jnp.zeros_like(mask[:, :1])], axis=1)
    return jnp.stack([mask, mask - after], axis=-1) * cost[:, None, None]


def focal_loss(logit: jax.Array, target: jax.Array, gamma: float) -> jax.Array:
    """|y - p|^gamma * cross-entropy(y, p), p = sigmoid(logit), element by element. Lin et al. 2017, Eq. (4)."""
    cross_entropy = jax.nn.softplus(logit) - target * logit
    distance = jnp.maximum(jnp.abs(target - jax.nn.sigmoid(logit)), SMALLEST)
    return distance**gamma * cross_entropy


def class_weight(target: jax.Array, alpha: float) -> jax.Array:
    """alpha for the unsafe class, 1 - alpha for the safe one, in proportion between. Lin et al. 2017, Eq. (5)."""
    return alpha * target + (1.0 - alpha) * (1.0 - target)


def step_cost(logit: jax.Array) -> jax.Array:
    """P1 + P2. Paper: Section V, the baseline Hazard. [..., 2] -> [...]."""
    return jax.nn.sigmoid(logit).sum(axis=-1)


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> StepNetwork:
        return StepNetwork(key, data, config.hidden, 2)

    def loss(key: jax.Array, network: StepNetwork, batch: Sequences) -> jax.Array:
        target = head_targets(batch.mask, batch.cost)
        error = focal_loss(network(batch.obs, batch.action), target, config.gamma)
        weighted = (class_weight(target, config.alpha) * error).sum(axis=-1)
        return jnp.sum(weighted * batch.mask) / jnp.sum(batch.mask)

    def score(network: StepNetwork, obs: jax.Array, action: jax.Array) -> jax.Array:
        return step_cost(network(obs, action))

    unit = "cost" if config.conserve else "score"
    return learned(build, loss, score, scores="step", return_equivalent=config.conserve, unit=unit)
