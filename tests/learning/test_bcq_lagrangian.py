import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rci.data.errors import RciError
from rci.learning.dataset import Batch, Dataset
from rci.learning.methods import bcq_lagrangian as bcq
from rci.learning.methods.bcq_lagrangian import Config, Hyper, judge, nudge
from rci.learning.proposals.vae import Vae
from rci.nets.dense import Committee, Mlp, Normaliser, PairMlp

SMALL = {"hidden": 8, "candidates": 3, "test_candidates": 4, "batch_size": 6, "initial_batch_size": 4}


def random_batch(seed=0, rows=6, obs=3, action=2, candidates=3, channels=1):
    keys = iter(jax.random.split(jax.random.key(seed), 14))

    def normal(*shape):
        return jax.random.normal(next(keys), shape)

    def flags():
        return jax.random.bernoulli(next(keys), 0.3, (rows,)).astype(jnp.float32)

    return Batch(
        obs=normal(rows, obs),
        action=jnp.tanh(normal(rows, action)),
        reward=normal(rows),
        cost=normal(rows, channels),
        label_cost=jax.random.uniform(next(keys), (rows, channels)),
        cost_range=jnp.array([[-9.0] * channels, [9.0] * channels]),
        model=None,
        next_obs=normal(rows, obs),
        terminated=flags(),
        truncated=flags(),
        stopped=flags(),
        last=flags(),
        candidate=jnp.tanh(normal(rows, candidates, action)),
        next_candidate=jnp.tanh(normal(rows, candidates, action)),
        cost_candidate=None,
        initial_obs=normal(4, obs),
        initial_candidate=jnp.tanh(normal(4, candidates, action)),
    )


def test_a_network_of_pairs_is_a_network_of_their_concatenation():
    pair = PairMlp(jax.random.key(0), 3, 2, (5, 4, 1))
    joint = Mlp(jax.random.key(0), (5, 5, 4, 1))
    weights = (jnp.concatenate([pair.obs_weight, pair.action_weight]), *pair.rest.weights)
    object.__setattr__(joint, "weights", weights)
    object.__setattr__(joint, "biases", (pair.bias, *pair.rest.biases))
    obs = jax.random.normal(jax.random.key(1), (7, 3))
    action = jax.random.normal(jax.random.key(2), (7, 4, 2))
    both = jnp.concatenate([jnp.broadcast_to(obs[:, None], (7, 4, 3)), action], -1)
    assert np.asarray(pair(obs, action)) == pytest.approx(np.asarray(joint(both)), abs=1e-5)
    assert np.asarray(pair(obs, action[:, 0])) == pytest.approx(np.asarray(joint(both[:, 0])), abs=1e-5)


def test_a_committee_is_networks_of_pairs_side_by_side():
    members = [PairMlp(k, 3, 2, (5, 4, 1)) for k in jax.random.split(jax.random.key(0), 3)]
    committee = Committee(jax.random.key(0), 3, 2, (5, 4, 1), members=3)
    obs = jax.random.normal(jax.random.key(1), (7, 3))
    action = jax.random.normal(jax.random.key(2), (7, 4, 2))
    for answer, member in zip(committee(obs, action), members, strict=True):
        assert np.asarray(answer) == pytest.approx(np.asarray(member(obs, action)), abs=1e-5)
    assert committee(obs, action[:, 0])[0].shape == (7, 1)


def test_a_constant_feature_is_only_shifted():
    from rci.nets.dense import normaliser

    scale = normaliser(jnp.array([2.0, 5.0]), jnp.array([4.0, 0.0]))
    assert isinstance(scale, Normaliser)
    assert scale(jnp.array([[6.0, 6.0]])).tolist() == [[1.0, 1.0]]


