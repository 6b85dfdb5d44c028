"""Models of the world: what they are shown, what they draw, and what they say of worlds whose truth is known."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import sparse_costs

from rci.data.types import Episodes, Labels, Transitions
from rci.learning.dataset import measure_scaling, to_device
from rci.learning.judging.simulation.calibration import upper_bound
from rci.learning.judging.simulation.world import (
    Settings,
    draw_episodes,
    fit_world,
    moments_of,
    move_within,
    newcomers,
    simulate,
    unit_of,
)

SMALL = Settings(updates=3000, batch_size=128, hidden=48, learning_rate=3e-3)
STEPS = 8


def moments_and_scaling(episodes, labels, rows=0):
    transitions = Transitions.build(episodes, labels, sparse_costs(labels))
    scaling = measure_scaling(transitions, rows)
    return moments_of(to_device(transitions, scaling), rows), scaling


def recorded(obs, action, reward, stop):
    """Episodes of STEPS steps, [N, STEPS + 1, ...] and [N, STEPS, ...], stopped at an index or never (-1)."""
    count = len(obs)
    episodes = Episodes(
        obs=obs.reshape(-1, *obs.shape[2:]).astype(np.float32),
        action=action.reshape(-1, action.shape[-1]).astype(np.float32),
        reward=reward.reshape(-1).astype(np.float32),
        lengths=np.full(count, STEPS),
        terminated=np.zeros(count, bool),
        truncated=np.ones(count, bool),
    )
    return episodes, Labels.for_episodes(episodes, stop)


def walks(count=1500):
    """A walker that moves by the action with a chance of one half, or stays. Beyond 2 is danger."""
    rng = np.random.default_rng(0)
    action = rng.uniform(-1, 1, (count, STEPS, 1))
    moved = np.where(rng.random((count, STEPS)) < 0.5, action[..., 0], 0.0)
    place = np.cumsum(np.concatenate([rng.uniform(-1, 1, (count, 1)), moved], axis=1), axis=1)
    unsafe = place[:, 1:] > 2.0
    stop = np.where(unsafe.any(axis=1), unsafe.argmax(axis=1), -1)
    return recorded(place[..., None], action, moved, stop)


def chance_of_danger(push, start, draws=20_000):
    rng = np.random.default_rng(1)
    moved = push * (rng.random((draws, STEPS)) < 0.5)
    return float(np.mean((start + np.cumsum(moved, axis=1) > 2.0).any(axis=1)))


@pytest.mark.usefixtures("optimised")
def test_it_says_what_a_walker_would_meet():
    """Policies that were never recorded: always a push of so much. Known: a binomial count of pushes."""
    episodes, labels = walks()
    moments, scaling = moments_and_scaling(episodes, labels)
    everything = jnp.arange(len(moments.row))
    net = fit_world(moments, everything, jax.random.key(0), SMALL)
    # Six, four and two pushes of eight are one too many, and by how much the last one is, a small network can tell.
    for push, start in ((0.3, 0.35), (0.5, 0.25), (0.9, 0.65)):
        first = scaling.obs(jnp.full((400, 1), start))
        encoded = float(scaling.encode_action(jnp.array([[push]]))[0, 0])

        def act(actor, threshold, obs, encoded=encoded):
            return jnp.full((len(obs), 1, 1), encoded)

        cost, earned = simulate(act, STEPS, None, jnp.zeros(1), net, moments, first, jax.random.key(2))
        unit = float(scaling.reward_unit)
        assert float(cost.mean()) == pytest.approx(
            chance_of_danger(push, start), abs=0.08
        )  # 3 deviations of 400
        if push < 0.5:  # what lies beyond a stop was never recorded, so of others nobody knows
            assert unit * float(earned.mean()) == pytest.approx(push * STEPS / 2, rel=0.15)


def approaches(count=600):
    """A car ahead, seen from oneself: row 1 is (distance, difference of speeds). Nearer than 1 is danger."""
    rng = np.random.default_rng(3)
    action = rng.uniform(-1, 1, (count, 1, 1)).repeat(STEPS, axis=1)
    speed = 1.0 + 0.5 * action[:, :1, 0] + 0.1 * np.arange(STEPS + 1) * action[:, :1, 0]
    distance = rng.uniform(4, 10, (count, 1)) - np.cumsum(speed, axis=1) + speed[:, :1]
    obs = np.zeros((count, STEPS + 1, 3, 2))
    obs[..., 0, :] = np.stack([np.ones_like(speed), speed], axis=-1)
    obs[..., 1, :] = np.stack([distance, -speed], axis=-1)
    unsafe = distance[:, 1:] < 1.0
    return recorded(
        obs, action, speed[:, 1:], np.where(unsafe.any(axis=1), unsafe.argmax(axis=1), -1)
    ), distance


@pytest.mark.usefixtures("optimised")
def test_it_says_what_a_driver_would_meet():
    """Everything is certain here, so whoever brakes or does not is stopped or not."""
    (episodes, labels), distance = approaches()
    moments, scaling = moments_and_scaling(episodes, labels, rows=3)
    assert (np.asarray(moments.became) == [0, -1]).all()
    net = fit_world(moments, jnp.arange(len(moments.row)), jax.random.key(0), SMALL)
    # Beginning as recorded, and doing on and on what was done first.
    start = np.cumsum(episodes.lengths + 1) - episodes.lengths - 1
    chosen = slice(0, 100)
    obs = scaling.obs(jnp.asarray(episodes.obs.reshape(len(episodes.obs), -1)[start[chosen]]))
    push = scaling.encode_action(jnp.asarray(episodes.action.reshape(-1, STEPS, 1)[chosen, 0]))

    def act(actor, threshold, obs):
        return push[:, None]

    cost, _ = simulate(act, STEPS, None, jnp.zeros(1), net, moments, obs, jax.random.key(2))
    close = np.abs(distance[chosen].min(axis=1) - 1.0) < 0.3  # too close to call
    truth = labels.stopped[chosen]
    agrees = (np.asarray(cost[:, 0]) > 0.5) == truth
    assert agrees[~close].mean() > 0.95
    assert 0.2 < truth.mean() < 0.8


def test_stops_are_weighed_and_end_the_cost_but_not_the_reward():
    """Whatever is seen, a chance of a quarter to be stopped, of one half to end, and a reward of 2 in every step."""
    moments, _ = moments_and_scaling(*walks(20))
    net = fit_world(moments, jnp.arange(len(moments.row)), jax.random.key(0), Settings(1, 8, 8))

    def last(mlp, bias):
        weights = (*mlp.weights[:-1], jnp.zeros_like(mlp.weights[-1]))
        return eqx.tree_at(
            lambda m: (m.weights, m.biases), mlp, (weights, (*mlp.biases[:-1], jnp.asarray(bias)))
        )

    stop, end = -math.log(3), 0.0
    net = eqx.tree_at(
        lambda n: (n.reward, n.ends), net, (last(net.reward, [2.0]), last(net.ends, [end, stop, stop]))
    )
    cost, earned = simulate(
        lambda actor, threshold, obs: jnp.zeros((len(obs), 1, 1)),
        3,
        None,
        jnp.zeros(1),
        net,
        moments,
        jnp.zeros((5, 1)),
        jax.random.key(0),
    )
    on = 0.5 * 0.75
    assert cost[:, 0].tolist() == pytest.approx([0.25 * (1 + on + on**2)] * 5)
    assert earned.tolist() == pytest.approx(
        [2.0 * (1 + 0.5 + 0.25) * float(moments.reward_unit)] * 5, rel=1e-5
    )


def test_a_sensor_at_its_limit_stays_there():
    moments, _ = moments_and_scaling(*walks(20))
    moments = moments._replace(
        low=jnp.array([[-1.0, -1.0]]), high=jnp.array([[1.0, 1.0]]), own_slight=jnp.array([0.1, 0.1])
    )
    own = jnp.array([[1.0, 0.0], [1.0, -1.0], [0.5, 0.95]])
    change = jnp.array([[-0.05, -0.05], [-0.2, 0.3], [0.7, 0.2]])
    after = move_within(own, change, moments)
    np.testing.assert_allclose(after, [[1.0, -0.05], [0.8, -0.7], [1.0, 1.0]], atol=1e-6)


def test_newcomers_are_copied_from_a_moment_like_this_one():
    """One moment in two sees somebody appear: where the only other car has just gone. Elsewhere nobody does."""
    count = 50
    obs = np.zeros((count, STEPS + 1, 3, 2))
    obs[..., 0, :] = 1.0
    obs[..., 1, :] = (5.0, 1.0)
    obs[::2, 1:, 1, :] = (30.0, -9.0)  # gone after the first step, and another one is there
    obs += 0.01 * np.random.default_rng(0).normal(size=obs.shape) * (obs != 0)
    episodes, labels = recorded(
        obs, np.zeros((count, STEPS, 1)), np.ones((count, STEPS)), np.where(np.arange(count) % 2, 3, -1)
    )
    moments, _ = moments_and_scaling(episodes, labels, rows=3)
    table = moments.obs[moments.row[:1]].repeat(2, axis=0)
    new = newcomers(moments, jax.random.key(0), table, jnp.array([[False, False], [True, False]]))
    assert float(jnp.abs(new[0]).max()) > 2 * float(jnp.abs(table[:, 1:]).max())
    assert not new[1].any()


def test_episodes_are_drawn_whole():
    lengths = np.array([3, 1, 2])
    drawn = draw_episodes(np.random.default_rng(0), lengths)
    pieces = {0: [0, 1, 2], 3: [3], 4: [4, 5]}
    at, seen = 0, 0
    while at < len(drawn):
        piece = pieces[int(drawn[at])]
        assert drawn[at : at + len(piece)].tolist() == piece
        at, seen = at + len(piece), seen + 1
    assert seen == 3
    assert np.array_equal(draw_episodes(np.random.default_rng(0), lengths), drawn)


def test_the_margin_by_hand():
    """Two models, four episodes: 0.1 and 0.3 everywhere, so 0.1 between models; over episodes (8 * 0.2 + 1) / 10."""
    stops = np.stack([np.full((4, 1, 1), 0.1), np.full((4, 1, 1), 0.3)])
    over_episodes = math.sqrt(0.26 * 0.74 / 8)
    assert upper_bound(stops)[0, 0] == pytest.approx(0.2 + 1.64 * math.hypot(over_episodes, 0.1))
    assert upper_bound(np.ones((2, 4, 1, 1)))[0, 0] == 1.0
    assert upper_bound(np.zeros((3, 100, 1, 1)))[0, 0] > 0.005  # no stop in 300 is no proof


def test_the_unit_of_rewards_that_are_all_alike():
    assert unit_of(np.array([1.0, 3.0])) == 1.0
    assert unit_of(np.full(7, 0.3, np.float32).astype(np.float64) + 1e-9 * np.arange(7)) == pytest.approx(0.3)
    assert unit_of(np.zeros(3)) == 1.0
