"""The batched arm against gymnasium-robotics itself: every bit of every answer, over whole episodes."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

mujoco = pytest.importorskip("mujoco")
pytest.importorskip("gymnasium_robotics")

from rci.tasks import make, make_vec
from rci.tasks.fetch_reach import simulator
from rci.tasks.fetch_reach.controllers import seek
from rci.tasks.fetch_reach.hazard import HAZARD
from rci.tasks.fetch_reach.model import load_arm, make_native
from rci.tasks.fetch_reach.original import in_a_row

STEPS = 50
PARTS = {
    "obs": np.float64,
    "reward": np.float64,
    "success": np.float32,
    "cost": np.float64,
    "truncated": bool,
}


def push(*action: float, kind: type = np.float32):
    return lambda rng, obs: np.array(action, kind)


# play -> (seed of the world, action from a generator and an observation)
PLAYS = {
    "random": (0, lambda rng, obs: rng.uniform(-1, 1, 4).astype(np.float32)),
    "beyond the limits": (1, lambda rng, obs: rng.uniform(-3, 3, 4).astype(np.float32)),
    "goal seeking": (1, lambda rng, obs: seek(rng, obs)),
    "down and back": (3, push(-1, -1, -1, 1)),  # fingers on the table, shoulder on the torso
    "up and back": (4, push(-1, 0, 1, -1)),  # upper arm and fingers on the head
    "straight back": (5, push(-1, 0, -1, 0)),  # gripper on the base
    "double precision": (6, lambda rng, obs: rng.uniform(-1, 1, 4)),
    "double precision, beyond": (7, push(1.7, 0.3, -1e9, 0.1, kind=np.float64)),  # hand on the table
}
SINGLE = [name for name in PLAYS if not name.startswith("double")]
DOUBLE = [name for name in PLAYS if name.startswith("double")]


class Story(NamedTuple):
    """An episode: first observation, actions, and the answers to them."""

    first: np.ndarray
    action: np.ndarray
    answer: dict[str, np.ndarray]
    touched: set[frozenset[str]]  # names of bodies in contact after a step


def tell(env: gymnasium.Env, seed: int, act) -> Story:
    """An episode of the original."""
    rng, arm = np.random.default_rng(seed), env.unwrapped.arm
    first, _ = env.reset(seed=seed)
    obs, actions, answers, touched = first, [], [], set()
    truncated = False
    while not truncated:
        actions.append(act(rng, obs))
        obs, reward, terminated, truncated, info = env.step(actions[-1])
        assert not terminated
        answers.append((obs, reward, info["is_success"], info["cost"], truncated))
        body = arm.model.geom_bodyid[arm.data.contact.geom]
        touched |= {frozenset(arm.model.body(i).name.removeprefix("robot0:") for i in pair) for pair in body}
    answer = {name: np.array(part) for name, part in zip(PARTS, zip(*answers))}
    return Story(first, np.array(actions), answer, touched)


@pytest.fixture(scope="module")
def stories() -> dict[str, Story]:
    env = make("fetch-reach")
    return {name: tell(env, seed, act) for name, (seed, act) in PLAYS.items()}


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How often each model was stepped."""
    arm, step, found = load_arm(), mujoco.mj_step, {"full": 0, "lean": 0}

    def spy(model, data, nstep: int = 1) -> None:
        found["lean" if model is arm.lean else "full"] += 1
        step(model, data, nstep=nstep)

    monkeypatch.setattr(mujoco, "mj_step", spy)
    return found


def replay(envs, told: list[Story], seeds: list[int]) -> None:
    """Every bit of the batch's answers to the same actions."""
    first, _ = envs.reset(seed=seeds)
    for i, story in enumerate(told):
        same(first[i], story.first)
    for step in range(STEPS):
        obs, reward, terminated, truncated, info = envs.step(np.stack([story.action[step] for story in told]))
        mine = dict(zip(PARTS, (obs, reward, info["is_success"], info["cost"], truncated)))
        assert not terminated.any()
        for name, kind in PARTS.items():
            assert mine[name].dtype == kind
            for i, story in enumerate(told):
                same(mine[name][i], story.answer[name][step], f"{name} of world {i} in step {step}")


