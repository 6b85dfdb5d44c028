"""Which policy is recommended for the budget that was asked for, by the runs kept for choosing."""

from __future__ import annotations

from collections.abc import Mapping

from rci.data.risk.estimates import DEPLOY, PolicyEstimate

ALIKE = 0.01  # bounds that differ by less say the same


def choose_policy(
    estimates: Mapping[str, PolicyEstimate], budgets: Mapping[str, float], budget: float
) -> str:
    """The name of the policy that earns most among those fit to be deployed; if none is, of the safest one.

    The safest has the lowest upper bound of its chance of a stop. Of those alike the one made for the budget counts, or
    else for the one nearest to it.
    """
    fit = [name for name, one in estimates.items() if one.verdict(budget).word == DEPLOY]
    if fit:
        most = max(estimates[name].earned.estimate for name in fit)
        alike = [name for name in fit if estimates[name].earned.estimate >= most]
    else:
        least = min(one.at_most for one in estimates.values())
        alike = [name for name, one in estimates.items() if one.at_most <= least + ALIKE]
    return min(alike, key=lambda name: abs(budgets[name] - budget))
