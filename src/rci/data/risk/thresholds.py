"""From a budget to a threshold, by a ladder of thresholds whose policies were tried in models of the world.

A ladder is plain data, so that a stored policy can be given another budget anywhere, without what trained it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.risk.budgets import Budget, limits, parse_budget, refuse_percentiles


class Ladder(NamedTuple):
    """M thresholds from strict to none, and what is expected of the policy at each; K channels.

    `bound` is what the chance of a violation is not believed to exceed: the estimate and a margin. It need not rise
    from rung to rung: where a threshold forbids nearly everything, the policy goes where it knows little.
    """

    threshold: Array  # [M]; the last one is inf, no threshold at all
    estimate: Array  # [M, K]
    bound: Array  # [M, K]
    expected_return: Array  # [M]

    def as_table(self) -> dict[str, Any]:
        """Plain JSON values; no threshold is null."""
        numbers = {name: np.asarray(value).tolist() for name, value in self._asdict().items()}
        return {**numbers, "threshold": [None if math.isinf(t) else t for t in numbers["threshold"]]}

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> Ladder:
        """The reverse of `as_table`."""
        threshold = [math.inf if t is None else t for t in table["threshold"]]
        return cls(np.array(threshold), *(np.array(table[name], np.float64) for name in cls._fields[1:]))


def describe_ladder(table: dict[str, Any]) -> str:
    """A line: at how many thresholds the policy was tried, and between which chances of a violation."""
    bound = Ladder.from_table(table).bound.max(axis=1)
    return f"{len(bound)} thresholds, violations at most {bound.min():.1%} to {bound[-1]:.1%}"


class Choice(NamedTuple):
    """A threshold for each channel, and what is expected with them."""

    threshold: Array  # [K]
    estimate: Array  # [K]
    bound: Array  # [K]
    kept: bool  # whether some threshold keeps the budget; if not, the one with the lowest bound is taken


def choose_thresholds(ladder: Ladder, budget: Budget, channels: tuple[str, ...]) -> Choice:
    """For each channel the highest threshold whose bound is within the budget. A higher budget never gives a lower one.

    Between two rungs the bound is taken to be straight over the logarithm of the threshold.
    """
    own = limits(parse_budget(budget), channels)
    refuse_percentiles("this policy", own)
    chosen = [_choose(ladder, k, float(limit)) for k, limit in enumerate(own)]
    threshold, estimate, bound, kept = zip(*chosen)
    return Choice(np.array(threshold), np.array(estimate), np.array(bound), all(kept))


def check_threshold(threshold: float, hazard: bool) -> float:
    """A threshold as a user may set it: of a chance between 0 and 1, or inf; of other costs any number."""
    try:
        number = float(threshold)
    except (TypeError, ValueError):
        raise RciError(f"a threshold is a number, not {threshold!r}.") from None
    if math.isnan(number) or (hazard and number != math.inf and not 0 <= number <= 1):
        raise RciError(
            f"the threshold is compared with the chance of a stop, so it lies between 0 and 1 (or is inf, for none); "
            f"got {threshold!r}."
        )
    return number


def _choose(ladder: Ladder, channel: int, limit: float) -> tuple[float, float, float, bool]:
    estimate, bound = ladder.estimate[:, channel], ladder.bound[:, channel]
    last = len(bound) - 1
    if limit == math.inf or bound[last] <= limit:
        return math.inf, float(estimate[last]), float(bound[last]), True
    within = np.flatnonzero(bound <= limit)
    if len(within) == 0:
        best = int(np.argmin(bound))
        return float(ladder.threshold[best]), float(estimate[best]), float(bound[best]), False
    below = int(within[-1])
    above = below + 1
    low, high = ladder.threshold[below], ladder.threshold[above]
    if math.isinf(high):  # nothing is known between a threshold and none
        return float(low), float(estimate[below]), float(bound[below]), True
    share = (limit - bound[below]) / (bound[above] - bound[below])
    expected = float(estimate[below] + share * (estimate[above] - estimate[below]))
    if low > 0:
        threshold = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    else:  # costs of other kinds may be negative
        threshold = low + share * (high - low)
    return float(threshold), expected, float(limit), True
