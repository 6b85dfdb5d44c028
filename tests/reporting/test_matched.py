"""What is left of reward-only's return, who does nothing, and methods at the same return."""

import math

import numpy as np
import pytest

from rci.data.types import StepCosts
from rci.reporting.figures.palette import looks
from rci.reporting.html.markup import fill
from rci.reporting.run.headline import safest_that_earns
from rci.reporting.run.matched import matched_rows
from rci.reporting.run.rows import ResultRow, first_step_share, held_against_idling


def row(method: str, asked: str, rate: float, mean_return: float) -> ResultRow:
    budget = math.inf if asked == "none" else float(asked)
    return ResultRow(
        method=method,
        budget=budget,
        asked=asked,
        threshold=None,
        seeds=1,
        episodes=100,
        violation_rate=rate,
        violation_low=rate / 2,
        violation_high=min(1.0, 2 * rate),
        budget_kept="",
        mean_return=mean_return,
        return_error=None,
        return_until_violation=mean_return,
        until_violation_error=None,
        multiplier=None,
        seed_violation_rates=(rate,),
        seed_returns=(mean_return,),
        contrast=None,
    )


ROWS = [
    row("reward-only", "none", 0.7, 90.0),
    row("sparse", "0.1", 0.04, 88.0),
    row("sparse", "0.05", 0.01, 74.0),
    row("rci", "0.1", 0.02, 50.0),
    row("rci", "0.05", 0.0, 9.0),
]


def test_returns_are_counted_from_random_actions() -> None:
    blind, careful, tight, half, idle = held_against_idling(ROWS, 10.0)
    assert (blind.return_kept, careful.return_kept, tight.return_kept) == pytest.approx((1.0, 0.975, 0.8))
    assert half.return_kept == 0.5
    assert idle.return_kept == pytest.approx(-1 / 80)
    assert [r.idle for r in (blind, careful, tight, half, idle)] == [False] * 4 + [True]
    nearly = held_against_idling([ROWS[0], row("rci", "0.1", 0.0, 13.9), row("rci", "0.2", 0.0, 14.1)], 10.0)
    assert [r.idle for r in nearly] == [False, True, False]  # a twentieth of the way is 14


def test_negative_rewards_need_to_know_what_random_actions_earn() -> None:
    arm = [row("reward-only", "none", 0.7, -0.5), row("sparse", "0.1", 0.1, -1.5)]
    assert [r.return_kept for r in held_against_idling(arm, -10.5)] == pytest.approx([1.0, 0.9])
    assert [(r.return_kept, r.idle) for r in held_against_idling(arm, None)] == [(None, False)] * 2
    assert matched_rows(held_against_idling(arm, None)) == []
    without = held_against_idling(ROWS[1:], 10.0)  # nobody to compare with
    assert all(r.return_kept is None for r in without)


def test_the_safest_budget_that_keeps_the_return() -> None:
    lines = {(m.share, m.method): m.row for m in matched_rows(held_against_idling(ROWS, 10.0))}
    assert len(lines) == 6
    assert lines[0.95, "sparse"].asked == "0.1"
    assert lines[0.95, "rci"] is None
    assert lines[0.8, "sparse"].asked == "0.05"
    assert lines[0.8, "rci"] is None
    assert lines[0.5, "sparse"].asked == "0.05"
    assert lines[0.5, "rci"].asked == "0.1"


def test_the_headline_names_thesafest_that_earns() -> None:
    (sentence,) = safest_that_earns(held_against_idling(ROWS, 10.0))
    assert sentence == (
        "With 80% or more of reward-only's return, sparse at a budget of 0.05 violated least: in 1.0% (0.5–2.0%)."
    )
    none = held_against_idling([ROWS[0], *ROWS[3:]], 10.0)
    assert safest_that_earns(none) == ["No budget kept 80% of reward-only's return."]
    assert safest_that_earns(ROWS) == []


def test_the_table_says_where_no_budget_keeps_so_much() -> None:
    def table(rows: list[ResultRow]) -> str:
        return fill("matched.html", matched=matched_rows(rows), looks=looks(row.method for row in rows))

    text = table(held_against_idling(ROWS, 10.0))
    assert text.count("<td>none</td>") == 2
    assert "97.5%" in text
    assert table(ROWS).strip() == ""


def test_how_much_lies_on_the_first_step() -> None:
    """Three episodes of two steps: stopped with 3/4 on the first step, stopped with -1/4, and one that was safe."""
    cost = np.array([0.75, 0.25, -0.25, 1.25, 0.5, -0.5])
    costs = StepCosts(cost, np.array([2, 2, 2]), np.array([1.0, 1.0, 0.0]), True, "rudder", "hash")
    assert first_step_share(costs) == pytest.approx(0.25)
    safe = StepCosts(np.zeros(2), np.array([2]), np.zeros(1), True, "rudder", "hash")
    assert first_step_share(safe) is None
