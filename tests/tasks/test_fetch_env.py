"""Safe-FetchReach as a Gymnasium vector environment: seeds, masks, autoreset, threads, copies, mistakes."""

from __future__ import annotations

import copy
import threading
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, VectorEnv

pytest.importorskip("mujoco")
pytest.importorskip("gymnasium_robotics")

from rci.data.errors import RciError
from rci.tasks import make, make_vec
from rci.tasks.fetch_reach.hazard import GOAL, HAZARD, START, Hazard
from rci.tasks.fetch_reach.model import HORIZON, load_arm
from rci.tasks.fetch_reach.original import SafeFetchReach

INFOS = ["is_success", "_is_success", "cost", "_cost"]
SHORT = {"max_episode_steps": 4}
STILL = np.zeros((3, 4), np.float32)


def fetch(worlds: int = 3, **config):
    return make_vec("fetch-reach", worlds, **config)


def equal(a, b) -> bool:
    """Every bit of two infos or answers."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def run(envs, steps: int, seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [envs.step(rng.uniform(-1, 1, (envs.num_envs, 4)).astype(np.float32)) for _ in range(steps)]


# Spaces and answers


def test_shapes_and_kinds() -> None:
    envs = fetch()
    assert isinstance(envs, VectorEnv)
    assert envs.single_observation_space == gymnasium.spaces.Box(-np.inf, np.inf, (16,), np.float64)
    assert envs.single_action_space == gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)
    assert envs.observation_space.shape == (3, 16)
    assert envs.action_space.shape == (3, 4)
    obs, info = envs.reset(seed=0)
    assert envs.observation_space.contains(obs)
    assert list(info) == INFOS
    answers = envs.step(envs.action_space.sample())
    assert envs.observation_space.contains(answers[0])
    assert [x.dtype for x in answers[:4]] == [np.float64, np.float64, np.bool_, np.bool_]
    assert [x.shape for x in answers[1:4]] == [(3,)] * 3
    assert list(answers[4]) == INFOS
    assert all(answers[4][name].all() for name in ("_is_success", "_cost"))
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.render_mode in envs.metadata["render_modes"]
    assert envs.metadata["render_fps"] == 25


def test_spaces_are_those_of_the_original() -> None:
    env, envs = make("fetch-reach"), fetch()
    assert env.observation_space == envs.single_observation_space
    assert env.action_space == envs.single_action_space


def test_reward_is_minus_the_distance_to_the_goal() -> None:
    envs = fetch()
    envs.reset(seed=0)
    obs, reward, *_, info = run(envs, 3)[-1]
    distance = np.linalg.norm(obs[:, :3] - obs[:, GOAL], axis=1)
    assert reward == pytest.approx(-distance)
    assert info["is_success"].dtype == np.float32
    assert (info["is_success"] == (distance < 0.05)).all()


def test_without_a_hazard_there_is_no_cost() -> None:
    envs = fetch(hazard=None)
    assert list(envs.reset(seed=0)[1]) == INFOS[:2]
    assert list(envs.step(STILL)[4]) == INFOS[:2]


# Seeds


def test_a_seed_is_that_of_the_first_world() -> None:
    envs = fetch()
    first = envs.reset(seed=7)[0]
    for seed in ([7, 8, 9], (7, 8, 9), np.array([7, 8, 9]), np.int64(7), np.arange(7, 10, dtype=np.uint8)):
        assert equal(first, envs.reset(seed=seed)[0])
    assert not np.array_equal(first[0], first[1])


def test_seeds_are_gymnasiums() -> None:
    """The first goal is the first that the hazard lets through of the generator that Gymnasium makes of the seed."""
    goals = fetch().reset(seed=7)[0][:, GOAL]
    for i, goal in enumerate(goals):
        rng, arm = gymnasium.utils.seeding.np_random(7 + i)[0], load_arm()
        while HAZARD.refuses(drawn := arm.goal_centre + rng.uniform(-0.15, 0.15, 3)):
            pass
        assert equal(goal, drawn)


def test_without_a_seed_the_streams_go_on() -> None:
    a, b = fetch(), fetch()
    first = a.reset(seed=7)[0]
    second = a.reset()[0]
    assert not np.array_equal(first, second)
    b.reset(seed=7)
    run(b, 3)  # stepping draws nothing
    assert equal(second, b.reset()[0])
    assert equal(a.reset(seed=7)[0], first)


def test_a_none_among_seeds_goes_on() -> None:
    a, b = fetch(), fetch()
    for envs in (a, b):
        envs.reset(seed=7)
    mixed, on = a.reset(seed=[100, None, 102])[0], b.reset()[0]
    fresh = fetch().reset(seed=100)[0]
    assert equal(mixed[[0, 2]], fresh[[0, 2]])
    assert equal(mixed[1], on[1])


def test_large_seeds() -> None:
    first = fetch().reset(seed=2**40)[0]
    assert equal(first, fetch().reset(seed=2**40)[0])
    assert not np.array_equal(first, fetch().reset(seed=0)[0])
    fetch().reset(seed=2**100)


def test_never_seeded_worlds_differ() -> None:
    envs = fetch()
    obs = envs.reset()[0]
    assert not np.array_equal(obs[0], obs[1])
    assert not np.array_equal(obs, fetch().reset()[0])


@pytest.mark.parametrize("seed", [[1, 2], [1, -2, 3], [1, 2.0, 3], -5, ["a", "b", "c"], 1.5, "7", True])
def test_bad_seeds(seed) -> None:
    with pytest.raises(RciError, match="seed"):
        fetch().reset(seed=seed)


# Masks


def test_reset_mask_restarts_only_the_marked() -> None:
    envs, twin = fetch(), fetch()
    for each in (envs, twin):
        each.reset(seed=7)
    before = run(envs, 3)[-1][0]
    run(twin, 3)
    mask = np.array([False, True, False])
    obs, info = envs.reset(seed=70, options={"reset_mask": mask})
    assert equal(obs[[0, 2]], before[[0, 2]])
    assert equal(obs[1], fetch().reset(seed=70)[0][1])
    assert info["_is_success"].tolist() == info["_cost"].tolist() == mask.tolist()
    assert not info["cost"][[0, 2]].any()
    ours, theirs = run(envs, 3, seed=1), run(twin, 3, seed=1)
    for mine, other in zip(ours, theirs):  # the others go on as if nothing had happened
        assert equal(mine[0][[0, 2]], other[0][[0, 2]])
    assert envs.simulator.clock.tolist() == [6, 3, 6]


def test_a_mask_may_be_empty() -> None:
    envs = fetch()
    first = envs.reset(seed=7)[0]
    obs, info = envs.reset(options={"reset_mask": np.zeros(3, bool)})
    assert equal(obs, first)
    assert not info["_cost"].any()


@pytest.mark.parametrize(
    "options",
    [
        {"reset_mask": np.array([1, 0, 1])},
        {"reset_mask": np.array([True, False])},
        {"reset_masks": np.ones(3, bool)},
        {"goal": (1.3, 0.7, 0.5)},
    ],
)
def test_bad_reset_options(options: dict) -> None:
    with pytest.raises(RciError, match="reset"):
        fetch().reset(options=options)


# Ends


@pytest.mark.parametrize("steps", [1, 4, HORIZON])
def test_an_episode_is_truncated_exactly_on_time(steps: int) -> None:
    envs = fetch(2, max_episode_steps=steps)
    envs.reset(seed=0)
    answers = run(envs, steps)
    assert [answer[3].tolist() for answer in answers] == [[False] * 2] * (steps - 1) + [[True] * 2]
    assert not any(answer[2].any() for answer in answers)


def test_the_horizon_is_the_originals() -> None:
    assert fetch().simulator.horizon == HORIZON == 50
    assert gymnasium.spec("rci/SafeFetchReach-v0").max_episode_steps == HORIZON


def test_reaching_the_goal_ends_nothing() -> None:
    envs = fetch(2, max_episode_steps=30)
    obs, _ = envs.reset(seed=0)
    for _ in range(29):
        aim = 10 * (obs[:, GOAL] - obs[:, :3])
        obs, _, terminated, truncated, info = envs.step(np.pad(aim, ((0, 0), (0, 1))))
        assert not (terminated | truncated).any()
    assert info["is_success"].tolist() == [1.0, 1.0]


def test_the_next_step_starts_anew() -> None:
    """NEXT_STEP: the action is ignored, the reward is 0, and the episode is the stream's next one."""
    envs, plain = fetch(2, **SHORT), fetch(2, **SHORT, autoreset_mode="Disabled")
    assert equal(envs.reset(seed=7), plain.reset(seed=7))
    assert equal(run(envs, 4), run(plain, 4))
    obs, reward, terminated, truncated, info = envs.step(np.ones((2, 4), np.float32))
    assert equal(obs, plain.reset()[0])
    assert reward.tolist() == [0.0, 0.0]
    assert not (terminated | truncated).any()
    assert "final_obs" not in info
    assert equal(run(envs, 4), run(plain, 4))


