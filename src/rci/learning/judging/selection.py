"""Choosing among trained policies from logs alone.

Every policy is judged by fitted-Q evaluation (`fqe.py`), and a rule chooses by the judged numbers:

best     the highest return among the policies within the budget; if none is, the one least over it
safest   the lowest cost among the policies that keep the return: those in the upper part of what was judged

With estimates of the chance of a stop (`estimate.py`), the rules choose by these instead of the judged cost, which is
one of step costs and may be anything. Nothing here asks a policy's own critics. They were fitted to flatter it: it
takes the actions they overrate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rci.data.artefacts.models import Policy
from rci.data.errors import RciError, unknown_name
from rci.data.record import Array, expect
from rci.data.risk.budgets import Budget, parse_budget
from rci.data.risk.estimates import PolicyEstimate, chance_of
from rci.data.types import Episodes, Labels, StepCosts
from rci.learning.budget import ROUNDING, threshold
from rci.learning.judging.fqe import Judgement, check_fits, judge_prepared, parse_options, prepare

RULES = ("best", "safest")
DEFAULT_BUDGET, DEFAULT_SHARE = 0.05, 0.9


@dataclass(frozen=True)
class Selection:
    """Which policy was chosen, and what the choice was made by. Costs and thresholds: one number per channel."""

    chosen: int
    judgements: tuple[Judgement, ...]
    rule: str
    budget: str | None  # None where the rule looks at none
    threshold: tuple[float, ...] | None
    share: float | None  # of the range of returns that must be kept
    kept: bool  # whether the chosen one is within the budget, as far as there is one; if not, it is only the nearest
    estimates: tuple[PolicyEstimate, ...] | None  # which the choice was made by, if there are any


def excess(cost: Array, threshold: Array) -> Array:
    """How much each policy is over the threshold, summed over channels: sum_k max(0, cost_k - threshold_k).

    cost: [N, K]; threshold: [K]. Rounding is allowed for.
    """
    over = np.asarray(cost, np.float64) - np.asarray(threshold, np.float64)
    return np.where(over > ROUNDING, over, 0.0).sum(axis=-1)


def choose_best(returns: Array, cost: Array, threshold: Array) -> int:
    """The highest return of those within the threshold in every channel; if there is none, the least excess.

    returns: [N]; cost: [N, K]; threshold: [K], inf = no budget. Equal ones: the higher return, then the first.
    """
    return _first_of(excess(cost, threshold), -np.asarray(returns))


def choose_safest(returns: Array, cost: Array, share: float) -> int:
    """The lowest cost, summed over channels, of those with a return of at least worst + share * (best - worst).

    returns: [N]; cost: [N, K]. Equal ones: the higher return, then the first.
    """
    returns = np.asarray(returns, np.float64)
    bar = returns.min() + share * (returns.max() - returns.min())
    dropped = returns < bar - ROUNDING * np.ptp(returns)
    return _first_of(dropped, np.asarray(cost).sum(axis=-1), -returns)


def select(
    policies: Sequence[Policy],
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    budget: Budget | None = None,
    rule: str = "best",
    share: float | None = None,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    estimates: Sequence[PolicyEstimate] | None = None,
    **options: Any,
) -> Selection:
    """Judge every policy from the logs and choose one: `policies[selection.chosen]`.

    budget: for the rule "best", as for `learn`; 0.05 if not given. share: for the rule "safest"; 0.9 if not given.
    estimates: what `rci.estimate` says of each policy, to choose by the chance of a stop; the budget is then a number.
    options: settings of the judgement, see `rci.judge`.
    """
    _, hyper, _ = parse_options(options)
    budget, share = check_rule(rule, budget, share)
    policies = list(policies)
    if not policies:
        raise RciError("there is no policy to choose from.")
    expect(StepCosts, costs=costs)
    if estimates is not None and len(estimates) != len(policies):
        raise RciError(f"there are {len(estimates)} estimates for {len(policies)} policies.")
    limit = None
    if budget is not None:
        limit = (
            threshold(budget, costs, hyper.discount, hyper.cost_discount)
            if estimates is None
            else np.array([chance_of(budget)])
        )
    prepared = prepare(episodes, labels, costs, seed, **options)
    for policy in policies:
        check_fits(policy, prepared)
    judged = []
    for number, policy in enumerate(policies):

        def report(part: float, number: int = number) -> None:
            progress((number + part) / len(policies))

        judged.append(judge_prepared(policy, prepared, seed, report, **options))
    returns = np.array([one.expected_return for one in judged])
    cost = np.array([one.expected_cost for one in judged])
    if estimates is not None:
        cost = np.array([[one.stop.estimate] for one in estimates])
    chosen = (
        choose_safest(returns, cost, share or 0.0) if limit is None else choose_best(returns, cost, limit)
    )
    return Selection(
        chosen=chosen,
        judgements=tuple(judged),
        rule=rule,
        budget=None if budget is None else str(budget),
        threshold=None if limit is None else tuple(limit.tolist()),
        share=share,
        kept=limit is None or not excess(cost, limit)[chosen],
        estimates=None if estimates is None else tuple(estimates),
    )


def check_rule(rule: str, budget: Budget | None, share: float | None) -> tuple[Budget | None, float | None]:
    """What the rule needs, its defaults filled in; what it would ignore is refused."""
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    if rule == "best":
        if share is not None:
            raise RciError("share says how much of the return to keep; the rule 'best' has a budget instead.")
        return parse_budget(DEFAULT_BUDGET if budget is None else budget), None
    if budget is not None:
        raise RciError(
            "the rule 'safest' looks at no budget; give it a share of the return to keep, or no budget."
        )
    share = DEFAULT_SHARE if share is None else share
    if not 0 <= share <= 1:
        raise RciError(f"share must be from 0 (keep nothing of the return) to 1 (keep all), got {share}.")
    return None, share


def _first_of(*keys: Array) -> int:
    """The index with the lowest first key; among equal ones the lowest second, and so on; at last the first one."""
    return int(np.lexsort(keys[::-1])[0])
