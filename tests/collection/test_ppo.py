"""PPO: every equation by hand, and that it learns, repeats itself and survives being stored."""

import math
from dataclasses import replace
from types import SimpleNamespace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import rci
from rci.collection import ppo
from rci.collection.demonstrators import behaviours, train_demonstrators
from rci.collection.ppo import Config, Moments, Networks
from rci.collection.training import (
    Tally,
    check_actions,
    checkpoint_iterations,
    count_episodes,
    gather,
    no_episodes,
)
from rci.data import store
from rci.data.errors import RciError
from rci.data.options import build
from rci.tasks import TASKS, make_vec, point
from rci.tasks.batched import BatchedEnv

TINY = Config(
    total_steps=512,
    num_envs=4,
    rollout_length=64,
    epochs=2,
    minibatches=2,
    hidden=(8,),
    checkpoints=2,
    initial_deviation=0.5,
)


@pytest.fixture(scope="module")
def tiny():
    return train_demonstrators("point", 3, TINY)


def test_gaussian_log_prob_by_hand():
    action, mean = jnp.array([[1.0, 2.0], [0.5, 0.0]]), jnp.array([[0.0, 0.0], [0.5, 0.0]])
    log_deviation = jnp.log(jnp.array([[1.0, 2.0], [1.0, 2.0]]))
    rest = -math.log(2 * math.pi) - math.log(2.0)
    assert ppo.gaussian_log_prob(action, mean, log_deviation) == pytest.approx([-0.5 - 0.5 + rest, rest])


def test_gaussian_entropy_by_hand():
    unit = 0.5 * math.log(2 * math.pi * math.e)  # 1.4189
    assert ppo.gaussian_entropy(jnp.zeros(1)) == pytest.approx(1.4189385)
    assert ppo.gaussian_entropy(jnp.log(jnp.array([1.0, 3.0]))) == pytest.approx(2 * unit + math.log(3.0))


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        # surprises 1 + 2/2 - 1, 1 + 4/2 - 2, 1 + 8/2 - 4 are all 1; the trace is worth a quarter of what follows
        ([0, 0, 0], [0, 0, 0], [1.3125, 1.25, 1.0]),
        ([0, 1, 0], [0, 0, 0], [1 - 0.25, 1 - 2.0, 1.0]),  # nothing is worth anything behind a termination
        ([0, 0, 0], [0, 1, 0], [1.25, 1.0, 1.0]),  # a truncation keeps the value, and cuts the trace
        ([0, 1, 0], [0, 1, 0], [1 - 0.25, 1 - 2.0, 1.0]),
    ],
)
def test_advantages_by_hand(terminated, truncated, expected):
    value, next_value = jnp.array([[1.0], [2.0], [4.0]]), jnp.array([[2.0], [4.0], [8.0]])
    flags = (jnp.array(flag, jnp.float32)[:, None] for flag in (terminated, truncated))
    advantage = ppo.generalised_advantage(jnp.ones((3, 1)), value, next_value, *flags, 0.5, 0.5)
    assert advantage[:, 0] == pytest.approx(expected)


def test_clipped_surrogate_by_hand():
    ratio, advantage = jnp.array([1.5, 0.5, 1.5, 0.5]), jnp.array([1.0, 1.0, -1.0, -1.0])
    credit = [1.2, 0.5, -1.5, -0.8]  # gains are cut at 0.8 and 1.2, losses are not
    loss = ppo.clipped_surrogate_loss(jnp.log(ratio), jnp.zeros(4), advantage, 0.2)
    assert loss == pytest.approx(-np.mean(credit))
    slope = jax.grad(ppo.clipped_surrogate_loss)(jnp.log(ratio), jnp.zeros(4), advantage, 0.2)
    assert slope == pytest.approx([0.0, -0.5 / 4, 1.5 / 4, 0.0])


def test_value_loss_by_hand():
    assert ppo.value_loss(jnp.array([1.0, 3.0]), jnp.array([0.0, 1.0])) == pytest.approx((1 + 4) / 4)


def test_standardised_by_hand():
    assert ppo.standardised(jnp.array([1.0, 3.0])) == pytest.approx([-1.0, 1.0])
    assert ppo.standardised(jnp.ones(3)) == pytest.approx([0.0, 0.0, 0.0])


