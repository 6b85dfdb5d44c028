import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import norm

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.redistribution.methods import grd
from rci.redistribution.methods.grd import (
    Dynamics,
    bounded,
    draw_switches,
    dynamics_loss,
    matters,
    mixture_log_likelihood,
    open_switches,
    settled,
)


def test_switches_are_0_or_1_as_often_as_their_probability_says():
    logits = jnp.log(jnp.array([0.9, 0.5, 0.2]) / jnp.array([0.1, 0.5, 0.8]))
    drawn = draw_switches(jax.random.key(0), jnp.broadcast_to(logits, (4000, 3)), 0.5)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    # a share of 4000 draws is off by 0.04 less than once in 10^6
    assert np.asarray(drawn).mean(axis=0) == pytest.approx([0.9, 0.5, 0.2], abs=0.04)


def test_switches_are_straight_through():
    """The gradient is that of the sigmoid, although the value is a step."""
    logits, temperature = jnp.array([1.0, -2.0]), 2.0
    gradient = jax.grad(lambda x: draw_switches(jax.random.key(3), x, temperature).sum())(logits)
    noise = jax.random.logistic(jax.random.key(3), (2,))
    soft = 1 / (1 + np.exp(-(np.asarray(logits) + np.asarray(noise)) / temperature))
    assert np.asarray(gradient) == pytest.approx(soft * (1 - soft) / temperature, abs=1e-6)
    assert (np.asarray(gradient) > 0).all()


def test_settled_and_open_switches_by_hand():
    logits = jnp.log(jnp.array([3.0, 1.0, 1.0 / 3.0]))  # probabilities 0.75, 0.5, 0.25
    assert settled(logits).tolist() == [1, 0, 0]
    assert open_switches(logits) == pytest.approx(1.5)
    # the price pulls a logit down by p (1 - p)
    assert jax.grad(open_switches)(logits) == pytest.approx([0.1875, 0.25, 0.1875])


def test_deviations_are_bounded():
    assert bounded(jnp.array([-1e9, 0.0, 1e9])) == pytest.approx([-4, -1, 2])


def test_mixture_against_scipy():
    rng = np.random.default_rng(0)
    x, raw = rng.normal(size=(5, 2)), rng.normal(size=(5, 2, 3, 3)) * 2
    sigma = np.exp(-4 + 6 / (1 + np.exp(-raw[..., 2, :])))
    density = (softmax(raw[..., 0, :], axis=-1) * norm.pdf(x[..., None], raw[..., 1, :], sigma)).sum(axis=-1)
    ours = mixture_log_likelihood(jnp.asarray(x), jnp.asarray(raw))
    assert np.asarray(ours) == pytest.approx(np.log(density), rel=1e-4, abs=1e-4)


def test_mixture_by_hand():
    # three equal normals of mean 0, log s = -1, at x = 0: minus log s, minus log sqrt(2 pi)
    assert mixture_log_likelihood(jnp.zeros(1), jnp.zeros((1, 3, 3))) == pytest.approx(
        [1 - 0.918939], abs=1e-5
    )


def test_mixture_gradient_is_finite_far_away():
    gradient = jax.grad(lambda raw: mixture_log_likelihood(jnp.full(1, 50.0), raw).sum())(
        jnp.full((1, 3, 3), -9.0)
    )
    assert np.isfinite(gradient).all()


def test_dynamics_loss_counts_rows_with_a_successor():
    log_likelihood = jnp.array([[1.0, 2.0], [3.0, -1.0], [9.0, 9.0]])
    assert dynamics_loss(log_likelihood, jnp.array([1.0, 1.0, 0.0])) == pytest.approx(-2.5)
    assert dynamics_loss(log_likelihood, jnp.zeros(3)) == 0.0


