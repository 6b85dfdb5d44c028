"""Budgets: what the user allows, what a critic is compared with, and how the multiplier follows.

budget d     the allowed expected episodic cost; with binary labels the allowed probability of a violation
threshold    what the cost critic is compared with; made from the budget here and nowhere else
multiplier   lambda >= 0, raised while the critic's estimate is over the threshold

With several channels of cost there is one of each per channel, and a budget that names no channel holds for every one.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.risk.budgets import Budget, Limit, limits
from rci.data.types import StepCosts
from rci.learning.losses import Number

LEAST_SHARE = 0.01  # of episodes: below it, ratios of violation rates mean little
ROUNDING = 1e-6  # conserved costs sum to the label within this


def discounted_costs(costs: StepCosts, discount: float) -> Array:
    """sum_t discount^t * c~[t] of each episode: [N], or [N, K] with channels."""
    step = np.arange(len(costs.cost)) - np.repeat(costs.step_offset[:-1], costs.lengths)
    weight = (discount**step).reshape(-1, *[1] * (costs.cost.ndim - 1))
    return np.add.reduceat(costs.cost * weight, costs.step_offset[:-1])


def allowed_sum(limit: float, unit: str) -> float:
    """What a budget allows the costs of an episode to sum to, in their unit.

    Costs in the unit `log-survival` sum to -log P(safe), so a violation probability d allows -log(1 - d). A `score` has
    no unit in which a number could be given.
    """
    if unit == "score" and limit != math.inf:
        raise RciError(
            f"these step costs are scores, whose sum means no probability, so a budget of {limit:g} says nothing about "
            "them; give a percentile such as P30, or inf, or redistribute with conserve=true."
        )
    if unit != "log-survival":
        return limit
    return math.inf if limit >= 1.0 else -math.log1p(-limit)


def threshold(
    budget: Budget, costs: StepCosts, discount: float, cost_discount: float, audits: bool = False
) -> Array:
    """What the cost critic at an initial state, or where one `audits` the auditor, is compared with: [K].

    A percentile is taken over the episodes of the discounted episodic cost under these very step costs.
    Undiscounted it could only be 0 or 1, so it is discounted at the reward's rate even where the critic is not.
    A number is a bound on the undiscounted cost. What a critic with a cost discount below 1 sees of such a cost is read
    off the dataset's own episodes by a straight line, which is exact only on average over them. An auditor knows the
    labels themselves, so a number is compared with it as it is, whatever unit the step costs have.
    """
    own = limits(budget, costs.channels)
    for_percentiles, seen, total = (
        sums.reshape(len(costs), -1)
        for sums in (discounted_costs(costs, discount), discounted_costs(costs, cost_discount), costs.sums())
    )
    thresholds = []
    for k, limit in enumerate(own):
        if isinstance(limit, str):
            thresholds.append(float(np.percentile(for_percentiles[:, k], float(limit[1:]))))
            continue
        if audits:
            thresholds.append(limit)
            continue
        bound = allowed_sum(limit, costs.unit)
        whole = cost_discount == 1.0 or math.isinf(bound)
        thresholds.append(bound if whole else seen_of(bound, seen[:, k], total[:, k]))
    return np.array(thresholds)


def seen_of(bound: float, seen: Array, total: Array) -> float:
    """What is seen of a plain cost, by the line that fits the episodes best; by their ratio where all cost alike.

    A ratio will not do in general: costs that are paid back over time leave something to be seen of nothing.
    """
    spread = total - total.mean()
    if (size := float(spread @ spread)) > 0.0:
        return float(seen.mean() + (bound - total.mean()) * (spread @ seen) / size)
    return bound if total.mean() == 0.0 else float(bound * seen.mean() / total.mean())


def audited(own: tuple[Limit, ...], audits: bool) -> Array:
    """1 where the auditor is compared with the threshold, 0 where the cost critic is: [K].

    Where a budget is a number, what it bounds can be read off the labels. A percentile is one of step costs, which only
    the cost critic knows.
    """
    return np.array([float(audits and not isinstance(limit, str)) for limit in own], np.float32)


def kept_budget(budget: Budget, costs: StepCosts, discount: float) -> Array:
    """Which recorded episodes kept the budget in every channel: [N]. For those who imitate instead of judging.

    A percentile is compared with the discounted costs that it is a percentile of; a number with the plain sum.
    """
    sums = {
        kind: cost.reshape(len(costs), -1)
        for kind, cost in (("percentile", discounted_costs(costs, discount)), ("number", costs.sums()))
    }
    bound = threshold(budget, costs, discount, 1.0)
    own = limits(budget, costs.channels)
    within = [
        sums["percentile" if isinstance(limit, str) else "number"][:, k] <= bound[k] + ROUNDING
        for k, limit in enumerate(own)
    ]
    return np.all(within, axis=0)


def update_multiplier(multiplier: jax.Array, estimate: Number, threshold: Number, rate: Number) -> jax.Array:
    """lambda <- max(0, lambda + rate * (estimate - threshold)), each channel's by itself. Paper: Stage 3.

    An infinite budget leaves it at 0.
    """
    moved = jnp.maximum(0.0, multiplier + rate * (estimate - threshold))
    return jnp.where(jnp.isinf(threshold), 0.0, moved)


def relative_gap(estimate: jax.Array, threshold: Number) -> jax.Array:
    """log((estimate + 0.01) / (threshold + 0.01)), within [-1, 1]: how many times too much, not by how much.

    A policy may be over a budget of 0.05 by 0.95, but never under it by more than 0.05. By plain differences the
    multiplier would rise twenty times as fast as it can ever fall, and stay far too high.
    """
    ratio = jnp.log((jnp.maximum(estimate, 0.0) + LEAST_SHARE) / (jnp.asarray(threshold) + LEAST_SHARE))
    return jnp.clip(ratio, -1.0, 1.0)
