"""The batched environment against Gymnasium's own vector environment of single ones."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rci.collection import collect
from rci.data.errors import RciError
from rci.tasks import make, make_vec


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_autoreset_as_in_gymnasium(mode):
    ours = make_vec("point", 3, horizon=4, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: make("point", horizon=4)] * 3, autoreset_mode=mode)
    rng = np.random.default_rng(0)
    assert np.array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    for _ in range(20):
        action = rng.uniform(-1, 1, (3, 2)).astype(np.float32)
        mine, reference = ours.step(action), theirs.step(action)
        for a, b in zip(mine[:4], reference[:4]):
            assert np.array_equal(a, b)
        if mode is AutoresetMode.SAME_STEP and mine[4]:
            assert np.array_equal(mine[4]["_final_obs"], reference[4]["_final_obs"])
            for i in np.flatnonzero(mine[4]["_final_obs"]):
                assert np.array_equal(mine[4]["final_obs"][i], reference[4]["final_obs"][i])


def test_without_autoreset_an_ended_world_must_be_reset():
    envs = make_vec("point", 2, horizon=1, autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=0)
    envs.step(np.zeros((2, 2)))
    with pytest.raises(RciError, match="environment 0 has ended"):
        envs.step(np.zeros((2, 2)))
    envs.reset(options={"reset_mask": np.array([True, True])})
    envs.step(np.zeros((2, 2)))


def test_reset_mask_restarts_only_the_marked():
    envs = make_vec("point", 2)
    envs.reset(seed=0)
    moved = envs.step(np.ones((2, 2)))[0]
    obs, _ = envs.reset(seed=0, options={"reset_mask": np.array([False, True])})
    assert np.array_equal(obs[0], moved[0])
    assert not np.array_equal(obs[1], moved[1])


def test_an_episode_does_not_depend_on_its_batch(monkeypatch):
    whole = collect("point", 20, "random", seed=9)[0]
    assert np.array_equal(whole.obs, collect("point", 20, "random", seed=9)[0].obs)
    other = collect("point", 20, "random", seed=10)[0]
    assert not np.array_equal(whole.reward[:20], other.reward[:20])


def test_collect_follows_the_recipe():
    episodes, oracle = collect("point", 11, "mixed", seed=0)
    assert episodes.sources == ("seeker", "random")
    assert np.bincount(episodes.source).tolist() in ([5, 6], [6, 5])
    assert oracle.episodes_hash == episodes.hash
    with pytest.raises(RciError, match="unknown recipe of point 'mxed'. Did you mean 'mixed'"):
        collect("point", 10, "mxed")
    with pytest.raises(RciError, match="at least one"):
        collect("point", 0)
