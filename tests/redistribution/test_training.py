"""Training that holds up with stop labels, where unsafe episodes are short and safe ones run to the limit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.data.types import Labels
from rci.learning.budget import threshold
from rci.redistribution import parse_options, redistribute
from rci.redistribution.base import Training
from rci.redistribution.fit import balanced_order, crop_safe
from rci.redistribution.quality import matched_pairs_accuracy


def test_balanced_batches_have_as_many_stopped_as_safe():
    stopped, safe = jnp.arange(3), jnp.arange(10, 30)
    order = np.asarray(balanced_order(jax.random.key(0), stopped, safe, batches=4, size=10))
    assert order.shape == (4, 10)
    assert ((order < 3).sum(axis=1) == 5).all()
    assert sorted(order[order >= 10].tolist()) == list(range(10, 30))  # every safe one just once
    assert sorted(np.bincount(order[order < 3])) == [6, 7, 7]  # the few stopped ones in turn


def test_safe_episodes_are_cut_to_the_lengths_of_stopped_ones():
    count, steps = 200, 9
    cost = np.where(np.arange(count) % 2, 1.0, 0.0)
    lengths = np.where(cost > 0, 4, steps)
    mask = (np.arange(steps) < lengths[:, None]).astype(np.float32)
    blank = np.zeros((count, steps, 1))
    batch = Sequences(*(jnp.asarray(array) for array in (blank, blank, mask, cost)))
    cut = crop_safe(jax.random.key(1), batch, jnp.array([2, 2, 6]))
    found = np.asarray(cut.mask).sum(axis=1)
    assert (found[cost > 0] == 4).all()
    assert set(found[cost == 0].tolist()) == {2.0, 6.0}
    # 100 draws, each 2 with chance 2/3: outside 50 to 84 once in ten thousand
    assert 50 <= (found[cost == 0] == 2).sum() <= 84
    assert np.array_equal(np.asarray(cut.mask), np.arange(steps) < found[:, None])


def test_a_short_safe_episode_is_never_lengthened():
    mask = jnp.array([[1.0, 0.0, 0.0]])
    batch = Sequences(jnp.zeros((1, 3, 1)), jnp.zeros((1, 3, 1)), mask, jnp.zeros(1))
    assert np.array_equal(crop_safe(jax.random.key(0), batch, jnp.array([3])).mask, mask)


def test_matched_pairs_by_hand():
    evidence = np.array([[0.2, 0.9, 0.0], [0.5, 0.4, 0.1], [0.3, 0.9, 0.2], [0.1, 0.0, 0.0]])
    lengths, stopped = np.array([2, 3, 3, 1]), np.array([True, False, False, True])
    # episode 0 ends after two steps: 0.9 against 0.4 (right) and 0.9 (a tie); episode 3 after one: 0.1 loses twice
    found = matched_pairs_accuracy(evidence, lengths, stopped)
    assert found == {"matched_pairs": 4, "matched_pairs_accuracy": pytest.approx((0.75 + 0.0) / 2)}


def test_where_no_safe_episode_is_long_enough_there_are_no_pairs():
    found = matched_pairs_accuracy(np.ones((2, 2)), np.array([2, 1]), np.array([True, False]))
    assert found == {"matched_pairs": 0, "matched_pairs_accuracy": None}


def test_what_knows_only_the_length_wins_no_pairs():
    """A clock predicts these labels perfectly, and the pairs see through it: exactly one half."""
    lengths = np.array([3] * 20 + [8] * 20)
    stopped = lengths == 3
    clock = np.broadcast_to(1.0 - np.arange(8) / 8, (40, 8))
    assert matched_pairs_accuracy(clock, lengths, stopped)["matched_pairs_accuracy"] == 0.5


def noise(count=160):
    """Nothing but the length tells stopped episodes from safe ones."""
    rng = np.random.default_rng(0)
    stopped = np.arange(count) % 2 == 0
    lengths = np.where(stopped, rng.integers(3, 6, count), 15)
    episodes = ragged(lengths.tolist(), seed=2)
    return episodes, Labels.for_episodes(episodes, np.where(stopped, lengths - 1, -1))


def test_the_manifest_tells_a_model_that_learned_the_length_alone():
    """Whole episodes teach that short is unsafe. Accuracy believes it; length-matched pairs do not.

    About 12 stopped and 12 safe episodes are held out; 144 pairs of noise are right in half of the cases, and outside
    0.2 to 0.8 less than once in a thousand (12 independent episodes of each kind, deviation about 0.09).
    """
    episodes, labels = noise()
    fooled = redistribute(episodes, labels, "rudder", epochs=40, batch_size=16, held_out_share=0.15)
    assert fooled.info["held_out_accuracy"] > 0.9
    assert 0.2 < fooled.info["matched_pairs_accuracy"] < 0.8
    honest = redistribute(episodes, labels, "rudder", epochs=40, batch_size=16, crop=True, balance=True)
    assert honest.info["held_out_accuracy"] < 0.8
    assert 0.2 < honest.info["matched_pairs_accuracy"] < 0.8


def test_bad_settings():
    with pytest.raises(RciError, match="batch_size must be at least 2"):
        Training(balance=True, batch_size=1)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("rrd", {"start": "prior"}, "start has no effect: 'rrd' predicts nothing from an empty prefix"),
        ("hazard", {"sign": "nonnegative"}, "sign has no effect: .* unless conserve is true"),
        ("rudder", {"folds": 2, "held_out_share": 0.2}, "held_out_share has no effect: with folds"),
        ("rudder", {"distil_updates": 5}, "distil_updates has no effect: distil is not set"),
        ("rudder", {"distil": True, "distil_hidden": 0}, "distil_hidden must be at least 1, got 0"),
    ],
)
def test_settings_without_an_effect_are_refused(method, options, message):
    with pytest.raises(RciError, match=message):
        parse_options(method, options)


def test_scores_have_no_numeric_budget(point_episodes, point_labels):
    """The sum of hazard's or RLSF's costs is no probability; a percentile of them is still a percentile."""
    costs = redistribute(point_episodes, point_labels, "hazard", epochs=1)
    assert costs.unit == "score"
    with pytest.raises(RciError, match="budget of 0.05 says nothing about them; give a percentile"):
        threshold(0.05, costs, 0.99, 1.0)
    assert np.isfinite(threshold("P30", costs, 0.99, 1.0)).all()
    assert np.isinf(threshold(np.inf, costs, 0.99, 1.0)).all()
    exact = redistribute(point_episodes, point_labels, "hazard", epochs=1, conserve=True)
    assert threshold(0.05, exact, 0.99, 1.0).tolist() == [0.05]
    assert "quality" not in exact.info  # what is conserved afterwards was no prediction
