"""Estimates as plain data: chances within [0, 1], verdicts in words, JSON and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rci.data.errors import RciError
from rci.data.risk.estimates import DEPLOY, REFUSE, UNSURE, Interval, PolicyEstimate, Support
from rci.data.risk.shares import clopper_pearson

GOOD = PolicyEstimate(
    stop=Interval(0.02, 0.0, 0.04),
    earned=Interval(3.0, 2.5, 3.5),
    methods={"models": Interval(0.02, 0.0, 0.04), "weighted": Interval(0.5, 0.0, 1.0)},
    support=Support(0.1, 0.05, 0.06, 30.0),
    logged_stop=Interval(0.5, 0.4, 0.6),
    logged_earned=Interval(2.0, 1.9, 2.1),
    episodes=300,
    level=0.9,
    at_least=0.0,
    at_most=0.03,
)


@pytest.mark.parametrize(
    ("stop", "bounds", "outside", "word"),
    [
        (Interval(0.02, 0.0, 0.04), (0.0, 0.03), 0.1, DEPLOY),
        (Interval(0.02, 0.0, 0.06), (0.0, 0.05), 0.1, DEPLOY),  # the budget itself is allowed
        (Interval(0.02, 0.0, 0.07), (0.0, 0.06), 0.1, UNSURE),
        (Interval(0.02, 0.0, 0.04), (0.0, 0.03), 0.6, UNSURE),  # off the data nobody knows
        (Interval(0.3, 0.04, 0.5), (0.06, 0.4), 0.1, REFUSE),
        (Interval(0.3, 0.04, 0.5), (0.06, 0.4), 0.9, REFUSE),
    ],
)
def test_the_verdict_follows_the_bounds_and_the_support(stop, bounds, outside, word):
    support = GOOD.support._replace(outside=outside)
    found = replace(GOOD, stop=stop, at_least=bounds[0], at_most=bounds[1], support=support)
    verdict = found.verdict(0.05)
    assert verdict.word == word
    assert len(verdict.reasons) >= 3
    assert bool(verdict.remedies) == (word != DEPLOY)


def test_reasons_name_the_figures_and_a_policy_that_is_worse_than_the_logs():
    text = ", ".join(GOOD.verdict(0.05).reasons)
    for figures in ("50% of 300 episodes", "between 0.0% and 4.0%", "at most 3.0%", "10% of its steps"):
        assert figures in text
    assert "worse" not in text
    worse = replace(GOOD, stop=Interval(0.7, 0.6, 0.8), at_least=0.62, at_most=0.78)
    assert worse.worse_than_logs
    assert "it is worse than the logs" in worse.verdict(0.05).reasons
    assert "with 90% confidence that is at least 62.0%, where 5.0% are allowed" in worse.verdict(0.05).reasons


def test_an_estimate_survives_json():
    assert PolicyEstimate.from_table(json.loads(json.dumps(GOOD.as_table()))) == GOOD


@pytest.mark.parametrize("stop", [(-0.9, -1.0, -0.8), (0.5, 0.6, 0.7), (0.5, 0.4, 1.2), (float("nan"), 0, 1)])
def test_no_chance_lies_outside_of_its_interval_or_of_0_and_1(stop):
    with pytest.raises(RciError, match="from 0 to 1"):
        replace(GOOD, stop=Interval(*stop))


@pytest.mark.parametrize("bounds", [(0.03, 0.04), (0.0, 0.01), (-0.1, 0.03), (0.0, float("nan"))])
def test_bounds_lie_on_either_side_of_the_estimate(bounds):
    with pytest.raises(RciError, match="on either side of the estimate"):
        replace(GOOD, at_least=bounds[0], at_most=bounds[1])


def test_an_estimate_of_an_earlier_version_rests_on_its_interval():
    table = GOOD.as_table()
    del table["at_least"], table["at_most"]
    assert PolicyEstimate.from_table(table) == replace(GOOD, at_least=0.0, at_most=0.04)


@pytest.mark.parametrize("budget", ["P30", "proximity=0.05,road=0.1"])
def test_a_budget_that_is_no_chance_is_refused(budget):
    with pytest.raises(RciError, match="chance of a stop"):
        GOOD.verdict(budget)


def test_no_budget_allows_everything():
    assert GOOD.verdict("inf").word == DEPLOY


def test_shares_of_none_and_of_all():
    # 1 - 0.05^(1/10) and its mirror image
    assert clopper_pearson(0, 10, 0.9) == pytest.approx((0.0, 0.25887), abs=1e-5)
    assert clopper_pearson(10, 10, 0.9) == pytest.approx((0.74113, 1.0), abs=1e-5)
