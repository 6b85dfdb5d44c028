"""The exam that every learner sits: same seed same policy, no second compilation, and probes with known answers."""

import importlib
import math
from functools import cache
from itertools import pairwise

import jax
import numpy as np
import pytest
from conftest import sparse_costs
from probes import IMITATORS, PROBES, known_answers, one_step

import rci
from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Episodes, Labels, Transitions
from rci.learning import LEARNERS, fit_behaviour, predict_values
from rci.learning.behaviour import Config, restore_behaviour
from rci.learning.dataset import to_device
from rci.nets.arrays import from_arrays, to_arrays
from rci.redistribution import redistribute

pytestmark = pytest.mark.usefixtures("optimised")
training = importlib.import_module("rci.learning.train")
TINY = {"hidden": 32, "batch_size": 64, "initial_batch_size": 32, "updates": 1000, "target_rate": 0.05}
TINY["model_updates"] = 300
TINY["context"] = 3  # of those that look back; no probe is longer
PACE = {**TINY, "multiplier_rate": 0.01}  # of the probes; a learner takes those settings that it has
VARIANTS = {"bcq-lagrangian": [{"variant": "critic"}, {"variant": "penalised"}, {"estimate": "batch"}]}


def learn(episodes, labels, costs, method="bcq-lagrangian", budget=0.05, behaviour=None, **settings):
    """rci.learn, which takes no behaviour model for learners that use none."""
    unused = method in LEARNERS and not LEARNERS[method].proposes
    return rci.learn(
        episodes, labels, costs, method, budget, behaviour=None if unused else behaviour, **settings
    )


def tiny_config(method):
    """The static half of TINY."""
    config = LEARNERS[method].config
    return config(**{name: TINY[name] for name in TINY if name in vars(config())})


def known(method, settings):
    """Those of the settings that this learner has."""
    entry = LEARNERS[method]
    names = {*vars(entry.config()), *entry.hyper._fields, "updates"}
    return {name: value for name, value in settings.items() if name in names}


def budget_for(method, budget):
    """The budget, or none for a learner that takes none; where percentiles mean nothing, a number."""
    if not LEARNERS[method].constrained:
        return math.inf
    return str(budget).replace("P30", "0.3") if LEARNERS[method].settle is not None else budget


@pytest.fixture(scope="module")
def probe():
    return with_behaviour(one_step())


@cache
def prepared(name):
    """A probe with sparse costs and a behaviour model, made once."""
    return with_behaviour(PROBES[name].logs())


def with_behaviour(logs):
    episodes, labels = logs
    model = fit_behaviour(episodes, labels, 0, Config(hidden=32, updates=1500, latent_limit=2.0))
    return episodes, labels, redistribute(episodes, labels, "sparse"), model


CHANNELS = ("high", "low")


def two_sided(count=400):
    """One action in [-1, 1] that pays its size: above 0.3 it is unsafe in one way, below -0.3 in another."""
    arrays = dict(one_step(count)[0].arrays())
    action = arrays["action"][:, 0]
    arrays["reward"] = np.abs(action)
    episodes = Episodes(**arrays)
    fired = np.stack([action > 0.3, action < -0.3], axis=-1)
    stop = np.where(fired.any(axis=-1), 0, -1)
    return episodes, Labels.for_episodes(episodes, stop, fired.astype(float), CHANNELS)


@pytest.fixture(scope="module")
def two_probe():
    episodes, labels = two_sided()
    model = fit_behaviour(episodes, labels, 0, Config(hidden=32, updates=1500, latent_limit=2.0))
    return episodes, labels, sparse_costs(labels), model


CASES = [(method, options) for method in sorted(LEARNERS) for options in VARIANTS.get(method, [{}])]


# Variants of one learner differ little: one probe with a budget between safe and greedy is enough for them.
EXAMS = [
    (method, options, name)
    for method, options in CASES
    for name in (PROBES if options == VARIANTS.get(method, [{}])[0] else ["graded"])
]


