"""Which episodes a redistributor cannot tell the end of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import ragged, sparse_costs

import rci
from rci.cli.serving import Request, uncertainties
from rci.data.errors import RciError
from rci.redistribution import REDISTRIBUTORS, uncertainty
from rci.redistribution.base import Redistributor, made
from rci.redistribution.stop_chance import entropy, stop_chance


def test_entropy_by_hand():
    # 1/4: -(1/4) log2(1/4) - (3/4) log2(3/4) = 0.5 + 0.75 * 0.41504
    np.testing.assert_allclose(
        entropy(np.array([0.0, 0.25, 0.5, 1.0])), [0.0, 0.8112781, 1.0, 0.0], atol=1e-7
    )


def test_entropy_is_that_of_a_chance():
    assert entropy(np.array([-0.3, 1.7])).tolist() == [0.0, 0.0]


def forecasting(**more: Any) -> Redistributor:
    return Redistributor(init=lambda *_: None, predict=lambda *_: np.zeros((1, 1)), **more)


def test_the_highest_forecast_counts_and_padding_does_not():
    scores = np.array([[0.1, 0.9, 0.2], [0.3, 0.4, 9.0], [-1.0, -2.0, -3.0]])
    chance = stop_chance(forecasting(scores="prefix"), scores, np.array([3, 2, 3]))
    np.testing.assert_allclose(chance, [0.9, 0.4, 0.0])


def test_step_costs_without_a_forecast_are_refused():
    with pytest.raises(RciError, match="expects nothing of an episode"):
        stop_chance(forecasting(scores="step"), np.zeros((1, 2)), np.array([2]))


@pytest.fixture(scope="module")
def fitted(point_episodes, point_labels):
    return rci.redistribute(
        point_episodes, point_labels, method="rudder", epochs=3, hidden=8, members=2, folds=2
    )


def test_uncertainty_of_labelled_and_new_episodes(fitted, point_episodes):
    own = uncertainty(fitted, point_episodes)
    assert own.shape == (len(point_episodes),)
    assert ((own >= 0) & (own <= 1)).all()
    assert own.std() > 0
    new, _ = rci.collect("point", 7, seed=9)
    assert uncertainty(fitted, new).shape == (7,)


def test_members_that_disagree_are_uncertain():
    """Two that are sure of opposite things: the mean chance is a half."""
    assert entropy(np.mean([[0.0], [1.0]], axis=0)) == [1.0]


def test_costs_without_a_model_say_nothing(point_episodes, point_labels):
    with pytest.raises(RciError, match="without a fitted model"):
        uncertainty(sparse_costs(point_labels), point_episodes)


def test_the_server_asks_once(fitted, point_episodes, tmp_path, monkeypatch):
    monkeypatch.setenv("RCI_CACHE", str(tmp_path / "cache"))
    rci.save(fitted, tmp_path / "costs")
    request = Request(
        tmp_path / "episodes", tmp_path / "answers", order="uncertain", costs=tmp_path / "costs"
    )
    said: list[str] = []
    first = uncertainties(request, point_episodes, said.append)
    again = uncertainties(request, point_episodes, said.append)
    np.testing.assert_array_equal(first, uncertainty(fitted, point_episodes))
    np.testing.assert_array_equal(first, again)
    assert len(said) == 1


def test_a_cache_that_cannot_be_written_is_named(fitted, point_episodes, tmp_path, monkeypatch):
    rci.save(fitted, tmp_path / "costs")
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("RCI_CACHE", str(tmp_path / "cache"))
    request = Request(tmp_path / "episodes", tmp_path / "answers", costs=tmp_path / "costs")
    with pytest.raises(RciError, match="set RCI_CACHE to a folder"):
        uncertainties(request, point_episodes, print)


def test_uncertainty_needs_observations_of_the_same_kind(fitted):
    with pytest.raises(RciError):
        uncertainty(fitted, ragged([4, 5]))


@pytest.mark.parametrize("name", sorted(REDISTRIBUTORS))
def test_every_method_has_a_forecast_or_says_that_it_has_none(name):
    method = made(REDISTRIBUTORS[name].make, REDISTRIBUTORS[name].config())
    asked = method, np.full((2, 3), 0.25), np.array([3, 1])
    if method.scores == "step" and method.forecast is None:
        with pytest.raises(RciError, match="use another one"):
            stop_chance(*asked)
        return
    chance = stop_chance(*asked)
    assert ((chance >= 0) & (chance <= 1)).all()