def test_nudge_by_hand():
    """An actor that answers 1 and -2 whatever it sees."""
    shapes = jax.eval_shape(lambda: PairMlp(jax.random.key(0), 3, 2, (4, 2)))
    actor = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), shapes)
    object.__setattr__(actor.rest, "biases", (jnp.array([1.0, -2.0]),))
    candidate = jnp.array([[[0.5, 0.5], [0.99, -1.0]]])
    moved = np.asarray(nudge(actor, jnp.zeros((1, 3)), candidate, 0.1))[0]
    assert moved[0] == pytest.approx([0.5 + 0.1 * math.tanh(1), 0.5 - 0.1 * math.tanh(2)])
    assert moved[1].tolist() == [1.0, -1.0]  # kept in range


def test_a_nudge_is_small_and_stays_in_range():
    actor = PairMlp(jax.random.key(0), 3, 2, (8, 8, 2))
    obs = jax.random.normal(jax.random.key(1), (20, 3))
    candidate = jax.random.uniform(jax.random.key(2), (20, 5, 2), minval=-1.0)
    moved = nudge(actor, obs, candidate, 0.05)
    assert jnp.abs(moved - candidate).max() <= 0.05 + 1e-6
    assert jnp.abs(moved).max() <= 1.0
    assert np.array_equal(nudge(actor, obs, candidate, 0.0), candidate)


@pytest.mark.parametrize("variant", ["critic", "penalised"])
@pytest.mark.parametrize("estimate", ["initial", "batch"])
def test_one_update_changes_everything_that_learns(variant, estimate):
    learner = bcq.make(Config(variant=variant, estimate=estimate, **SMALL))
    hyper = Hyper(threshold=-5.0)
    state = learner.init(jax.random.key(0), random_batch(), hyper)
    after, info = jax.jit(learner.update)(jax.random.key(1), state, random_batch(), hyper)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), state.online, after.online)
    # biases of the last layers may have zero gradient by chance nowhere here: every array moves
    assert all(jax.tree.leaves(changed))
    assert float(after.multiplier[0]) == pytest.approx(
        hyper.multiplier_rate * (float(info.cost_estimate[0]) + 5.0), rel=1e-5
    )
    assert (state.online.step_cost is None) == (variant == "critic")


def test_targets_by_hand():
    """Critics that ignore their input: every value is known."""
    learner = bcq.make(Config(**SMALL))
    hyper = Hyper(threshold=0.0, discount=0.5, cost_discount=1.0, learning_rate=0.0, target_rate=0.0)
    batch = random_batch()
    state = learner.init(jax.random.key(0), batch, hyper)
    blank = jax.tree.map(jnp.zeros_like, state.online)

    def answer(critic, first, second):
        for rest, value in zip(critic.rest, (first, second), strict=True):
            object.__setattr__(rest, "biases", (*rest.biases[:-1], jnp.array([value])))

    answer(blank.reward_critic, 2.0, 4.0)
    answer(blank.cost_critic, 0.2, 0.6)
    state = state._replace(online=blank, target=blank)
    _, info = learner.update(jax.random.key(1), state, batch, hyper)
    # soft minimum 0.75 * 2 + 0.25 * 4 = 2.5; costs are judged in the middle: 0.4
    y_reward = batch.reward + 0.5 * (1 - batch.terminated) * 2.5
    y_cost = batch.cost[:, 0] + (1 - batch.last) * 0.4
    assert info.reward_loss == pytest.approx(
        float(((2 - y_reward) ** 2 + (4 - y_reward) ** 2).mean()), rel=1e-5
    )
    assert info.cost_loss == pytest.approx(
        float(((0.2 - y_cost) ** 2 + (0.6 - y_cost) ** 2).mean()), rel=1e-5
    )
    assert np.asarray(info.cost_estimate) == pytest.approx([0.4])


