import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.nets.gaussian import GaussianActor, squashed_log_prob


def test_squashed_log_prob_by_hand():
    """At tanh(1) with mean 0 and deviation 2: z = 0.5, and the slope of tanh there is 1 - tanh(1)^2."""
    action = jnp.array([[math.tanh(1.0), 0.0]])
    mean, log_deviation = jnp.zeros((1, 2)), jnp.array([[math.log(2.0), 0.0]])
    squashed = -0.5 * (0.25 + math.log(2 * math.pi)) - math.log(2) - math.log(1 - math.tanh(1.0) ** 2)
    plain = -0.5 * math.log(2 * math.pi)
    assert float(squashed_log_prob(mean, log_deviation, action)[0]) == pytest.approx(
        squashed + plain, rel=1e-5
    )


def test_the_density_integrates_to_one():
    action = jnp.linspace(-0.999, 0.999, 20001)[:, None]
    mean, log_deviation = jnp.full_like(action, 0.3), jnp.full_like(action, -0.5)
    density = np.exp(np.asarray(squashed_log_prob(mean, log_deviation, action)))
    assert np.trapezoid(density, np.asarray(action)[:, 0]) == pytest.approx(1.0, abs=2e-3)


def test_actions_at_the_edge_are_finite_and_samples_lie_around_the_mode():
    actor = GaussianActor(jax.random.key(0), 3, 2, 8)
    obs = jax.random.normal(jax.random.key(1), (5, 3))
    assert np.isfinite(actor.log_prob(obs, jnp.ones((5, 2)))).all()
    assert actor.sample(jax.random.key(2), obs).shape == actor.mode(obs).shape == (5, 2)
    many = actor.samples(jax.random.key(3), obs, 4000)
    assert jnp.abs(many).max() <= 1.0
    # the median of tanh(u) is tanh(median u); 4000 draws are off by 0.1 once in 10^9
    assert np.asarray(jnp.median(many, axis=1)) == pytest.approx(np.asarray(actor.mode(obs)), abs=0.1)
    assert np.array_equal(actor.squash(obs, jnp.zeros((5, 1, 2)))[:, 0], actor.mode(obs))
