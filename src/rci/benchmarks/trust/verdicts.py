"""What the rows say of the estimates: how often intervals hold the truth, and how often verdicts were right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rci.benchmarks.trust.study import BUDGETS, LEVEL, estimate_of, truth_in
from rci.data.risk.estimates import DEPLOY, REFUSE, UNSURE
from rci.pipeline.results.rows import Row


class Figures(NamedTuple):
    """Of some policies; shares are nan where there is nothing to divide by."""

    policies: int
    covered: float  # share whose truth lies in the interval
    width: float  # mean width of the interval
    rank: float  # Spearman's correlation between estimates and truths
    deployed: int  # verdicts over all budgets
    wrongly_deployed: int  # of them: the policy then broke its budget
    refused: int
    wrongly_refused: int  # of them: the policy would have kept its budget
    unsure: float  # share of all verdicts


def figures_of(rows: Sequence[Row]) -> Figures:
    """The figures of these policies, each held against every budget."""
    estimates, truths = [estimate_of(row) for row in rows], [truth_in(row) for row in rows]
    held = [estimate.stop.low <= truth <= estimate.stop.high for estimate, truth in zip(estimates, truths)]
    words = [
        (estimate.verdict(budget).word, truth > budget)
        for estimate, truth in zip(estimates, truths)
        for budget in BUDGETS
    ]
    return Figures(
        policies=len(rows),
        covered=float(np.mean(held)),
        width=float(np.mean([estimate.stop.high - estimate.stop.low for estimate in estimates])),
        rank=ranks_agree([estimate.stop.estimate for estimate in estimates], truths),
        deployed=sum(word == DEPLOY for word, _ in words),
        wrongly_deployed=sum(word == DEPLOY and broken for word, broken in words),
        refused=sum(word == REFUSE for word, _ in words),
        wrongly_refused=sum(word == REFUSE and not broken for word, broken in words),
        unsure=float(np.mean([word == UNSURE for word, _ in words])),
    )


def ranks_agree(estimates: Sequence[float], truths: Sequence[float]) -> float:
    """Spearman's rank correlation; nan where one of them does not vary."""
    from scipy.stats import rankdata

    a, b = rankdata(estimates), rankdata(truths)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def coverage_of_methods(rows: Sequence[Row]) -> dict[str, tuple[int, float]]:
    """For each method the policies of which it said anything, and the share whose truth its own interval held."""
    held: dict[str, list[bool]] = {}
    for row in rows:
        methods, truth = estimate_of(row).methods, truth_in(row)
        for name in row["opinions"]:
            held.setdefault(name, []).append(methods[name].low <= truth <= methods[name].high)
    return {name: (len(each), float(np.mean(each))) for name, each in sorted(held.items())}


def trust_table(rows: Sequence[Row]) -> str:
    """A line for each task, and one for all."""
    from rci.reporting.markdown import table

    heads = (
        "task",
        "policies",
        f"in the {LEVEL:.0%} interval",
        "width",
        "rank correlation",
        "deploy",
        "of them wrong",
        "do not deploy",
        "of them wrong",
        "cannot say",
    )
    groups = {task: [row for row in rows if row["task"] == task] for task in _tasks(rows)}
    if len(groups) > 1:
        groups["all"] = list(rows)
    return table(heads, [(name, *_line(figures_of(own))) for name, own in groups.items()])


def sentences(rows: Sequence[Row]) -> list[str]:
    """What the rows come to."""
    figures, methods = figures_of(rows), coverage_of_methods(rows)
    wrong = f"{figures.wrongly_deployed} of {figures.deployed}"
    if figures.deployed:
        wrong += f" ({figures.wrongly_deployed / figures.deployed:.1%})"
    return [
        f"{figures.covered:.1%} of {figures.policies} intervals at {LEVEL:.0%} hold the truth.",
        f'"deploy" was said of a policy that then broke its budget in {wrong}.',
        f'"the logs cannot say" was {figures.unsure:.1%} of all verdicts, over budgets of '
        f"{', '.join(f'{budget:.0%}' for budget in BUDGETS)}.",
        "Alone, "
        + "; ".join(f"{name} held it in {share:.0%} of {count}" for name, (count, share) in methods.items())
        + ".",
    ]


def _tasks(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["task"] for row in rows))


def _line(figures: Figures) -> tuple[str, ...]:
    return (
        str(figures.policies),
        f"{figures.covered:.0%}",
        f"{figures.width:.2f}",
        "–" if math.isnan(figures.rank) else f"{figures.rank:.2f}",
        str(figures.deployed),
        str(figures.wrongly_deployed),
        str(figures.refused),
        str(figures.wrongly_refused),
        f"{figures.unsure:.0%}",
    )
