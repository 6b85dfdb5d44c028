import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.learning.methods import coptidice
from rci.learning.methods.coptidice import (
    Batch,
    Config,
    Hyper,
    conjugate,
    correction,
    flow_loss,
    imitation_loss,
    weighted_cost,
)

SMALL = {"hidden": 8, "batch_size": 3, "initial_batch_size": 2}


def test_correction_by_hand():
    """Below 0 it never reaches 0, above 0 it is a line; both meet at weight 1, that of the behaviour."""
    y = jnp.array([-1000.0, -1.0, 0.0, 2.0])
    assert np.asarray(correction(y)) == pytest.approx([0.0, math.exp(-1), 1.0, 3.0])


def test_conjugate_by_hand():
    y = jnp.array([-1000.0, -1.0, 0.0, 2.0])
    assert np.asarray(conjugate(y)) == pytest.approx([-1.0, math.exp(-1) - 1, 0.0, 4.0])


@pytest.mark.parametrize("y", [-3.0, -0.1, 0.0, 0.7, 50.0])
def test_conjugate_is_the_maximum_over_weights_and_the_correction_its_slope(y):
    w = np.linspace(1e-6, 60, 600_001)
    divergence = np.where(w < 1, w * np.log(w) - w + 1, (w - 1) ** 2 / 2)
    assert float(conjugate(jnp.array(y))) == pytest.approx((w * y - divergence).max(), abs=1e-4, rel=1e-5)
    assert float(jax.grad(conjugate)(y)) == pytest.approx(float(correction(jnp.array(y))), rel=1e-6)


def test_flow_loss_by_hand():
    """Divergence 2: e / 2 is 2 and -1, whose conjugates are 4 and exp(-1) - 1."""
    loss = flow_loss(jnp.array([1.0, 3.0]), jnp.array([4.0, -2.0]), jnp.array([5.0, 10.0]), 2.0)
    assert float(loss) == pytest.approx(2.0 + (5 * 2 * 4 + 10 * 2 * (math.exp(-1) - 1)) / 2)


def test_weighted_cost_by_hand():
    """Fractions and negative costs count, each channel by itself."""
    cost = jnp.array([[0.25, 1.0], [-0.5, 0.0]])
    estimate = weighted_cost(jnp.array([2.0, 0.5]), jnp.array([3.0, 4.0]), cost)
    assert np.asarray(estimate) == pytest.approx([(6 * 0.25 - 2 * 0.5) / 2, 3.0])


def test_imitation_loss_by_hand():
    log_prob, weight = jnp.array([-1.0, -3.0]), jnp.array([3.0, 1.0])
    assert float(imitation_loss(log_prob, weight)) == pytest.approx(1.5, rel=1e-5)
    assert not jax.grad(imitation_loss, argnums=1)(log_prob, weight).any()


@cache
def compiled():
    learner = coptidice.make(Config(**SMALL))
    return learner._replace(init=jax.jit(learner.init), update=jax.jit(learner.update))


def three_transitions(stopped=0.0, terminated=0.0):
    """The second ends its recording, by a stop or by the environment; the third is its episode's first."""
    return Batch(
        obs=jnp.array([[0.0], [1.0], [2.0]]),
        action=jnp.zeros((3, 1)),
        reward=jnp.array([1.0, 2.0, 3.0]),
        cost=jnp.array([[0.0], [0.5], [-0.25]]),
        next_obs=jnp.array([[1.0], [9.0], [3.0]]),
        terminated=jnp.array([0.0, terminated, 0.0]),
        stopped=jnp.array([0.0, stopped, 0.0]),
        last=jnp.array([0.0, 1.0, 0.0]),
        step=jnp.array([1, 2, 0]),
        initial_obs=jnp.zeros((2, 1)),
        mean_length=jnp.asarray(2.0),
    )


@pytest.mark.parametrize(
    ("stopped", "terminated", "later"), [(1.0, 0.0, 4.0), (0.0, 0.0, 4.0), (0.0, 1.0, 0.0)]
)
def test_an_update_by_hand(stopped, terminated, later):
    """nu is 3 everywhere and the behaviour's value 4. A stop ends the flow and the cost; the reward goes on."""
    learner = compiled()
    hyper = Hyper(
        threshold=jnp.array([0.1]),
        discount=0.5,
        cost_discount=1.0,
        learning_rate=0.0,
        divergence=2.0,
        multiplier_rate=0.1,
    )
    batch = three_transitions(stopped, terminated)
    state = learner.init(jax.random.key(0), batch, hyper)
    blank = jax.tree.map(jnp.zeros_like, state.online)
    for net, answer in ((blank.nu, 3.0), (blank.value, 4.0)):
        object.__setattr__(net, "biases", (*net.biases[:-1], jnp.array([answer])))
    state = state._replace(online=blank, slow_value=blank.value, multiplier=jnp.array([2.0]))
    after, info = learner.update(jax.random.key(1), state, batch, hyper)
    # Costs count by (1 / 0.5)^step: 0, 4 * 0.5 and -0.25.
    e = np.array([1 + 0.5 * 3 - 3, 2 + 0.5 * later - 2 * 2.0 - 3, 3 + 2 * 0.25 + 0.5 * 3 - 3])
    w = np.where(e < 0, np.exp(e / 2), 1 + e / 2)
    g = np.where(e < 0, np.exp(e / 2) - 1, e / 2 + e**2 / 8)
    weight = 2.0 * 0.5 ** np.array([1, 2, 0])
    estimate = (w * weight * np.array([0.0, 2.0, -0.25])).mean()
    assert float(info.flow_loss) == pytest.approx(3 + (weight * 2 * g).mean(), rel=1e-5)
    assert float(info.mean_correction) == pytest.approx(w.mean(), rel=1e-5)
    assert np.asarray(info.cost_estimate) == pytest.approx([estimate], rel=1e-5)
    assert np.asarray(after.multiplier) == pytest.approx([2 + 0.1 * (estimate - 0.1)], rel=1e-5)
    earned = np.array([1 + 0.5 * 4, 2 + 0.5 * later, 3 + 0.5 * 4])
    assert float(info.value_loss) == pytest.approx(((4 - earned) ** 2).mean(), rel=1e-5)
