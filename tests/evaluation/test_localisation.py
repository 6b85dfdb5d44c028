import numpy as np
import pytest
from conftest import ragged
from scipy.stats import spearmanr

from rci.data.errors import RciError
from rci.data.types import Labels, StepCosts
from rci.evaluation.localisation import last_moments, localise, mass_share, rank_correlation, rise
from rci.redistribution import redistribute


def test_rank_correlation_is_spearmans():
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, two = rng.integers(0, 6, 12), rng.normal(size=12)
        assert rank_correlation(one, two) == pytest.approx(spearmanr(one, two).statistic)
    assert rank_correlation(np.ones(4), np.arange(4)) == 0.0
    assert rank_correlation(np.array([3.0]), np.array([1.0])) == 0.0


def test_shares_by_hand():
    cost = np.array([0.2, -0.5, 0.6, 0.2])
    assert mass_share(cost, slice(-2, None)) == pytest.approx(0.8)
    assert mass_share(cost, slice(0, 1)) == pytest.approx(0.2)
    assert mass_share(-np.abs(cost), slice(0, 1)) == 0.0
    assert rise(np.array([0.2, 0.5, 0.4])) == pytest.approx([0.2, 0.3, -0.1])
    assert last_moments(0.2) == 5
    assert last_moments(4.0) == 1
    assert last_moments(None) == 5


def test_all_figures_by_hand():
    episodes = ragged([3, 2])
    labels = Labels.for_episodes(episodes, [2, -1])
    cost = np.array([0.5, -0.2, 0.7, 0.3, -0.3])
    costs = StepCosts(cost, [3, 2], labels.cost, True, "by hand", labels.hash)
    risk = np.array([0.1, 0.4, 1.0, 0.2, 0.0])
    figures = localise(costs, labels, risk, window=1)
    assert figures["time_correlation"] == pytest.approx(0.5)  # ranks 2 1 3 against 1 2 3
    assert figures["risk_correlation"] == pytest.approx(0.5)
    assert figures["rise_correlation"] == pytest.approx(0.5)  # rises 0.1 0.3 0.6
    assert figures["last_moments"] == pytest.approx(0.7 / 1.2)
    assert figures["first_step"] == pytest.approx(0.5 / 1.2)
    assert figures["negative_mass"] == pytest.approx(0.2)
    assert figures["rise_error"] == pytest.approx(0.4 + 0.5 + 0.1)
    assert localise(costs, labels)["risk_correlation"] is None


def test_channels_are_added_up():
    episodes = ragged([3, 2])
    cost = np.array([[1.0, 1.0], [0.0, 0.0]])
    labels = Labels.for_episodes(episodes, [2, -1], cost, ("a", "b"))
    figures = localise(redistribute(episodes, labels, "sparse"), labels, window=1)
    assert figures["last_moments"] == 1.0


def test_there_must_be_something_to_point_at():
    episodes = ragged([3, 2])
    labels = Labels.for_episodes(episodes, [-1, -1])
    with pytest.raises(RciError, match="no episode was stopped"):
        localise(redistribute(episodes, labels, "sparse"), labels)
    other = Labels.for_episodes(episodes, [1, -1])
    with pytest.raises(RciError, match="belong to other labels"):
        localise(redistribute(episodes, labels, "sparse"), other)
