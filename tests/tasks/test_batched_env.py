"""The batched environment against Gymnasium's own vector environment of single ones."""

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rci.collection import collect
from rci.data.errors import RciError
from rci.data.types import Policy, SavedModel
from rci.evaluation import record_policy
from rci.tasks import make, make_vec
from rci.tasks.rollout import COLLECTION, EVALUATION, episode_seeds, record


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


def test_an_episode_does_not_depend_on_its_batch():
    def straight_on(obs):
        return np.tile(np.float32([1.0, 0.1]), (len(obs), 1))

    seeds = episode_seeds(4, EVALUATION, 0, 6)
    whole = record(make_vec("point", 6), straight_on, seeds, "point")
    alone = record(make_vec("point", 1), straight_on, seeds[4:5], "point")
    assert np.array_equal(whole[4].obs, alone[0].obs)
    assert np.array_equal(whole[4].reward, alone[0].reward)


def test_no_two_purposes_or_seeds_share_an_episode():
    """Seeds 0 and 1 are neighbours for people only; nobody is tested on what was recorded for training."""
    streams = [
        episode_seeds(seed, purpose, 0, 500) for seed in (0, 1, 2) for purpose in (COLLECTION, EVALUATION)
    ]
    assert len({seed for stream in streams for seed in stream}) == 6 * 500
    assert episode_seeds(0, COLLECTION, 100, 50) == streams[0][100:150]
    starts = [collect("point", 20, "random", seed=seed)[0] for seed in (0, 1)]
    policy = Policy(
        SavedModel("x", {}, {}), {"obs_size": 4}, step=lambda seed, memory, obs: (0 * obs[:, :2], memory)
    )
    tested = record_policy(policy, "point", 20, seed=0)
    first = [tuple(e.obs[e.obs_offset[i]]) for e in (*starts, tested) for i in range(20)]
    assert (
        len(set(first)) > 55
    )  # 60 draws out of some 9,000 starts: more than 4 repeats have a chance below 1e-6


def test_collect_follows_the_recipe():
    episodes, oracle = collect("point", 11, "mixed", seed=0)
    assert episodes.sources == ("seeker", "random")
    assert np.bincount(episodes.source).tolist() in ([5, 6], [6, 5])
    assert oracle.episodes_hash == episodes.hash
    with pytest.raises(RciError, match="unknown recipe of point 'mxed'. Did you mean 'mixed'"):
        collect("point", 10, "mxed")
    with pytest.raises(RciError, match="at least one"):
        collect("point", 0)
