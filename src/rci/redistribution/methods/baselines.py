"""Redistributors that learn nothing: the references that every learned one is compared with.

`sparse`: the whole cost at the stop. Paper: Eq. (1).
`uniform`: the cost spread evenly over the episode.
`oracle`: the exact chance of a violation after every step, where the task can compute it, as the prediction
to be differenced. It is what a perfect sequence model would answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from rci.data.batch import Sequences, pad
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes
from rci.redistribution.base import Redistributor
from rci.tasks import TASKS


@dataclass(frozen=True)
class Config:
    """Nothing to set."""


class Hyper(NamedTuple):
    """Nothing to set."""


def make_sparse(config: Config) -> Redistributor:
    """Predict nothing; the compensation puts everything at the stop."""
    return Redistributor(_nothing_to_learn, _predict_zero, scores="step", compensation="last")


def make_uniform(config: Config) -> Redistributor:
    """Predict nothing; the compensation spreads everything evenly."""
    return Redistributor(_nothing_to_learn, _predict_zero, scores="step", compensation="uniform")


def make_oracle(config: Config) -> Redistributor:
    """Predict the exact risk of the task that recorded the episodes."""
    return Redistributor(_nothing_to_learn, _predict_risk, scores="prefix")


def _nothing_to_learn(key: jax.Array, data: Sequences) -> tuple[()]:
    return ()


def _predict_zero(state: Any, episodes: Episodes, lengths: Array) -> Array:
    return np.zeros((len(episodes), int(lengths.max())))


def _predict_risk(state: Any, episodes: Episodes, lengths: Array) -> Array:
    task = TASKS.get(episodes.task)
    if task is None or task.risk is None:
        with_risk = ", ".join(name for name, task in TASKS.items() if task.risk is not None)
        raise RciError(
            f"'oracle' needs a task whose exact risk is known ({with_risk}); these episodes are of "
            f"{episodes.task or 'no known task'}."
        )
    return pad(task.risk(episodes), episodes.step_offset, lengths)
