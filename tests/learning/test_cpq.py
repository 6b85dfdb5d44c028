import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.learning.methods import cpq
from rci.learning.methods.cpq import (
    Batch,
    Config,
    Hyper,
    actor_loss,
    excess,
    is_allowed,
    is_unknown,
    masked_value,
    shortfall,
    update_push,
    worst_value,
)

SMALL = {"hidden": 8, "candidates": 3, "draws": 2, "batch_size": 3}
THRESHOLD = jnp.array([0.1, math.inf])


def test_allowed_by_hand():
    """Every channel must be within its own threshold; one without a budget always is."""
    cost_q = jnp.array([[0.1, 9.0], [0.15, 0.0], [0.3, 0.0], [-1.0, 0.0]])
    assert np.asarray(excess(cost_q, THRESHOLD)) == pytest.approx(
        np.array([[0, 0], [0.05, 0], [0.2, 0], [0, 0]])
    )
    assert is_allowed(cost_q, THRESHOLD, 0.0).tolist() == [1.0, 0.0, 0.0, 1.0]
    assert is_allowed(cost_q, THRESHOLD, 0.1).tolist() == [1.0, 1.0, 0.0, 1.0]
    assert is_allowed(cost_q, jnp.array([0.5, 5.0]), 0.0).tolist() == [0.0, 1.0, 1.0, 1.0]


def test_masked_value_by_hand():
    value, allowed = jnp.array([2.0, 2.0, -3.0, -3.0]), jnp.array([1.0, 0.0, 1.0, 0.0])
    assert masked_value(value, allowed, 0.0).tolist() == [
        2.0,
        0.0,
        -3.0,
        0.0,
    ]  # the last one is the paper's bonus
    assert masked_value(value, allowed, -5.0).tolist() == [2.0, -5.0, -3.0, -5.0]


def test_unknown_by_hand():
    """Known are 0, 0.1 and 0.4, whose neighbours are 0.1, 0.1 and 0.3 away: 1 / 6 on average."""
    known = jnp.array([[[0.0], [0.1], [0.4]]])
    action = jnp.array([[[0.4], [0.7], [0.8], [-0.3], [-0.4]]])
    assert is_unknown(action, known, 2.0).tolist() == [[0.0, 0.0, 1.0, 0.0, 1.0]]  # further than 1 / 3
    beside = jnp.array([[[0.4, 0.5]]])  # as far as the worst dimension
    assert is_unknown(beside, jnp.concatenate([known, jnp.zeros_like(known)], axis=-1), 2.0).tolist() == [
        [1.0]
    ]


def test_shortfall_by_hand():
    """Mean over unknown actions of what is missing; those over the goal and known ones do not count, nor does inf."""
    cost_q = jnp.array([[[0.5, 0.0], [2.0, 0.0]], [[0.0, 0.0], [0.75, 0.0]]])
    unknown = jnp.array([[1.0, 1.0], [0.0, 1.0]])
    goal = jnp.array([1.0, math.inf])
    assert np.asarray(shortfall(cost_q, unknown, goal)) == pytest.approx([(0.5 + 0.25) / 3, 0.0])
    assert shortfall(cost_q, jnp.zeros((2, 2)), goal).tolist() == [0.0, 0.0]
    gradient = jax.grad(lambda q: shortfall(q, unknown, goal).sum())(cost_q)
    assert np.asarray(gradient)[..., 0] == pytest.approx(np.array([[-1 / 3, 0], [0, -1 / 3]]))
    assert not gradient[..., 1].any()


def test_update_push_by_hand():
    push = update_push(jnp.array([1.0, 1.0, 0.0]), jnp.array([0.5, 0.0, 0.0]), 0.2, 2.0)
    assert np.asarray(push) == pytest.approx([1.8, 0.8, 0.0])


def test_actor_loss_by_hand():
    """An allowed action raises Q; a forbidden one lowers what is over the threshold, whatever it earns."""
    value, cost_q = jnp.array([2.0, 7.0]), jnp.array([[0.0, 0.0], [0.4, 3.0]])
    allowed = jnp.array([1.0, 0.0])
    assert float(actor_loss(value, cost_q, allowed, THRESHOLD)) == pytest.approx((-2.0 + 0.3) / 2)
    by_value, by_cost = jax.grad(actor_loss, argnums=(0, 1))(value, cost_q, allowed, THRESHOLD)
    assert by_value.tolist() == [-0.5, 0.0]
    assert by_cost.tolist() == [[0.0, 0.0], [0.5, 0.0]]


@cache
def compiled():
    learner = cpq.make(Config(**SMALL))
    return learner._replace(init=jax.jit(learner.init), update=jax.jit(learner.update))