def answering(learner, batch, hyper, **answers):
    """A state whose networks ignore their input: every value is known."""
    state = learner.init(jax.random.key(0), batch, hyper)
    blank = jax.tree.map(jnp.zeros_like, state.online)
    for name, values in answers.items():
        network = getattr(blank, name)
        nets = network.rest if isinstance(network, Committee) else (network.rest,)
        for rest, value in zip(nets, values, strict=True):
            object.__setattr__(rest, "biases", (*rest.biases[:-1], jnp.array(value)))
    return state._replace(online=blank, target=blank)


def test_a_cost_target_stays_in_the_range_of_recorded_sums():
    learner, hyper = bcq.make(Config(**SMALL)), Hyper(threshold=0.0, learning_rate=0.0)
    batch = random_batch()._replace(cost_range=jnp.array([[-0.25], [0.5]]))
    state = answering(learner, batch, hyper, cost_critic=([0.2], [0.6]))
    _, info = learner.update(jax.random.key(1), state, batch, hyper)
    y = np.clip(np.asarray(batch.cost)[:, 0] + (1 - np.asarray(batch.last)) * 0.4, -0.25, 0.5)
    assert set(y) & {-0.25, 0.5}
    assert info.cost_loss == pytest.approx(float(((0.2 - y) ** 2 + (0.6 - y) ** 2).mean()), rel=1e-5)


def test_two_channels_by_hand():
    """Targets, estimates, multipliers and the actor's loss of two channels, worked out one by one."""
    learner = bcq.make(Config(**SMALL))
    hyper = Hyper(
        threshold=jnp.array([0.1, jnp.inf]),
        discount=0.5,
        learning_rate=0.0,
        target_rate=0.0,
        multiplier_rate=0.5,
    )
    batch = random_batch(channels=2)
    critics = {"reward_critic": ([2.0], [4.0]), "cost_critic": ([0.2, 1.0], [0.6, 3.0])}
    state = answering(learner, batch, hyper, **critics)._replace(multiplier=jnp.array([3.0, 0.25]))
    after, info = learner.update(jax.random.key(1), state, batch, hyper)
    # costs are judged in the middle of the twins: 0.4 and 2
    y = np.asarray(batch.cost) + (1 - np.asarray(batch.last))[:, None] * np.array([0.4, 2.0])
    expected = ((np.array([0.2, 1.0]) - y) ** 2 + (np.array([0.6, 3.0]) - y) ** 2).sum(axis=1).mean()
    assert info.cost_loss == pytest.approx(float(expected), rel=1e-5)
    assert np.asarray(info.cost_estimate) == pytest.approx([0.4, 2.0])
    assert np.asarray(after.multiplier) == pytest.approx([3.0 + 0.5 * (0.4 - 0.1), 0.0])  # inf: none
    # of the first members: Q - sum of lambda * cost = 2 - 3 * 0.2 - 0.25 * 1, divided by 1 + 3 + 0.25
    assert info.actor_loss == pytest.approx(-1.15 / 4.25, rel=1e-5)


def test_two_penalties_by_hand():
    """y = r + gamma * max_a' [Q - sum_k lambda_k * c~_k]."""
    learner = bcq.make(Config(variant="penalised", **SMALL))
    hyper = Hyper(threshold=jnp.zeros(2), discount=0.5, learning_rate=0.0, target_rate=0.0)
    batch = random_batch(channels=2)
    networks = {"reward_critic": ([2.0], [2.0]), "step_cost": ([0.25, 0.5],)}
    state = answering(learner, batch, hyper, **networks)._replace(multiplier=jnp.array([3.0, 1.0]))
    _, info = learner.update(jax.random.key(1), state, batch, hyper)
    y = batch.reward + 0.5 * (1 - batch.terminated) * (2.0 - 3.0 * 0.25 - 0.5)
    assert info.reward_loss == pytest.approx(float(2 * ((2 - y) ** 2).mean()), rel=1e-5)


