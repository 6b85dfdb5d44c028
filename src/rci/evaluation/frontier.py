"""How few violations a set of policies needs for a return: the frontier that mixing them reaches, in float64.

To mix policies is to draw one of them before every episode. The mixture's return and violation rate are then the
weighted means of theirs, so every point of the segment between two policies can be had, and with it the lower convex
hull of all of them. A policy that earns more than was asked for will do as well, so left of the hull's safest corner
the frontier is flat.

Which policies are mixed is decided by the numbers of selection episodes. What the mixture is worth is estimated by the
numbers of other, fresh episodes: numbers that were chosen for being low are lower than the truth.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.evaluation.stats import clopper_pearson


class Points(NamedTuple):
    """Policies by what they earn and how often they violate: two arrays [N]."""

    mean_return: Array
    violation_rate: Array


class Mixed(NamedTuple):
    """What a mixture of policies is worth; both `nan` where the return asked for is beyond all of them."""

    mean_return: float
    violation_rate: float


def points(mean_return: object, violation_rate: object) -> Points:
    """Policies as points, checked: as many returns as rates, at least one, all finite, rates from 0 to 1."""
    returns, rates = np.asarray(mean_return, np.float64), np.asarray(violation_rate, np.float64)
    if returns.ndim != 1 or returns.shape != rates.shape or not len(returns):
        raise RciError(
            f"a frontier needs a return and a violation rate of at least one policy, got shapes {returns.shape} and "
            f"{rates.shape}."
        )
    if not (np.isfinite(returns).all() and np.isfinite(rates).all()):
        raise RciError("a frontier needs finite returns and violation rates.")
    if rates.min() < 0.0 or rates.max() > 1.0:
        raise RciError(f"violation rates must lie in [0, 1], got {rates.min():g} to {rates.max():g}.")
    return Points(returns, rates)


def frontier(policies: Points) -> Array:
    """The corners of the frontier, from the safest policy to the one that earns most: indices, [corners].

    Of policies with equal numbers the first is taken.
    """
    order = np.lexsort((policies.violation_rate, policies.mean_return))
    # Of equal returns only the safest can be a corner, and left of the safest policy of all none is.
    safest = np.lexsort((-policies.mean_return, policies.violation_rate))[0]
    hull: list[int] = []
    for i in order.tolist():
        if policies.mean_return[i] < policies.mean_return[safest]:
            continue
        if hull and policies.mean_return[i] == policies.mean_return[hull[-1]]:
            continue
        while len(hull) > 1 and not _turns_up(policies, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    return np.array(hull)


def mixture_at(selection: Points, target: float) -> Array:
    """The weights of the mixture that violates least among those that return at least `target`, [N].

    At most two policies have a weight. All weights are `nan` if no policy returns as much.
    """
    corners = frontier(selection)
    returns = selection.mean_return[corners]
    if target > returns[-1]:
        return np.full(len(selection.mean_return), np.nan)
    weights = np.zeros(len(selection.mean_return))
    right = int(np.searchsorted(returns, target))
    if right == 0:
        weights[corners[0]] = 1.0
        return weights
    share = (target - returns[right - 1]) / (returns[right] - returns[right - 1])
    weights[corners[right - 1]], weights[corners[right]] = 1.0 - share, share
    return weights


def violation_at_return(selection: Points, evaluation: Points, target: float) -> Mixed:
    """What the mixture chosen for `target` by selection numbers is worth by evaluation numbers."""
    _check_same(selection, evaluation)
    weights = mixture_at(selection, target)
    return Mixed(float(weights @ evaluation.mean_return), _mixed_rate(weights, evaluation.violation_rate))


def area_under_frontier(selection: Points, evaluation: Points, low: float, high: float) -> float:
    """The mean violation rate of the mixtures chosen for all returns from `low` to `high`; `nan` if one is not reached.

    Weights change linearly with the target between two corners, so the trapezoids between corners are exact.
    """
    if not low <= high:
        raise RciError(f"the lower return must not be above the higher one, got {low} and {high}.")
    corners = selection.mean_return[frontier(selection)]
    targets = np.concatenate([[low], corners[(corners > low) & (corners < high)], [high]])
    rates = np.array([violation_at_return(selection, evaluation, float(t)).violation_rate for t in targets])
    return float(rates[0]) if low == high else float(np.trapezoid(rates, targets) / (high - low))


def mixture_interval(
    violation_rate: Array, episodes: Array, weights: Array, confidence: float = 0.95
) -> tuple[float, float]:
    """Interval for the violation rate of a mixture of policies that were tested one by one, all arrays [N].

    Clopper and Pearson's, with as many episodes as are worth the same: `1 / sum(w^2 / n)`. For one policy, or for
    equal weights on equally many episodes, that is the number of all episodes and the interval is the usual one.
    """
    if np.isnan(weights).any():
        return float("nan"), float("nan")
    used = weights > 0.0
    worth = float(1.0 / np.sum(weights[used] ** 2 / episodes[used]))
    return clopper_pearson(_mixed_rate(weights, violation_rate) * worth, worth, confidence)


def _mixed_rate(weights: Array, violation_rate: Array) -> float:
    """The violation rate of a mixture; weights sum to 1 only up to rounding, but no rate is beyond 0 or 1."""
    return float(np.clip(weights @ violation_rate, 0.0, 1.0))


def _turns_up(policies: Points, a: int, b: int, c: int) -> bool:
    """Whether b lies strictly below the segment from a to c, so that it is a corner."""
    (ax, bx, cx), (ay, by, cy) = policies.mean_return[[a, b, c]], policies.violation_rate[[a, b, c]]
    return bool((bx - ax) * (cy - ay) > (cx - ax) * (by - ay))


def _check_same(selection: Points, evaluation: Points) -> None:
    if len(selection.mean_return) != len(evaluation.mean_return):
        raise RciError(
            f"selection and evaluation must be of the same policies, got {len(selection.mean_return)} and "
            f"{len(evaluation.mean_return)}."
        )
