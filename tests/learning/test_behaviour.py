import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged, sparse_costs

from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Episodes, Labels, Transitions
from rci.learning.behaviour import Config, episodes_apart, fit_behaviour, propose, restore_behaviour
from rci.learning.dataset import measure_scaling, to_device
from rci.learning.proposals.mixture import MixtureBehaviour
from rci.learning.proposals.reach import describe_reach
from rci.learning.proposals.vae import Vae
from rci.nets.mixture import Mixture, Parts, draw_actions, log_density

MODELS = ("mixture", "vae")

QUICK = {"hidden": 16, "updates": 1500, "batch_size": 64}


def bimodal(count=200):
    """One-step episodes whose action is +0.8 or -0.8, by the sign of the first feature."""
    episodes = ragged([1] * count, seed=3)
    arrays = dict(episodes.arrays())
    sign = np.sign(arrays["obs"][::2, 0])
    arrays["action"] = np.stack([0.8 * sign, 5.0 + 2.0 * sign], 1).astype(np.float32)
    return Episodes(**arrays)


@pytest.mark.parametrize("model", MODELS)
def test_candidates_are_actions_that_the_behaviour_takes(model):
    episodes = bimodal()
    labels = Labels.for_episodes(episodes, np.full(200, -1))
    frozen = restore_behaviour(fit_behaviour(episodes, labels, 0, Config(model, **QUICK)))
    obs = frozen.scaling.obs(jnp.asarray(episodes.obs[::2][:50]))
    action = frozen.scaling.decode_action(frozen.candidates(jax.random.key(0), obs, 10))
    expected = np.repeat(episodes.action[:50, None], 10, 1)
    close = np.abs(np.asarray(action) - expected) < np.array([0.4, 1.0])
    assert close.mean() > 0.9


def test_loss_of_the_vae_by_hand():
    """A network of zeros: mean 0, log deviation 0, so no divergence, and every action is decoded to 0."""
    vae = jax.tree.map(jnp.zeros_like, Vae(jax.random.key(0), 3, 2, hidden=4))
    action = jnp.array([[0.5, -1.0], [0.0, 1.0]])
    loss = vae.loss(jax.random.key(0), jnp.ones((2, 3)), action)
    assert loss == pytest.approx((0.25 + 1 + 0 + 1) / 4)


PARTS = Parts(
    log_weight=jnp.log(jnp.array([[0.25, 0.75]])),
    mean=jnp.array([[[-0.5, 0.0], [0.5, 0.2]]]),
    log_deviation=jnp.log(jnp.array([[[0.1, 0.1], [0.2, 0.4]]])),
)


def test_the_density_of_a_mixture_by_hand():
    """0.25 N(-0.5, 0.1) N(0, 0.1) + 0.75 N(0.5, 0.2) N(0.2, 0.4) at two actions, against scipy."""
    from scipy.stats import norm

    action = np.array([[0.4, 0.3], [-0.5, 0.1]])
    expected = [
        np.log(
            0.25 * norm.pdf(x, -0.5, 0.1) * norm.pdf(y, 0.0, 0.1)
            + 0.75 * norm.pdf(x, 0.5, 0.2) * norm.pdf(y, 0.2, 0.4)
        )
        for x, y in action
    ]
    found = log_density(PARTS, jnp.asarray(action, jnp.float32)[None])
    assert np.asarray(found[0]) == pytest.approx(expected, rel=1e-5)


def test_draws_of_a_mixture_by_hand():
    """A place below 0.25 falls on the first Gaussian; what leaves [-1, 1] is cut off."""
    place, noise = jnp.array([[0.2, 0.3, 0.99]]), jnp.array([[[1.0, 0.0], [-1.0, 2.0], [9.0, 0.0]]])
    found = draw_actions(PARTS, place, noise)[0]
    assert np.asarray(found) == pytest.approx(np.array([[-0.4, 0.0], [0.3, 1.0], [1.0, 0.2]]), abs=1e-6)


def test_proposals_of_a_mixture_follow_its_weights():
    """Places are even, so of n proposals each Gaussian has its share, and none lies farther than the limit."""
    model = MixtureBehaviour(Mixture(jax.random.key(0), 3, 2, 8, 4), 1.5)
    draws = model.draws(jax.random.key(1), (5, 40))
    assert draws.shape == (5, 40, 3)
    assert np.asarray(draws[2, :, 0]) == pytest.approx((np.arange(40) + 0.5) / 40)
    assert float(jnp.abs(draws[..., 1:]).max()) == 1.5
    assert model.density.action_size == 2


def test_reach_tells_a_model_that_covers_the_logs_from_one_that_collapsed():
    """Actions to the left or to the right, whatever is seen: the mixture proposes both, the vae the middle."""
    rng = np.random.default_rng(0)
    arrays = dict(ragged([4] * 100, seed=1).arrays())
    side = rng.choice([-0.8, 0.8], 400)
    arrays["action"] = np.stack([side, rng.uniform(-1, 1, 400)], 1).astype(np.float32)
    episodes = Episodes(**{**arrays, "source": np.arange(100) % 2}, sources=("one", "two"))
    labels = Labels.for_episodes(episodes, np.full(100, -1))
    reach = {
        model: fit_behaviour(episodes, labels, 0, Config(model, **QUICK)).info["reach"] for model in MODELS
    }
    assert set(reach["mixture"]) == {"all", "one", "two"}
    assert reach["mixture"]["all"]["nearest"] < 0.25 < 0.4 < reach["vae"]["all"]["nearest"]
    assert reach["vae"]["all"]["log_likelihood"] is None
    # 0.5 N at each side is at most as sharp as exp(4), and the other action is even: finite, and better than even.
    assert reach["mixture"]["all"]["log_likelihood"] > -np.log(4)
    for own in reach["mixture"].values():
        assert own["spread_of_proposals"] == pytest.approx(own["spread_of_actions"], rel=0.25)
    assert describe_reach(reach["mixture"]) == ""
    assert "poorly for one" in describe_reach(reach["vae"])
    assert describe_reach({}) == ""


def test_episodes_apart_have_no_part_in_the_fit():
    episodes = bimodal(40)
    config = Config(hidden=8, updates=20)
    apart = episodes_apart(40, 3)
    assert apart.sum() == 8
    arrays = dict(episodes.arrays())
    flat = arrays["action"].copy()
    flat[apart] = flat[~apart][: apart.sum()]  # within the same range, so that the scale stays
    other = Episodes(**{**arrays, "action": flat})
    one, two = (
        fit_behaviour(logs, Labels.for_episodes(logs, np.full(40, -1)), 3, config)
        for logs in (episodes, other)
    )
    assert one.info["reach"] != two.info["reach"]
    for name in one.model.arrays:
        if "model" in name:
            assert np.array_equal(one.model.arrays[name], two.model.arrays[name])
    assert not episodes_apart(1, 0).any()


@pytest.mark.parametrize(
    ("setting", "value"), [("noise_limit", 0.0), ("latent_limit", -1.0), ("components", 0)]
)
def test_bad_settings_of_behaviour_models(setting, value):
    with pytest.raises(RciError, match=setting):
        Config(**{setting: value})


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
