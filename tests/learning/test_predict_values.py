import math
from dataclasses import replace

import numpy as np
import pytest
from conftest import ragged, sparse_costs

from rci.data.errors import RciError
from rci.data.types import Episodes, Labels
from rci.learning import fit_behaviour, learn, predict_values
from rci.learning.behaviour import Config
from rci.redistribution import redistribute


@pytest.fixture(scope="module")
def trained():
    """A hasty policy of observations [2, 3], and the observations that it was trained on."""
    arrays = ragged([4, 3, 5, 4, 6, 2], obs_size=6).arrays()
    arrays["obs"] = (5.0 + 3.0 * arrays["obs"]).reshape(-1, 2, 3)
    episodes = Episodes(**arrays)
    labels = Labels.for_episodes(episodes, [1, -1, 2, -1, 3, -1])
    behaviour = fit_behaviour(episodes, labels, 0, Config(hidden=8, updates=20))
    costs = redistribute(episodes, labels, "sparse")
    policy = learn(
        episodes,
        labels,
        costs,
        budget=0.1,
        behaviour=behaviour,
        method="bcq-lagrangian",
        updates=20,
        hidden=8,
        batch_size=8,
    )
    return policy, episodes


def test_values_at_the_first_states_are_those_that_training_ended_with(trained) -> None:
    policy, episodes = trained
    expected_return, expected_cost = predict_values(policy, episodes.obs[episodes.obs_offset[:-1]])
    assert expected_return.shape == expected_cost.shape == (6,)
    assert expected_return.mean() == pytest.approx(policy.info["predicted_return"], abs=1e-5)
    assert expected_cost.mean() == pytest.approx(policy.info["predicted_cost"], abs=1e-5)


def test_observations_come_in_any_leading_shape(trained) -> None:
    policy, episodes = trained
    rows = episodes.obs[:12]
    _, flat = predict_values(policy, rows.reshape(12, 6))
    for leading in ((12,), (3, 4), (2, 3, 2)):
        for value in predict_values(policy, rows.reshape(*leading, 2, 3)):
            assert value.shape == leading
        assert predict_values(policy, rows.reshape(*leading, 6))[1].ravel() == pytest.approx(flat, abs=1e-6)
    assert predict_values(policy, rows[0])[1] == pytest.approx(flat[0], abs=1e-6)


def test_a_cost_per_channel(trained) -> None:
    _, episodes = trained
    stops = np.array([1, -1, 2, -1, 3, -1])
    why = np.array([[1, 0], [0, 0], [0, 1], [0, 0], [1, 1], [0, 0]], float)
    labels = Labels.for_episodes(episodes, stops, why, ("near", "off"))
    behaviour = fit_behaviour(episodes, labels, 0, Config(hidden=8, updates=20))
    costs = sparse_costs(labels)
    budget = {"near": 0.1, "off": math.inf}
    policy = learn(
        episodes,
        labels,
        costs,
        budget=budget,
        behaviour=behaviour,
        method="bcq-lagrangian",
        updates=20,
        hidden=8,
        batch_size=8,
    )
    expected_return, expected_cost = predict_values(policy, episodes.obs[episodes.obs_offset[:-1]])
    assert (expected_return.shape, expected_cost.shape) == ((6,), (6, 2))
    told = policy.info["predicted_cost"]
    assert expected_cost.mean(axis=0) == pytest.approx([told["near"], told["off"]], abs=1e-5)
    assert policy.info["channels"] == ["near", "off"]
    assert policy.info["threshold"] == {"near": "0.1", "off": "inf"}
    assert policy.info["multiplier"]["off"] == 0.0
    assert {"multiplier near", "cost_estimate off", "cost_loss"} <= set(policy.info["history"][0])
    assert predict_values(policy, episodes.obs[:12].reshape(3, 4, 2, 3))[1].shape == (3, 4, 2)


def test_weights_alone_are_enough(trained) -> None:
    policy, episodes = trained
    bare = replace(policy, step=None)
    assert np.array_equal(predict_values(bare, episodes.obs), predict_values(policy, episodes.obs))


def test_other_observations_are_refused(trained) -> None:
    policy, _ = trained
    with pytest.raises(RciError, match="6 features, got shape \\(4, 5\\)"):
        predict_values(policy, np.zeros((4, 5)))
    with pytest.raises(RciError, match="not finite"):
        predict_values(policy, np.full((4, 6), np.nan))
