"""Estimates of a policy from logs: a world whose truth is known, what every method is made of, and bad input."""

from __future__ import annotations

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import rci
from rci.data.errors import RciError
from rci.data.types import Episodes, Labels, Policy, SavedModel
from rci.learning.judging.estimate import (
    METHOD_ERROR,
    estimate,
    estimate_from,
    gather,
    mean_interval,
)
from rci.learning.judging.hazard import stop_target
from rci.learning.judging.opinions import opinion_of_models
from rci.learning.judging.simulation.trials import limit_hazards
from rci.learning.judging.support import distances, measure_recorded, shares_outside

STEPS, CHANCE = 5, 0.3
SMALL = {"model_updates": 600, "hidden": 16, "updates": 600, "behaviour_updates": 300, "members": 2}


def fixed(action, obs_size=2, action_size=1):
    """A policy that always does the same."""

    def step(seed, memory, obs):
        return np.full((len(obs), action_size), action, np.float32), memory

    info = {"obs_size": obs_size, "action_size": action_size}
    return Policy(SavedModel("by hand", {}, {"action": np.array(action)}), info, step=step)


def walk(count, seed=0, everyone=None):
    """A place that drifts and actions at random; those above 0 are stopped in 3 of 10 steps, the others never."""
    rng = np.random.default_rng(seed)
    action = rng.uniform(-1.0, 1.0, (count, STEPS, 1)).astype(np.float32)
    noise = rng.normal(0.0, 0.1, (count, STEPS + 1, 2)).astype(np.float32)
    # What an action did can be seen: the world's models read danger off what is seen after a step.
    place = np.cumsum(noise, axis=1)
    place[:, 1:, 0] = action[..., 0]
    fired = (action[..., 0] > 0) & (rng.random((count, STEPS)) < CHANCE)
    stop = np.where(fired.any(axis=1), fired.argmax(axis=1), -1)
    if everyone is not None:
        stop = np.full(count, everyone)
    episodes = Episodes(
        obs=place.reshape(-1, 2),
        action=action.reshape(-1, 1),
        reward=np.ones(count * STEPS, np.float32),
        lengths=np.full(count, STEPS),
        terminated=np.zeros(count, bool),
        truncated=np.ones(count, bool),
    )
    return episodes, Labels.for_episodes(episodes, stop)


@pytest.fixture(scope="module")
def evidence():
    return gather(*walk(300), **SMALL)


def test_a_safe_and_a_dangerous_policy_in_a_world_whose_truth_is_known(evidence):
    everybody = np.ones(300, bool)
    safe = estimate_from(fixed(-0.5), evidence, everybody)
    bold = estimate_from(fixed(0.5), evidence, everybody)
    truth = 1 - (1 - CHANCE) ** STEPS  # 0.83
    assert safe.stop.low < 0.01
    assert safe.at_most < 0.2 < safe.stop.high < 0.25  # a verdict rests on the bound
    assert bold.stop.low <= truth <= bold.stop.high
    assert bold.worse_than_logs
    assert not safe.worse_than_logs
    assert safe.verdict(0.2).word == "deploy under a monitor"
    assert bold.verdict(0.2).word == "do not deploy"
    assert safe.support.outside < 0.2
    # Until the stop or the end: 5 steps, or 1 + 0.7 + ... + 0.7^4 = 2.77 of them.
    assert safe.earned.estimate == pytest.approx(5.0, abs=0.4)
    assert bold.earned.estimate == pytest.approx(2.77, abs=0.5)
    # 1 - 0.85^5 = 0.56 of the logs were stopped; 300 episodes leave 4 deviations within 0.11
    assert safe.logged_stop.estimate == pytest.approx(0.556, abs=0.11)
    assert set(safe.methods) == set(METHOD_ERROR)
    for found in (safe, bold):
        for each in (found.stop, *found.methods.values()):
            assert 0.0 <= each.low <= each.estimate <= each.high <= 1.0
        json.dumps(found.as_table(), allow_nan=False)


def test_a_policy_that_does_what_was_never_done_leaves_the_data(evidence):
    found = estimate_from(fixed(4.0), evidence, np.ones(300, bool))
    assert found.support.actions_outside > 0.9
    assert found.support.outside > 0.9
    assert found.verdict(0.999).word != "deploy under a monitor"


def test_the_same_seed_gives_the_same_estimate(evidence):
    everybody = np.ones(300, bool)
    assert estimate_from(fixed(0.1), evidence, everybody) == estimate_from(fixed(0.1), evidence, everybody)


