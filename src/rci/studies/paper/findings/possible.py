"""How far the default learner is from what is possible: its budgets beside drivers who know the danger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from rci.evaluation.reference import Ruler, possible_at, share_of_way
from rci.evaluation.stats import clopper_pearson
from rci.pipeline.results.rows import Row
from rci.reporting.markdown import table
from rci.reporting.numbers import number, percent
from rci.reporting.paper.contents import Outcome, Setting
from rci.studies.paper.experiments import OURS
from rci.studies.paper.findings.outcomes import estimate

DEFAULT_BUDGET = "0.05"  # of commands that are given none
SHOWN = ("inf", "0.2", "0.1", "0.05")  # budgets
HEADS = (
    "task",
    "budget",
    "seeds",
    "violations",
    "return",
    "of the return without a budget",
    "possible at this return",
    "share of the way",
)


class Standing(NamedTuple):
    """Policies of one budget on one task, over seeds."""

    task: str
    budget: str
    seeds: int
    violation_rate: float
    mean_return: float
    kept: float | None  # of the return without a budget, counted from random actions
    possible: float | None  # violation rate of informed drivers at the same return
    share_of_way: float | None


def standings(rows: Sequence[Row], measure: Ruler | None) -> list[Standing]:
    """Those of one task, from rows of `rci bench budgets`; only policies trained on labels as they are."""
    by_budget = {
        budget: [row for row in rows if row["budget"] == budget and row.get("costs", "sparse") == "sparse"]
        for budget in SHOWN
    }
    if not by_budget["inf"]:
        return []
    free = _point(by_budget["inf"])
    lowest = 0.0 if measure is None else measure.random_return
    result = []
    for budget, group in by_budget.items():
        if group:
            gain, rate = _point(group)
            kept = None if free[0] <= lowest else (gain - lowest) / (free[0] - lowest)
            result.append(
                Standing(
                    group[0]["task"],
                    budget,
                    len(group),
                    rate,
                    gain,
                    kept,
                    None if measure is None else possible_at(measure, gain),
                    None if measure is None or budget == "inf" else share_of_way(measure, (gain, rate), free),
                )
            )
    return result


def outcome_of_budget(rows: Sequence[Row], budget: str = DEFAULT_BUDGET) -> Outcome | None:
    """The policies of one budget as one outcome, from rows of `rci bench budgets`; None without rows."""
    of_budget = sorted((row for row in rows if row["budget"] == budget), key=lambda row: row["seed"])
    if not of_budget:
        return None
    low, high = clopper_pearson(*(sum(row[name] for row in of_budget) for name in ("violations", "episodes")))
    first = of_budget[0]
    return Outcome(
        setting=Setting(first["task"], "mixed", "clean", OURS, 0, 0),
        method=first["costs"],
        seeds=tuple(row["seed"] for row in of_budget),
        budgets=tuple(row["budget"] for row in of_budget),
        episodes=sum(row["episodes"] for row in of_budget),
        violation=estimate([row["violation_rate"] for row in of_budget]),
        low=low,
        high=high,
        return_norm=None,
        mean_return=estimate([row["mean_return"] for row in of_budget]),
        until_stop=estimate([row["mean_return_until_stop"] for row in of_budget]),
        against=None,
        against_until_stop=None,
        ratios=(),
        log_violation=None,
        log_return=None,
    )


def standing_table(rows_of: Mapping[str, Sequence[Row]], rulers: Mapping[str, Ruler]) -> str:
    """Markdown: a line for each task and budget; empty without rows."""
    lines = [
        (
            one.task,
            "none" if one.budget == "inf" else percent(float(one.budget)),
            str(one.seeds),
            percent(one.violation_rate),
            number(one.mean_return),
            *(
                "–" if value is None else percent(value)
                for value in (one.kept, one.possible, one.share_of_way)
            ),
        )
        for task, rows in rows_of.items()
        for one in standings(rows, rulers.get(task))
    ]
    return table(HEADS, lines) if lines else ""


def _point(rows: Sequence[Row]) -> tuple[float, float]:
    return mean(row["mean_return"] for row in rows), mean(row["violation_rate"] for row in rows)
