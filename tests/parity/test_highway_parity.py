"""The batched simulator against the installed highway-env: every number of every vehicle.

Bitwise in the strict numeric mode, which is a process of its own; to 1e-9 as installed. The long version, with more
episodes of every case, is `rci bench sim --parity`.
"""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import rci
from rci.tasks.highway import parity
from rci.tasks.highway.original import make_original
from rci.tasks.highway.parity import (
    CASES,
    TOLERANCE,
    Case,
    batched_state,
    compare,
    gentle,
    original_state,
    run_strictly,
)
from rci.tasks.highway.task import CONFIG
from rci.tasks.highway.vector_env import make_highway

CONTINUOUS = {"type": "ContinuousAction"}
SHORT = {"action": CONTINUOUS, "vehicles_count": 6, "duration": 3, "ego_spacing": 0.4, "vehicles_density": 2}


def test_every_case_is_bitwise_equal_in_the_strict_mode():
    found = list(run_strictly(None, episodes=1, first=3, beyond=3))
    assert [result.case for result in found] == [case.name for case in CASES]
    for result in found:
        assert result.bitwise == result.episodes == 1, result.first_difference
        assert result.steps > 0
    assert sum(result.crashed for result in found) >= 4  # collisions were among what was compared


@pytest.mark.parametrize("number", [0, 2, 5, 12, 14])
def test_as_installed_the_difference_is_rounding(number):
    result = compare(CASES[number], range(7, 8))
    assert result.largest <= TOLERANCE, result.first_difference


def test_the_comparison_notices_a_difference(monkeypatch):
    def slightly_denser(count, config, *args, **options):
        return make_highway(count, {**config, "vehicles_density": 0.350001}, *args, **options)

    monkeypatch.setattr(parity, "make_highway", slightly_denser)
    found = compare(Case("denser", {**CONFIG, "vehicles_count": 5}, gentle), range(1))
    assert found.bitwise == 0
    assert found.largest > TOLERANCE
    assert found.first_difference.startswith("denser, seed 0, step 0")


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"lanes_count": 1},
        {"lanes_count": 3, "vehicles_count": 15, "vehicles_density": 1.7},
        {"lanes_count": 6, "ego_spacing": 0.7, "initial_lane_id": 5},
        {"lanes_count": 7, "vehicles_count": 33, "action": CONTINUOUS, "vehicles_density": 0.3},
    ],
)
def test_resets_are_bitwise_equal_seeded_and_continued(config):
    original = make_original(config)
    batched = rci.tasks.make_vec("highway-v0", 1, **config)
    for seed in (0, None, None, 12345, None, 2**40):
        obs, _ = original.reset(seed=seed)
        mine, _ = batched.reset(seed=seed if seed is None else [seed])
        state = batched_state(batched)
        for name, value in original_state(original).items():
            other = state[name.removeprefix("traffic ")]
            np.testing.assert_array_equal(
                value, other[1:] if name.startswith("traffic ") else other, err_msg=name
            )
        np.testing.assert_array_equal(obs, mine[0])


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("action", [CONTINUOUS, {"type": "DiscreteMetaAction"}])
def test_autoreset_is_that_of_gymnasiums_vector_environment(mode, action):
    config = {**SHORT, "action": action}
    theirs = SyncVectorEnv([lambda: make_original(config)] * 3, autoreset_mode=mode)
    mine = rci.tasks.make_vec("highway-v0", 3, autoreset_mode=mode, **config)
    assert mine.single_action_space == theirs.single_action_space
    assert mine.single_observation_space == theirs.single_observation_space
    assert mine.observation_space == theirs.observation_space
    assert mine.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    rng = np.random.default_rng(0)
    _same(theirs.reset(seed=5)[0], mine.reset(seed=5)[0])
    ends, ended = 0, np.zeros(3, bool)
    for _ in range(9):
        actions = rng.integers(0, 5, 3) if action["type"] == "DiscreteMetaAction" else _gentle_actions(rng)
        *values, info = theirs.step(actions)
        *others, my_info = mine.step(actions)
        for value, other in zip(values, others):
            assert value.dtype == other.dtype
            _same(value, other)
        before, ended = ended, values[2] | values[3]
        ends += int(ended.sum())
        _same_info(info, my_info, fresh=ended if mode is AutoresetMode.SAME_STEP else before)
    assert ends >= 6  # crashes and time limits were among what was compared


def _gentle_actions(rng: np.random.Generator) -> np.ndarray:
    return (rng.uniform(-1, 1, (3, 2)) * [1.0, 0.05]).astype(np.float32)


def _same(value: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(value, other, rtol=0, atol=TOLERANCE)


def _same_info(theirs: dict, mine: dict, fresh: np.ndarray) -> None:
    """Infos agree, key by key. In a fresh world highway-env reports a random action that nobody took; ours is 0."""
    assert set(theirs) == set(mine)
    for name, value in theirs.items():
        if isinstance(value, dict):
            _same_info(value, mine[name], np.zeros(3, bool))
        elif name == "final_obs":
            for i in np.flatnonzero(theirs["_final_obs"]):
                _same(value[i], mine[name][i])
        else:
            shown = ~fresh if name == "action" else np.ones(3, bool)
            _same(np.asarray(value, np.float64)[shown], np.asarray(mine[name], np.float64)[shown])


def test_the_original_is_highway_env():
    assert isinstance(rci.tasks.make("highway-v0").unwrapped, gymnasium.Env)
    assert type(rci.tasks.make("highway-v0").unwrapped).__module__.startswith("highway_env")
    assert type(rci.tasks.make("highway").unwrapped).__name__ == "HighwayEnv"