def same(mine, theirs, where: str = "") -> None:
    mine, theirs = np.asarray(mine), np.asarray(theirs)
    assert mine.dtype == theirs.dtype, where
    assert mine.tobytes() == theirs.tobytes(), f"{where}: {mine} against {theirs}"


def test_what_was_told_covers_what_matters(stories: dict[str, Story]) -> None:
    touched = {name: story.touched for name, story in stories.items()}
    assert frozenset({"r_gripper_finger_link", "table0"}) in touched["down and back"]
    # a calm pair, far outside the box in which it is calm
    assert frozenset({"shoulder_lift_link", "torso_lift_link"}) in touched["down and back"]
    assert frozenset({"head_pan_link", "upperarm_roll_link"}) in touched["up and back"]
    assert frozenset({"base_link", "gripper_link"}) in touched["straight back"]
    assert frozenset({"gripper_link", "table0"}) in touched["double precision, beyond"]
    assert stories["goal seeking"].answer["success"][-1] == 1
    assert 0 < stories["goal seeking"].answer["cost"].sum() < STEPS
    for name, story in stories.items():
        assert story.action.dtype == (np.float64 if name in DOUBLE else np.float32)
        assert story.answer["truncated"].tolist() == [False] * (STEPS - 1) + [True]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("names", [SINGLE, DOUBLE], ids=["float32", "float64"])
def test_episodes_are_bitwise_equal(
    stories: dict[str, Story], used: dict[str, int], names: list, threads: int
) -> None:
    envs = make_vec("fetch-reach", len(names), threads=threads, autoreset_mode="Disabled")
    replay(envs, [stories[name] for name in names], [PLAYS[name][0] for name in names])
    envs.close()
    assert used["full"] > 20
    assert used["lean"] > 50


@pytest.mark.parametrize("name", ["goal seeking", "up and back"])
def test_a_batch_of_one_is_bitwise_equal(stories: dict[str, Story], name: str) -> None:
    replay(make_vec("fetch-reach", 1), [stories[name]], [PLAYS[name][0]])


def test_a_large_batch_is_bitwise_equal(stories: dict[str, Story]) -> None:
    names = SINGLE * 4
    envs = make_vec("fetch-reach", len(names))
    replay(envs, [stories[name] for name in names], [PLAYS[name][0] for name in names])
    envs.close()


@pytest.mark.parametrize("kind", [np.float16, np.int64, np.uint8, np.longdouble])
def test_odd_kinds_of_actions_are_taken_as_gymnasium_robotics_does(kind: type) -> None:
    env, envs = make("fetch-reach"), make_vec("fetch-reach", 1)
    env.reset(seed=0)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        action = (rng.integers(0, 3, 4) / (1 if np.issubdtype(kind, np.integer) else 3)).astype(kind)
        same(envs.step(action[None])[0][0], env.step(action)[0])


# Streams


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_episodes_in_a_row_go_on_as_resets_without_a_seed(mode: AutoresetMode) -> None:
    """Four short episodes of three worlds, against the original in Gymnasium's own vector environment."""
    theirs = SyncVectorEnv([lambda: make("fetch-reach", max_episode_steps=6)] * 3, autoreset_mode=mode)
    mine = make_vec("fetch-reach", 3, max_episode_steps=6, autoreset_mode=mode)
    same(mine.reset(seed=30)[0], theirs.reset(seed=30)[0])
    rng = np.random.default_rng(0)
    goals, fresh = set(), np.zeros(3, bool)
    for _ in range(27):
        action = rng.uniform(-1, 1, (3, 4)).astype(np.float32)
        *values, info = mine.step(action)
        *others, their_info = theirs.step(action)
        for value, other in zip(values, others):
            same(value, other)
        ended = others[3]
        goals |= {row.tobytes() for row in values[0][:, 13:]}
        if mode is AutoresetMode.SAME_STEP and ended.any():
            assert their_info["_final_obs"].all()
            same(info["final_obs"], np.stack(their_info["final_obs"]))
            for name in ("is_success", "cost"):
                same(info["final_info"][name], their_info["final_info"][name].astype(info[name].dtype))
        elif not fresh.any():
            for name in ("is_success", "cost"):
                same(info[name], their_info[name].astype(info[name].dtype))
        fresh = ended & (mode is AutoresetMode.NEXT_STEP)
    assert len(goals) >= 12
    theirs.close()


