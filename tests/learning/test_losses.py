"""Every equation with numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.learning.losses import (
    bellman_target,
    best_of,
    constrained_value,
    cost_continues,
    expectile_error,
    gaussian_kl,
    hazard_target,
    hinged_value,
    joint_cross_entropy,
    joint_squared_error,
    reward_continues,
    soft_minimum,
    soft_update,
    squared_error,
    weighted_squared_error,
    within_range,
)

TERMINATED, STOPPED = jnp.array([0.0, 1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, 1.0, 0.0])


def test_only_termination_ends_the_reward():
    assert reward_continues(TERMINATED, STOPPED, stop_ends_reward=False).tolist() == [1, 0, 1, 1]
    assert reward_continues(TERMINATED, STOPPED, stop_ends_reward=True).tolist() == [1, 0, 0, 1]


def test_whatever_ends_the_episode_ends_the_cost():
    assert cost_continues(jnp.array([0.0, 1.0])).tolist() == [1, 0]


def test_bellman_target():
    target = bellman_target(jnp.array([1.0, 2.0]), 0.5, jnp.array([1.0, 0.0]), jnp.array([4.0, 4.0]))
    assert target.tolist() == [3.0, 2.0]


def test_an_end_ends_every_channel():
    cost, value = jnp.array([[0.0, 1.0], [0.5, 0.0]]), jnp.array([[4.0, 2.0], [4.0, 2.0]])
    assert bellman_target(cost, 0.5, jnp.array([1.0, 0.0]), value).tolist() == [[2.0, 2.0], [0.5, 0.0]]


def test_fractional_and_negative_costs_count():
    target = bellman_target(jnp.array([0.3, -0.2]), 1.0, jnp.array([1.0, 1.0]), jnp.array([0.25, 0.25]))
    assert np.asarray(target) == pytest.approx([0.55, 0.05])


def test_soft_minimum():
    assert soft_minimum([jnp.array([1.0]), jnp.array([5.0])], 0.75).tolist() == [2.0]
    assert soft_minimum([jnp.array([5.0]), jnp.array([1.0]), jnp.array([3.0])], 0.75).tolist() == [2.0]


def test_the_multiplier_prices_cost():
    q, c = jnp.array([[3.0, 2.0]]), jnp.array([[[1.0], [0.25]]])
    dear, free = (constrained_value(q, c, jnp.array([multiplier])) for multiplier in (2.0, 0.0))
    assert dear.tolist() == [[1.0, 1.5]]
    assert best_of(dear, q, c)[0].tolist() == [2.0]
    assert best_of(free, q, c)[1].tolist() == [[1.0]]


def test_each_channel_has_its_price():
    q = jnp.array([[3.0, 2.5]])
    c = jnp.array(
        [[[1.0, 0.0], [0.0, 0.5]]]
    )  # the first candidate costs in one channel, the second in the other
    for multiplier, values, best in (
        ([2.0, 1.0], [1.0, 2.0], [0.0, 0.5]),
        ([0.0, 4.0], [3.0, 0.5], [1.0, 0.0]),
    ):
        value = constrained_value(q, c, jnp.array(multiplier))
        assert value.tolist() == [values]
        assert best_of(value, c)[0].tolist() == [best]


def test_joint_squared_error_sums_the_means():
    twin = jnp.array([1.0, 3.0]), jnp.array([0.0, 0.0])
    assert joint_squared_error(twin, jnp.array([0.0, 1.0])) == pytest.approx((1 + 4) / 2 + (0 + 1) / 2)


def test_squared_errors_of_channels_add_up():
    prediction, target = jnp.array([[1.0, 2.0], [0.0, 0.0]]), jnp.array([[0.0, 0.0], [1.0, 0.0]])
    assert squared_error(prediction, target) == pytest.approx((1 + 4 + 1 + 0) / 2)
    assert joint_squared_error((prediction, target), target) == pytest.approx(3.0)


def test_no_gradient_reaches_a_target():
    gradient = jax.grad(lambda y: joint_squared_error((jnp.ones(2), jnp.ones(2)), y))(jnp.zeros(2))
    assert gradient.tolist() == [0.0, 0.0]


def test_gaussian_kl():
    assert gaussian_kl(jnp.zeros((1, 2)), jnp.zeros((1, 2))) == 0
    # one dimension with mean 1 and deviation e: (e^2 + 1 - 1) / 2 - 1
    assert gaussian_kl(jnp.ones((1, 1)), jnp.ones((1, 1))) == pytest.approx(np.exp(2) / 2 - 1)


def test_soft_update():
    assert soft_update(jnp.array(1.0), jnp.array(3.0), 0.25) == 1.5


def test_weighted_squared_error_by_hand():
    prediction = jnp.array([[[1.0, 2.0], [0.0, 0.0]], [[5.0, 5.0], [3.0, 0.0]]])
    weight = jnp.array([[1.0, 0.5], [0.0, 0.5]])
    # errors 1 + 4, 0, whatever, 9; weights 1, 0.5, 0, 0.5
    assert weighted_squared_error(prediction, jnp.zeros((2, 2, 2)), weight) == pytest.approx((5.0 + 4.5) / 2)


def test_within_range_by_hand():
    value = jnp.array([[-2.0, 0.5], [0.25, 3.0]])
    assert within_range(value, jnp.array([-1.0, 0.0]), jnp.array([1.0, 2.0])).tolist() == [
        [-1.0, 0.5],
        [0.25, 2.0],
    ]
    assert within_range(value, 0.0, 1.0).tolist() == [[0.0, 0.5], [0.25, 1.0]]


def test_the_target_of_a_hazard_is_the_label_at_a_stop_and_what_lies_ahead_elsewhere():
    label, ahead = jnp.array([[1.0, 0.0], [0.0, 0.0]]), jnp.array([[0.3, 0.4], [0.5, 0.6]])
    found = hazard_target(label, jnp.array([1.0, 0.0]), ahead)
    assert np.asarray(found) == pytest.approx(np.array([[1.0, 0.0], [0.5, 0.6]]))


def test_a_cost_that_is_a_chance_leaves_the_rest_to_what_lies_ahead():
    """0.2 + 0.8 * 0.5 before a stop; at a stop the cost alone; a certain cost leaves nothing."""
    cost, ahead = (
        jnp.array([[0.2, 0.0], [0.7, 0.1], [1.0, 0.5]]),
        jnp.array([[0.5, 0.3], [0.9, 0.9], [0.4, 1.0]]),
    )
    found = hazard_target(cost, jnp.array([0.0, 1.0, 0.0]), ahead)
    assert np.asarray(found) == pytest.approx(np.array([[0.6, 0.3], [0.7, 0.1], [1.0, 1.0]]))


def test_cross_entropy_by_hand():
    """Two critics, chances 1/2 and 3/4, target 1 and 0: -log(1/2) - log(3/4) and -log(1/2) - log(1/4), halved."""
    logits = jnp.log(jnp.array([1.0, 3.0]))
    critics = [jnp.full((2, 1), logits[0]), jnp.full((2, 1), logits[1])]
    target = jnp.array([[1.0], [0.0]])
    expected = (2 * np.log(2) - np.log(3 / 4) - np.log(1 / 4)) / 2
    assert float(joint_cross_entropy(critics, target)) == pytest.approx(expected, rel=1e-6)
    slope = jax.grad(lambda y: joint_cross_entropy(critics, y))(target)
    assert not np.asarray(slope).any()  # no gradient flows into the target


def test_expectile_by_hand():
    """Targets 1 above and 1 below, expectile 0.2: 0.2 * 1 and 0.8 * 1, and the value that is best lies low."""
    value, target = jnp.zeros((2, 1)), jnp.array([[1.0], [-1.0]])
    assert float(expectile_error(value, target, 0.2)) == pytest.approx(0.5)
    # 0.2 (1 - v) = 0.8 (v + 1)  ->  v = -0.6
    slope = jax.grad(lambda v: expectile_error(jnp.full((2, 1), v), target, 0.2))(-0.6)
    assert float(slope) == pytest.approx(0.0, abs=1e-6)


def test_a_hinge_prices_what_is_over_the_threshold():
    """Thresholds 0.1 and 0.5: over by 0.2 and not at all, then by 0.3 and 0.1; a price of 10."""
    cost = jnp.array([[0.3, 0.4], [0.4, 0.6]])
    found = hinged_value(jnp.array([5.0, 5.0]), cost, jnp.array([0.1, 0.5]), 10.0)
    assert np.asarray(found) == pytest.approx([3.0, 1.0], rel=1e-5)