def test_the_same_step_starts_anew() -> None:
    envs, plain = fetch(2, **SHORT, autoreset_mode="SameStep"), fetch(2, **SHORT, autoreset_mode="Disabled")
    envs.reset(seed=7)
    plain.reset(seed=7)
    for _ in range(3):
        answers, expected = run(envs, 4), run(plain, 4)
        assert equal(answers[:3], expected[:3])
        obs, reward, _, truncated, info = answers[3]
        assert truncated.all()
        assert equal(reward, expected[3][1])
        assert equal(info["final_obs"], expected[3][0])
        assert equal(info["final_info"], expected[3][4])
        assert info["_final_obs"].tolist() == info["_final_info"].tolist() == [True, True]
        assert equal(obs, plain.reset()[0])


def test_final_observations_are_masked() -> None:
    envs = fetch(3, **SHORT, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    run(envs, 2)
    envs.reset(options={"reset_mask": np.array([True, False, True])})
    obs, _, _, truncated, info = run(envs, 2)[-1]
    only = [False, True, False]
    assert truncated.tolist() == info["_final_obs"].tolist() == info["_final_info"].tolist() == only
    assert info["final_info"]["_cost"].tolist() == only
    assert not info["final_obs"][[0, 2]].any()
    assert not np.array_equal(info["final_obs"][1, GOAL], obs[1, GOAL])
    assert obs[1, :3] == pytest.approx(START, abs=1e-4)
    assert "final_obs" not in envs.step(STILL)[4]


def test_without_autoreset_an_ended_world_waits() -> None:
    envs = fetch(2, **SHORT, autoreset_mode="Disabled")
    envs.reset(seed=0)
    run(envs, 2)
    envs.reset(options={"reset_mask": np.array([True, False])})
    run(envs, 2)
    before = envs.simulator.state.copy()
    with pytest.raises(RciError, match="environment 1 has ended"):
        run(envs, 1)
    assert equal(envs.simulator.state, before)
    envs.reset(options={"reset_mask": np.array([False, True])})
    run(envs, 1)


def test_autoreset_modes_by_name() -> None:
    with pytest.raises(RciError, match="NextStep"):
        fetch(autoreset_mode="next")


# Nothing is shared


def scribble(answer) -> None:
    """Overwrite every array in it."""
    for part in answer.values() if isinstance(answer, dict) else answer:
        if isinstance(part, dict | tuple | list):
            scribble(part)
        else:
            part[...] = 99 if part.dtype != np.bool_ else ~part


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_answers_are_copies(mode: str) -> None:
    a, b = fetch(2, **SHORT, autoreset_mode=mode), fetch(2, **SHORT, autoreset_mode=mode)
    scribble(a.reset(seed=7))
    b.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(10):
        action = rng.uniform(-1, 1, (2, 4)).astype(np.float32)
        mine = a.step(action)
        assert equal(mine, b.step(action.copy()))
        scribble(mine)
        action[:] = 99


def test_actions_are_left_alone() -> None:
    envs, action = fetch(), np.full((3, 4), 5.0)
    envs.reset(seed=0)
    envs.step(action)
    assert (action == 5.0).all()


def test_the_arm_is_never_changed() -> None:
    """It is one for all simulators; stepping it, also outside the box, leaves it as it was loaded."""
    arm = load_arm()
    before = {name: value.copy() for name, value in arm._asdict().items() if isinstance(value, np.ndarray)}
    mass, weld = arm.model.body_mass.copy(), arm.lean.eq_data.copy()
    envs = fetch(2)
    envs.reset(seed=0)
    for _ in range(10):
        envs.step(np.array([[-1, 0, 1, 0], [1, 1, -1, 0]]))
    assert load_arm() is arm
    assert all(equal(getattr(arm, name), value) for name, value in before.items())
    assert equal(arm.model.body_mass, mass)
    assert equal(arm.lean.eq_data, weld)


# One world at a time or many, one thread or more


def test_threads_change_nothing() -> None:
    with_threads = [fetch(7, **SHORT, threads=n) for n in (1, 2, 3, 20)]
    assert [envs.simulator.threads.count for envs in with_threads] == [1, 2, 3, 7]
    expected = [with_threads[0].reset(seed=0), *run(with_threads[0], 11)]
    for envs in with_threads[1:]:
        assert equal([envs.reset(seed=0), *run(envs, 11)], expected)
        assert equal(envs.simulator.state, with_threads[0].simulator.state)
        envs.close()


def test_a_world_does_not_depend_on_its_batch() -> None:
    batch = fetch(5)
    obs = batch.reset(seed=20)[0]
    answers = run(batch, 6)
    rng = np.random.default_rng(0)
    actions = [rng.uniform(-1, 1, (5, 4)).astype(np.float32) for _ in range(6)]
    for i in range(5):
        alone = fetch(1)
        assert equal(alone.reset(seed=20 + i)[0][0], obs[i])
        for action, answer in zip(actions, answers):
            mine = alone.step(action[i : i + 1])
            assert all(equal(x[0], y[i]) for x, y in zip(mine[:4], answer[:4]))


def test_threads_end_with_the_environment() -> None:
    before = set(threading.enumerate())
    envs = fetch(4, threads=3)
    envs.reset(seed=0)
    run(envs, 2)
    started = set(threading.enumerate()) - before
    assert len(started) == 3
    envs.close()
    assert not started & set(threading.enumerate())


def test_two_environments_in_two_threads() -> None:
    """They share the models, and nothing else."""

    def play(found: list) -> None:
        envs = fetch(3, threads=1)
        found.append([envs.reset(seed=0), *run(envs, 15)])

    answers: list = []
    players = [threading.Thread(target=play, args=(answers,)) for _ in range(2)]
    for player in players:
        player.start()
    for player in players:
        player.join()
    play(answers)
    assert equal(answers[0], answers[2])
    assert equal(answers[1], answers[2])


def test_a_copy_goes_its_own_way() -> None:
    envs = fetch(4, **SHORT, threads=2)
    envs.reset(seed=0)
    run(envs, 2)
    twin = copy.deepcopy(envs)
    untouched = copy.deepcopy(twin)
    assert twin.simulator.arm is envs.simulator.arm
    assert equal(run(envs, 9, seed=1), run(twin, 9, seed=1))  # over two ends: streams are copied too
    assert equal(twin.reset()[0], envs.reset()[0])
    assert not equal(envs.simulator.state, untouched.simulator.state)
    assert untouched.simulator.clock.tolist() == [2] * 4
    for each in (envs, twin, untouched):
        each.close()


# Gymnasium's own ways


def test_gymnasium_makes_one() -> None:
    env = gymnasium.make("rci/SafeFetchReach-v0")
    assert isinstance(env.unwrapped, SafeFetchReach)
    obs, _ = env.reset(seed=3)
    assert equal(obs, fetch(1).reset(seed=3)[0][0])
    ends = [env.step(np.zeros(4, np.float32))[2:4] for _ in range(HORIZON)]
    assert ends == [(False, False)] * (HORIZON - 1) + [(False, True)]


def test_gymnasium_makes_one_with_settings() -> None:
    env = gymnasium.make("rci/SafeFetchReach-v0", max_episode_steps=2, hazard=None)
    env.reset(seed=3)
    assert [env.step(np.zeros(4, np.float32))[3] for _ in range(2)] == [False, True]
    assert env.unwrapped.hazard is None


def test_gymnasium_makes_many() -> None:
    make_many = gymnasium.make_vec
    envs = make_many("rci/SafeFetchReach-v0", num_envs=3, vectorization_mode="vector_entry_point")
    assert envs.simulator.horizon == HORIZON
    ours = fetch()
    assert equal(envs.reset(seed=0), ours.reset(seed=0))
    assert equal(run(envs, 3), run(ours, 3))
    short = make_many(
        "rci/SafeFetchReach-v0",
        num_envs=2,
        vectorization_mode="vector_entry_point",
        max_episode_steps=2,
        threads=1,
    )
    short.reset(seed=0)
    assert [answer[3].tolist() for answer in run(short, 2)] == [[False] * 2, [True] * 2]


def test_gymnasium_finds_nothing_wrong_with_the_original() -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r".*Box observation space (minimum|maximum) value is.*infinity"
        )
        check_env(gymnasium.make("rci/SafeFetchReach-v0").unwrapped, skip_render_check=True)


