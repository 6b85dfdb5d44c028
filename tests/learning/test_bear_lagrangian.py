import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.data.errors import RciError
from rci.learning.methods import bear_lagrangian as bear
from rci.learning.methods.bear_lagrangian import (
    Batch,
    Config,
    Hyper,
    judge,
    laplacian_kernel,
    squared_discrepancy,
)

SMALL = {"hidden": 8, "candidates": 3, "test_candidates": 4, "batch_size": 3, "initial_batch_size": 2}


def test_kernel_by_hand():
    one, two = jnp.array([[[0.0, 0.0]]]), jnp.array([[[0.0, 0.0], [0.5, -1.0]]])
    assert np.asarray(laplacian_kernel(one, two, 0.75))[0, 0] == pytest.approx([1.0, math.exp(-1.0)])


def test_discrepancy_by_hand():
    """Draws 0, 1 against 0, 0: k is 1 at distance 0 and exp(-1) at distance 1; no draw is paired with itself."""
    one, two = jnp.array([[[0.0], [1.0]]]), jnp.zeros((1, 2, 1))
    near = math.exp(-1.0)
    assert np.asarray(squared_discrepancy(one, two, 0.5)) == pytest.approx(
        [near + 1 - 2 * (1 + near) / 2], abs=1e-6
    )


def test_discrepancy_is_0_on_average_between_equals():
    """2000 pairs of 4 draws each; the mean is off by more than 0.03 once in 10^5."""
    keys = jax.random.split(jax.random.key(0))
    one, two = (jax.random.normal(key, (2000, 4, 1)) for key in keys)
    assert abs(float(squared_discrepancy(one, two, 0.5).mean())) < 0.03
    assert float(squared_discrepancy(one, two + 3.0, 0.5).mean()) > 0.5


def test_discrepancy_needs_two_draws():
    with pytest.raises(RciError, match="candidates must be at least 2"):
        Config(candidates=1)


@cache
def compiled():
    learner = bear.make(Config(**SMALL))
    return learner._replace(init=jax.jit(learner.init), update=jax.jit(learner.update))


def transitions():
    """Two channels; the second transition was stopped, the third ended by the environment."""
    keys = iter(jax.random.split(jax.random.key(0), 5))
    return Batch(
        obs=jax.random.normal(next(keys), (3, 2)),
        action=jnp.zeros((3, 1)),
        reward=jnp.array([1.0, 2.0, 3.0]),
        cost=jnp.array([[0.25, 0.0], [0.5, -0.125], [0.0, 0.0]]),
        next_obs=jax.random.normal(next(keys), (3, 2)),
        terminated=jnp.array([0.0, 0.0, 1.0]),
        stopped=jnp.array([0.0, 1.0, 0.0]),
        last=jnp.array([0.0, 1.0, 1.0]),
        cost_range=jnp.array([[-9.0, -9.0], [9.0, 9.0]]),
        candidate=jnp.tanh(jax.random.normal(next(keys), (3, 3, 1))),
        initial_obs=jax.random.normal(next(keys), (2, 2)),
    )


def test_an_update_by_hand():
    """Critics that ignore their input. A stop is absorbing for the cost and not for the reward; fractions count."""
    learner = compiled()
    hyper = Hyper(
        threshold=jnp.array([0.1, jnp.inf]),
        discount=0.5,
        learning_rate=0.0,
        target_rate=0.0,
        discrepancy_limit=0.05,
        leash_rate=0.5,
        multiplier_rate=0.5,
    )
    batch = transitions()
    state = learner.init(jax.random.key(0), batch, hyper)
    blank = jax.tree.map(jnp.zeros_like, state.online)
    answers = ((blank.reward_critic, ([2.0], [4.0])), (blank.cost_critic, ([0.2, 1.0], [0.6, 3.0])))
    for critic, values in answers:
        for net, value in zip(critic.rest, values, strict=True):
            object.__setattr__(net, "biases", (*net.biases[:-1], jnp.array(value)))
    multiplier, leash = jnp.array([3.0, 0.25]), jnp.asarray(2.0)
    state = state._replace(online=blank, target=blank, multiplier=multiplier, leash=leash)
    after, info = learner.update(jax.random.key(1), state, batch, hyper)
    # Q is 0.75 * 2 + 0.25 * 4 = 2.5; costs are judged in the middle of the twins: 0.4 and 2.
    y = np.array([1 + 0.5 * 2.5, 2 + 0.5 * 2.5, 3.0])
    y_cost = np.array([[0.25 + 0.4, 2.0], [0.5, -0.125], [0.0, 0.0]])
    assert float(info.reward_loss) == pytest.approx(((2 - y) ** 2 + (4 - y) ** 2).mean(), rel=1e-5)
    errors = sum(((np.array(q) - y_cost) ** 2).sum(axis=1).mean() for q in ([0.2, 1.0], [0.6, 3.0]))
    assert float(info.cost_loss) == pytest.approx(errors, rel=1e-5)
    assert np.asarray(info.cost_estimate) == pytest.approx([0.4, 2.0])
    assert np.asarray(after.multiplier) == pytest.approx([3 + 0.5 * 0.3, 0.0])  # inf: none
    # (Q - sum of lambda * cost) / (1 + sum of lambda) = (2.5 - 3 * 0.4 - 0.25 * 2) / 4.25
    mmd = float(info.discrepancy)
    assert float(info.actor_loss) == pytest.approx(-0.8 / 4.25 + 2 * mmd, rel=1e-5)
    assert float(after.leash) == pytest.approx(2 + 0.5 * (mmd - 0.05), rel=1e-5)


def test_judgement_is_pessimistic_on_both_sides():
    learner = bear.make(Config(**SMALL))
    hyper = Hyper(reward_pessimism=1.0, cost_pessimism=1.0)
    batch = transitions()
    online = learner.init(jax.random.key(0), batch, hyper).online
    seen = judge(online, batch.obs, batch.candidate, jnp.array([2.0, 3.0]), hyper)
    assert np.array_equal(
        seen.reward_q, jnp.minimum(*online.reward_critic(batch.obs, batch.candidate))[..., 0]
    )
    assert np.array_equal(seen.cost_q, jnp.maximum(*online.cost_critic(batch.obs, batch.candidate)))
    priced = seen.reward_q - 2 * seen.cost_q[..., 0] - 3 * seen.cost_q[..., 1]
    assert np.asarray(seen.value) == pytest.approx(np.asarray(priced), abs=1e-6)