def test_penalised_target_by_hand():
    """y = r + gamma * max_a' [Q - lambda * c~]. Paper: Stage 3."""
    learner = bcq.make(Config(variant="penalised", **SMALL))
    hyper = Hyper(threshold=0.0, discount=0.5, learning_rate=0.0, target_rate=0.0)
    batch = random_batch()
    networks = {"reward_critic": ([2.0], [2.0]), "step_cost": ([0.25],)}
    state = answering(learner, batch, hyper, **networks)._replace(multiplier=jnp.array([3.0]))
    _, info = learner.update(jax.random.key(1), state, batch, hyper)
    y = batch.reward + 0.5 * (1 - batch.terminated) * (2.0 - 3.0 * 0.25)
    assert info.reward_loss == pytest.approx(float(2 * ((2 - y) ** 2).mean()), rel=1e-5)


def test_judgement_is_pessimistic_on_both_sides():
    learner = bcq.make(Config(**SMALL))
    hyper = Hyper(reward_pessimism=1.0, cost_pessimism=1.0)
    batch = random_batch(channels=2)
    online = learner.init(jax.random.key(0), batch, hyper).online
    seen = judge(online, batch.obs, batch.action, jnp.array([2.0, 3.0]), hyper)
    reward, cost = (critic(batch.obs, batch.action) for critic in (online.reward_critic, online.cost_critic))
    assert np.array_equal(seen.reward_q, jnp.minimum(*reward)[:, 0])
    assert np.array_equal(seen.cost_q, jnp.maximum(*cost))  # in each channel by itself
    priced = seen.reward_q - 2 * seen.cost_q[:, 0] - 3 * seen.cost_q[:, 1]
    assert np.asarray(seen.value) == pytest.approx(np.asarray(priced), abs=1e-6)


def test_a_dataset_row_is_followed_by_its_next_observation(point_episodes, point_labels):
    from rci.data.types import Transitions
    from rci.learning.behaviour import FrozenBehaviour
    from rci.learning.dataset import measure_scaling, to_device
    from rci.redistribution import redistribute

    costs = redistribute(point_episodes, point_labels, "sparse")
    transitions = Transitions.build(point_episodes, point_labels, costs)
    scaling = measure_scaling(transitions)
    data = to_device(transitions, scaling)
    assert isinstance(data, Dataset)
    assert np.asarray(scaling.decode_action(data.action)) == pytest.approx(transitions.action, abs=1e-6)
    behaviour = FrozenBehaviour(Vae(jax.random.key(0), 4, 2, hidden=4), scaling)
    batch = bcq.make(Config(**SMALL)).sample(jax.random.key(3), data, behaviour)
    pairs = {tuple(np.round([*a, *b], 5)) for a, b in zip(data.obs[data.row], data.obs[data.row + 1])}
    for before, after in zip(np.asarray(batch.obs), np.asarray(batch.next_obs)):
        assert tuple(np.round([*before, *after], 5)) in pairs
    starts = {tuple(np.round(row, 5)) for row in np.asarray(data.obs[data.initial])}
    assert all(tuple(np.round(row, 5)) in starts for row in np.asarray(batch.initial_obs))


