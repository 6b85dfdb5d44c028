import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged, sparse_costs

from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Episodes, Labels, Transitions
from rci.learning.behaviour import Config, Vae, fit_behaviour, propose, restore_behaviour, vae_loss
from rci.learning.dataset import measure_scaling, to_device

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


def test_proposals_are_decoded_once_for_every_kept_observation(tmp_path):
    episodes = ragged([3, 5], seed=2)
    labels = Labels.for_episodes(episodes, [-1, 1])  # the second one is cut after two transitions
    model = fit_behaviour(episodes, labels, 0, Config(hidden=8, updates=5, proposals=7))
    assert model.proposal.shape == (4 + 3, 7, 2)
    again = store.read(store.write(tmp_path / "b", model))
    frozen, transitions = restore_behaviour(again), Transitions.build(episodes, labels, sparse_costs(labels))
    data = to_device(transitions, frozen.scaling, proposal=again.proposal)
    assert data.proposal.unsafe_buffer_pointer() == again.proposal.ctypes.data  # mapped, not copied
    picked = np.asarray(propose(jax.random.key(0), data, frozen, jnp.array([6, 0]), 3))
    for row, actions in zip((6, 0), picked):
        places = [np.flatnonzero((model.proposal[row] == action).all(-1)).tolist() for action in actions]
        first = places[0][0]
        assert places == [[first], [(first + 1) % 7], [(first + 2) % 7]]
    assert fit_behaviour(episodes, labels, 0, Config(hidden=8, updates=5, proposals=0)).proposal is None
    with pytest.raises(RciError, match="proposals must not be negative, got -1"):
        Config(proposals=-1)


def test_what_a_learner_sees_of_the_data():
    """Rows, steps, sums still to come and labels of two episodes, one of them cut at its stop."""
    arrays = dict(ragged([3, 4], seed=2).arrays())
    arrays["reward"] = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], np.float32)
    episodes = Episodes(**arrays)
    labels = Labels.for_episodes(episodes, [-1, 1])
    transitions = Transitions.build(episodes, labels, sparse_costs(labels))
    scaling = measure_scaling(transitions)
    assert float(scaling.reward_unit) == pytest.approx(1.5)  # returns 6 and 9: that is what they differ by
    data = to_device(transitions, scaling, within=np.array([True, False]))
    assert len(data.obs) == 4 + 3
    assert data.row.tolist() == [0, 1, 2, 4, 5]
    assert data.initial.tolist() == [0, 4]
    assert data.step.tolist() == [0, 1, 2, 0, 1]
    assert (1.5 * data.reward_to_go).tolist() == pytest.approx([6, 5, 3, 9, 5])
    assert data.cost_to_go[:, 0].tolist() == [0, 0, 0, 1, 1]
    assert data.label_cost[:, 0].tolist() == [0, 0, 0, 0, 1]
    assert data.within.tolist() == [1, 1, 1, 0, 0]
    arrays["reward"] = np.full(7, 0.5, np.float32)
    episodes = Episodes(**arrays)
    labels = Labels.for_episodes(episodes, [-1, 2])
    equal = Transitions.build(episodes, labels, sparse_costs(labels))
    assert float(measure_scaling(equal).reward_unit) == pytest.approx(1.5)  # both return 1.5: their size
