"""Behaviour cloning of the episodes that kept the budget.

"BC-Safe" in Liu et al., "Datasets and Benchmarks for Offline Safe Reinforcement Learning", 2023.

As `bc`, but only those episodes are imitated whose whole cost kept the budget, in every channel. It asks nothing of
step costs but their sums, so with costs that conserve the label all redistributions give the same policy for a
budget in numbers: what others gain over it is what step costs are good for. To act like safe episodes on average is
not to be safe: between two ways around a danger the mean leads into it.

Deviates:
- from OSRL: which episodes count is decided by the same rule as the budgets of all learners, percentiles included. A
  percentile is of discounted costs, so there the discount matters, and so does the redistribution.
- from OSRL: safe steps are drawn directly, so that a batch is full of them however rare they are.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.dataset import Dataset
from rci.learning.losses import Number
from rci.learning.methods import bc


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    threshold: Number = 0.0  # set from the budget: [K]
    discount: float = 0.99  # of the costs that a percentile is of
    learning_rate: float = 1e-3


def kept_row(place: jax.Array, kept: jax.Array) -> jax.Array:
    """The row of each place [B] in the list of rows where `kept` [rows] is 1, counted from 0."""
    return jnp.searchsorted(jnp.cumsum(kept > 0), place, side="right")


def make(config: bc.Config) -> Learner:
    """The learner with this configuration."""

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> bc.Batch:
        place = jax.random.randint(key, (config.batch_size,), 0, jnp.sum(data.within > 0))
        return bc.rows(data, kept_row(place, data.within))

    return bc.make(config)._replace(sample=sample)
