import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.data.errors import RciError
from rci.redistribution import redistribute
from rci.redistribution.methods import hazard
from rci.redistribution.methods.hazard import class_weight, focal_loss, head_targets, step_cost

MASK = jnp.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 1.0]])
COST = jnp.array([1.0, 0.0, 0.5])
LOGIT = jnp.log(jnp.array([3.0, 1.0, 1.0 / 3.0]))  # probabilities 0.75, 0.5, 0.25


def test_targets_by_hand():
    occurs, stop = np.moveaxis(np.asarray(head_targets(MASK, COST)), -1, 0)
    assert occurs.tolist() == [[1, 1, 0], [0, 0, 0], [0.5, 0.5, 0.5]]
    assert stop.tolist() == [[0, 1, 0], [0, 0, 0], [0, 0, 0.5]]


def test_focal_loss_by_hand():
    target = jnp.array([1.0, 1.0, 0.5])
    # (1 - 0.75)^2 (-log 0.75), (1 - 0.5)^2 (-log 0.5), (0.5 - 0.25)^2 (-0.5 log 0.25 - 0.5 log 0.75)
    expected = np.array([0.0625 * 0.287682, 0.25 * 0.693147, 0.0625 * 0.836988])
    assert focal_loss(LOGIT, target, 2.0) == pytest.approx(expected, abs=1e-6)


def test_focal_loss_without_focus_is_cross_entropy():
    target = jnp.array([1.0, 0.0, 0.3])
    p = np.array([0.75, 0.5, 0.25])
    y = np.asarray(target)
    expected = -(y * np.log(p) + (1 - y) * np.log(1 - p))
    assert focal_loss(LOGIT, target, 0.0) == pytest.approx(expected, abs=1e-6)


def test_class_weight_by_hand():
    # 0.25 * 0.5 + 0.75 * 0.5 in between
    assert class_weight(jnp.array([1.0, 0.0, 0.5]), 0.25) == pytest.approx([0.25, 0.75, 0.5])


@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_gradients_are_finite_where_probabilities_are_0_or_1(gamma):
    logit = jnp.array([-200.0, -200.0, 0.0, 200.0, 200.0])
    target = jnp.array([0.0, 1.0, 0.5, 0.0, 1.0])
    gradient = jax.grad(lambda x: focal_loss(x, target, gamma).sum())(logit)
    assert np.isfinite(gradient).all()
    assert gradient[1] < -0.9  # sure and wrong: the whole slope
    assert gradient[3] > 0.9


def test_step_cost_by_hand():
    assert step_cost(LOGIT[:2]) == pytest.approx(1.25)


def test_costs_are_probabilities_and_conserved_only_on_request(point_episodes, point_labels):
    free = redistribute(point_episodes, point_labels, "hazard", epochs=3)
    assert not free.return_equivalent
    assert 0 < free.cost.min() < free.cost.max() < 2
    exact = redistribute(point_episodes, point_labels, "hazard", epochs=1, conserve=True)
    assert exact.return_equivalent
    assert np.abs(exact.sums() - point_labels.cost).max() <= 1e-6


def test_it_learns_where_the_stops_are(point_episodes, point_labels):
    """With its settings for long training the stop is among the dearest steps of an episode."""
    costs = redistribute(
        point_episodes, point_labels, "hazard", epochs=60, patience=60, batch_size=16, learning_rate=3e-3
    )
    stopped = [c for c, s in zip(costs.per_episode(), point_labels.stopped) if s]
    safe = [c for c, s in zip(costs.per_episode(), point_labels.stopped) if not s]
    assert np.mean([c.mean() for c in stopped]) > 1.5 * np.mean([c.mean() for c in safe])
    assert np.mean([c[-1] > np.median(c) for c in stopped]) > 0.8


def test_bad_settings():
    for options, word in (
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"gamma": -1.0}, "gamma must be at least 0, got -1.0"),
        ({"gamma": float("nan")}, "gamma must be at least 0, got nan"),
        ({"alpha": 1.0}, "alpha must lie between 0 and 1, got 1.0"),
    ):
        with pytest.raises(RciError, match=word):
            hazard.Config(**options)
