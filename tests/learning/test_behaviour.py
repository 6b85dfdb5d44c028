import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged

from rci.data import store
from rci.data.types import Episodes, Labels
from rci.learning.behaviour import Config, Vae, fit_behaviour, restore_behaviour, vae_loss

QUICK = Config(hidden=16, updates=1500, batch_size=64)


def bimodal(count=200):
    """One-step episodes whose action is +0.8 or -0.8, by the sign of the first feature."""
    episodes = ragged([1] * count, seed=3)
    arrays = dict(episodes.arrays())
    sign = np.sign(arrays["obs"][::2, 0])
    arrays["action"] = np.stack([0.8 * sign, 5.0 + 2.0 * sign], 1).astype(np.float32)
    return Episodes(**arrays)


def test_candidates_are_actions_that_the_behaviour_takes():
    episodes = bimodal()
    labels = Labels.for_episodes(episodes, np.full(200, -1))
    frozen = restore_behaviour(fit_behaviour(episodes, labels, 0, QUICK))
    obs = frozen.scaling.obs(jnp.asarray(episodes.obs[::2][:50]))
    action = frozen.scaling.decode_action(frozen.candidates(jax.random.key(0), obs, 10))
    expected = np.repeat(episodes.action[:50, None], 10, 1)
    close = np.abs(np.asarray(action) - expected) < np.array([0.4, 1.0])
    assert close.mean() > 0.9


def test_loss_by_hand():
    """A network of zeros: mean 0, log deviation 0, so no divergence, and every action is decoded to 0."""
    vae = jax.tree.map(jnp.zeros_like, Vae(jax.random.key(0), 3, 2, Config(hidden=4)))
    action = jnp.array([[0.5, -1.0], [0.0, 1.0]])
    loss = vae_loss(vae, jax.random.key(0), jnp.ones((2, 3)), action, 0.5)
    assert loss == pytest.approx((0.25 + 1 + 0 + 1) / 4)


def test_saved_and_restored_bit_for_bit(tmp_path):
    episodes = bimodal(40)
    labels = Labels.for_episodes(episodes, np.full(40, -1))
    config = Config(hidden=8, updates=10)
    one, two = (fit_behaviour(episodes, labels, 1, config) for _ in range(2))
    assert one.hash == two.hash
    again = restore_behaviour(store.read(store.write(tmp_path / "b", one)))
    for a, b in zip(jax.tree.leaves(restore_behaviour(one)), jax.tree.leaves(again)):
        assert np.array_equal(a, b)


def test_an_action_that_never_varies_is_kept(tmp_path):
    episodes = bimodal(40)
    arrays = dict(episodes.arrays())
    arrays["action"] = np.full_like(arrays["action"], 3.5)
    constant = Episodes(**arrays)
    labels = Labels.for_episodes(constant, np.full(40, -1))
    frozen = restore_behaviour(fit_behaviour(constant, labels, 0, Config(hidden=8, updates=10)))
    action = frozen.scaling.decode_action(frozen.candidates(jax.random.key(0), jnp.zeros((1, 3)), 3))
    assert (np.asarray(action) == 3.5).all()
