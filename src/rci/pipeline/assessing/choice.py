"""Which policy is recommended for the budget that was asked for, by the runs kept for choosing."""

from __future__ import annotations

from collections.abc import Mapping

from rci.data.estimates import DEPLOY, PolicyEstimate


def choose_policy(estimates: Mapping[str, PolicyEstimate], budget: float) -> str:
    """The name of the policy that earns most among those fit to be deployed; if none is, of the safest one.

    The safest has the lowest upper end of its chance of a stop. Of equal ones the first counts, so the strictest.
    """
    fit = [name for name, one in estimates.items() if one.verdict(budget).word == DEPLOY]
    if fit:
        return max(fit, key=lambda name: estimates[name].earned.estimate)
    return min(estimates, key=lambda name: estimates[name].stop.high)
