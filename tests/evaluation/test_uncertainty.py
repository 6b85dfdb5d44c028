import numpy as np
import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.data.types import Labels, StepCosts
from rci.evaluation.uncertainty import error_by_spread, trust
from rci.redistribution import redistribute


def test_groups_by_hand():
    groups = error_by_spread(np.array([3.0, 1.0, 2.0, 4.0]), np.array([0.3, 0.1, 0.2, 0.6]), groups=2)
    assert groups == [[1.5, pytest.approx(0.15), 2], [3.5, pytest.approx(0.45), 2]]
    assert len(error_by_spread(np.ones(2), np.ones(2), groups=5)) == 2


def test_figures_by_hand():
    episodes = ragged([2, 3, 1])
    labels = Labels.for_episodes(episodes, [1, -1, 0])
    cost, spread = np.array([0.4, 0.6, 0.2, 0.0, -0.2, 1.0]), np.array([0.1, 0.3, 0.0, 0.1, 0.2, 0.0])
    costs = StepCosts(cost, [2, 3, 1], labels.cost, True, "x", labels.hash, spread=spread)
    predictions = [np.array([0.5, 0.7]), np.array([0.1, 0.1, 0.1]), np.array([0.0])]
    found = trust(costs, labels, predictions)
    assert found["mean_spread"] == pytest.approx(0.7 / 6)
    # the single step is left out: its cost is right whatever the models say
    assert found["episode_error"] == pytest.approx((0.3 + 0.1) / 2)
    assert found["episode_correlation"] == pytest.approx(1.0)  # spreads 0.2 and 0.1
    assert found["step_correlation"] is None
    exact = trust(costs, labels, predictions, np.array([0.5, 1.0, 0.2, 0.2, 0.0, 1.0]))
    assert exact["step_error"] == pytest.approx((0.1 + 0.1 + 0 + 0 + 0 + 0) / 6)


def test_what_has_no_spread_cannot_be_trusted_by_it():
    episodes = ragged([2, 3])
    labels = Labels.for_episodes(episodes, [1, -1])
    with pytest.raises(RciError, match="no spread: they are of a single model"):
        trust(redistribute(episodes, labels, "sparse"), labels, [])
    two = Labels.for_episodes(episodes, [1, -1], np.array([[1.0, 0.0], [0.0, 0.0]]), ("a", "b"))
    costs = redistribute(episodes, two, "sparse")
    with pytest.raises(RciError, match="one channel at a time"):
        trust(
            StepCosts(
                costs.cost,
                costs.lengths,
                two.cost,
                True,
                "x",
                two.hash,
                spread=np.abs(costs.cost),
                channels=("a", "b"),
            ),
            two,
            [],
        )