@pytest.mark.parametrize(("method", "options", "name"), EXAMS, ids=str)
def test_the_answers_of_the_probes(method, options, name):
    """Budget 0 -> safe, no budget -> greedy, and never less of the risky action for more budget."""
    episodes, labels, costs, behaviour = prepared(name)
    answers = []
    pace = (
        PACE | {"updates": 1500} if name == "corridor" else PACE
    )  # what lies ahead is learned of step by step
    for budget, low, high in known_answers(name, method):
        settings = known(method, pace) | options
        policy = learn(episodes, labels, costs, method, budget, behaviour=behaviour, **settings)
        answers.append(float(policy.act(episodes.obs[episodes.obs_offset[:-1]][:200]).mean()))
        assert low <= answers[-1] <= high, (budget, answers)
    assert all(one <= two + 0.05 for one, two in pairwise(answers)), answers


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_each_channel_has_a_budget_of_its_own(method, two_probe):
    """Danger on both sides: a budget for one of them sends the policy to the other, one for both keeps it between."""
    if not LEARNERS[method].constrained:
        pytest.skip("no budget means anything to it")
    episodes, labels, costs, behaviour = two_probe
    settings = known(method, {**TINY, "multiplier_rate": 0.02})
    asked = {"left": "high=0,low=inf", "right": {"high": math.inf, "low": 0.0}, "between": 0.0}
    action = {}
    for name, budget in asked.items():
        policy = learn(episodes, labels, costs, method, budget, behaviour=behaviour, **settings)
        action[name] = policy.act(episodes.obs[:200])
        free = {"left": {"low"}, "right": {"high"}}.get(name, set())
        if "multiplier" in policy.info:
            assert {channel for channel, value in policy.info["multiplier"].items() if value == 0} == free
    far = 0.2 if method in IMITATORS else 0.6  # what was done within the budget is uniform from -1 to 0.3
    assert action["left"].mean() < -far
    assert action["right"].mean() > far
    assert np.abs(action["between"]).mean() < 0.4


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_two_channels_keep_the_contract(method, two_probe, tmp_path):
    """Shapes, the same seed the same policy, one compilation for all budgets, and saved policies that act the same."""
    episodes, labels, costs, behaviour = two_probe
    settings = known(method, {**TINY, "updates": 7})
    budget = budget_for(method, 0.1)
    one = learn(episodes, labels, costs, method, budget, seed=3, behaviour=behaviour, **settings)
    _, run = training._compiled(LEARNERS[method].make, tiny_config(method))
    compiled = run._cache_size()
    two = learn(episodes, labels, costs, method, budget, seed=3, behaviour=behaviour, **settings)
    asked = budget_for(method, "high=P30,low=inf")
    other = learn(episodes, labels, costs, method, asked, seed=4, behaviour=behaviour, **settings)
    assert one.hash == two.hash != other.hash
    assert run._cache_size() == compiled
    assert "threshold" in other.info
    for name in {"threshold", "multiplier", "predicted_cost"} & set(other.info):
        assert list(other.info[name]) == list(CHANNELS)
    assert other.info["budget"] == str(asked)
    one.save(tmp_path / "policy")
    again, obs = rci.load(tmp_path / "policy"), episodes.obs[:64]
    assert np.array_equal(one.act(obs), again.act(obs))
    if LEARNERS[method].make(tiny_config(method)).predict is None:
        with pytest.raises(RciError, match="has no critics"):
            predict_values(again, obs)
        return
    values = predict_values(again, obs)
    assert [value.shape for value in values] == [(64,), (64, 2)]
    assert all(np.array_equal(a, b) for a, b in zip(values, predict_values(one, obs)))


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_bad_budgets_of_channels(method, two_probe):
    episodes, labels, costs, behaviour = two_probe
    for budget, message in (
        ("high=0.1,lo=0.1", "unknown channel in the budget 'lo'. Did you mean 'low'"),
        ({"high": 0.1}, "says nothing about low"),
        ("high=0.1,low=3", "would allow everything"),
    ):
        with pytest.raises(RciError, match=message):
            learn(episodes, labels, costs, method, budget, behaviour=behaviour)
    plain, stops = one_step()
    with pytest.raises(RciError, match="by channel, but these costs have no channels"):
        learn(plain, stops, redistribute(plain, stops, "sparse"), method, "high=0.1,low=0.1")


