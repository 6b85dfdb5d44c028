"""The contract of stage two: anything that turns an episodic cost into a score per step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from rci.data.batch import Sequences, pad
from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.data.record import Array
from rci.data.types import Episodes
from rci.redistribution.conserve import Conservation
from rci.redistribution.distil import Distillation
from rci.redistribution.ensemble import Ensemble

Predict = Callable[[Any, Episodes, Array], Array]
CHUNK_EPISODES, CHUNK_STEPS = 256, 32_768  # scored at once, at most


@dataclass(frozen=True)
class Training:
    """How long and on what to train."""

    epochs: int = 60
    batch_size: int = 64
    patience: int = 8  # epochs without a better held-out loss before training stops
    stopping_share: float = 0.15  # episodes whose loss decides when to stop
    held_out_share: float = 0.15  # episodes that nothing is decided on, for the figures of quality
    folds: int = 1  # from 2 on: cross-fitting, each episode is scored by a model that never saw it
    balance: bool = False  # as many stopped as safe episodes in every batch
    crop: bool = (
        False  # safe episodes are cut to the length of a random stopped one, so that length says nothing
    )

    def __post_init__(self) -> None:
        require_positive(self, "epochs", "batch_size", "patience", "folds")
        for name in ("stopping_share", "held_out_share"):
            if not 0 < getattr(self, name) < 1:
                raise RciError(f"{name} must lie between 0 and 1, got {getattr(self, name)}.")
        if self.balance and self.batch_size < 2:
            raise RciError(
                "a balanced batch holds a stopped and a safe episode: batch_size must be at least 2."
            )


class Redistributor(NamedTuple):
    """Pure functions of one method. No argument can carry the oracle: what a method sees is what was logged.

    init(key, data) -> state;  update(key, state, batch, hyper) -> (state, info)
    held_out_loss(state, batch) -> number, lower is better
    predict(state, episodes, lengths) -> [N, T], one score for each of the first lengths[i] steps of episode i

    `scores` says what the predictions are: `prefix` = the episodic cost predicted from each prefix, to be
    differenced (Eq. 2), or `step` = step costs as they are. `compensation` overrides where the rest of the sum
    goes, for methods that are nothing but that. Methods that learn nothing have `update = None`.

    Without `return_equivalent` the scores stay as they are. `unit` says what the sum of an episode then means, so that
    a budget can be compared with it. `forecast` turns scores [N, T] into the episodic cost expected after each step,
    for the figures of quality; left out, predictions from prefixes are their own, and step costs have none.
    `findings(state)` is what a fitted model reports about itself in plain numbers, for the manifest.
    """

    init: Callable[[jax.Array, Sequences], Any]
    predict: Predict
    scores: Literal["prefix", "step"]
    update: Callable[[jax.Array, Any, Sequences, Any], tuple[Any, Any]] | None = None
    held_out_loss: Callable[[Any, Sequences], jax.Array] | None = None
    return_equivalent: bool = True
    compensation: Literal["last", "uniform"] | None = None
    unit: Literal["cost", "log-survival", "score"] = "cost"
    forecast: Callable[[Array], Array] | None = None
    findings: Callable[[Any], dict[str, Any]] | None = None


class Method(NamedTuple):
    """A registered redistributor: how to make it, and which settings it takes.

    `shared` are the settings that it takes beyond its own. What would have no effect is not among them.
    """

    make: Callable[[Any], Redistributor]
    config: type
    hyper: type
    shared: tuple[type, ...] = (Training, Conservation, Distillation, Ensemble)


@lru_cache(maxsize=32)
def made(make: Callable[[Any], Redistributor], config: Any) -> Redistributor:
    """A method with its settings, the same one each time: what was compiled for it once serves again."""
    return make(config)


def predict_with(apply: Callable[[Any, Array, Array], jax.Array], ahead: int = 0) -> Predict:
    """Predict for ragged episodes with a network on padded blocks: apply(state, obs, action) -> [B, T].

    The observation beside action[t] is obs[t + ahead]: 0 = what was seen before the step, 1 = what it led to.
    Every block has the same shape, so that it compiles once; rows that only fill the last block are dropped.
    """
    apply = jax.jit(apply)

    def predict(state: Any, episodes: Episodes, lengths: Array) -> Array:
        longest = int(lengths.max())
        rows = min(CHUNK_EPISODES, max(1, CHUNK_STEPS // longest), len(episodes))
        result = np.zeros((len(episodes), longest))
        for first in range(0, len(episodes), rows):
            index = np.minimum(np.arange(first, first + rows), len(episodes) - 1)
            obs = pad(episodes.obs, episodes.obs_offset[index] + ahead, lengths[index], longest)
            action = pad(episodes.action, episodes.step_offset[index], lengths[index], longest)
            block = apply(state, *(x.reshape(rows, longest, -1).astype(np.float32) for x in (obs, action)))
            result[first : first + rows] = np.asarray(block)[: len(episodes) - first]
        return result

    return predict


def last_step(block: Array, lengths: Array) -> Array:
    """[N, T] -> [N]: the value at each episode's last step."""
    return block[np.arange(len(block)), lengths - 1]
