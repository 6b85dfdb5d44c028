"""The feasible learner by hand: its targets, its choice, and what it makes of other costs."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import sparse_costs
from probes import one_step

import rci
from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Transitions
from rci.learning import fit_behaviour, parse_options
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.dataset import measure_scaling, to_device
from rci.learning.methods import feasible
from rci.learning.methods.feasible import Batch, Config, Hyper, choice_score, settle
from rci.pipeline.jobs import Job
from rci.redistribution import redistribute

SMALL = {"hidden": 8, "batch_size": 4, "test_candidates": 5, "critics": 2}
TINY = {"hidden": 16, "batch_size": 64, "test_candidates": 16, "updates": 600, "model_updates": 200}


def constant(tree, *biases):
    """Networks that answer with these numbers, whatever they see; a committee has one set for each member."""
    tree = jax.tree.map(jnp.zeros_like, tree)
    numbers = [jnp.asarray(bias, jnp.float32) for bias in biases]
    if hasattr(tree, "rest"):
        for net, number in zip(tree.rest, numbers):
            object.__setattr__(net, "biases", (*net.biases[:-1], number))
    else:
        object.__setattr__(tree, "biases", (*tree.biases[:-1], numbers[0]))
    return tree


def a_batch(channels=1):
    """Three transitions: the first goes on, the second was stopped, the third was ended by the environment."""
    label = jnp.zeros((3, channels)).at[1, 0].set(1.0)
    return Batch(
        obs=jnp.ones((3, 2)),
        action=jnp.zeros((3, 1)),
        reward=jnp.array([1.0, 2.0, 3.0]),
        cost=jnp.array([[0.5], [0.25], [-0.5]]) * jnp.ones((3, channels)),
        label_cost=label,
        charged=jnp.array([[0.5], [0.9], [1.5]]) * jnp.ones((3, channels)),
        outcome=jnp.array([[1.0], [1.0], [0.0]]) * jnp.ones((3, channels)),
        left=jnp.array([2, 0, 0]),
        next_obs=jnp.ones((3, 2)),
        terminated=jnp.array([0.0, 0.0, 1.0]),
        stopped=jnp.array([0.0, 1.0, 0.0]),
    )


def test_choice_by_hand():
    value, cost = jnp.array([[1.0, 3.0, 2.0]]), jnp.array([[[0.1], [0.5], [0.2]]])
    assert choice_score(value, cost, jnp.array([0.3])).tolist() == [[1.0, -math.inf, 2.0]]
    assert choice_score(value, cost, jnp.array([math.inf])).tolist() == value.tolist()
    # None is below 0.05: the least dangerous one.
    assert int(jnp.argmax(choice_score(value, cost, jnp.array([0.05])))) == 0
    # Two channels: only the second candidate is below both, and of none the worst channel counts.
    both = jnp.array([[[0.1, 0.9], [0.2, 0.2], [0.9, 0.0]]])
    assert choice_score(value, both, jnp.array([0.3, 0.3])).tolist() == [[-math.inf, 3.0, -math.inf]]
    found = choice_score(value, both, jnp.array([0.05, 0.1]))
    assert np.asarray(found) == pytest.approx(np.array([[-0.8, -0.15, -0.85]]))


def losses(config, batch):
    """Of constant networks: critics of 1 and 25%, 2 and 50%; values of 4 and 75%. Every target can be written down."""
    learner = feasible.make(config)
    hyper = Hyper(discount=0.5, cost_discount=0.8, expectile=0.7, cost_expectile=0.2, learning_rate=0.0)
    state = learner.init(jax.random.key(0), batch, hyper)
    chance = {0.25: -math.log(3), 0.5: 0.0, 0.75: math.log(3)}  # logits
    told = (lambda p: p) if config.head == "linear" else (lambda p: chance[p])
    critic = constant(state.online.critic, [1.0, told(0.25)], [2.0, told(0.5)])
    value = constant(state.online.value, [4.0, told(0.75)])
    state = state._replace(online=feasible.Networks(critic, value), target=critic)
    _, info = learner.update(jax.random.key(1), state, batch, hyper)
    return info


def cross_entropy(target):
    """Of both critics together, the mean over the batch."""
    return sum(-(target * np.log(p) + (1 - target) * np.log(1 - p)).mean() for p in (0.25, 0.5))


@pytest.mark.parametrize("head", ["hazard", "linear"])
def test_losses_by_hand(head):
    """Constant networks: every target and loss can be written down."""
    batch = a_batch()
    if head == "hazard":
        batch = batch._replace(cost=batch.label_cost)
    info = losses(Config(head, **SMALL), batch)
    # r + 0.5 * 4, but not after the end of the environment; a stop does not end the reward
    target = np.array([3.0, 4.0, 3.0])
    assert float(info.reward_loss) == pytest.approx(((target - 1) ** 2).mean() + ((target - 2) ** 2).mean())
    if head == "hazard":
        expected = cross_entropy(np.array([0.8 * 0.75, 1.0, 0.0]))
    else:
        ahead = np.array([0.5 + 0.8 * 0.75, 0.25, -0.5])
        expected = sum(((ahead - p) ** 2).mean() for p in (0.25, 0.5))
    assert float(info.cost_loss) == pytest.approx(expected, rel=1e-5)
    # V above the lower return (1 < 4: weight 0.3), V_p above the higher chance (0.5 < 0.75: weight 0.8)
    assert float(info.value_loss) == pytest.approx(0.3 * 9.0 + 0.8 * 0.25**2, rel=1e-5)
    assert float(info.cost_value[0]) == pytest.approx(0.75)


def test_step_costs_as_chances_by_hand():
    """This step does it with 20%, or what lies ahead does, 0.8 * 75%: 0.2 + 0.8 * 0.6. At a stop its own cost counts,
    after an end of the environment nothing lies ahead."""
    batch = a_batch()._replace(cost=jnp.array([[0.2], [0.7], [0.4]]))
    info = losses(Config("hazard", **SMALL), batch)
    assert float(info.cost_loss) == pytest.approx(cross_entropy(np.array([0.68, 0.7, 0.4])), rel=1e-5)


@pytest.mark.parametrize(
    ("guide", "target"),
    [
        # Half of what lies ahead, 0.6, and half of what was charged so far, at most 1. A stop is certain.
        ("charged", [0.5 * 0.6 + 0.5 * 0.5, 1.0, 0.5 * 0.0 + 0.5 * 1.0]),
        # The episode of the first is stopped two transitions later: 0.8^2. That of the third never is.
        ("outcome", [0.5 * 0.6 + 0.5 * 0.64, 1.0, 0.0]),
    ],
)
def test_guides_by_hand(guide, target):
    info = losses(Config("auto", guide, **SMALL), a_batch())
    assert float(info.cost_loss) == pytest.approx(cross_entropy(np.array(target)), rel=1e-5)


def test_a_guided_target_by_hand():
    target, guide = jnp.array([[0.4, 0.0], [1.0, 0.0]]), jnp.array([[0.8, 0.4], [0.2, 0.6]])
    found = feasible.guided(target, guide, 0.25, jnp.array([0.0, 1.0]))
    np.testing.assert_allclose(found, [[0.5, 0.1], [1.0, 0.0]], rtol=1e-6)  # the second was stopped


def test_what_a_batch_knows_of_its_episodes():
    """Two episodes of three and two transitions: charged until then, this step included; the label; what is to come."""
    episodes = rci.Episodes(
        obs=np.zeros((7, 2), np.float32),
        action=np.zeros((5, 1), np.float32),
        reward=np.zeros(5),
        lengths=np.array([3, 2]),
        terminated=np.zeros(2, bool),
        truncated=np.ones(2, bool),
    )
    labels = rci.Labels.for_episodes(episodes, [2, -1])
    cost = np.array([0.25, 0.25, 0.5, 0.125, -0.125])
    costs = rci.StepCosts(cost, labels.kept_lengths, labels.cost, True, "rudder", labels.hash)
    transitions = Transitions.build(episodes, labels, costs)
    data = to_device(transitions, measure_scaling(transitions))
    learner = feasible.make(Config("hazard", "charged", **{**SMALL, "batch_size": 256}))
    batch = learner.sample(jax.random.key(0), data, None)
    known = np.column_stack([batch.charged[:, 0], batch.outcome[:, 0], batch.left])
    assert sorted(map(tuple, np.unique(known, axis=0).tolist())) == [
        (0.0, 0.0, 0.0), (0.125, 0.0, 1.0), (0.25, 1.0, 2.0), (0.5, 1.0, 1.0), (1.0, 1.0, 0.0),
    ]  # fmt: skip


def test_which_costs_are_hazards():
    labels = np.array([[0.0], [1.0], [0.0]])
    chances, signed = np.array([[0.25], [0.75], [0.0]]), np.array([[0.5], [-0.1], [0.6]])
    assert settle(Config(), labels, labels, 0).head == "hazard"
    assert settle(Config(), chances, labels, 0).head == "linear"
    assert settle(Config("hazard"), chances, labels, 0).head == "hazard"
    assert settle(Config("linear"), labels, labels, 0).head == "linear"
    assert settle(Config(guide="charged"), signed, labels, 0).head == "hazard"  # of the labels
    assert settle(Config(), labels, labels, 4).rows == 4
    for bad, least, most in ((signed, "-0.1", "0.6"), (chances * 2, "0", "1.5")):
        with pytest.raises(RciError, match=f"must lie between 0 and 1.*these lie between {least} and {most}"):
            settle(Config("hazard"), bad, labels, 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model_updates": -1}, "model_updates must be at least 0, got -1"),
        ({"head": "linear", "guide": "charged"}, "a guide draws hazards, so head must be 'hazard' or 'auto'"),
        ({"head": "chances"}, "head"),
        ({"guide": "both"}, "guide"),
        ({"costs": "hazard"}, "costs"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(RciError, match=message):
        parse_options("feasible", settings)


@pytest.fixture(scope="module")
def logs():
    episodes, labels = one_step()
    behaviour = fit_behaviour(episodes, labels, 0, BehaviourConfig(hidden=16, updates=500))
    return episodes, labels, behaviour


@pytest.fixture(scope="module")
def policy(logs):
    episodes, labels, behaviour = logs
    return rci.learn(episodes, labels, sparse_costs(labels), "feasible", 0.1, behaviour=behaviour, **TINY)


def test_one_training_serves_every_budget(logs, policy):
    """Another budget is another threshold: same networks, never less danger for more budget, no training."""
    obs = logs[0].obs[:100]
    thresholds, actions = [], []
    for budget in (0.0, 0.05, 0.3, 0.8, math.inf):
        other = policy.with_budget(budget)
        thresholds.append(float(other.info["threshold"]))
        actions.append(float(other.act(obs).mean()))
        same = {n for n in policy.model.arrays if n != "hyper.threshold"}
        assert all(policy.model.arrays[n] is other.model.arrays[n] for n in same)
    assert thresholds == sorted(thresholds)
    assert thresholds[-1] == math.inf
    assert actions == sorted(actions)
    assert np.array_equal(policy.with_budget(0.3).with_budget(0.1).act(obs), policy.act(obs))
    assert policy.with_budget(0.1).hash == policy.hash


def test_a_budget_that_no_threshold_keeps_is_marked(policy):
    strict = policy.with_budget(0.0)
    assert strict.info["kept"] is False
    assert strict.info["violation_bound"] > 0
    bound = [rung[0] for rung in policy.info["ladder"]["bound"]]
    lowest = policy.info["ladder"]["threshold"][bound.index(min(bound))]
    assert float(strict.info["threshold"]) == pytest.approx(lowest)
    assert strict.info["violation_bound"] == min(bound)
    assert policy.with_budget(1.0).info["kept"] is True


def test_thresholds_of_ones_own(policy):
    own = policy.with_threshold(0.25)
    assert own.info["budget"] == "none"
    assert own.info["threshold"] == "0.25"
    assert "kept" not in own.info
    for bad in (-0.1, 1.5, math.nan, "much"):
        with pytest.raises(RciError, match="a threshold is a number|between 0 and 1"):
            policy.with_threshold(bad)
    for bad, message in (
        ("P30", "percentile"),
        (-1, "cannot be"),
        (2, "at most 1"),
        ("a=0.1", "no channels"),
    ):
        with pytest.raises(RciError, match=message):
            policy.with_budget(bad)


def test_signed_costs_have_a_linear_critic_and_thresholds_of_their_own(logs):
    episodes, labels, behaviour = logs
    costs = redistribute(episodes, labels, "uniform")
    assert np.array_equal(costs.cost, sparse_costs(labels).cost)  # one step each: the label itself
    signed = replace(costs, cost=costs.cost - 0.5, return_equivalent=False)
    found = rci.learn(episodes, labels, signed, "feasible", 0.5, behaviour=behaviour, **TINY)
    assert found.model.config["config"]["head"] == "linear"
    ladder = found.info["ladder"]["threshold"]
    assert ladder[-1] is None
    assert ladder[:-1] == sorted(ladder[:-1])
    assert min(ladder[:-1]) < 0.0
    assert found.with_threshold(-3.5).info["threshold"] == "-3.5"
    strict, free = (found.with_budget(d).act(episodes.obs[:100]).mean() for d in (0.0, math.inf))
    assert strict < free


def test_soft_costs_and_guides_give_hazards(logs):
    """Step costs as chances, and guides: thresholds are chances, and a strict one is careful."""
    episodes, labels, behaviour = logs
    costs = sparse_costs(labels)
    costs = replace(costs, cost=0.8 * costs.cost, return_equivalent=False)
    for settings in ({"head": "hazard"}, {"guide": "charged"}, {"guide": "outcome", "guide_weight": 1.0}):
        found = rci.learn(
            episodes, labels, costs, "feasible", 0.5, behaviour=behaviour, **{**TINY, **settings}
        )
        assert found.model.config["config"]["head"] == "hazard"
        with pytest.raises(RciError, match="between 0 and 1"):
            found.with_threshold(1.5)
        strict, free = (found.with_threshold(p).act(episodes.obs[:100]).mean() for p in (0.0, math.inf))
        assert strict < free


@pytest.fixture(scope="module")
def untried_policy(logs):
    episodes, labels, behaviour = logs
    settings = {**TINY, "model_updates": 0}
    return rci.learn(
        episodes, labels, sparse_costs(labels), "feasible", math.inf, behaviour=behaviour, **settings
    )


def test_without_models_no_threshold_is_tried_and_nothing_is_promised(untried_policy, policy):
    """The same networks and thresholds; for all that is known, each of them may violate always."""
    ladder, tried = untried_policy.info["ladder"], policy.info["ladder"]
    assert ladder["threshold"] == tried["threshold"]
    assert ladder["bound"] == ladder["estimate"] == [[1.0]] * len(tried["threshold"])
    assert untried_policy.info["threshold"] == "inf"
    assert untried_policy.with_budget(0.3).info["kept"] is False
    assert untried_policy.with_budget(1.0).info["kept"] is True
    same = {name for name in policy.model.arrays if name != "hyper.threshold"}
    assert all(np.array_equal(policy.model.arrays[n], untried_policy.model.arrays[n]) for n in same)


def test_rungs_are_counted_from_the_strictest(logs, untried_policy):
    threshold = untried_policy.info["ladder"]["threshold"]
    last = len(threshold) - 1
    for rung, number in enumerate(threshold):
        found = untried_policy.at_rung(rung)
        assert float(found.info["threshold"]) == (math.inf if number is None else pytest.approx(number))
    assert threshold[last] is None
    obs = logs[0].obs[:50]
    assert np.array_equal(untried_policy.at_rung(last).act(obs), untried_policy.act(obs))
    for bad in (-1, last + 1):
        with pytest.raises(RciError, match=f"has {last + 1} thresholds, 0 to {last}; got {bad}"):
            untried_policy.at_rung(bad)


def test_a_limit_job_takes_a_rung_or_a_budget(untried_policy, tmp_path):
    policy = store.write(tmp_path / "policy", untried_policy)

    def limited(settings, name):
        Job(name, "limit", settings, 0, {"policy": policy}, tmp_path / name).run(lambda share: None)
        return store.read(tmp_path / name, "policy")

    assert limited({"rung": 2}, "a").info["threshold"] == untried_policy.at_rung(2).info["threshold"]
    assert limited({"budget": "inf"}, "b").info["threshold"] == "inf"
    with pytest.raises(RciError, match="got 99"):
        limited({"rung": 99}, "c")
    assert not (tmp_path / "c").exists()


def test_percentiles_and_logs_of_one_side_are_refused(logs):
    episodes, labels, behaviour = logs
    with pytest.raises(RciError, match="P30 is a percentile of step costs, but 'feasible'"):
        rci.learn(episodes, labels, sparse_costs(labels), "feasible", "P30", behaviour=behaviour)
    nobody = type(labels).for_episodes(episodes, np.full(len(episodes), -1))
    with pytest.raises(RciError, match="none of the 400 episodes was stopped"):
        rci.learn(episodes, nobody, sparse_costs(nobody), "feasible", 0.1)
    free = rci.learn(episodes, nobody, sparse_costs(nobody), "feasible", math.inf, **TINY)
    assert free.info["threshold"] == "inf"


def test_other_learners_say_that_they_must_be_trained_again(logs):
    episodes, labels, behaviour = logs
    costs = sparse_costs(labels)
    settings = {"hidden": 8, "batch_size": 16, "updates": 3}
    other = rci.learn(episodes, labels, costs, "bcq-lagrangian", 0.1, behaviour=behaviour, **settings)
    with pytest.raises(RciError, match="it must be trained again"):
        other.with_budget(0.2)
    with pytest.raises(RciError, match="it must be trained again"):
        other.at_rung(0)


def test_choosing_thresholds_by_hand():
    """Bounds 30%, 10%, 20%, 60%, 90%: the highest threshold within the budget, between two rungs a share of both."""
    from rci.data.risk.thresholds import Ladder, choose_thresholds

    bound = np.array([0.3, 0.1, 0.2, 0.6, 0.9])[:, None]
    ladder = Ladder(np.array([0.01, 0.04, 0.16, 0.64, math.inf]), bound / 2, bound, np.zeros(5))
    assert Ladder.from_table(ladder.as_table()).bound.tolist() == bound.tolist()
    for budget, threshold, estimate, kept in (
        (0.05, 0.04, 0.05, False),  # none: the one with the lowest bound
        (0.1, 0.04, 0.05, True),
        (0.15, 0.08, 0.075, True),  # halfway between 0.04 and 0.16, in logarithms
        (0.2, 0.16, 0.1, True),
        (0.3, 0.16 * 4**0.25, 0.15, True),  # the strictest has 30% too, but is lower
        (0.7, 0.64, 0.3, True),  # nothing is known between a threshold and none
        (0.9, math.inf, 0.45, True),
        (math.inf, math.inf, 0.45, True),
    ):
        found = choose_thresholds(ladder, budget, ())
        assert found.threshold[0] == pytest.approx(threshold), budget
        assert found.estimate[0] == pytest.approx(estimate), budget
        assert found.kept is kept
    both = Ladder(ladder.threshold, np.tile(bound, 2), np.concatenate([bound, bound[::-1]], 1), np.zeros(5))
    found = choose_thresholds(both, "one=0.1,two=inf", ("one", "two"))
    assert found.threshold.tolist() == pytest.approx([0.04, math.inf])


def tables(count=300):
    """Four rows of two features: one's own place and those of others, the last one often padding; one action.

    Going where somebody is (any row within 0.3 of the new place) is stopped.
    """
    rng = np.random.default_rng(0)
    own, action = rng.uniform(-1, 1, count), rng.uniform(-1, 1, count).astype(np.float32)
    obs = np.zeros((count, 2, 4, 2), np.float32)
    obs[..., 0, 0] = own[:, None]
    obs[..., 1:, 0], obs[..., 1:, 1] = rng.uniform(-2, 2, (count, 1, 3)), 1.0
    obs[rng.random(count) < 0.5, :, 3] = 0.0
    there = obs[:, 0, 1:, 1] > 0
    near = (np.abs(obs[:, 0, 1:, 0] - (own + action)[:, None]) < 0.3) & there
    episodes = rci.Episodes(
        obs=obs.reshape(-1, 4, 2),
        action=action[:, None],
        reward=np.abs(action),
        lengths=np.ones(count, int),
        terminated=np.ones(count, bool),
        truncated=np.zeros(count, bool),
    )
    return episodes, rci.Labels.for_episodes(episodes, np.where(near.any(axis=1), 0, -1))


def test_tables_are_seen_row_by_row_from_the_logs_to_a_stored_policy(tmp_path):
    episodes, labels = tables()
    small = BehaviourConfig(hidden=16, updates=200)
    model = fit_behaviour(episodes, labels, config=small)
    assert model.info["rows"] == model.model.config["rows"] == 4
    policy = rci.learn(episodes, labels, sparse_costs(labels), budget=0.5, behaviour=model, **TINY)
    assert policy.model.config["config"]["rows"] == 4
    obs = episodes.obs[::2][:50]
    shuffled = obs[:, [0, 3, 1, 2]]
    np.testing.assert_allclose(policy.act(obs), policy.act(shuffled), atol=1e-5)
    policy.save(tmp_path / "policy")
    np.testing.assert_array_equal(rci.load(tmp_path / "policy").act(obs), policy.act(obs))
    as_a_whole = fit_behaviour(episodes, labels, config=replace(small, rows=0))
    flat = rci.learn(episodes, labels, sparse_costs(labels), budget=0.5, behaviour=as_a_whole, **TINY)
    assert flat.model.config["config"]["rows"] == 0
    assert not np.allclose(flat.act(obs), flat.act(shuffled), atol=1e-3)


def test_settings_of_rows_that_make_no_sense():
    episodes, labels = tables(20)
    with pytest.raises(RciError, match="observations of 8 features are not made of 3 rows"):
        fit_behaviour(episodes, labels, config=BehaviourConfig(rows=3))
    with pytest.raises(RciError, match="rows must not be negative, got -1"):
        BehaviourConfig(rows=-1)
    with pytest.raises(RciError, match="the VAE sees observations as a whole"):
        BehaviourConfig(model="vae", rows=4)
    with pytest.raises(RciError, match="set behaviour.rows instead"):
        rci.learn(episodes, labels, sparse_costs(labels), rows=4)