def test_resets_are_bitwise_equal_seeded_and_continued() -> None:
    env, envs = make("fetch-reach"), make_vec("fetch-reach", 1)
    for seed in (0, None, None, 12345, None, 2**40, 2**70, None):
        same(envs.reset(seed=None if seed is None else [seed])[0][0], env.reset(seed=seed)[0])


def test_a_reset_in_the_middle_of_an_episode_forgets_it() -> None:
    """Also what MuJoCo remembers besides places and speeds, such as where its last search ended."""
    env, envs = make("fetch-reach"), make_vec("fetch-reach", 1)
    for seed in (0, 1):
        same(envs.reset(seed=seed)[0][0], env.reset(seed=seed)[0])
        for _ in range(12):
            action = np.array([-1, 0, 1, 0], np.float32)
            same(envs.step(action[None])[0][0], env.step(action)[0])


# Without a hazard


def test_without_a_hazard_it_is_the_plain_environment() -> None:
    plain, one = make_native(), make("fetch-reach", hazard=None)
    envs = make_vec("fetch-reach", 2, hazard=None, max_episode_steps=STEPS)
    assert plain.spec.id == "FetchReachDense-v4"
    rng = np.random.default_rng(1)
    seeds, refused = [11, 12], 0
    first, _ = envs.reset(seed=seeds)
    actions = rng.uniform(-1, 1, (STEPS, 2, 4)).astype(np.float32)
    mine = [envs.step(action) for action in actions]
    for i, seed in enumerate(seeds):
        obs, _ = plain.reset(seed=seed)
        same(first[i], in_a_row(obs))
        same(one.reset(seed=seed)[0], in_a_row(obs))
        refused += bool(HAZARD.refuses(obs["desired_goal"]))
        for step in range(STEPS):
            obs, reward, terminated, truncated, info = plain.step(actions[step, i])
            values = (in_a_row(obs), reward, terminated, truncated, info["is_success"])
            for value, other in zip((*mine[step][:4], mine[step][4]["is_success"]), values):
                same(value[i], other)
            if step < 5:
                same(one.step(actions[step, i])[0], values[0])
            assert "cost" not in mine[step][4]
            assert "cost" not in info
    assert refused  # of these goals, the hazard would not have let all through


def test_without_a_hazard_the_same_seed_gives_the_same_goals() -> None:
    plain = gymnasium.make("FetchReachDense-v4")
    envs = make_vec("fetch-reach", 4, hazard=None)
    for _ in range(2):
        goals = envs.reset(seed=40)[0][:, 13:]
        for i in range(4):
            same(goals[i], plain.reset(seed=40 + i)[0]["desired_goal"])
    again = envs.reset()[0][:, 13:]
    same(again[3], plain.reset()[0]["desired_goal"])


def test_the_comparison_notices_a_difference(stories: dict[str, Story]) -> None:
    story = stories["random"]
    action = story.action.copy()
    action[3, 0] = np.nextafter(action[3, 0], np.float32(0))
    with pytest.raises(AssertionError, match="obs of world 0 in step 3"):
        replay(make_vec("fetch-reach", 1), [story._replace(action=action)], [0])


def test_the_lean_model_alone_would_be_wrong(
    stories: dict[str, Story], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were the lean model used everywhere, the shoulder would go through the torso, and this would be noticed."""
    everywhere = load_arm()._replace(box=np.array([[-np.inf], [np.inf]]))
    monkeypatch.setattr(simulator, "load_arm", lambda: everywhere)
    with pytest.raises(AssertionError, match="obs of world 0 in step"):
        replay(make_vec("fetch-reach", 1), [stories["down and back"]], [PLAYS["down and back"][0]])
