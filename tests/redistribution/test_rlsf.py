import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.data.errors import RciError
from rci.redistribution import redistribute
from rci.redistribution.methods import rlsf
from rci.redistribution.methods.rlsf import balanced_weights, classifier_loss, segment_targets, step_cost

MASK = jnp.array([[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]])
COST = jnp.array([1.0, 0.0, 0.5])


def test_segment_targets_by_hand():
    last_two = [[0, 1, 1, 0], [0, 0, 0, 0], [0.5, 0, 0, 0]]  # the third episode is shorter than the segment
    assert segment_targets(MASK, COST, 2).tolist() == last_two
    whole = [[1, 1, 1, 0], [0, 0, 0, 0], [0.5, 0, 0, 0]]
    assert segment_targets(MASK, COST, 0).tolist() == whole


def test_balanced_weights_by_hand():
    # three unsafe steps share a half, five safe ones the other
    weight = balanced_weights(segment_targets(MASK, COST, 2), MASK)
    a, b = 1 / 6, 1 / 10
    expected = np.array([[b, a, a, 0], [b, b, b, b], [a, 0, 0, 0]])
    assert np.asarray(weight) == pytest.approx(expected)


def test_a_batch_of_one_class_has_finite_weights():
    weight = balanced_weights(jnp.zeros((3, 4)), MASK)
    assert np.asarray(weight) == pytest.approx(np.asarray(MASK) / 16)


def test_classifier_loss_by_hand():
    logit = jnp.log(jnp.array([[3.0, 1.0 / 3.0]]))  # probabilities 0.75 and 0.25
    target, weight = jnp.array([[1.0, 0.5]]), jnp.array([[0.5, 0.25]])
    expected = 0.5 * 0.287682 + 0.25 * 0.836988
    assert classifier_loss(logit, target, weight) == pytest.approx(expected, abs=1e-6)
    far = jax.grad(lambda x: classifier_loss(x, target, weight))(jnp.array([[-200.0, 200.0]]))
    assert np.asarray(far) == pytest.approx(np.array([[-0.5, 0.125]]))


def test_step_cost_by_hand():
    assert step_cost(jnp.array([-0.1, 0.0, 0.1])).tolist() == [0, 0, 1]


def test_costs_are_0_or_1_and_conserved_only_on_request(point_episodes, point_labels):
    free = redistribute(point_episodes, point_labels, "rlsf", epochs=3)
    assert not free.return_equivalent
    assert set(np.unique(free.cost)) == {0.0, 1.0}  # balanced: neither class is forgotten
    exact = redistribute(point_episodes, point_labels, "rlsf", epochs=1, conserve=True)
    assert exact.return_equivalent
    assert np.abs(exact.sums() - point_labels.cost).max() <= 1e-6


def test_costs_lie_before_the_stops(point_episodes, point_labels):
    costs = redistribute(
        point_episodes, point_labels, "rlsf", epochs=40, patience=40, batch_size=16, segment=5
    )
    stopped = [c for c, s in zip(costs.per_episode(), point_labels.stopped) if s]
    safe = [c for c, s in zip(costs.per_episode(), point_labels.stopped) if not s]
    assert np.mean([c[-5:].mean() for c in stopped]) > 0.7
    assert np.mean([c[:-5].mean() for c in stopped if len(c) > 5]) < 0.4
    assert np.mean([c.mean() for c in safe]) < 0.3


def test_bad_settings():
    for options, word in (
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"segment": -1}, r"segment must be at least 0 \(0: the whole episode\), got -1"),
    ):
        with pytest.raises(RciError, match=word):
            rlsf.Config(**options)
