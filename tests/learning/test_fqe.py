"""Fitted-Q evaluation of policies whose value is known, and what is refused."""

import json
import math
from dataclasses import asdict, replace

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import ragged, sparse_costs

import rci
from rci.data.errors import RciError
from rci.data.risk.estimates import Interval, PolicyEstimate, Support
from rci.data.types import Episodes, Labels, Policy, SavedModel, StepCosts, Transitions
from rci.learning.dataset import measure_scaling, to_device
from rci.learning.judging import actions, fqe

TINY = {"hidden": 32, "batch_size": 64, "updates": 1500, "target_rate": 0.05, "learning_rate": 3e-3}


def fixed(answer, obs_size=5, action_size=1, memory=(), step=None):
    """A policy that always does the same."""

    def same(seed, memory, obs):
        return np.full((len(obs), action_size), answer, np.float32), memory

    info = {"obs_size": obs_size, "action_size": action_size, "budget": "inf"}
    return Policy(SavedModel("fixed", {}, {"answer": np.array(answer)}), info, memory, step or same)


def corridor(count=200):
    """At the start, a > 0 takes the shortcut: 10 in all, stopped at its second step. a < 0 takes the detour: 6."""
    action = np.random.default_rng(3).uniform(-1, 1, (count, 3, 1)).astype(np.float32)
    short = action[:, 0, 0] > 0
    place = np.where(short[:, None], [0, 1, 4, 4], [0, 2, 3, 4])
    reward = np.where(short[:, None], [0.0, 1.0, 0.0], [0.0, 0.3, 0.3])
    lengths = np.where(short, 2, 3)
    kept, seen = np.arange(3) < lengths[:, None], np.arange(4) <= lengths[:, None]
    episodes = Episodes(
        obs=np.eye(5, dtype=np.float32)[place][seen],
        action=action[kept],
        reward=10 * reward[kept].astype(np.float32),
        lengths=lengths,
        terminated=np.ones(count, bool),
        truncated=np.zeros(count, bool),
    )
    labels = Labels.for_episodes(episodes, np.where(short, 1, -1))
    return episodes, labels, sparse_costs(labels)


@pytest.fixture(scope="module")
def logs():
    return corridor()


def test_targets_by_hand():
    """One episode of two steps that was stopped: the cost ends with it, the return does not."""
    episodes = ragged([2], obs_size=1, action_size=1)
    episodes = replace(episodes, reward=np.array([1.0, 2.0], np.float32), terminated=np.array([False]))
    labels = Labels.for_episodes(episodes, np.array([1]))
    costs = StepCosts(np.array([0.25, 0.75]), labels.kept_lengths, labels.cost, True, "any", labels.hash)
    transitions = Transitions.build(episodes, labels, costs)
    data = to_device(transitions, measure_scaling(transitions))
    wide = jnp.array([[-9.0], [9.0]])
    data = data._replace(reward=jnp.array([1.0, 2.0]), obs=jnp.array([[0.0], [3.0], [5.0]]), cost_range=wide)

    def critics(obs, action):  # Q = s + a, Q_c = s * a
        return (obs + action)[:, 0], obs * action

    action = jnp.array(
        [[7.0], [0.5], [0.25]]
    )  # of the policy; at the first observation it is never asked for
    hyper = fqe.Hyper(discount=0.5, cost_discount=1.0)
    reward_y, cost_y = fqe.targets(critics, data, jnp.array([0, 1]), action, hyper)
    assert reward_y.tolist() == [1 + 0.5 * 3.5, 2 + 0.5 * 5.25]
    assert cost_y.tolist() == [[0.25 + 1.5], [0.75]]


def test_judgements_of_the_corridor(logs):
    """The shortcut earns 10 and is stopped, the detour earns 6 and is not; one compilation for both."""
    judge = fqe.judge
    short = judge(fixed(0.7), *logs, discount=1.0, **TINY)
    _, run, _, _ = fqe._compiled(fqe.Config(hidden=32, batch_size=64))
    compiled = run._cache_size()
    long = judge(fixed(-0.7), *logs, discount=1.0, **TINY)
    assert short.expected_return == pytest.approx(10, abs=1.0)
    assert short.expected_cost == pytest.approx((1.0,), abs=0.1)
    assert long.expected_return == pytest.approx(6, abs=1.0)
    assert long.expected_cost == pytest.approx((0.0,), abs=0.1)
    assert short.initial_states == 40
    assert short.return_td_error < 1.5
    assert short.cost_td_error[0] < 0.15
    assert short.return_error < 1e-4  # all episodes begin alike
    assert short.return_spread is None
    assert short == judge(fixed(0.7), *logs, discount=1.0, **TINY)
    json.dumps(asdict(short), allow_nan=False)

    brief = {**TINY, "updates": 20, "learning_rate": 1e-3}
    two = judge(fixed(0.7), *logs, seed=5, members=2, discount=0.9, **brief)  # other episodes are held out
    assert two.return_spread > 0
    assert two.cost_spread[0] > 0
    assert run._cache_size() == compiled


