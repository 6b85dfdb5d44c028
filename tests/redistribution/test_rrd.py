import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.data.types import Episodes, Labels
from rci.redistribution import redistribute, score
from rci.redistribution.methods import rrd
from rci.redistribution.methods.rrd import at_steps, draw_steps, subset_loss, variance_of_mean

STEP = jnp.array([[0.1, 0.3], [0.0, 0.2]])  # means 0.2 and 0.1
COST, LENGTH = jnp.array([1.0, 0.0]), jnp.array([4.0, 10.0])


def test_rate_loss_by_hand():
    # (1/4 - 0.2)^2 = 0.0025 and (0 - 0.1)^2 = 0.01
    assert subset_loss(STEP, COST, LENGTH, "rate", False) == pytest.approx(0.00625)


def test_return_loss_by_hand():
    # (1 - 4 * 0.2)^2 = 0.04 and (0 - 10 * 0.1)^2 = 1
    assert subset_loss(STEP, COST, LENGTH, "return", False) == pytest.approx(0.52)


def test_variance_of_mean_by_hand():
    # deviations of 0.1 around each mean: s^2 = 0.02 / 1, divided by two draws
    assert variance_of_mean(STEP) == pytest.approx([0.01, 0.01])


@pytest.mark.parametrize(("target", "expected"), [("rate", 0.00625 - 0.01), ("return", 0.52 - 0.58)])
def test_unbiased_losses_by_hand(target, expected):
    # `return`: the variances in its scale are 16 * 0.01 and 100 * 0.01, on average 0.58
    assert subset_loss(STEP, COST, LENGTH, target, True) == pytest.approx(expected)


def test_the_unbiased_loss_is_on_average_that_of_the_whole_episode():
    """20000 draws of 4 from 5 steps: a standard error below 0.004, so 0.02 is five of them."""
    step = jnp.array([0.5, -0.2, 0.1, 0.4, 0.0])
    index = draw_steps(jax.random.key(0), jnp.ones((20000, 5)), 4)
    cost, length = jnp.ones(20000), jnp.full(20000, 5.0)
    whole = (1.0 - float(step.sum())) ** 2
    assert subset_loss(step[index], cost, length, "return", True) == pytest.approx(whole, abs=0.02)
    # while the plain one is too high by T^2 s^2 / K, here 25 * 0.0664 / 4, s^2 with all five known
    plain = subset_loss(step[index], cost, length, "return", False)
    assert plain == pytest.approx(whole + 25 * float(jnp.var(step)) / 4, abs=0.02)


def test_drawn_steps_are_valid_ones_and_all_of_them():
    mask = jnp.array([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    index = np.asarray(draw_steps(jax.random.key(1), mask, 300))
    assert index.shape == (3, 300)
    for row, length in zip(index, (1, 3, 4)):
        share = np.bincount(row, minlength=4) / 300
        # a share of 300 draws is off by 0.15 less than once in 10^7
        assert share == pytest.approx([1 / length] * length + [0] * (4 - length), abs=0.15)


def test_at_steps_by_hand():
    block = jnp.arange(12.0).reshape(2, 3, 2)
    picked = at_steps(block, jnp.array([[2, 0], [1, 1]]))
    assert picked.tolist() == [[[4, 5], [0, 1]], [[8, 9], [8, 9]]]


def test_gradients_by_hand():
    def value(step):
        return subset_loss(step, COST, LENGTH, "return", True)

    # T^2 / 2 episodes times -(C/T - mean) - (x - x') / 2, first 8 (-0.05 + 0.1) and 8 (-0.05 - 0.1)
    assert np.asarray(jax.grad(value)(STEP)) == pytest.approx(np.array([[0.4, -1.2], [10, 0]]), abs=1e-5)
    assert np.isfinite(jax.grad(value)(jnp.ones((2, 2)))).all()  # a variance of 0


def additive(count=60):
    """Episodes of 3 to 8 steps; one step of every second one has a high first action, and it is the cause."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(3, 9, count)
    episodes = ragged(lengths.tolist(), seed=4)
    bad = np.arange(count) % 2 == 0
    when = rng.integers(0, lengths)
    action = np.zeros((int(lengths.sum()), 2), np.float32)
    action[episodes.step_offset[:-1] + when, 0] = bad
    stops = np.where(bad, lengths - 1, -1)
    return Episodes(**{**episodes.arrays(), "action": action}), stops, np.where(bad, when, -1)


@pytest.mark.parametrize("options", [{}, {"target": "rate", "unbiased": True}], ids=str)
def test_it_finds_the_step_that_matters(options):
    episodes, stops, when = additive()
    labels = Labels.for_episodes(episodes, stops)
    costs = redistribute(episodes, labels, "rrd", epochs=40, patience=40, batch_size=16, hidden=16, **options)
    found = [int(np.argmax(c)) == w for c, w in zip(costs.per_episode(), when) if w >= 0]
    assert np.mean(found) > 0.9
    assert costs.return_equivalent
    # raw scores are step costs, conserved only afterwards: all but the last step are theirs
    raw = score(costs, episodes)[0]
    assert costs.per_episode()[0][:-1] == pytest.approx(raw[:-1], abs=1e-6)


def test_bad_settings():
    for options, word in (
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 1, "unbiased": True}, "unbiased needs at least 2 steps"),
    ):
        with pytest.raises(RciError, match=word):
            rrd.Config(**options)
    episodes, stops, _ = additive(8)
    with pytest.raises(RciError, match="target must be one of rate, return, not 'sum'"):
        redistribute(episodes, Labels.for_episodes(episodes, stops), "rrd", target="sum")
