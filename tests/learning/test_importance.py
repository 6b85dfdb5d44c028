"""Weighed episodes, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rci.learning.judging.importance import (
    WIDTH,
    agreeing,
    cumulative_weights,
    doubly_robust_stop,
    effective_count,
    log_ratio,
    normalised,
    padded,
    weigh,
    weighted_stop,
)

LENGTHS = np.array([2, 1])


def test_padding_with_a_value_and_with_the_last_one():
    values = np.array([1.0, 2.0, 3.0])
    assert padded(values, LENGTHS).tolist() == [[1.0, 2.0], [3.0, 0.0]]
    assert padded(values, LENGTHS, None).tolist() == [[1.0, 2.0], [3.0, 3.0]]


def test_the_ratio_of_an_action_that_the_policy_would_take():
    # at its middle the kernel has the density 1 / (WIDTH sqrt(2 pi)); b has 1
    found = log_ratio(np.array([[0.3]]), np.array([[0.3]]), np.zeros(1))
    assert found == pytest.approx([-math.log(WIDTH * math.sqrt(2 * math.pi))])


def test_the_ratio_of_another_action_is_limited():
    assert log_ratio(np.array([[1.0]]), np.array([[-1.0]]), np.zeros(1)) == [-3.0]
    assert log_ratio(np.array([[0.0]]), np.array([[0.0]]), np.array([-50.0])) == [3.0]


def test_weights_are_products_along_an_episode():
    found = cumulative_weights(np.log([[2.0, 0.5], [1.0, 4.0]]))
    # step 0: 2 and 1; step 1: 1 and 4; each up to a factor
    assert found[:, 0] / found[1, 0] == pytest.approx([2.0, 1.0])
    assert found[:, 1] / found[0, 1] == pytest.approx([1.0, 4.0])


def test_a_long_episode_neither_overflows_nor_vanishes():
    found = cumulative_weights(np.full((3, 2000), 3.0))
    assert np.isfinite(found).all()
    assert found[:, -1] == pytest.approx([1.0, 1.0, 1.0])


def test_the_weighed_chance_of_a_stop():
    # two episodes; the first, of weight 3, stops at once, the second of weight 1 stops one step later
    weights = np.array([[3.0, 3.0], [1.0, 1.0]])
    stopped = np.array([[1.0, 0.0], [0.0, 1.0]])
    share = normalised(weights, np.ones(2))
    assert weighted_stop(share, stopped) == pytest.approx(1.0)
    assert weighted_stop(share, np.array([[1.0, 0.0], [0.0, 0.0]])) == pytest.approx(0.75)
    assert weighted_stop(share, np.array([[0.0, 0.0], [0.0, 1.0]])) == pytest.approx(0.25)


def test_without_weights_it_is_the_share_of_the_logs():
    share = normalised(np.ones((4, 3)), np.ones(4))
    assert weighted_stop(share, np.eye(4, 3)) == pytest.approx(0.75)


def test_an_episode_that_was_not_drawn_has_no_share():
    share = normalised(np.ones((2, 1)), np.array([0.0, 2.0]))
    assert share.tolist() == [[0.0], [1.0]]


def test_a_critic_without_errors_is_left_alone():
    share = normalised(np.ones((2, 2)), np.ones(2))
    assert doubly_robust_stop(share, np.ones(2), np.zeros((2, 2)), np.array([0.2, 0.4])) == pytest.approx(0.3)


def test_errors_of_the_critic_are_put_right():
    # V(s0) = 0 for both, but one of two episodes stopped: its error is 1
    share = normalised(np.ones((2, 1)), np.ones(2))
    assert doubly_robust_stop(share, np.ones(2), np.array([[1.0], [0.0]]), np.zeros(2)) == pytest.approx(0.5)


def test_estimates_stay_within_0_and_1():
    share = normalised(np.ones((2, 1)), np.ones(2))
    assert doubly_robust_stop(share, np.ones(2), np.full((2, 1), -5.0), np.zeros(2)) == 0.0
    assert doubly_robust_stop(share, np.ones(2), np.full((2, 1), 5.0), np.zeros(2)) == 1.0


def test_how_many_episodes_weights_are_worth():
    assert effective_count(np.ones(7)) == pytest.approx(7.0)
    assert effective_count(np.array([1.0, 0.0, 0.0])) == pytest.approx(1.0)
    assert effective_count(np.array([3.0, 1.0])) == pytest.approx(1.6)


def test_resampled_estimates_vary_as_shares_do():
    stopped = np.zeros((100, 1))
    stopped[:30] = 1.0
    plain, robust = weigh(np.ones((100, 1)), stopped, stopped, np.zeros(100), np.random.default_rng(0))
    assert plain.estimate == robust.estimate == pytest.approx(0.3)
    # sqrt(0.3 * 0.7 / 100) = 0.046; of 40 draws it is known to 11%, so that 40% is 3.5 deviations off
    assert plain.resampled.std() == pytest.approx(0.0458, rel=0.4)


def test_episodes_that_a_policy_agrees_with():
    done = np.zeros((20, 1))
    wants = np.zeros((20, 1))
    wants[0] = 1.0  # one step in ten of the first episode
    wants[10:12] = 1.0  # two of the second
    assert agreeing(done, wants, np.array([10, 10])).tolist() == [True, False]