def test_merged_moments_are_those_of_all_rows():
    rows = np.random.default_rng(0).normal(3.0, 2.0, (40, 2)).astype(np.float32)
    moments = Moments(jnp.zeros(()), jnp.zeros(2), jnp.ones(2))  # of nothing: it leaves no trace
    for part in (rows[:7], rows[7:8], rows[8:]):
        moments = ppo.merged_moments(moments, jnp.asarray(part))
    assert moments.seen == 40
    assert moments.mean == pytest.approx(rows.mean(0), rel=1e-5)
    assert moments.variance == pytest.approx(rows.var(0), rel=1e-5)


def test_discounted_sums_by_hand():
    reward, ended = jnp.array([[1.0], [2.0], [4.0]]), jnp.array([[0.0], [1.0], [0.0]])
    sums, after = ppo.discounted_sums(jnp.array([8.0]), reward, ended, 0.5)
    assert sums[:, 0] == pytest.approx([5.0, 4.5, 4.0])
    assert after == pytest.approx([4.0])


def test_observations_are_scaled_and_clipped():
    scaling = ppo.scaling_of(Moments(jnp.ones(()), jnp.array([1.0, 0.0, 5.0]), jnp.array([4.0, 1e-4, 0.0])))
    scaled = ppo.scaled(scaling, jnp.array([[5.0, 1.0, 6.0]]))
    assert scaled[0] == pytest.approx([2.0, 10.0, 1.0])  # 100 is clipped; what never varied is only shifted


def test_the_whole_loss_by_hand():
    """Networks of zeros: mean 0, deviation 1, value 0."""
    config = Config(value_weight=0.5, entropy_weight=0.1)
    networks = jax.tree.map(jnp.zeros_like, Networks(jax.random.key(0), 3, 1, config))
    action = jnp.array([[0.0], [1.0]])
    log_prob = ppo.gaussian_log_prob(action, jnp.zeros((2, 1)), jnp.zeros((2, 1)))
    batch = ppo.Batch(jnp.ones((2, 3)), action, log_prob, jnp.array([3.0, 1.0]), jnp.array([2.0, 0.0]))
    loss, info = ppo.ppo_loss(networks, batch, config)
    assert info.surrogate_loss == pytest.approx(-2.0)  # ratio 1
    assert info.value_loss == pytest.approx(1.0)
    assert loss == pytest.approx(-2.0 + 0.5 * 1.0 - 0.1 * 1.4189385)


def test_every_row_is_used_once_per_epoch():
    rows = ppo.shuffled_rows(np.random.default_rng(0), TINY)
    assert rows.shape == (2 * 2, 128)
    assert all(sorted(epoch.ravel()) == list(range(256)) for epoch in rows.reshape(2, -1))
    assert not np.array_equal(rows[:2], rows[2:])


def test_an_untrained_iteration_starts_at_ratio_one():
    """The policy that is improved is the one that acted: the first update has nothing to clip."""
    config = replace(TINY, epochs=1, minibatches=1)
    method = ppo.make(config, 4, 2)
    state = method.init(jax.random.key(0))
    envs = make_vec("point", 4, autoreset_mode=AutoresetMode.SAME_STEP)
    obs, _ = envs.reset(seed=0)
    key = jax.random.key(1)

    def act(step, obs):
        return np.asarray(method.act(key, step, state.actor, obs))

    rollout, _ = gather(envs, act, obs, 64, 2)
    after, info = method.improve(state, rollout, ppo.shuffled_rows(np.random.default_rng(0), config))
    assert info.surrogate_loss == pytest.approx(0.0, abs=1e-5)  # minus the mean of standardised advantages
    assert after.obs_moments.mean == pytest.approx(rollout.obs.mean((0, 1)), abs=1e-5)
    assert not np.array_equal(after.networks.actor.weights[0], state.networks.actor.weights[0])


def test_the_final_observation_is_kept_where_an_episode_ends():
    envs = make_vec("point", 3, horizon=4, autoreset_mode=AutoresetMode.SAME_STEP)
    obs, _ = envs.reset(seed=5)
    rollout, last = gather(envs, lambda step, obs: np.full((3, 2), 3.0, np.float32), obs, 10, 2)
    ended = (rollout.terminated + rollout.truncated) > 0
    assert np.flatnonzero(ended[:, 0]).tolist() == [3, 7]
    following = np.concatenate([rollout.obs[1:], last[None]])
    assert np.array_equal(rollout.next_obs[~ended], following[~ended])
    assert not np.array_equal(rollout.next_obs[ended], following[ended])
    before, after = (point.decode(x[ended])[0] for x in (rollout.obs, rollout.next_obs))
    assert np.abs(after - before).max() <= point.MAX_SPEED  # one step away, not at a new start
    assert (rollout.action == 3.0).all()  # as it was drawn; the world got it clipped