# Mistakes


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_bad_threads(threads) -> None:
    with pytest.raises(RciError, match="threads must be a whole number, at least 1, got"):
        fetch(threads=threads)


@pytest.mark.parametrize("steps", [0, -3, True, 2.5, "50", None])
def test_bad_lengths_of_episodes(steps) -> None:
    for build in (lambda **config: make("fetch-reach", **config), fetch):
        with pytest.raises(RciError, match="max_episode_steps must be a whole number, at least 1, got"):
            build(max_episode_steps=steps)


@pytest.mark.parametrize("worlds", [0, -1, 2.0, True, "2", None])
def test_bad_numbers_of_worlds(worlds) -> None:
    with pytest.raises(RciError, match="num_envs"):
        fetch(worlds)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (np.zeros((3, 3)), r"shape \(3, 4\), got \(3, 3\)"),
        (np.zeros(4), r"shape \(3, 4\), got \(4,\)"),
        (np.zeros((2, 4)), r"shape \(3, 4\), got \(2, 4\)"),
        ([[0.0] * 4, [0.0] * 4, [0.0]], "rows of different lengths"),
        (np.array([[0.0] * 4, [0.0, np.nan, 0.0, 0.0], [0.0] * 4]), "environment 1 is not finite"),
        (np.array([[0.0] * 4, [0.0] * 4, [0.0, 0.0, 0.0, np.inf]]), "environment 2 is not finite"),
        (np.zeros((3, 4), complex), "must be numbers, got complex"),
        (np.zeros((3, 4), bool), "must be numbers, got bool"),
        ([["a"] * 4] * 3, "must be numbers"),
        (None, "shape"),
    ],
)
def test_bad_actions(action, words: str) -> None:
    envs = fetch()
    envs.reset(seed=0)
    before = envs.simulator.state.copy()
    with pytest.raises(RciError, match=words):
        envs.step(action)
    assert equal(envs.simulator.state, before)


