"""What is drawn for a batch."""

import jax
import numpy as np
import pytest
from conftest import ragged, sparse_costs

from rci.data.types import Transitions
from rci.labeling import label
from rci.learning.dataset import cost_bounds, draw, measure_scaling, to_device

DRAWS = 8000


@pytest.fixture(scope="module")
def data():
    episodes = ragged([2, 10, 4])
    labels = label(episodes, {2: 0})  # three episodes of 2, 10 and 1 kept steps
    transitions = Transitions.build(episodes, labels, sparse_costs(labels))
    return to_device(transitions, measure_scaling(transitions))


def counts(data, what):
    drawn = np.asarray(draw(jax.random.key(0), data, DRAWS, what))
    return np.bincount(drawn, minlength=13) / DRAWS


def test_all_steps_alike(data):
    """8,000 draws: a standard error of 0.003, so 0.015 is five of them."""
    assert counts(data, "steps") == pytest.approx(np.full(13, 1 / 13), abs=0.015)


def test_all_episodes_alike(data):
    """8,000 draws: standard errors of at most 0.0053, so 0.027 is five of them."""
    expected = np.repeat([1 / 6, 1 / 30, 1 / 3], [2, 10, 1])
    assert counts(data, "episodes") == pytest.approx(expected, abs=0.027)


def test_what_is_to_come_is_what_is_left_of_the_episode():
    # two episodes, stopped and safe, of costs that sum to their labels
    cost = np.array([[0.6], [-0.1], [0.5], [0.4], [-0.4]])
    labels = np.array([[0.0], [0.0], [1.0], [0.0], [0.0]])
    low, high = cost_bounds(cost, labels, np.array([3, 2]))
    assert low[:, 0] == pytest.approx([0.0, -0.6, -0.5, 0.0, -0.4])
    assert high == pytest.approx(low + 1.0)


def test_costs_that_do_not_sum_to_labels_are_held_to_what_was_recorded():
    low, high = cost_bounds(np.array([[0.6], [0.5], [0.2]]), np.array([[0.0], [1.0], [0.0]]), np.array([2, 1]))
    assert low == pytest.approx(np.full((3, 1), 0.2))
    assert high == pytest.approx(np.full((3, 1), 1.1))


def test_the_bounds_of_sparse_costs_are_those_of_a_probability(data):
    assert np.asarray(data.cost_bounds[0]) == pytest.approx(np.zeros((13, 1)))
    assert np.asarray(data.cost_bounds[1]) == pytest.approx(np.ones((13, 1)))