def test_episodes_are_counted_by_hand():
    running = Tally(np.array([1.0, 0.0]), np.array([2, 0]), np.array([True, False]))
    reward = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]])
    unsafe = np.array([[False, False], [False, True], [False, False]])
    ended = np.array([[True, False], [False, True], [False, False]])
    running, finished = count_episodes(running, reward, unsafe, ended)
    assert [column.tolist() for column in finished] == [[2.0, 4.0], [3, 2], [True, True]]
    assert [column.tolist() for column in running] == [[2.0, 2.0], [2, 1], [False, False]]
    _, finished = count_episodes(no_episodes(2), reward[:1], unsafe[:1], ended[2:])
    assert len(finished.returns) == 0


def test_checkpoints_are_spread_and_end_with_the_last():
    settings = {"num_envs": 1, "rollout_length": 8, "minibatches": 1}
    assert checkpoint_iterations(Config(total_steps=80, checkpoints=4, **settings)) == [2, 5, 8, 10]
    assert checkpoint_iterations(Config(total_steps=80, checkpoints=1, **settings)) == [10]
    assert checkpoint_iterations(Config(total_steps=16, checkpoints=2, **settings)) == [1, 2]


def test_it_learns_the_task():
    """Untrained, it earns about -0.3; 1.2 takes it to the goal. Skill grows from checkpoint to checkpoint."""
    sizes = {"num_envs": 32, "rollout_length": 64, "minibatches": 4, "hidden": (32, 32)}
    config = Config(total_steps=140_000, learning_rate=1e-3, checkpoints=3, **sizes)
    trained = train_demonstrators("point", 0, config)
    curve, kept = trained.info["curve"], trained.info["checkpoints"]
    assert curve["return"][0] < 0.0
    assert curve["return"][-1] > 1.0
    assert curve["length"][-1] < 35 < curve["length"][0]
    assert kept[0]["return"] < kept[-1]["return"]
    assert kept[-1]["steps"] == curve["steps"][-1] == 68 * 2048
    assert all(0 <= rate <= 1 for rate in curve["violation_rate"])
    first, last = (rci.collect("point", 60, "ppo", 1, pick(trained, i))[0] for i in (0, 2))
    assert last.reward.sum() / 60 > max(1.0, first.reward.sum() / 60)


def pick(trained, i):
    """Demonstrators with one checkpoint only."""
    arrays = {name: array[i : i + 1] for name, array in trained.model.arrays.items()}
    info = {**trained.info, "checkpoints": trained.info["checkpoints"][i : i + 1]}
    return replace(trained, model=trained.model._replace(arrays=arrays), info=info)


def test_same_seed_same_bits_and_nothing_is_compiled_twice(tiny):
    method = ppo.make(TINY, 4, 2)
    compiled = method.act._cache_size(), method.improve._cache_size()
    assert compiled == (1, 1)
    assert train_demonstrators("point", 3, TINY).hash == tiny.hash
    other = train_demonstrators("point", 4, TINY)
    assert not np.array_equal(other.model.arrays["network.weights.0"], tiny.model.arrays["network.weights.0"])
    assert (method.act._cache_size(), method.improve._cache_size()) == compiled


def test_progress_and_what_is_known_of_the_training(tiny):
    shares = []
    train_demonstrators("point", 3, TINY, shares.append)
    assert shares == [0.5, 1.0]
    assert {len(column) for column in tiny.info["curve"].values()} == {2}
    assert [kept["steps"] for kept in tiny.info["checkpoints"]] == [256, 512]
    assert (tiny.info["task"], tiny.info["seed"]) == ("point", 3)
    assert (tiny.info["obs_shape"], tiny.info["action_size"]) == ([4], 2)
    assert all(len(array) == 2 for array in tiny.model.arrays.values())
    assert repr(tiny) == "Demonstrators(ppo on point: 2 checkpoints)"


def test_a_training_in_which_no_episode_ends():
    config = replace(TINY, total_steps=16, rollout_length=2)
    trained = train_demonstrators("point", 0, config)
    assert trained.info["curve"]["return"] == []
    assert [kept["return"] for kept in trained.info["checkpoints"]] == [None, None]


