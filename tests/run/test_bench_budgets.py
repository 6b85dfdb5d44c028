"""The study of one training for every budget: what its rows say."""

import pytest

from rci.data.errors import RciError
from rci.studies.budgets import (
    SPARSE,
    Cell,
    budget_table,
    jobs_of,
    key_of,
    parse_costs,
    study_config,
    verdicts,
)


def row(seed, budget, rate, earned, until=None):
    return {
        "seed": seed,
        "budget": budget,
        "violation_rate": rate,
        "mean_return": earned,
        "mean_return_until_stop": earned if until is None else until,
        "expected_violation": rate,
    }


ROWS = [
    row(0, "0.05", 0.02, 80.0), row(1, "0.05", 0.08, 84.0),
    row(0, "0.2", 0.10, 96.0, 90.0), row(1, "0.2", 0.20, 98.0, 91.0),
    row(0, "inf", 0.70, 100.0, 40.0), row(1, "inf", 0.80, 100.0, 50.0),
]  # fmt: skip


def test_what_the_rows_say():
    found = verdicts(ROWS, 0.0)
    assert found[0] == (
        "at 95% or more of the return: a budget of 0.2 keeps 97.0% of it and violates in 15.0% (seeds up to 20.0%), "
        "where it is 75.0% without: 5.0 times fewer."
    )
    assert found[1].startswith(
        "until the first violation that earns 90.5, against 45 without (Welch, p = 0.0"
    )
    assert found[2].startswith(
        "at 80% or more of the return: a budget of 0.05 keeps 82.0% of it and violates in 5.0%"
    )
    # 0.02 of 0.05 is kept, 0.08 is not; both of 0.2 are: (0.4 + 1.6 + 0.5 + 1) / 4 of what was asked.
    assert found[-1] == "budgets of 5%, 10% and 20%: kept in 3 of 4; on average 88% of them used."


def test_returns_count_from_the_floor():
    # From -100 on, 80 is 180 of 200.
    assert "a budget of 0.05 keeps 91.0% of it" in verdicts(ROWS, -100.0)[2]
    assert verdicts([row(0, "0.05", 0.0, 10.0), row(0, "inf", 0.5, 100.0)], 0.0) == [
        "no budget keeps 95% of the return without one.",
        "no budget keeps 80% of the return without one.",
        "budgets of 5%, 10% and 20%: kept in 1 of 1; on average 0% of them used.",
    ]


@pytest.mark.parametrize("rows", [[], ROWS[:4], ROWS[4:]])
def test_nothing_is_said_without_both_sides(rows):
    assert verdicts(rows, 0.0) == []


def test_the_table_has_a_line_for_each_budget():
    assert budget_table(ROWS).splitlines()[2:] == [
        "| 0.05 | 5.0% | 2.0% to 8.0% | 5.0% | 82 | 82 | 1 of 2 |",
        "| 0.2 | 15.0% | 10.0% to 20.0% | 15.0% | 97 | 90.5 | 2 of 2 |",
        "| inf | 75.0% | 70.0% to 80.0% | 75.0% | 100 | 45 |  |",
    ]


def test_other_step_costs_share_the_logs_and_nothing_else(tmp_path):
    config, cell = study_config("point"), Cell(3, 0.1)
    prefix = parse_costs("rudder:loss=prefix")
    labels, costs = (
        {job.name: job for job in jobs_of(3, [cell], config, 10, tmp_path, each)} for each in (SPARSE, prefix)
    )
    shared = {name for name in labels if name.split("-")[0] in ("episodes", "labels", "behaviour")}
    assert set(labels) & set(costs) == shared
    (learn,) = (job for job in costs.values() if job.stage == "learn")
    assert learn.inputs["costs"] == costs["costs-rudder+loss=prefix-seed3"].output
    assert costs["costs-rudder+loss=prefix-seed3"].settings == {"method": "rudder", "loss": "prefix"}
    keys = {key_of(cell, config, 10, each) for each in (SPARSE, prefix, parse_costs("rudder"))}
    assert len(keys) == 3
    assert key_of(cell, config, 10) == key_of(cell, config, 10, parse_costs("sparse"))


@pytest.mark.parametrize(
    ("text", "message"), [("rudder,uniform", "one redistributor"), ("rudde", "Did you mean 'rudder'")]
)
def test_step_costs_that_make_no_sense(text, message):
    with pytest.raises(RciError, match=message):
        parse_costs(text)