def test_a_closed_switch_hides_its_input_from_one_output_only():
    dynamics = Dynamics(jax.random.key(0), 3, 2, 8, 3)
    x = jax.random.normal(jax.random.key(1), (4, 3))
    switch = jnp.array([[0.0, 1.0], [1.0, 1.0], [1.0, 1.0]])  # input 0 does not reach output 0
    one, two = dynamics(x, switch), dynamics(x.at[:, 0].set(7.0), switch)
    assert one.shape == (4, 2, 3, 3)
    assert np.array_equal(one[:, 0], two[:, 0])
    assert not np.array_equal(one[:, 1], two[:, 1])


def test_what_matters_by_hand():
    """The cost hangs on 0; 0 is moved by 1, 1 by 2; 3 moves only itself. An action (row 4) is no observation."""
    cost = np.array([1, 0, 0, 0, 1], bool)
    dynamics = np.zeros((5, 4), bool)
    dynamics[1, 0] = dynamics[2, 1] = dynamics[3, 3] = dynamics[4, 3] = True
    assert matters(cost, dynamics).tolist() == [True, True, True, False]


def noisy_world(count=128, steps=8, seed=0):
    """Three observations: the first is the cost of the step, the second follows the action, the third is noise."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count, steps, 3))
    obs[..., 0] = rng.random((count, steps)) < 0.1
    action = rng.normal(size=(count, steps, 1))
    obs[:, 1:, 1] = action[:, :-1, 0]
    arrays = obs, action, np.ones((count, steps)), obs[..., 0].sum(axis=1)
    return Sequences(*(jnp.asarray(array, jnp.float32) for array in arrays))


def train(config, data, updates, rate=1e-2):
    method = grd.make(config)
    init_key, key = jax.random.split(jax.random.key(0))

    def step(state, key):
        return method.update(key, state, data, grd.Hyper(rate))

    run = jax.jit(lambda state, keys: jax.lax.scan(step, state, keys))
    state, info = run(method.init(init_key, data), jax.random.split(key, updates))
    assert np.isfinite(info.loss).all()
    return method, state


def test_the_price_closes_the_switches_of_noise():
    data = noisy_world()
    method, state = train(grd.Config(hidden=16, steps=16, cost_price=0.01, unbiased=True), data, 300)
    found = method.findings(state)
    assert json.loads(json.dumps(found)) == found
    assert found["obs_causes_cost"][0] > 0.9
    assert max(found["obs_causes_cost"][1:] + found["action_causes_cost"]) < 0.1
    assert found["obs_matters"] == [True, False, False]
    switches = np.asarray(jax.nn.sigmoid(state.network.dynamics_logits))
    assert switches[3, 1] > 0.9  # the action moves the second observation
    assert switches[2].max() < 0.5  # noise moves nothing
    # scores do not hear what the closed switches hide
    score = state.network(data.obs, data.action)
    assert np.array_equal(score, state.network(data.obs.at[..., 2].set(5.0), data.action + 1.0))
    bad = np.asarray(data.obs[..., 0]) > 0
    assert np.asarray(score)[bad].mean() == pytest.approx(1.0, abs=0.2)
    assert np.asarray(score)[~bad].mean() == pytest.approx(0.0, abs=0.1)


def test_steps_without_a_successor_have_no_dynamics():
    """Episodes of one step: finite, and the dynamics are not touched by them."""
    data = noisy_world(8)
    data = data._replace(mask=data.mask.at[:, 1:].set(0.0))
    before = grd.make(grd.Config()).init(jax.random.split(jax.random.key(0))[0], data)
    _, after = train(grd.Config(dynamics_price=0.0), data, 2)
    for a, b in zip(jax.tree.leaves(before.network.dynamics), jax.tree.leaves(after.network.dynamics)):
        assert np.array_equal(a, b)


def test_bad_settings():
    for options, word in (
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"dynamics_steps": 0}, "dynamics_steps must be at least 1, got 0"),
        ({"components": 0}, "components must be at least 1, got 0"),
        ({"steps": 1, "unbiased": True}, "unbiased needs at least 2 steps"),
        ({"temperature": 0.0}, "temperature must be above 0, got 0.0"),
        ({"cost_price": -0.1}, "cost_price must be at least 0, got -0.1"),
    ):
        with pytest.raises(RciError, match=word):
            grd.Config(**options)
