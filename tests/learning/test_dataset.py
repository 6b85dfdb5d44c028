"""What is drawn for a batch."""

import jax
import numpy as np
import pytest
from conftest import ragged, sparse_costs

from rci.data.types import Transitions
from rci.labeling import label
from rci.learning.dataset import draw, measure_scaling, to_device

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
