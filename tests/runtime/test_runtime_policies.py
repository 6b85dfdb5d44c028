"""Policies act with NumPy as they do with JAX."""

import subprocess
import sys
import time

import numpy as np
import pytest
from random_models import random_policy

import rci
from rci import runtime
from rci.data.errors import RciError
from rci.data.types import Policy, SavedModel
from rci.learning import LEARNERS

CASES = [
    ("bc", {}),
    ("bc-safe", {}),
    ("coptidice", {"channels": 2}),
    ("cpq", {}),
    ("bcq-lagrangian", {}),
    ("bcq-lagrangian", {"channels": 2, "variant": "penalised", "critics": 1}),
    ("bcq-lagrangian", {"channels": 2, "critics": 3, "test_candidates": 7, "estimate": "batch"}),
    ("bcq-lagrangian", {"pricing": "hinge"}),
    ("feasible", {}),
    ("feasible", {"channels": 2, "head": "linear", "critics": 1, "test_candidates": 7}),
    ("feasible", {"rows": 5, "channels": 2}),
    ("bear-lagrangian", {"channels": 2}),
    ("cdt", {"context": 4, "hidden": 16, "channels": 2}),
]
CHOOSING = {"bcq-lagrangian", "bear-lagrangian", "feasible"}


def observations(rows, size=5, seed=1):
    return np.random.default_rng(seed).normal(size=(rows, size)).astype(np.float32)


def test_all_that_can_be_taken_away_are_compared():
    assert {method for method, _ in CASES} == set(runtime.METHODS) <= set(LEARNERS)


@pytest.mark.parametrize(("method", "options"), CASES, ids=str)
def test_actions_are_those_of_jax(method, options, tmp_path):
    policy = random_policy(method, **options)
    policy.save(tmp_path / "policy")
    taken = runtime.load(tmp_path / "policy")
    obs = observations(300)
    for seed in (0, 11):
        expected, found = policy.act(obs, seed), taken.act(obs, seed)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        # Of two candidates of equal worth, rounding decides. With random weights this happens once in 1e5 rows.
        odd = np.abs(found - expected).max(axis=1) > 1e-5
        assert odd.sum() <= (1 if method in CHOOSING else 0)
        assert np.abs(expected - expected[0]).max() > 0.1  # there was something to get wrong
    one = taken.act(obs[7], 11)
    assert one.shape == (2,)
    assert np.abs(one - taken.act(obs, 11)[7]).max() < 1e-5


@pytest.mark.parametrize("method", sorted(CHOOSING))
def test_another_seed_is_another_choice(method):
    taken = runtime.act_with(random_policy(method))
    obs = observations(50)
    assert np.array_equal(taken.act(obs, 3), taken.act(obs, 3))
    assert np.abs(taken.act(obs, 3) - taken.act(obs, 4)).max() > 1e-3


def test_a_policy_with_a_memory_goes_on_as_with_jax():
    policy = random_policy("cdt", context=4, hidden=16)
    taken = runtime.act_with(policy)
    memories = policy.begin(6), taken.begin(6)
    untouched = taken.memory.token.copy()
    for step in range(11):
        obs = observations(6, seed=step)
        (expected, one), (found, two) = policy.step(0, memories[0], obs), taken.step(0, memories[1], obs)
        assert np.abs(expected - found).max() < 1e-5, step
        memories = one, two
    assert np.array_equal(taken.memory.token, untouched)
    for expected, found in zip(*memories):
        assert np.abs(np.asarray(expected) - found).max() < 1e-4


def test_observations_that_are_arrays():
    policy = random_policy("bcq-lagrangian", obs_shape=(3, 2))
    obs = observations(4, 6)
    expected = policy.act(obs)
    assert np.abs(runtime.act_with(policy).act(obs.reshape(4, 3, 2)) - expected).max() < 1e-5


@pytest.mark.parametrize("method", sorted(runtime.METHODS))
def test_an_action_takes_less_than_a_millisecond(method):
    """At the default sizes; the fastest of many calls, since other work on the machine is not the policy's.

    A busy machine is slower even then, so products of matrices are timed in between: an action never takes longer than
    forty of them, of which an idle core does twenty in half a millisecond.
    """
    taken, obs = runtime.act_with(random_policy(method)), observations(200)
    rng = np.random.default_rng(0)
    left, right = (rng.normal(size=shape).astype(np.float32) for shape in ((64, 128), (128, 128)))
    times, products = [], []
    for row in obs:
        before = time.perf_counter()
        taken.act(row)
        between = time.perf_counter()
        for _ in range(40):
            left @ right
        times.append(between - before)
        products.append(time.perf_counter() - between)
    assert min(times) < max(1e-3, min(products))


def test_acting_needs_no_jax(tmp_path):
    random_policy("bcq-lagrangian").save(tmp_path / "policy")
    code = (
        "import sys, numpy as np, rci.runtime\n"
        f"action = rci.runtime.load({str(tmp_path / 'policy')!r}).act(np.zeros(5))\n"
        "assert action.shape == (2,)\n"
        "sys.exit(any(name in sys.modules for name in ('jax', 'scipy', 'equinox')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_what_cannot_act_is_refused(tmp_path, point_labels):
    stranger = Policy(SavedModel("by hand", {}, {}), {"obs_size": 4})
    with pytest.raises(RciError, match="'by hand' cannot act without JAX. Those that can: bc, bc-safe, bcq"):
        runtime.act_with(stranger)
    rci.save(point_labels, tmp_path / "labels")
    with pytest.raises(RciError, match="labels"):
        runtime.load(tmp_path / "labels")
    taken = runtime.act_with(random_policy("bc"))
    with pytest.raises(RciError, match=r"expects observations of shape \(5,\)"):
        taken.act(np.zeros(4))


@pytest.mark.parametrize("method", sorted(runtime.METHODS))
def test_no_observation_is_no_action(method):
    policy = random_policy(method)
    for one in (policy, runtime.act_with(policy)):
        found = one.act(np.zeros((0, 5)))
        assert (found.shape, found.dtype) == ((0, 2), np.float32)


@pytest.mark.parametrize(
    ("obs", "message"),
    [
        ("forward", "the observation must be numbers, got <U7"),
        ({"speed": 1.0}, "the observation must be numbers, got dict"),
        (None, "the observation must be numbers, got NoneType"),
        (np.zeros(5, complex), "the observation must be numbers, got complex128"),
        ([[1.0] * 5, [1.0] * 4], "the observation must be numbers, all rows of one length"),
        (np.full(5, 1e300), "the observation has a value that is not finite"),
        (np.full(5, np.nan), "the observation has a value that is not finite"),
        (np.zeros((2, 3, 5)), r"one or a batch, got shape \(2, 3, 5\)"),
    ],
)
def test_observations_that_are_none(obs, message):
    with pytest.raises(RciError, match=message):
        runtime.act_with(random_policy("bc")).act(obs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weight: weight[:-1], "settings and arrays do not fit together"),
        (lambda weight: np.full_like(weight, np.nan), "actions are not finite"),
    ],
)
def test_weights_that_do_not_fit_are_found_when_they_are_loaded(change, message, tmp_path):
    policy = random_policy("bc")
    arrays = dict(policy.model.arrays)
    name = next(name for name in arrays if name.startswith("network.") and arrays[name].ndim == 2)
    arrays[name] = change(np.asarray(arrays[name]))
    Policy(policy.model._replace(arrays=arrays), policy.info).save(tmp_path / "policy")
    with pytest.raises(RciError, match=message):
        runtime.load(tmp_path / "policy")