def test_a_channel_that_never_stopped_anybody_can_have_no_budget(two_probe):
    episodes, labels, _, _ = two_probe
    never = Labels.for_episodes(
        episodes, labels.stop_index, np.stack([labels.stopped, np.zeros(400)], axis=-1), CHANNELS
    )
    costs = sparse_costs(never)
    with pytest.raises(RciError, match="none of the 400 episodes was stopped for 'low'.*learn with low=inf"):
        learn(episodes, never, costs, budget=0.1)
    behaviour = fit_behaviour(episodes, never, 0, Config(hidden=8, updates=5))
    learn(
        episodes,
        never,
        costs,
        budget="high=0.1,low=inf",
        behaviour=behaviour,
        **known("bcq-lagrangian", {**TINY, "updates": 2}),
    )
    always = Labels.for_episodes(
        episodes, np.zeros(400, int), np.stack([np.ones(400), labels.stopped], axis=-1), CHANNELS
    )
    with pytest.raises(RciError, match="every episode was stopped for 'high'"):
        learn(episodes, always, sparse_costs(always), budget="high=0.1,low=inf")
    with pytest.raises(RciError, match="all 400 episodes were stopped"):
        learn(episodes, always, sparse_costs(always), budget=0.1)


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_same_seed_same_policy_and_one_compilation(method, probe):
    episodes, labels, costs, behaviour = probe
    settings = known(method, {**TINY, "updates": 7})
    budget = budget_for(method, 0.1)
    one = learn(episodes, labels, costs, method, budget, seed=3, behaviour=behaviour, **settings)
    _, run = training._compiled(LEARNERS[method].make, tiny_config(method))
    compiled = run._cache_size()
    two = learn(episodes, labels, costs, method, budget, seed=3, behaviour=behaviour, **settings)
    changed = settings | known(method, {"discount": 0.9, "learning_rate": 3e-4})
    asked = budget_for(method, "P30")
    other = learn(episodes, labels, costs, method, asked, seed=4, behaviour=behaviour, **changed)
    assert one.hash == two.hash != other.hash
    assert run._cache_size() == compiled


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_everything_that_changes_is_in_the_state(method, probe):
    """Ten updates are five updates, the state as plain arrays and back, and five more, bit for bit."""
    episodes, labels, costs, behaviour = probe
    entry = LEARNERS[method]
    start, run = training._compiled(entry.make, tiny_config(method))
    frozen, proposal = restore_behaviour(behaviour), behaviour.proposal
    if not entry.proposes:
        frozen, proposal = frozen._replace(model=None), None
    # Of the types that `learn` has, so that nothing is compiled again.
    data = to_device(Transitions.build(episodes, labels, costs), frozen.scaling, proposal=proposal)
    key, hyper = jax.random.key(5), entry.hyper(threshold=np.array([0.1]))
    if "audited" in hyper._fields:
        hyper = hyper._replace(audited=np.ones(1, np.float32))
    begun = start(key, data, frozen, hyper)
    whole, _, _ = run(key, 0, 10, begun, data, frozen, hyper)
    half, _, _ = run(key, 0, 5, begun, data, frozen, hyper)
    restored = from_arrays(half, to_arrays(half))
    rest, _, _ = run(key, 5, 5, restored, data, frozen, hyper)
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(rest)):
        assert np.array_equal(one, two)


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_a_saved_policy_acts_the_same(method, probe, tmp_path):
    episodes, labels, costs, behaviour = probe
    settings = known(method, {**TINY, "updates": 5})
    policy = learn(episodes, labels, costs, method, budget_for(method, 0.1), behaviour=behaviour, **settings)
    policy.save(tmp_path / "policy")
    again = rci.load(tmp_path / "policy")
    obs = episodes.obs[:64]
    assert np.array_equal(policy.act(obs), again.act(obs))
    assert policy.act(obs[0]).shape == (1,)
    assert policy.act(obs[0]) == pytest.approx(policy.act(obs)[0], abs=1e-5)
    assert np.abs(policy.act(obs)).max() <= np.abs(episodes.action).max()
    for bad, message in ((obs[:, :2], r"observations of shape \(3,\)"), (np.full(3, np.nan), "not finite")):
        with pytest.raises(RciError, match=message):
            policy.act(bad)
    with pytest.raises(RciError, match="weights only"):
        store.read(tmp_path / "policy").act(obs)


