"""From the rows of one method in one setting to what its selected policies do, over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from rci.evaluation.reference import Ruler
from rci.evaluation.stats import bootstrap_ratio_of_counts, clopper_pearson, t_half_width, welch_t_test
from rci.pipeline.results.known_danger import shares
from rci.reporting.paper.contents import Estimate, Outcome, Ratio, Setting, WelchTest
from rci.studies.paper.findings.policy_rows import REWARD_ONLY, PolicyRow

COMPARED_WITH = ("sparse", "hazard", REWARD_ONLY)
BOOTSTRAP_SEED = 0
Counts = Sequence[tuple[int, int]]  # violations and episodes, by seed
KEPT_RETURN = 0.5  # of the way from the worst to the best predicted return: less makes a policy useless


def estimate(values: Sequence[float]) -> Estimate:
    """A number over seeds; one seed has no error and no interval."""
    if len(values) < 2:
        return Estimate(float(np.mean(values)), None, None, tuple(values))
    error = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    return Estimate(float(np.mean(values)), error, t_half_width(values), tuple(values))


def by_seed(rows: Iterable[PolicyRow]) -> dict[int, list[PolicyRow]]:
    """The rows of each seed, seeds in order."""
    groups: dict[int, list[PolicyRow]] = {}
    for row in sorted(rows, key=lambda row: row.seed):
        groups.setdefault(row.seed, []).append(row)
    return groups


def select_by_simulator(rows: Sequence[PolicyRow]) -> PolicyRow | None:
    """The policy of one seed that was selected; None if none was yet.

    Where one was selected for every budget, the rule goes on over budgets: the lowest violation rate on selection
    episodes, then the higher return on them, then the first.
    """
    selected = [row for row in rows if row.selected]
    return min(selected, key=lambda row: (row.selection_violation_rate, -row.selection_return), default=None)


def select_from_logs(rows: Sequence[PolicyRow]) -> PolicyRow | None:
    """The policy of one seed that somebody with logs alone would take; None if some were not judged.

    The lowest predicted cost among the policies that keep the predicted return: those at least half of the way from
    the worst to the best of them (a share of the way, not of the return, since returns may be negative).
    """
    from rci.learning.judging.selection import choose_safest

    judged = [(row.predicted_return, row.predicted_cost) for row in rows]
    if not judged or any(gain is None or cost is None for gain, cost in judged):
        return None
    returns, costs = np.array(judged, np.float64).T
    return rows[choose_safest(returns, costs[:, None], KEPT_RETURN)]


def outcome(
    setting: Setting, method: str, rows_of: dict[str, list[PolicyRow]], measure: Ruler | None = None
) -> Outcome | None:
    """What the selected policies of a method do; None if none was selected yet. rows_of: by method, in this setting.

    measure: what is possible on the task when the danger is known.
    """
    chosen = selected_policies(rows_of[method])
    if not chosen:
        return None
    logged = [
        row for rows in by_seed(rows_of[method]).values() if (row := select_from_logs(rows)) is not None
    ]
    low, high = clopper_pearson(sum(row.violations for row in chosen), sum(row.episodes for row in chosen))
    reference = [] if method == REWARD_ONLY else selected_policies(rows_of.get(REWARD_ONLY, []))
    rivals = {name: selected_policies(rows_of.get(name, [])) for name in COMPARED_WITH if name != method}
    return Outcome(
        setting=setting,
        method=method,
        seeds=tuple(row.seed for row in chosen),
        budgets=tuple(row.budget for row in chosen),
        episodes=sum(row.episodes for row in chosen),
        violation=estimate([row.violation_rate for row in chosen]),
        low=low,
        high=high,
        return_norm=_normalised(chosen),
        mean_return=estimate([row.mean_return for row in chosen]),
        until_stop=estimate([row.mean_return_until_stop for row in chosen]),
        against=tested([row.mean_return for row in chosen], [row.mean_return for row in reference]),
        against_until_stop=tested(
            [row.mean_return_until_stop for row in chosen], [row.mean_return_until_stop for row in reference]
        ),
        ratios=tuple(
            Ratio(name, *ratio_of_counts(_counts(chosen), _counts(others)))
            for name, others in rivals.items()
            if others
        ),
        log_violation=estimate([row.violation_rate for row in logged]) if logged else None,
        log_return=estimate([row.mean_return for row in logged]) if logged else None,
        share_of_way=shares(measure, _pairs(chosen), _pairs(reference))[1],
    )


def selected_policies(rows: Iterable[PolicyRow]) -> list[PolicyRow]:
    """The selected policy of each seed that has one."""
    chosen = (select_by_simulator(policies) for policies in by_seed(rows).values())
    return [row for row in chosen if row is not None]


def _pairs(rows: Sequence[PolicyRow]) -> list[tuple[float, float]]:
    return [(row.mean_return, row.violation_rate) for row in rows]


def _normalised(chosen: Sequence[PolicyRow]) -> Estimate | None:
    known = [row.return_norm for row in chosen if row.return_norm is not None]
    return estimate(known) if len(known) == len(chosen) else None


def tested(returns: Sequence[float], reference: Sequence[float]) -> WelchTest | None:
    """Welch's test of returns over seeds; None if there is nothing to compare with."""
    if not reference:
        return None
    difference = float(np.mean(returns) - np.mean(reference))
    if min(len(returns), len(reference)) < 2:
        return WelchTest(difference, None, None)
    t, _, p = welch_t_test(returns, reference)
    return WelchTest(difference, None, None) if np.isnan(p) else WelchTest(difference, t, p)


def ratio_of_counts(counts: Counts, others: Counts) -> tuple[float, float, float]:
    """One violation rate divided by another, with its interval."""
    return bootstrap_ratio_of_counts(counts, others, BOOTSTRAP_SEED)


def _counts(rows: Sequence[PolicyRow]) -> Counts:
    return [(row.violations, row.episodes) for row in rows]