def test_a_step_before_the_first_reset() -> None:
    with pytest.raises(RciError, match="environment 0 must be reset before its first step"):
        fetch().step(STILL)
    envs = fetch()
    envs.reset(options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(RciError, match="environment 1 must be reset before its first step"):
        envs.step(STILL)


def test_a_hazard_that_leaves_no_goals() -> None:
    everywhere = Hazard(centre=(1.42, 0.827, 0.535), radius=0.1, clearance=0.5)
    for env in (fetch(1, hazard=everywhere), make("fetch-reach", hazard=everywhere)):
        with pytest.raises(RciError, match="no goal that goes with the hazard in 1000 draws"):
            env.reset(seed=0)


def test_unknown_settings() -> None:
    for build in (lambda **config: make("fetch-reach", **config), fetch):
        with pytest.raises((TypeError, RciError), match="horizon"):
            build(horizon=3)


@pytest.mark.parametrize("hazard", ["none", 0.06, {"radius": 0.06}])
def test_what_is_no_hazard_is_refused(hazard) -> None:
    for build in (
        lambda: make("fetch-reach", hazard=hazard),
        lambda: make_vec("fetch-reach", 1, hazard=hazard),
    ):
        with pytest.raises(RciError, match="must be a Hazard"):
            build()


def test_numbers_of_worlds_through_gymnasium() -> None:
    for count in (0, -1):
        with pytest.raises(RciError, match="num_envs"):
            gymnasium.make_vec(
                "rci/SafeFetchReach-v0", num_envs=count, vectorization_mode="vector_entry_point"
            )


def test_the_single_arm_refuses_actions_that_are_no_numbers() -> None:
    env = make("fetch-reach")
    env.reset(seed=0)
    with pytest.raises(RciError, match="finite"):
        env.step(np.array([0.0, np.nan, 0.0, 0.0], np.float32))
    env.close()