def test_stored_and_loaded_they_act_the_same(tiny, tmp_path):
    again = rci.load(store.write(tmp_path / "d", tiny))
    assert again.hash == tiny.hash
    obs = np.random.default_rng(0).uniform(-1, 1, (50, 4)).astype(np.float32)
    mine, theirs = behaviours(tiny), behaviours(again)
    assert list(mine) == list(theirs) == ["ppo-1", "ppo-2"]
    for name in mine:
        one, two = (act(np.random.default_rng(7), obs) for act in (mine[name], theirs[name]))
        assert np.array_equal(one, two)
        assert one.shape == (50, 2)
        assert one.dtype == np.float32
        assert not np.array_equal(one, mine[name](np.random.default_rng(8), obs))


def test_actions_are_drawn_around_the_mean_and_clipped(tiny):
    """4000 draws: the mean is off by 4 standard errors once in 16000 times, per axis."""
    obs = np.zeros((4000, 4), np.float32)
    action = behaviours(tiny)["ppo-1"](np.random.default_rng(0), obs)
    deviation = np.exp(tiny.model.arrays["log_deviation"][0])
    assert np.abs(action).max() == 1.0
    assert np.abs(action - np.median(action, 0)).mean(0) == pytest.approx(deviation * 0.8, rel=0.1)
    assert np.abs(action.mean(0)).max() < 0.2 + 4 * 0.5 / math.sqrt(4000)  # an untrained mean is near 0


class FoldedSimulator(point.PointSimulator):
    """The point mass with its observation folded into a matrix."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2, 2), np.float32)

    def observe(self):
        return super().observe().reshape(-1, 2, 2)


def test_observations_of_any_shape(tiny, monkeypatch):
    def make_folded(count, horizon=point.HORIZON, autoreset_mode=AutoresetMode.NEXT_STEP):
        return BatchedEnv(FoldedSimulator(count, horizon), count, autoreset_mode)

    folded = replace(
        point.TASK,
        name="folded",
        obs_shape=(2, 2),
        make_vec=make_folded,
        unsafe=lambda obs: point.unsafe(obs.reshape(*obs.shape[:-2], 4)),
        distance=lambda obs: point.hazard_distance(obs.reshape(*obs.shape[:-2], 4)),
    )
    monkeypatch.setitem(TASKS, "folded", folded)
    trained = train_demonstrators("folded", 3, TINY)
    assert trained.info["obs_shape"] == [2, 2]
    assert trained.info["curve"] == tiny.info["curve"]
    episodes, _ = rci.collect("folded", 4, "ppo", demonstrators=trained)
    assert episodes.obs.shape[1:] == (2, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"total_step": 3}, "unknown setting in ppo 'total_step'. Did you mean 'total_steps'"),
        ({"hidden": 64}, "ppo.hidden must be a list"),
        ({"hidden": [0]}, "hidden must be sizes of at least 1"),
        ({"num_envs": 0}, "num_envs must be at least 1"),
        ({"epochs": 1.5}, "ppo.epochs must be a whole number"),
        ({"learning_rate": 0}, "learning_rate must be above 0"),
        ({"learning_rate": math.nan}, "learning_rate must be above 0"),
        ({"entropy_weight": -1}, "entropy_weight must be at least 0"),
        ({"discount": 1.1}, "discount must be 0 to 1"),
        ({"minibatches": 7}, "8192, which 7 minibatches do not divide"),
        ({"total_steps": 9000}, "5 checkpoints need total_steps of at least 40960"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(RciError, match=message):
        build(Config, settings, "ppo")


def test_divergence_is_an_error():
    with pytest.raises(RciError, match="PPO diverged"):
        train_demonstrators("point", 0, replace(TINY, learning_rate=1e30, gradient_limit=1e30))


def test_a_task_whose_actions_it_cannot_choose():
    spaces = [
        gymnasium.spaces.Discrete(3),
        gymnasium.spaces.Box(-2.0, 2.0, (2,)),
        gymnasium.spaces.Box(-1.0, 1.0, (2, 2)),
    ]
    for space in spaces:
        with pytest.raises(RciError, match="PPO needs a row of actions from -1 to 1, but those of 'x' are"):
            check_actions("x", SimpleNamespace(single_action_space=space))
    with pytest.raises(RciError, match="unknown task 'pont'"):
        train_demonstrators("pont", 0, TINY)


def test_weights_that_do_not_fit(tiny):
    arrays = {**tiny.model.arrays, "log_deviation": np.zeros((2, 3), np.float32)}
    with pytest.raises(RciError, match="the stored network does not fit: 'log_deviation'"):
        behaviours(replace(tiny, model=tiny.model._replace(arrays=arrays)))
    with pytest.raises(RciError, match="demonstrators must be of type Demonstrators, got str"):
        behaviours("ppo")
