"""Transformer: causal attention predicts the episodic cost from every prefix; what a step adds is its cost.

Paper: Eq. (2), which leaves the sequence model open. Attention: Vaswani et al., "Attention Is All You Need", 2017;
distances instead of positions: Press, Smith, Lewis, "Train Short, Test Long" (ALiBi), 2022.

As RUDDER, with another network: after each step it says what the whole episode will cost, and the differences of
these predictions are the step costs. No step has a number: stopped episodes are short, so a model that knows the
time can tell them apart without looking at what happened. Attention sees how far back a step lies and nothing else.
It looks back at most `window - 1` steps in each of its `layers`, so that long episodes cost time in proportion.

Deviates:
- from RUDDER's authors: attention instead of an LSTM.
- from common transformers: no absolute positions, a window, no dropout (early stopping does that work).
- from the paper: trained by default on every prefix. On `point`, training on whole episodes only put the cost less
  well where the risk rises (rank correlation 0.26 against 0.35, two seeds each) and took longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.nets.attention import Transformer
from rci.nets.dense import Mlp, Normaliser
from rci.redistribution.base import Redistributor
from rci.redistribution.episode_losses import EPISODE_LOSSES
from rci.redistribution.learned import input_statistics, learned, pairs


@dataclass(frozen=True)
class Config:
    """What shapes the network and its loss."""

    hidden: int = 32
    heads: int = 2
    layers: int = 2
    window: int = 50  # steps that each step sees in one layer, itself included
    loss: Literal["final", "prefix", "auxiliary"] = "prefix"

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "heads", "layers", "window")
        if self.hidden % self.heads:
            raise RciError(
                f"hidden must be a multiple of heads, since every head gets an equal share of it: got hidden = "
                f"{self.hidden} and heads = {self.heads}; the nearest that fits is hidden = "
                f"{self.heads * max(1, round(self.hidden / self.heads))}."
            )


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 1e-3


class Network(eqx.Module):
    """Normalised (obs, action) -> attention over the past -> predicted episodic cost at every step."""

    normalise: Normaliser
    transformer: Transformer
    head: Mlp

    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        return self.head(self.transformer(self.normalise(pairs(obs, action))))[..., 0]


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> Network:
        body_key, head_key = jax.random.split(key)
        features = data.obs.shape[-1] + data.action.shape[-1]
        body = Transformer(body_key, features, config.hidden, config.heads, config.layers, config.window)
        return Network(input_statistics(data), body, Mlp(head_key, (config.hidden, 1)))

    def loss(key: jax.Array, network: Network, batch: Sequences) -> jax.Array:
        return EPISODE_LOSSES[config.loss](network(batch.obs, batch.action), batch.mask, batch.cost)

    return learned(build, loss, Network.__call__, scores="prefix")