def test_the_auditor_by_hand():
    """It learns the labels, tells the estimate where the budget is a number, and changes no choice."""
    learner = bcq.make(Config(**SMALL))
    hyper = Hyper(
        threshold=jnp.array([0.1, 0.1]), audited=jnp.array([1.0, 0.0]), learning_rate=0.0, multiplier_rate=0.5
    )
    batch = random_batch(channels=2)
    networks = {
        "reward_critic": ([2.0], [4.0]),
        "cost_critic": ([0.2, 1.0], [0.6, 3.0]),
        "auditor": ([0.7, 0.9],),
    }
    state = answering(learner, batch, hyper, **networks)
    after, info = learner.update(jax.random.key(1), state, batch, hyper)
    assert np.asarray(info.cost_estimate) == pytest.approx([0.7, 2.0])  # of the second channel Q_c tells
    assert np.asarray(after.multiplier) == pytest.approx([0.5 * 0.6, 0.5 * 1.9])
    # What it learns: the label at the end, its own answer before it, whatever the step costs are.
    y = np.asarray(batch.label_cost) + (1 - np.asarray(batch.last))[:, None] * np.array([0.7, 0.9])
    y = np.minimum(y, 1.0)  # no label is larger
    gradient = -2 * (y - np.array([0.7, 0.9])).mean(axis=0)  # of the bias of the last layer
    moved, _ = learner.update(jax.random.key(1), state, batch, hyper._replace(learning_rate=1e-3))
    step = np.asarray(moved.online.auditor.rest.biases[-1] - state.online.auditor.rest.biases[-1])
    assert np.sign(step).tolist() == np.sign(-gradient).tolist()  # Adam's first step goes by the sign
    loud = answering(learner, batch, hyper, **{**networks, "auditor": ([9.0, 9.0],)})
    obs = batch.obs[:3]
    chosen = [judge(s.online, obs, batch.candidate[:3], jnp.ones(2), hyper).value for s in (state, loud)]
    assert np.array_equal(*chosen)


def test_a_relative_gap_by_hand():
    """Of an audited budget the ratio moves the multiplier, of a percentile the difference, of no budget nothing."""
    learner = bcq.make(Config(**SMALL, gap="relative"))
    hyper = Hyper(
        threshold=jnp.array([0.1, 0.1, jnp.inf]),
        audited=jnp.array([1.0, 0.0, 1.0]),
        learning_rate=0.0,
        multiplier_rate=0.5,
    )
    batch = random_batch(channels=3)
    networks = {
        "reward_critic": ([2.0], [4.0]),
        "cost_critic": ([0.2, 1.0, 1.0], [0.6, 3.0, 1.0]),
        "auditor": ([0.7, 0.9, 0.9],),
    }
    state = answering(learner, batch, hyper, **networks)._replace(
        multiplier=jnp.array([1.0, 1.0, 1.0]), smoothed=jnp.array([0.05, 0.0, 0.0])
    )
    after, _ = learner.update(jax.random.key(1), state, batch, hyper)
    smoothed = 0.99 * 0.05 + 0.01 * 0.7  # 0.0565: below the budget still, though the last estimate is above
    assert float(after.smoothed[0]) == pytest.approx(smoothed)
    ratio = float(np.log((smoothed + 0.01) / 0.11))
    assert np.asarray(after.multiplier) == pytest.approx([1.0 + 0.5 * ratio, 1.0 + 0.5 * 1.9, 0.0], rel=1e-5)
    with pytest.raises(RciError, match="a relative gap is one between an auditor and a budget"):
        Config(gap="relative", estimate="initial")


@pytest.mark.parametrize(
    "rung",
    [{"alongside": 8}, {"shared_targets": False}, {"critics": 4}, {"critics": 1}, {"draws": "episodes"}],
    ids=str,
)
def test_rungs_of_the_ladder_can_be_taken_back(rung):
    learner = bcq.make(Config(**SMALL, **rung))
    hyper, batch = Hyper(threshold=0.1), random_batch()
    if "alongside" in rung:
        batch = batch._replace(model=Vae(jax.random.key(5), 3, 2, 4, latent_limit=0.7))
    if "shared_targets" in rung:
        batch = batch._replace(cost_candidate=-batch.next_candidate)
    state = learner.init(jax.random.key(0), batch, hyper)
    after, _ = jax.jit(learner.update)(jax.random.key(1), state, batch, hyper)
    changed = jax.tree.map(lambda a, b: bool((a != b).any()), state.online, after.online)
    assert all(jax.tree.leaves(changed))
    assert (state.online.vae is None) == ("alongside" not in rung)
    assert state.online.vae is None or state.online.vae.latent_limit == 0.7
    assert len(state.online.cost_critic.rest) == rung.get("critics", 2)


