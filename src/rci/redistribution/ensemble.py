"""Several models of one kind: what they agree on is the cost, how far they disagree is its spread.

A member is the same method with another seed: other weights to begin with, another order, other episodes to stop by
and to hold out. Members are independent, so they may be fitted anywhere and joined afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.data.record import Array
from rci.data.types import SavedModel, StepCosts
from rci.nets.keys import derived_seed


@dataclass(frozen=True)
class Ensemble:
    """How many models, and how much of their disagreement is added to the cost."""

    members: int = 1
    pessimism: float = 0.0  # k in mean + k * spread

    def __post_init__(self) -> None:
        require_positive(self, "members")
        if not 0 <= self.pessimism < np.inf:
            raise RciError(f"pessimism must be a number from 0 on, got {self.pessimism}.")
        if self.pessimism > 0 and self.members == 1:
            raise RciError("pessimism needs members to disagree: set members to 2 or more.")


def member_seed(seed: int, member: int) -> int:
    """The seed of a member; the first one is what a single model would have been."""
    return seed if member == 0 else derived_seed(seed, member)


def mean_and_spread(costs: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (of a sample) over the first axis: [M, ...] -> [...], [...]."""
    return costs.mean(axis=0), costs.std(axis=0, ddof=1)


def rescale_excess(cost: Array, episodic_cost: Array, start: Array) -> Array:
    """Costs that sum to more than they should, made exact: what is positive shrinks, what is negative stays.

    cost: flat, [steps] of episodes that begin at `start`; each sums to at least its episodic cost, [N], which is not
    negative. Positive costs are multiplied by (C - negative sum) / positive sum, which lies in [0, 1].
    """
    positive, negative = np.maximum(cost, 0.0), np.minimum(cost, 0.0)
    gain, loss = np.add.reduceat(positive, start), np.add.reduceat(negative, start)
    factor = np.divide(episodic_cost - loss, gain, out=np.zeros_like(gain), where=gain > 0)
    lengths = np.diff(np.append(start, len(cost)))
    return positive * np.repeat(factor, lengths) + negative


def pessimistic(mean: Array, spread: Array, pessimism: float, costs: StepCosts) -> Array:
    """mean + k * spread, and, where the costs promise exact sums, rescaled to them in every channel."""
    raised = mean + pessimism * spread
    if not costs.return_equivalent or pessimism == 0:
        return raised
    start, shape = costs.step_offset[:-1], raised.shape
    columns = zip(raised.reshape(shape[0], -1).T, costs.episodic_cost.reshape(len(costs), -1).T)
    return np.stack([rescale_excess(*column, start) for column in columns], axis=-1).reshape(shape)


def combine(members: Sequence[StepCosts], pessimism: float = 0.0) -> StepCosts:
    """The members of an ensemble as one: the mean of their step costs, raised by k spreads, and the spread."""
    first = members[0]
    for member in members[1:]:
        if (member.method, member.labels_hash, member.unit) != (first.method, first.labels_hash, first.unit):
            raise RciError("the members of an ensemble must be costs of one method and of the same labels.")
    if len(members) == 1:
        return first
    mean, spread = mean_and_spread(np.stack([member.cost for member in members]))
    ensemble = {"members": len(members), "pessimism": pessimism, "mean_spread": float(spread.mean())}
    return replace(
        first,
        cost=pessimistic(mean, spread, pessimism, first),
        spread=spread,
        model=_join_models([member.model for member in members]),
        info={**_mean_figures([member.info for member in members]), "ensemble": ensemble},
    )


def _join_models(models: Sequence[SavedModel | None]) -> SavedModel | None:
    """Networks are named member.channel.fold...; here every member brings its own first."""
    if any(model is None for model in models):
        return None
    arrays, offset = dict[str, Array](), 0
    for model in models:
        for name, array in model.arrays.items():  # type: ignore[union-attr]
            member, _, rest = name.partition(".")
            arrays[f"{int(member) + offset}.{rest}"] = array
        offset += model.config["members"]  # type: ignore[union-attr]
    return models[0]._replace(config={**models[0].config, "members": offset}, arrays=arrays)  # type: ignore[union-attr]


def _mean_figures(infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the first member says of itself, its figures of quality averaged over all members."""
    result = dict(infos[0])
    for name in infos[0]:
        values = [info[name] for info in infos if info.get(name) is not None]
        if values and all(isinstance(value, float) for value in values):
            result[name] = float(np.mean(values))
    if "by_channel" in result:
        result["by_channel"] = {
            channel: _mean_figures([info["by_channel"][channel] for info in infos])
            for channel in result["by_channel"]
        }
    return result
