"""Informed drivers: what a price does, where their training begins, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rci.collection.informed import drive, train_informed
from rci.collection.ppo import Config, Rollout
from rci.collection.training import priced
from rci.data import store
from rci.data.errors import RciError
from rci.evaluation import score_driver

TINY = Config(
    total_steps=512, num_envs=4, rollout_length=64, epochs=1, minibatches=2, hidden=(8,), checkpoints=1
)
SHORT = Config(total_steps=60_000, num_envs=32, rollout_length=64, learning_rate=2e-3, checkpoints=1)


@pytest.fixture(scope="module")
def blind():
    return train_informed("point", 0.0, seed=1, config=TINY)


def test_an_unsafe_step_costs_its_price_and_ends_what_is_to_be_earned():
    ones = np.ones((2, 2), np.float32)
    steps = Rollout(ones, ones, ones, ones, np.array([[0, 1], [0, 0]], np.float32), 0 * ones)
    seen = priced(steps, np.array([[False, True], [True, False]]), 3.0)
    assert seen.reward.tolist() == [[1, -2], [-2, 1]]
    assert seen.terminated.tolist() == [[0, 1], [1, 0]]
    assert seen.reward.dtype == np.float32
    assert (seen.truncated == 0).all()


def test_same_seed_same_driver(blind):
    again = train_informed("point", 0.0, seed=1, config=TINY)
    assert again.hash == blind.hash
    assert train_informed("point", 0.0, seed=2, config=TINY).hash != blind.hash


def test_a_driver_with_a_price_goes_on_from_the_blind_one(blind, tmp_path):
    informed = train_informed("point", 2.0, 1, TINY, blind)
    assert informed.info["price"] == 2.0
    store.write(tmp_path / "blind", blind)
    from_disk = store.read(tmp_path / "blind", "informed")
    assert train_informed("point", 2.0, 1, TINY, from_disk).hash == informed.hash
    seen = informed.model.arrays["obs_moments.seen"]
    assert seen == 2 * blind.model.arrays["obs_moments.seen"]  # the scaling of observations goes on as well


def test_a_price_from_the_first_step_on(blind):
    careful = train_informed("point", 2.0, 1, TINY)
    assert careful.info["price"] == 2.0
    assert careful.hash != train_informed("point", 2.0, 1, TINY, blind).hash
    assert careful.model.arrays["obs_moments.seen"] == blind.model.arrays["obs_moments.seen"]


def test_drivers_act_without_noise_within_limits(blind):
    act, obs = drive(blind), 100 * np.random.default_rng(0).normal(size=(50, 4))
    assert (act(obs) == act(obs)).all()
    assert np.abs(act(obs)).max() <= 1.0
    assert act(obs).shape == (50, 2)


def test_a_price_makes_driving_safer():
    """On `point` within seconds: the one with a price violates half as often as the blind one, or less."""
    fast = train_informed("point", 0.0, 0, SHORT)
    careful = train_informed("point", 3.0, 0, SHORT, fast)
    rates = [score_driver(drive(driver), "point", 300).violation_rate for driver in (fast, careful)]
    assert rates[0] > 0.25
    assert rates[1] < rates[0] / 2


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_prices_that_are_none(wrong, blind):
    with pytest.raises(RciError, match="must be a number, 0 or more"):
        train_informed("point", wrong, 0, TINY, blind)


def test_where_training_begins_is_checked(blind):
    with pytest.raises(RciError, match="a blind driver goes on from nothing"):
        train_informed("point", 0.0, 0, TINY, blind)
    with pytest.raises(RciError, match="not one of 'highway'"):
        train_informed("highway", 1.0, 0, TINY, blind)
    priced_already = train_informed("point", 1.0, 0, TINY, blind)
    with pytest.raises(RciError, match="not one of 'point'"):
        train_informed("point", 1.0, 0, TINY, priced_already)


def test_marks_and_ends_are_counted():
    scores = score_driver(lambda obs: np.tile([1.0, -1.0], (len(obs), 1)), "highway", 20, seed=3)
    assert scores.info["marks"]["off the road"] > 0.2
    assert 0.0 <= scores.info["terminated_share"] <= 1.0
    assert len(scores) == 20
