"""Step costs that sum exactly to the episodic cost. The only place where conservation is enforced.

Everything here is float64 on padded blocks [N, T] with a mask [N, T] (true where the episode has a step).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rci.data.record import Array


@dataclass(frozen=True)
class Conservation:
    """How raw scores become exact step costs. The defaults are the paper's."""

    start: Literal["zero", "prior"] = "zero"  # what the empty prefix predicts
    compensation: Literal["last", "uniform"] = "last"  # where the rest of the sum goes
    sign: Literal["signed", "nonnegative"] = "signed"  # whether negative step costs stay


def difference(prefix: Array, mask: Array, start: float = 0.0) -> Array:
    """c[t] = C^(0..t) - C^(0..t-1). Paper: Eq. (2) without its compensation.

    prefix: [N, T] predictions from each prefix. The empty prefix predicts `start`; that amount is then spread
    evenly over the episode, so that the costs still sum to the last prediction.
    """
    mask = np.asarray(mask, bool)
    before = np.concatenate([np.full((len(prefix), 1), start), prefix[:, :-1]], axis=1)
    share = start / mask.sum(axis=1, keepdims=True)
    return np.where(mask, np.asarray(prefix, np.float64) - before + share, 0.0)


def compensate(
    step: Array, mask: Array, episodic_cost: Array, where: Literal["last", "uniform"] = "last"
) -> Array:
    """Add what is missing to the episodic cost, at the last step or evenly. Paper: delta of Eq. (2), Lemma 1."""
    mask = np.asarray(mask, bool)
    step = np.where(mask, np.asarray(step, np.float64), 0.0)
    lengths = mask.sum(axis=1)
    missing = episodic_cost - step.sum(axis=1)
    if where == "uniform":
        return step + np.where(mask, (missing / lengths)[:, None], 0.0)
    exact = step.copy()
    exact[np.arange(len(step)), lengths - 1] += missing
    return exact


def rescale_nonnegative(step: Array, mask: Array, episodic_cost: Array) -> Array:
    """Drop negative costs and scale the rest to the episodic cost; evenly where nothing positive is left."""
    mask = np.asarray(mask, bool)
    positive = np.where(mask, np.maximum(np.asarray(step, np.float64), 0.0), 0.0)
    total = positive.sum(axis=1, keepdims=True)
    even = mask / mask.sum(axis=1, keepdims=True)
    share = np.divide(positive, total, out=even, where=total > 0)
    return share * episodic_cost[:, None]


def conserve(step: Array, mask: Array, episodic_cost: Array, rule: Conservation) -> Array:
    """Raw step costs [N, T] made exact by `rule`."""
    exact = compensate(step, mask, episodic_cost, rule.compensation)
    return rescale_nonnegative(exact, mask, episodic_cost) if rule.sign == "nonnegative" else exact