def transitions():
    """Two channels; the second transition was stopped, the third ended by the environment."""
    keys = iter(jax.random.split(jax.random.key(0), 4))
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
        worst=jnp.asarray(-3.0),  # at a discount of a half, -6 for ever
    )


@pytest.mark.parametrize(("threshold", "following"), [(0.5, 2.0), (0.3, -6.0), (math.inf, 2.0)])
def test_an_update_by_hand(threshold, following):
    """Critics that ignore their input: Q is 2 or 4, Q_c is 0.4 and 2, the second channel has no budget.

    What follows counts only if 0.4 is within the threshold. A stop is absorbing for the cost and not for the reward,
    and costs that are fractions or negative count.
    """
    learner = compiled()
    hyper = Hyper(
        threshold=jnp.array([threshold, math.inf]),
        discount=0.5,
        learning_rate=0.0,
        unknown_distance=0.0,
        margin=0.04,
    )
    batch = transitions()
    state = learner.init(jax.random.key(0), batch, hyper)
    blank = jax.tree.map(jnp.zeros_like, state.online)
    answers = (
        (blank.reward_critic.rest[0], [2.0]),
        (blank.reward_critic.rest[1], [4.0]),
        (blank.cost_critic.rest, [0.4, 2.0]),
    )
    for net, value in answers:
        object.__setattr__(net, "biases", (*net.biases[:-1], jnp.array(value)))
    state = state._replace(online=blank, target=blank, push=jnp.array([3.0, 3.0]))
    after, info = learner.update(jax.random.key(1), state, batch, hyper)
    y = np.array([1 + 0.5 * following, 2 + 0.5 * following, 3.0])
    y_cost = np.array([[0.25 + 0.4, 2.0], [0.5, -0.125], [0.0, 0.0]])
    assert float(info.reward_loss) == pytest.approx(((2 - y) ** 2 + (4 - y) ** 2).mean(), rel=1e-5)
    error = ((np.array([0.4, 2.0]) - y_cost) ** 2).sum(axis=1).mean()
    assert float(info.cost_loss) == pytest.approx(error, rel=1e-5)
    within = following > 0
    assert float(info.allowed) == within
    assert float(info.actor_loss) == pytest.approx(-2.0 if within else 0.4 - threshold, rel=1e-5)
    assert float(info.unknown) == 1.0
    short = {0.5: 0.54 - 0.4}.get(threshold, 0.0)  # over the goal, or without one: nothing is missing
    expected = [3 + hyper.push_rate * (short - 0.02), 3 - hyper.push_rate * 0.02]
    assert np.asarray(after.push) == pytest.approx(expected, rel=1e-6)


def test_the_push_raises_the_cost_of_unknown_actions_and_moves_nothing_else():
    """It has a gradient, and only into the cost critic: one update with the push against one without it."""
    learner = compiled()
    hyper = Hyper(threshold=jnp.array([1.0, 1.0]), unknown_distance=0.0, learning_rate=1e-2)
    batch = transitions()
    state = learner.init(jax.random.key(0), batch, hyper)
    with_push, without = (
        learner.update(jax.random.key(1), state._replace(push=jnp.full(2, weight)), batch, hyper)[0].online
        for weight in (50.0, 0.0)
    )
    same = jax.tree.map(np.array_equal, with_push, without)
    assert all(jax.tree.leaves((same.reward_critic, same.actor)))
    assert not any(jax.tree.leaves(same.cost_critic))
    action = with_push.actor.samples(jax.random.key(2), batch.obs, 20)
    assert (with_push.cost_critic(batch.obs, action) > without.cost_critic(batch.obs, action)).all()


def test_the_worst_value_is_the_worst_reward_for_ever():
    from rci.learning.behaviour import FrozenBehaviour
    from rci.learning.dataset import Dataset

    rows, number = jnp.zeros(2, jnp.int32), jnp.zeros(2)
    one = jnp.zeros((2, 1))
    data = Dataset(
        obs=one,
        row=rows,
        action=one,
        reward=jnp.array([-1.5, 2.0]),
        cost=one,
        terminated=number,
        truncated=number,
        stopped=number,
        last=number,
        initial=rows,
        step=rows,
        left=rows,
        reward_to_go=number,
        cost_to_go=one,
        cost_range=one,
        label_cost=one,
        within=number,
        proposal=jnp.zeros((2, 3, 1)),
    )
    sample = cpq.make(Config(**SMALL)).sample
    assert float(sample(jax.random.key(0), data, FrozenBehaviour(None, None)).worst) == -1.5
    richer = data._replace(reward=jnp.array([1.0, 2.0]))
    assert float(sample(jax.random.key(0), richer, FrozenBehaviour(None, None)).worst) == 0.0
    assert float(worst_value(-1.5, 0.9)) == pytest.approx(-15.0)
    assert float(worst_value(-1.5, 1.0)) == pytest.approx(-1500.0)
