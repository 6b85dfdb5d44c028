"""RUDDER: an LSTM predicts the episodic cost from every prefix; what a step adds to the prediction is its cost.

Paper: Eq. (2); Arjona-Medina et al., "RUDDER: Return Decomposition for Delayed Rewards", 2019.

The network reads (obs[t], action[t]) and, after each step, says what the whole episode will cost. It never reads
the time. With `loss = "final"`, the paper's, it is trained on whole episodes only; since unsafe episodes are
short, it may then learn that short means unsafe, and put most of the cost on the first step. With
`loss = "prefix"` it is trained to predict the eventual cost from every prefix. `loss = "auxiliary"` and
`cell = "reduced"` are what RUDDER's authors use.

Deviates:
- from RUDDER's authors, by default: a standard LSTM cell instead of their reduced one, and no auxiliary loss, as the
  paper asks for; the prediction is linear and unbounded, as theirs.
- from the paper: Adam and early stopping on held-out episodes, about which it is silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax

from rci.data.batch import Sequences
from rci.data.options import require_positive
from rci.nets.dense import Mlp, Normaliser
from rci.nets.sequence import Lstm, ReducedLstm
from rci.redistribution.base import Redistributor
from rci.redistribution.episode_losses import EPISODE_LOSSES
from rci.redistribution.learned import input_statistics, learned, pairs

CELLS: dict[str, type[Lstm | ReducedLstm]] = {"lstm": Lstm, "reduced": ReducedLstm}


@dataclass(frozen=True)
class Config:
    """What shapes the network and its loss."""

    hidden: int = 32
    loss: Literal["final", "prefix", "auxiliary"] = "final"
    cell: Literal["lstm", "reduced"] = "lstm"

    def __post_init__(self) -> None:
        require_positive(self, "hidden")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    learning_rate: float = 3e-3


class Network(eqx.Module):
    """Normalised (obs, action) -> recurrent cell -> predicted episodic cost at every step."""

    normalise: Normaliser
    cell: Lstm | ReducedLstm
    head: Mlp

    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        return self.head(self.cell(self.normalise(pairs(obs, action))))[..., 0]


def make(config: Config) -> Redistributor:
    """The redistributor with this configuration."""

    def build(key: jax.Array, data: Sequences) -> Network:
        cell_key, head_key = jax.random.split(key)
        cell = CELLS[config.cell](cell_key, data.obs.shape[-1] + data.action.shape[-1], config.hidden)
        return Network(input_statistics(data), cell, Mlp(head_key, (config.hidden, 1)))

    def loss(key: jax.Array, network: Network, batch: Sequences) -> jax.Array:
        return EPISODE_LOSSES[config.loss](network(batch.obs, batch.action), batch.mask, batch.cost)

    return learned(build, loss, Network.__call__, scores="prefix")
