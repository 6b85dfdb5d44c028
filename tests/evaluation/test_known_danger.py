"""What is possible when the danger is known: points, the ruler that they make, and shares of the way. By hand."""

from __future__ import annotations

import pytest

from rci.data.errors import RciError
from rci.evaluation.reference import merit, possible_at, reference_points, ruler, share_of_way


def row(driver, price, seed, violations, mean_return, until=0.0, median=None):
    return {
        "driver": driver, "price": price, "seed": seed, "episodes": 100, "violations": violations,
        "violation_rate": violations / 100, "mean_return": mean_return, "mean_return_until_stop": until,
        "median_first_violation": median,
    }  # fmt: skip


ROWS = [
    row("random", None, 0, 0, 10.0),
    row("blind", 0.0, 0, 60, 90.0, 50.0, 30.0),
    row("informed", 5.0, 0, 4, 80.0, 79.0, 60.0),
    row("blind", 0.0, 1, 40, 110.0, 70.0, 50.0),
    row("informed", 5.0, 1, 0, 84.0, 84.0),
]


def test_points_are_means_over_seeds():
    random, blind, informed = reference_points(ROWS)
    assert (random.driver, random.price, random.seeds, random.violation_rate) == ("random", None, 1, 0.0)
    assert (blind.seeds, blind.violation_rate, blind.mean_return) == (2, 0.5, 100.0)
    assert (blind.return_low, blind.return_high, blind.mean_return_until_stop) == (90.0, 110.0, 60.0)
    assert blind.median_first_violation == 40.0
    assert informed.violation_rate == pytest.approx(0.02)
    assert 0.005 < informed.violation_low < 0.02 < informed.violation_high < 0.06  # 4 of 200
    assert informed.median_first_violation == 60.0  # of those that violated


def test_merit_by_hand():
    assert merit(55.0, 0.1, 10.0, 100.0) == pytest.approx(0.5 - 0.1)
    assert merit(-2.0, 0.0, -10.0, -1.0) == pytest.approx(8 / 9)  # returns may be negative


def test_the_share_of_the_way():
    measure = ruler(reference_points(ROWS))
    assert measure.best.price == 5.0
    assert (measure.random_return, measure.blind_return) == (10.0, 100.0)
    best = 72 / 90 - 0.02  # (82 - 10) / (100 - 10), less 2%
    reward_only = (100.0, 0.5)
    assert share_of_way(measure, reward_only, reward_only) == 0.0
    assert share_of_way(measure, (82.0, 0.02), reward_only) == pytest.approx(1.0)
    assert share_of_way(measure, (91.0, 0.2), reward_only) == pytest.approx((0.7 - 0.5) / (best - 0.5))
    assert share_of_way(measure, (10.0, 0.0), reward_only) < 0  # who never moves has come no way at all
    assert share_of_way(measure, (82.0, 0.02), (100.0, 0.01)) is None  # there is no way to go


def test_what_is_possible_at_a_return():
    measure = ruler(reference_points(ROWS))
    assert possible_at(measure, 50.0) == pytest.approx(0.02)  # the safest driver earns more than that
    assert possible_at(measure, 91.0) == pytest.approx(0.26)  # halfway between 82 and 100
    assert possible_at(measure, 101.0) is None


def test_no_ruler_without_its_drivers():
    assert ruler(reference_points(ROWS[:2])) is None
    assert ruler([]) is None
    worse = [row("random", None, 0, 0, 95.0), *ROWS[1:3]]
    with pytest.raises(RciError, match="no more than random actions"):
        ruler(reference_points(worse))
