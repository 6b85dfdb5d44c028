"""Budgets: what the user allows, what a critic is compared with, and how the multiplier follows.

budget d     the allowed expected episodic cost; with binary labels the allowed probability of a violation
threshold    what the cost critic is compared with; made from the budget here and nowhere else
multiplier   lambda >= 0, raised while the critic's estimate is over the threshold
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import StepCosts
from rci.learning.losses import Number

Budget = float | str  # 0.05, inf, or a percentile such as "P30"


def parse_budget(text: Budget) -> Budget:
    """A budget as the user wrote it: a number >= 0, `inf`, or P0 to P100."""
    if isinstance(text, str) and text[:1] in "Pp" and text[1:].replace(".", "", 1).isdigit():
        if not 0 <= float(text[1:]) <= 100:
            raise RciError(f"a percentile budget must be P0 to P100, got {text!r}.")
        return "P" + text[1:]
    try:
        if isinstance(text, bool):
            raise TypeError
        number = float(text)
    except (ValueError, TypeError):
        raise RciError(
            f"a budget is a number such as 0.05, or a percentile such as P30, not {text!r}."
        ) from None
    if math.isnan(number) or number < 0:
        raise RciError(f"a budget is an allowed cost, so it cannot be {text!r}; the smallest is 0.")
    if 1 < number < math.inf:
        raise RciError(
            f"an episode costs at most 1, so a budget of {text!r} would allow everything; for 5% write 0.05, for no "
            "budget write inf."
        )
    return number


def discounted_costs(costs: StepCosts, discount: float) -> Array:
    """sum_t discount^t * c~[t] of each episode."""
    step = np.arange(len(costs.cost)) - np.repeat(costs.step_offset[:-1], costs.lengths)
    return np.add.reduceat(costs.cost * discount**step, costs.step_offset[:-1])


def threshold(budget: Budget, costs: StepCosts, discount: float, cost_discount: float) -> float:
    """What the cost critic at an initial state is compared with.

    A percentile is taken over the episodes of the discounted episodic cost under these very step costs.
    Undiscounted it could only be 0 or 1, so it is discounted at the reward's rate even where the critic is not.
    A number is a bound on the undiscounted cost. A critic with a cost discount below 1 sees less than that; the
    number is scaled by how much less the dataset's own episodes show, which is exact only on average over them.
    """
    budget = parse_budget(budget)
    if isinstance(budget, str):
        return float(np.percentile(discounted_costs(costs, discount), float(budget[1:])))
    if cost_discount == 1.0 or math.isinf(budget):
        return budget
    total = float(costs.sums().mean())
    if total == 0.0:
        return budget
    return budget * float(discounted_costs(costs, cost_discount).mean()) / total


def update_multiplier(multiplier: jax.Array, estimate: Number, threshold: Number, rate: Number) -> jax.Array:
    """lambda <- max(0, lambda + rate * (estimate - threshold)). Paper: Stage 3. An infinite budget leaves it at 0."""
    moved = jnp.maximum(0.0, multiplier + rate * (estimate - threshold))
    return jnp.where(jnp.isinf(threshold), 0.0, moved)