def test_selection_from_logs(logs):
    policies = [fixed(-0.7), fixed(0.7)]
    options = {**TINY, "discount": 1.0}
    for budget, chosen in ((0.3, 0), (math.inf, 1)):
        found = rci.select(policies, *logs, budget=budget, **options)
        assert found.chosen == chosen
        assert found.threshold == (budget,)
    found = rci.select(policies, *logs, rule="safest", share=0.2, **options)
    assert (found.chosen, found.threshold, found.share) == (1, None, 0.2)
    half, one = Interval(0.5, 0.4, 0.6), Interval(1.0, 1.0, 1.0)
    estimates = [
        PolicyEstimate(
            Interval(stop, 0.0, 0.9), one, {}, Support(0.1, 0.1, 0.1, 9.0), half, one, 100, 0.9, 0.0, 0.9
        )
        for stop in (0.4, 0.2)
    ]
    for budget, chosen, kept in ((0.3, 1, True), (0.1, 1, False)):
        found = rci.select(policies, *logs, budget=budget, estimates=estimates, **options)
        assert (found.chosen, found.kept, found.threshold) == (chosen, kept, (budget,))
    with pytest.raises(RciError, match="1 estimates for 2 policies"):
        rci.select(policies, *logs, estimates=estimates[:1], **options)
    with pytest.raises(RciError, match="no policy to choose from"):
        rci.select([], *logs)


def test_channels_with_fractional_and_negative_costs(logs):
    episodes, plain, _ = logs
    labels = Labels.for_episodes(
        episodes, plain.stop_index, np.stack([plain.stopped, plain.stopped], axis=-1), ("one", "two")
    )
    cost = np.repeat(plain.stopped, plain.kept_lengths)[:, None] * np.ones((1, 2))
    first = np.zeros(len(cost), bool)
    first[np.cumsum(plain.kept_lengths) - plain.kept_lengths] = True
    last = np.roll(first, -1)
    split = np.where(cost > 0, np.select([first[:, None], last[:, None]], [[0.25, 1.5], [0.75, -0.5]]), 0.0)
    costs = StepCosts(
        split, labels.kept_lengths, labels.cost, True, "any", labels.hash, channels=labels.channels
    )
    short = rci.judge(fixed(0.7), episodes, labels, costs, **{**TINY, "updates": 2500})
    assert short.channels == ("one", "two")
    assert short.expected_cost == pytest.approx((1.0, 1.0), abs=0.15)
    assert max(short.cost_td_error) < 0.25


def test_a_policy_with_a_memory_goes_along_the_episodes():
    """It counts its steps and answers the count; rows of the memory stay with their episodes."""

    def step(seed, memory, obs):
        return np.stack([memory, obs[:, 0]], axis=-1).astype(np.float32), memory + 1

    policy = fixed(0.0, 1, 2, memory=np.zeros(()), step=step)
    obs = np.arange(9.0, dtype=np.float32)[:, None]
    action = actions.policy_actions(policy, obs, np.array([3, 4, 2]))
    assert action[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1]
    assert action[:, 1].tolist() == obs[:, 0].tolist()


def test_actions_in_pieces_are_those_of_all_at_once(monkeypatch):
    policy = fixed(0.0, 1, 1, step=lambda seed, memory, obs: (2 * obs, memory))
    obs = np.arange(9.0, dtype=np.float32)[:, None]
    monkeypatch.setattr(actions, "PIECE", 4)
    monkeypatch.setattr(fqe, "PIECE", 4)
    assert actions.policy_actions(policy, obs, np.array([3, 4, 2])).tolist() == (2 * obs).tolist()
    assert fqe._in_pieces(lambda row: row[:, None], np.arange(10)).tolist() == [[i] for i in range(10)]


def test_bad_input(logs):
    episodes, labels, costs = logs
    for policy, options, message in (
        (fixed(0.7, obs_size=3), {}, "observations of 3 features, but those of the logs have 5"),
        (fixed(0.7, action_size=2), {}, "actions of 2 features, but those of the logs have 1"),
        (fixed(math.nan), {}, "not finite at a recorded observation"),
        (replace(fixed(0.7), step=None), {}, "holds weights only"),
        (labels, {}, "policy must be of type Policy, got Labels"),
        (fixed(0.7), {"update": 3}, "unknown setting of judging 'update'. Did you mean 'updates'"),
        (fixed(0.7), {"updates": 0}, "updates must be at least 1"),
        (fixed(0.7), {"held_out": 1.0}, "between 0 and 1"),
        (fixed(0.7), {**TINY, "learning_rate": 1e30}, "judging diverged before update"),
    ):
        with pytest.raises(RciError, match=message):
            rci.judge(policy, episodes, labels, costs, **options)
    with pytest.raises(RciError, match="labels must be of type Labels, got StepCosts"):
        rci.judge(fixed(0.7), episodes, costs, labels)
    one = ragged([3], obs_size=5, action_size=1)
    alone = Labels.for_episodes(one, np.array([1]))
    with pytest.raises(RciError, match="at least two episodes"):
        rci.judge(fixed(0.7), one, alone, sparse_costs(alone))