def test_a_negative_width_is_refused():
    with pytest.raises(RciError, match="alongside is a width, so it cannot be -1"):
        Config(alongside=-1)


def test_costs_of_several_recorded_steps_by_hand():
    """Episodes of three and two steps, costs 1 2 3 and 4 5: sums of two steps, and all that is left."""
    from dataclasses import replace

    from conftest import ragged, sparse_costs

    from rci.data.types import Labels, Transitions
    from rci.learning.dataset import look_ahead, measure_scaling, to_device

    episodes = ragged([3, 2], seed=2)
    labels = Labels.for_episodes(episodes, [2, -1])
    costs = replace(sparse_costs(labels), cost=np.array([1.0, 2.0, 3.0, 4.0, 5.0]), return_equivalent=False)
    transitions = Transitions.build(episodes, labels, costs)
    data = to_device(transitions, measure_scaling(transitions))
    assert data.left.tolist() == [2, 1, 0, 1, 0]
    every = jnp.arange(5)
    two, row = look_ahead(data, every, jnp.full(5, 2))
    assert two.cost[:, 0].tolist() == [3.0, 5.0, 3.0, 9.0, 5.0]
    assert two.on.tolist() == [1, 0, 0, 0, 0]
    assert row.tolist() == [2, 3, 3, 6, 6]  # the last observation of an episode where it is over
    assert np.array_equal(two.obs, data.obs[row])
    whole, _ = look_ahead(data, every, jnp.full(5, 99))
    assert whole.cost[:, 0].tolist() == [6.0, 5.0, 3.0, 9.0, 5.0]
    assert not whole.on.any()
    one, row = look_ahead(data, every, jnp.ones(5, jnp.int32))
    assert one.cost[:, 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert one.on.tolist() == [1, 1, 0, 1, 0]
    assert row.tolist() == [1, 2, 3, 5, 6]


@pytest.mark.parametrize(
    "control", [{"cost_steps": 5}, {"cost_steps": 0}, {"cost_lambda": 0.9}, {"pricing": "hinge"}], ids=str
)
def test_controls_train_and_act(control, tmp_path):
    """Each goes from logs to a policy that acts the same in NumPy and differs from one without it."""
    from conftest import sparse_costs
    from probes import PROBES

    import rci
    from rci.learning import fit_behaviour
    from rci.learning.behaviour import Config as BehaviourConfig
    from rci.runtime import load

    episodes, labels = PROBES["corridor"].logs()
    behaviour = fit_behaviour(episodes, labels, 0, BehaviourConfig(hidden=8, updates=50))
    settings = {"hidden": 8, "batch_size": 32, "updates": 60, "behaviour": behaviour}
    costs = sparse_costs(labels)
    plain, own = (
        rci.learn(episodes, labels, costs, "bcq-lagrangian", 0.1, **settings, **more)
        for more in ({}, control)
    )
    obs = episodes.obs[:50]
    name = "networks.cost_critic.obs_weight"
    assert not np.array_equal(plain.model.arrays[name], own.model.arrays[name])
    own.save(tmp_path / "policy")
    assert load(tmp_path / "policy").act(obs) == pytest.approx(own.act(obs), abs=1e-5)


def test_controls_that_make_no_sense_are_refused():
    from rci.learning import parse_options

    for options, message in (
        ({"cost_steps": -1}, "cost_steps must not be negative"),
        ({"cost_lambda": 1.0}, "cost_lambda must be in"),
        ({"cost_lambda": 0.5, "cost_steps": 3}, "cost_lambda draws the number of steps"),
        ({"pricing": "hinge", "variant": "penalised"}, "a hinge prices the cost critic"),
        ({"cost_steps": 3, "cost_discount": 0.9}, "summed without a discount"),
    ):
        with pytest.raises(RciError, match=message):
            parse_options("bcq-lagrangian", options)