@pytest.mark.parametrize(("everyone", "logged"), [(-1, 0.0), (2, 1.0)])
def test_logs_without_stops_and_logs_of_stops_alone(everyone, logged):
    tiny = dict.fromkeys(("model_updates", "hidden", "updates", "behaviour_updates", "members", "models"), 2)
    found = estimate(fixed(0.1), *walk(6, everyone=everyone), **tiny)
    assert found.logged_stop.estimate == logged
    assert 0.0 <= found.stop.low <= found.stop.high <= 1.0
    assert found.stop.high - found.stop.low > 0.2  # of six episodes nobody knows much


def test_bad_input():
    episodes, labels = walk(6)
    discrete = replace(episodes, action=np.zeros((30, 1), np.int64))
    for policy, logs, more, message in (
        (fixed(0.1, obs_size=9), (episodes, labels), {}, "knows observations of 9 features, .* logs have 2"),
        (fixed(0.1, action_size=3), (episodes, labels), {}, "knows actions of 3 features, .* logs have 1"),
        (fixed(0.1), walk(1), {}, "there is one episode"),
        (fixed(0.1), (discrete, Labels.for_episodes(discrete, labels.stop_index)), {}, "int64"),
        (fixed(0.1), (walk(6, 1)[0], labels), {}, "another dataset"),
        (replace(fixed(0.1), step=None), (episodes, labels), {}, "holds weights only"),
        (fixed(0.1), (episodes, labels), {"held_out": np.zeros(6, bool)}, "at least one of them true"),
        (fixed(0.1), (episodes, labels), {"held_out": np.ones(5, bool)}, "each of the 6 episodes"),
        (fixed(0.1), (episodes, labels), {"model_update": 5}, "Did you mean 'model_updates'"),
        (fixed(0.1), (episodes, labels), {"models": 0}, "models must be at least 1"),
        (fixed(0.1), (episodes, labels), {"level": 1.0}, "confidence must lie between 0 and 1"),
    ):
        with pytest.raises(RciError, match=message):
            rci.estimate(policy, *logs, **more)


# --- the equations by hand -----------------------------------------------------------------------------------------


def test_targets_of_the_chance_of_a_stop():
    stopped, last = jnp.array([1.0, 0.0, 0.0]), jnp.array([1.0, 1.0, 0.0])
    assert stop_target(stopped, last, jnp.array([0.4, 0.4, 0.4])).tolist() == pytest.approx([1.0, 0.0, 0.4])


def test_time_limits_of_episodes_of_one_length_and_of_several():
    assert limit_hazards(np.array([3, 1, 3]), np.array([True, False, True])).tolist() == [0.0, 0.0, 1.0]
    # four begin, one is cut at 1 and one stopped at 1; of the two that are left one is cut at 2
    found = limit_hazards(np.array([1, 1, 2, 3]), np.array([True, False, True, True]))
    assert found.tolist() == [0.25, 0.5, 1.0]


def test_what_models_say_and_how_far_they_disagree():
    # both models say 0.5 of four episodes: only the number of episodes counts, 1 / (2 sqrt 4)
    same = opinion_of_models(np.full((2, 4), 0.5))
    assert same == pytest.approx((np.pi / 4, 0.25))
    # angles 0 and pi / 2: a deviation of pi / (2 sqrt 2)
    apart = opinion_of_models(np.array([[0.0] * 4, [1.0] * 4]))
    assert apart == pytest.approx((np.pi / 4, np.hypot(np.pi / 2**1.5, 0.25)))


def test_a_mean_return_and_its_interval():
    # of 0 and 2: mean 1, deviation 1, error 1 / sqrt 2, times 1.645
    assert mean_interval(np.array([[0.0, 2.0]]), 0.9) == pytest.approx((1.0, -0.1631, 2.1631), abs=1e-4)


def test_distances_to_states_and_to_actions_in_the_nearest_ones():
    recorded, done = np.array([[0.0], [3.0]]), np.array([[1.0], [-1.0]])
    state, action = distances(np.array([[1.0]]), np.array([[1.5]]), recorded, done)
    assert (state.tolist(), action.tolist()) == ([1.0], [0.5])
    barred = np.array([[True, False]])
    state, action = distances(np.array([[1.0]]), np.array([[1.5]]), recorded, done, barred)
    assert (state.tolist(), action.tolist()) == ([2.0], [2.5])


def test_shares_of_steps_outside_of_the_data():
    rng = np.random.default_rng(0)
    obs, action = rng.normal(size=(400, 2)), rng.uniform(-1, 1, (400, 1))
    recorded = measure_recorded(obs, action, np.repeat(np.arange(40), 10), 0)
    far = np.concatenate([obs[:200], obs[:200] + 50.0])
    outside, actions, states = shares_outside(recorded, far, action[:400] * 0, np.ones(400), 0)
    # half of the states lie far off; 1500 draws leave 4 deviations within 0.052
    assert states == pytest.approx(0.5, abs=0.06)
    assert outside >= states
    assert actions < 0.1