@pytest.mark.parametrize("method", sorted(LEARNERS))
def test_bad_input(method, probe):
    episodes, labels, costs, behaviour = probe
    with pytest.raises(RciError, match="unknown setting of .* 'update'. Did you mean 'updates'"):
        learn(episodes, labels, costs, method, update=3)
    with pytest.raises(RciError, match="set budget instead"):
        learn(episodes, labels, costs, method, threshold=3.0)
    for name in ("hidden", "batch_size"):
        with pytest.raises(RciError, match=f"{name} must be at least 1, got 0"):
            learn(episodes, labels, costs, method, **{name: 0})
    with pytest.raises(RciError, match="labels must be of type Labels, got StepCosts"):
        learn(episodes, costs, labels, method)
    budget = budget_for(method, 0.05)
    if budget == math.inf:
        with pytest.raises(RciError, match="knows no budget, so 0.05 would be ignored"):
            learn(episodes, labels, costs, method, 0.05)
    whole = Episodes(**{**episodes.arrays(), "action": np.rint(episodes.action).astype(int)})
    with pytest.raises(RciError, match="the actions are int64, but learners choose among continuous ones"):
        learn(whole, labels, costs, method, budget)
    if not LEARNERS[method].proposes:
        with pytest.raises(RciError, match="uses no behaviour model, so leave it out"):
            rci.learn(episodes, labels, costs, method, budget, behaviour=behaviour)
    with pytest.raises(RciError, match="updates must be at least 1"):
        learn(episodes, labels, costs, method, behaviour=behaviour, updates=0)
    if LEARNERS[method].proposes:
        other = Labels.for_episodes(episodes, np.where(np.arange(400) % 2, 0, -1))
        with pytest.raises(RciError, match="fitted to other labels"):
            learn(episodes, other, redistribute(episodes, other, "sparse"), method, behaviour=behaviour)
    settings = known(method, {**TINY, "learning_rate": 1e30})
    with pytest.raises(RciError, match="diverged at update .*lower"):
        learn(episodes, labels, costs, method, budget, behaviour=behaviour, **settings)


def test_all_unsafe_can_only_be_learned_without_a_budget(probe):
    episodes = probe[0]
    labels = Labels.for_episodes(episodes, np.zeros(400, int))
    costs = redistribute(episodes, labels, "sparse")
    behaviour = fit_behaviour(episodes, labels, 0, Config(hidden=8, updates=5))
    with pytest.raises(RciError, match="all 400 episodes were stopped: no safe behaviour was ever seen"):
        learn(episodes, labels, costs, budget=0.1, behaviour=behaviour)
    learn(
        episodes,
        labels,
        costs,
        budget=math.inf,
        behaviour=behaviour,
        **known("bcq-lagrangian", {**TINY, "updates": 2}),
    )


def test_all_safe_can_only_be_learned_without_a_budget(probe):
    episodes = probe[0]
    labels = Labels.for_episodes(episodes, np.full(400, -1))
    costs = redistribute(episodes, labels, "sparse")
    behaviour = fit_behaviour(episodes, labels, 0, Config(hidden=8, updates=5))
    with pytest.raises(
        RciError, match="none of the 400 episodes was stopped: the logs say nothing about danger"
    ):
        learn(episodes, labels, costs, budget=0.1, behaviour=behaviour)


def test_unknown_learner(probe):
    with pytest.raises(RciError, match="unknown learner 'bcq-lagrange'. Did you mean 'bcq-lagrangian'"):
        learn(*probe[:3], "bcq-lagrange")


def test_jax_checks_are_on():
    assert jax.config.jax_numpy_rank_promotion == "raise"
    assert jax.config.jax_debug_key_reuse
