"""Opinions of one chance, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rci.learning.judging.combination import (
    Opinion,
    angle,
    chance,
    checked,
    combined,
    interval,
    one_sided,
    spread_of_methods,
    unshared,
    widened,
)


def test_angles_of_chances_and_back():
    assert angle(0.0) == 0.0
    assert angle(0.5) == pytest.approx(math.pi / 4)
    assert angle(1.0) == pytest.approx(math.pi / 2)
    assert chance(math.pi / 6) == pytest.approx(0.25)
    assert chance(-1.0) == 0.0
    assert chance(9.0) == 1.0


def test_a_share_of_n_has_the_error_that_the_angle_promises():
    # 20,000 draws of 100 episodes at 0.3: the deviation of the angle is 1 / 20 within 3%, false alarms below 1e-8.
    draws = np.random.default_rng(0).binomial(100, 0.3, 20_000) / 100
    assert angle(draws).std() == pytest.approx(0.05, rel=0.03)


def test_methods_that_agree_have_no_spread():
    assert spread_of_methods(np.array([0.5, 0.5, 0.5]), np.array([0.1, 0.2, 0.1])) == 0.0


def test_the_spread_of_two_methods():
    # w = 100 each, mean 0.5, Q = 2 * 100 * 0.04 = 8; (8 - 1) / (200 - 20000 / 200) = 0.07
    assert spread_of_methods(np.array([0.3, 0.7]), np.array([0.1, 0.1])) == pytest.approx(0.07)


def test_the_mean_of_two_methods_that_agree_is_a_little_sharper_than_either():
    # half of the squared error is shared: 0.5 * 0.01 + 0.5 * (0.25 + 0.25) * 0.01
    found = combined({"a": Opinion(0.5, 0.1), "b": Opinion(0.5, 0.1)})
    assert found == pytest.approx((0.5, math.sqrt(0.0075)))


def test_the_mean_of_two_methods_that_differ_is_wider():
    # weights of a half; 0.0075 as above, and a half of the spread 0.07
    found = combined({"a": Opinion(0.3, 0.1), "b": Opinion(0.7, 0.1)})
    assert found == pytest.approx((0.5, math.sqrt(0.0425)))


def test_one_method_is_taken_as_it_is():
    assert combined({"a": Opinion(0.4, 0.1)}) == pytest.approx((0.4, 0.1))


def test_a_sure_method_outweighs_an_unsure_one():
    assert combined({"a": Opinion(0.2, 0.01), "b": Opinion(0.3, 1.0)}).angle == pytest.approx(0.2, abs=1e-4)


def test_errors_add_up_as_squares():
    assert widened(Opinion(0.4, 0.3), 0.4) == pytest.approx((0.4, 0.5))


def test_a_method_that_was_wrong_is_moved_half_the_way_and_trusted_less():
    assert checked(Opinion(0.4, 0.3), -0.4) == pytest.approx((0.6, 0.5))
    assert checked(Opinion(0.4, 0.3), 0.0) == pytest.approx((0.4, 0.3))


def test_what_all_methods_get_wrong_alike_is_the_controls():
    assert unshared({"a": -0.6, "b": -0.5}) == pytest.approx({"a": -0.1, "b": 0.0})
    assert unshared({"a": 0.1, "b": 0.3}) == pytest.approx({"a": 0.0, "b": 0.2})
    assert unshared({"a": 0.1, "b": -0.3}) == {"a": 0.1, "b": -0.3}
    assert unshared({"a": 0.0, "b": -0.3}) == {"a": 0.0, "b": -0.3}
    assert unshared({}) == {}


@pytest.mark.parametrize("where", [-0.2, 0.0, 0.3, 0.8, 1.5707, 2.0])
@pytest.mark.parametrize("error", [0.0, 0.05, 0.5, 5.0])
def test_intervals_stay_within_0_and_1(where, error):
    found = interval(Opinion(where, error), 0.9)
    assert 0.0 <= found.low <= found.estimate <= found.high <= 1.0


def test_each_of_two_bounds_holds_at_its_level():
    # 1.2816 errors on either side of pi / 4: one draw in ten is beyond each
    low, high = one_sided(Opinion(math.pi / 4, 0.1), 0.9)
    assert (low, high) == pytest.approx((math.sin(0.65724) ** 2, math.sin(0.91355) ** 2), abs=1e-4)
    assert one_sided(Opinion(math.pi / 4, 0.1), 0.4) == pytest.approx((0.5, 0.5))


def test_an_interval_by_hand():
    # 1.6449 errors on either side of pi / 4
    found = interval(Opinion(math.pi / 4, 0.1), 0.9)
    assert found == pytest.approx((0.5, math.sin(0.62091) ** 2, math.sin(0.94989) ** 2), abs=1e-4)
