"""From the rows of one method in one setting to what all its policies reach: violations at matched returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rci.evaluation.frontier import (
    Points,
    area_under_frontier,
    frontier,
    mixture_at,
    mixture_interval,
    points,
    violation_at_return,
)
from rci.reporting.paper.contents import Frontier, Matched, Policy, Reached, Setting
from rci.studies.paper.findings.outcomes import by_seed, estimate
from rci.studies.paper.findings.policy_rows import REWARD_ONLY, PolicyRow, one_row_per_policy

SHARES = (0.25, 0.5, 0.75)  # of the way from the lowest return to that of reward-only
CURVE_POINTS = 41
Recording = tuple[str, str, str]  # task, dataset, learner


class Returns(NamedTuple):
    """The returns between which methods are compared on one dataset of a task."""

    low: float  # of the safest policies: at less than that, no method violates less
    high: float  # of reward-only

    def at(self, share: float) -> float:
        """The return this share of the way up."""
        return self.low + share * (self.high - self.low)


def recording(setting: Setting) -> Recording:
    """What was recorded in a setting, whoever labelled it, and who learned from it."""
    return setting.task, setting.dataset, setting.learner


def compared_returns(rows: Sequence[PolicyRow]) -> dict[Recording, Returns]:
    """For each recording, the range of returns in which methods are compared, in all experiments alike.

    It comes from selection episodes in the setting with clean labels that has the most rows, reward-only among them.
    Without reward-only there is no range.
    """
    groups: dict[Setting, list[PolicyRow]] = {}
    for row in one_row_per_policy(rows):
        if row.noise == "clean":
            groups.setdefault(row.setting, []).append(row)
    best: dict[Recording, list[PolicyRow]] = {}
    for setting, group in sorted(groups.items()):
        best_group = best.get(recording(setting), [])
        if any(row.method == REWARD_ONLY for row in group) and len(group) >= len(best_group):
            best[recording(setting)] = group
    return {name: _range(group) for name, group in best.items()}


def _range(rows: Sequence[PolicyRow]) -> Returns:
    high = float(np.mean([row.selection_return for row in rows if row.method == REWARD_ONLY]))
    safest = []
    for method in sorted({row.method for row in rows}):
        for policies in by_seed(row for row in rows if row.method == method).values():
            selection = _selection(policies)
            safest.append(float(selection.mean_return[frontier(selection)[0]]))
    return Returns(min(*safest, high), high)


def method_frontier(
    setting: Setting,
    method: str,
    rows: Sequence[PolicyRow],
    reward_only: Sequence[PolicyRow],
    returns: Returns | None,
) -> Frontier:
    """The frontier of each seed, and over seeds. reward_only: all its rows, from which those that fit are taken."""
    seeds = by_seed(rows)
    sets = [with_reward_only(policies, reward_only) for policies in seeds.values()]
    targets = () if returns is None else tuple(returns.at(share) for share in SHARES)
    areas = [
        area
        for policies in sets
        if targets
        and not np.isnan(
            area := area_under_frontier(_selection(policies), _evaluation(policies), targets[0], targets[-1])
        )
    ]
    return Frontier(
        setting=setting,
        method=method,
        seeds=tuple(seeds),
        policies=tuple(
            Policy(row.method, row.budget, row.seed, row.mean_return, row.violation_rate, row.selected)
            for row in rows
        ),
        matched=tuple(matched(sets, share, target) for share, target in zip(SHARES, targets)),
        area=estimate(areas) if areas else None,
        curve=_curve(sets),
    )


def with_reward_only(rows: Sequence[PolicyRow], reward_only: Iterable[PolicyRow]) -> list[PolicyRow]:
    """The policies of one seed and, as policies that every method has, those of reward-only of the same seed.

    Reward-only does not look at labels, so one from another experiment on the same data will do, whatever the noise.
    """
    like = _apart_from_labels(rows[0])
    return one_row_per_policy([*rows, *(row for row in reward_only if _apart_from_labels(row) == like)])


def matched(sets: Sequence[Sequence[PolicyRow]], share: float, target: float) -> Matched:
    """The violation rate at one return: over seeds, and of all seeds' mixtures taken together."""
    selections, evaluations = (
        [_selection(policies) for policies in sets],
        [_evaluation(policies) for policies in sets],
    )
    mixed = [violation_at_return(s, e, target) for s, e in zip(selections, evaluations)]
    reached = [i for i, mixture in enumerate(mixed) if not np.isnan(mixture.violation_rate)]
    if not reached:
        return Matched(share, target, None)
    weights = [mixture_at(selections[i], target) / len(reached) for i in reached]
    low, high = mixture_interval(
        np.concatenate([evaluations[i].violation_rate for i in reached]),
        np.concatenate([[row.episodes for row in sets[i]] for i in reached]),
        np.concatenate(weights),
    )
    reached_by = Reached(
        target,
        estimate([mixed[i].violation_rate for i in reached]),
        low,
        high,
        float(np.mean([mixed[i].mean_return for i in reached])),
        len(reached),
    )
    return Matched(share, target, reached_by)


def _curve(sets: Sequence[Sequence[PolicyRow]]) -> tuple[tuple[float, float], ...]:
    """Mean return and violation rate of the seeds' mixtures, for targets that all seeds reach."""
    selections, evaluations = (
        [_selection(policies) for policies in sets],
        [_evaluation(policies) for policies in sets],
    )
    low = min(float(s.mean_return[frontier(s)[0]]) for s in selections)
    high = min(float(s.mean_return.max()) for s in selections)
    curve = []
    for target in np.linspace(min(low, high), high, CURVE_POINTS):
        mixed = [violation_at_return(s, e, float(target)) for s, e in zip(selections, evaluations)]
        curve.append(
            (
                float(np.mean([m.mean_return for m in mixed])),
                float(np.mean([m.violation_rate for m in mixed])),
            )
        )
    return tuple(dict.fromkeys(curve))


def _apart_from_labels(row: PolicyRow) -> tuple[object, ...]:
    return *recording(row.setting), row.labelled, row.updates, row.seed


def _selection(rows: Sequence[PolicyRow]) -> Points:
    return points([row.selection_return for row in rows], [row.selection_violation_rate for row in rows])


def _evaluation(rows: Sequence[PolicyRow]) -> Points:
    return points([row.mean_return for row in rows], [row.violation_rate for row in rows])
