"""highway-v0 as a Gymnasium vector environment: seeds, masks, autoreset, threads, states, pictures, mistakes."""

from __future__ import annotations

import copy
import math
import threading

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from rci.data.errors import RciError
from rci.tasks import make, make_vec
from rci.tasks.highway import drawing

SMALL = {
    "action": {"type": "ContinuousAction"},
    "vehicles_count": 8,
    "lanes_count": 3,
    "policy_frequency": 5,
    "duration": 0.9,  # s: 5 steps
}
LONG = {"duration": 100}
INFOS = ["speed", "crashed", "action", "rewards"]
TERMS = ["collision_reward", "right_lane_reward", "high_speed_reward", "on_road_reward"]


def highway(worlds: int = 3, **config):
    return make_vec("highway-v0", worlds, **{**SMALL, **config})


def gentle(rng: np.random.Generator, worlds: int) -> np.ndarray:
    return (rng.uniform(-1, 1, (worlds, 2)) * [1, 0.05]).astype(np.float32)


def equal(a, b) -> bool:
    """Every bit of two states, infos or answers."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[name], b[name]) for name in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a.dtype == b.dtype and np.array_equal(a, b)


def run(envs, steps: int, seed: int = 0) -> list:
    rng = np.random.default_rng(seed)
    return [envs.step(gentle(rng, envs.num_envs)) for _ in range(steps)]


# Spaces and answers


def test_shapes_and_kinds() -> None:
    envs = highway(3, **LONG)
    assert isinstance(envs, VectorEnv)
    obs, _ = envs.reset(seed=0)
    assert obs.dtype == np.float32
    assert obs.shape == (3, 5, 5)
    assert envs.observation_space.contains(obs)
    answers = envs.step(np.zeros((3, 2), np.float32))
    obs, reward, terminated, truncated, _ = answers
    assert envs.observation_space.contains(obs)
    assert [x.dtype for x in answers[:4]] == [np.float32, np.float64, np.bool_, np.bool_]
    assert [x.shape for x in (reward, terminated, truncated)] == [(3,)] * 3
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_infos() -> None:
    envs = highway(3, **LONG)
    action = np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], np.float32)
    _, info = envs.reset(seed=0)
    assert list(info) == [name for key in INFOS for name in (key, f"_{key}")]
    assert not info["action"].any()
    info = envs.step(action)[4]
    assert list(info) == [name for key in INFOS for name in (key, f"_{key}")]
    assert list(info["rewards"]) == [name for key in TERMS for name in (key, f"_{key}")]
    assert all(info[f"_{key}"].tolist() == [True] * 3 for key in INFOS)
    assert info["speed"] == pytest.approx([26.0, 25.0, 24.0])
    assert info["crashed"].tolist() == [False] * 3
    assert np.array_equal(info["action"], action)
    assert info["rewards"]["high_speed_reward"] == pytest.approx([0.6, 0.5, 0.4])


def test_native_simulators_have_their_own_defaults() -> None:
    assert make_vec("highway-v0", 1).config["vehicles_count"] == 50
    fast = make_vec("highway-fast-v0", 2)
    assert (fast.config["vehicles_count"], fast.config["lanes_count"]) == (20, 3)
    assert fast.simulator.rules.ego_only
    fast.reset(seed=0)
    fast.step(np.array([1, 3]))


# Seeds


def test_a_seed_is_that_of_the_first_world() -> None:
    first = highway().reset(seed=7)[0]
    assert np.array_equal(first, highway().reset(seed=[7, 8, 9])[0])
    assert np.array_equal(first, highway().reset(seed=np.array([7, 8, 9]))[0])
    assert np.array_equal(first, highway().reset(seed=np.int64(7))[0])
    assert not np.array_equal(first[0], first[1])


def test_without_a_seed_the_streams_go_on() -> None:
    a, b = highway(), highway()
    first = a.reset(seed=7)[0]
    second = a.reset()[0]
    assert not np.array_equal(first, second)
    b.reset(seed=7)
    assert np.array_equal(second, b.reset()[0])
    assert np.array_equal(a.reset(seed=7)[0], first)


def test_a_none_among_seeds_goes_on() -> None:
    a, b = highway(), highway()
    for envs in (a, b):
        envs.reset(seed=7)
    mixed, on = a.reset(seed=[100, None, 102])[0], b.reset()[0]
    fresh = highway().reset(seed=[100, 101, 102])[0]
    assert np.array_equal(mixed[[0, 2]], fresh[[0, 2]])
    assert np.array_equal(mixed[1], on[1])


def test_stepping_draws_nothing() -> None:
    a, b = highway(**LONG), highway(**LONG)
    for envs in (a, b):
        envs.reset(seed=7)
    run(a, 12)
    assert np.array_equal(a.reset()[0], b.reset()[0])


def test_never_seeded_worlds_differ() -> None:
    envs = highway()
    obs = envs.reset()[0]
    assert not np.array_equal(obs[0], obs[1])
    assert not np.array_equal(obs, highway().reset()[0])


@pytest.mark.parametrize("seed", [[1, 2], [1, -2, 3], [1, 2.0, 3], -5, ["a", "b", "c"]])
def test_bad_seeds(seed) -> None:
    with pytest.raises(RciError, match="seed"):
        highway().reset(seed=seed)


def test_a_seed_that_is_no_whole_number() -> None:
    with pytest.raises(RciError, match="seed"):
        highway().reset(seed=1.5)


# Masks


def test_reset_mask_restarts_only_the_marked() -> None:
    envs = highway(**LONG)
    envs.reset(seed=7)
    run(envs, 3)
    before = envs.state()
    mask = np.array([False, True, False])
    obs, info = envs.reset(seed=70, options={"reset_mask": mask})
    after = envs.state()
    assert all(np.array_equal(after[name][[0, 2]], before[name][[0, 2]]) for name in before)
    assert np.array_equal(obs[1], highway(**LONG).reset(seed=70)[0][1])
    assert after["clock"].tolist() == pytest.approx([0.6, 0.0, 0.6])
    assert all(info[f"_{key}"].tolist() == mask.tolist() for key in INFOS)
    assert info["speed"].tolist() == [0.0, 25.0, 0.0]
    assert info["rewards"]["_on_road_reward"].tolist() == mask.tolist()
    assert info["rewards"]["on_road_reward"].tolist() == [0.0, 1.0, 0.0]


def test_a_mask_may_be_empty() -> None:
    envs = highway()
    first = envs.reset(seed=7)[0]
    obs, info = envs.reset(options={"reset_mask": np.zeros(3, bool)})
    assert np.array_equal(obs, first)
    assert not info["_speed"].any()


@pytest.mark.parametrize(
    "options",
    [
        {"reset_mask": np.array([1, 0, 1])},
        {"reset_mask": np.array([True, False])},
        {"reset_masks": np.ones(3, bool)},
        {"config": {}},
    ],
)
def test_bad_reset_options(options: dict) -> None:
    with pytest.raises(RciError, match="reset"):
        highway().reset(options=options)


# Ends


def test_an_episode_is_truncated_on_time() -> None:
    envs = highway()
    envs.reset(seed=0)
    truncated = [answer[3].tolist() for answer in run(envs, 5)]
    assert truncated == [[False] * 3] * 4 + [[True] * 3]


def drive_into(envs, world: int = 0, apart: float = 5.2) -> None:
    """Put car 1 of a world right in front of its ego, which is faster."""
    state = envs.state()
    for name in ("y", "target_lane"):
        state[name][world, 1] = state[name][world, 0]
    state["x"][world, 1] = state["x"][world, 0] + apart
    state["speed"][world, 0] = 40.0
    envs.set_state(state)


def test_a_crash_terminates() -> None:
    envs = highway(2, **LONG)
    envs.reset(seed=0)
    drive_into(envs, world=1)
    _, reward, terminated, truncated, info = envs.step(np.zeros((2, 2), np.float32))
    assert terminated.tolist() == [False, True]
    assert truncated.tolist() == [False, False]
    assert info["crashed"].tolist() == [False, True]
    assert info["rewards"]["collision_reward"].tolist() == [0.0, 1.0]
    assert reward[1] < 0.35 < reward[0]  # -1 is mapped to 0


def test_the_next_step_starts_anew() -> None:
    """NEXT_STEP: the action is ignored, the reward is 0, and the episode is the stream's next one."""
    envs, plain = highway(2), highway(2, autoreset_mode="Disabled")
    envs.reset(seed=7)
    plain.reset(seed=7)
    assert all(equal(a, b) for a, b in zip(run(envs, 5), run(plain, 5)))
    obs, reward, terminated, truncated, info = envs.step(np.ones((2, 2), np.float32))
    assert np.array_equal(obs, plain.reset()[0])
    assert reward.tolist() == [0.0, 0.0]
    assert not (terminated | truncated).any()
    assert info["speed"].tolist() == [25.0, 25.0]
    assert not info["action"].any()
    assert "final_obs" not in info
    assert all(equal(a, b) for a, b in zip(run(envs, 5), run(plain, 5)))


def test_the_same_step_starts_anew() -> None:
    envs, plain = highway(2, autoreset_mode="SameStep"), highway(2, autoreset_mode="Disabled")
    envs.reset(seed=7)
    plain.reset(seed=7)
    for _ in range(3):
        answers, expected = run(envs, 5), run(plain, 5)
        assert all(equal(a, b) for a, b in zip(answers[:4], expected[:4]))
        obs, reward, _, truncated, info = answers[4]
        assert truncated.all()
        assert np.array_equal(reward, expected[4][1])
        assert np.array_equal(info["final_obs"], expected[4][0])
        assert equal(info["final_info"], expected[4][4])
        assert info["_final_obs"].tolist() == info["_final_info"].tolist() == [True, True]
        restarted, restarted_info = plain.reset()
        assert np.array_equal(obs, restarted)
        assert np.array_equal(info["speed"], restarted_info["speed"])


def test_final_infos_are_masked() -> None:
    envs = highway(3, **LONG, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset(seed=0)
    drive_into(envs, world=1)
    obs, _, terminated, _, info = envs.step(np.zeros((3, 2), np.float32))
    only = [False, True, False]
    assert terminated.tolist() == only
    assert info["_final_obs"].tolist() == info["_final_info"].tolist() == only
    assert not info["final_obs"][[0, 2]].any()
    assert info["final_obs"][1].any()
    assert not np.array_equal(info["final_obs"][1], obs[1])
    assert info["final_info"]["crashed"].tolist() == only
    assert info["final_info"]["_crashed"].tolist() == only
    assert info["final_info"]["rewards"]["_collision_reward"].tolist() == only
    assert info["crashed"].tolist() == [False] * 3  # of the new episode
    assert info["_crashed"].tolist() == [True] * 3
    assert "final_obs" not in envs.step(np.zeros((3, 2), np.float32))[4]


def test_without_autoreset_an_ended_world_waits() -> None:
    envs = highway(2, autoreset_mode="Disabled")
    envs.reset(seed=0)
    run(envs, 2)
    envs.reset(options={"reset_mask": np.array([True, False])})
    run(envs, 3)
    before = envs.state()
    with pytest.raises(RciError, match="environment 1 has ended"):
        run(envs, 1)
    assert equal(envs.state(), before)
    envs.reset(options={"reset_mask": np.array([False, True])})
    run(envs, 1)


def test_autoreset_modes_by_name() -> None:
    with pytest.raises(RciError, match="NextStep"):
        highway(autoreset_mode="next")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_autoreset_as_in_gymnasium(mode: AutoresetMode) -> None:
    """Against the original under Gymnasium's own vector environment, over four episodes."""
    ours = highway(2, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: make("highway-v0", **SMALL)] * 2, autoreset_mode=mode)
    assert ours.reset(seed=3)[0] == pytest.approx(theirs.reset(seed=3)[0], abs=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(22):
        action = gentle(rng, 2)
        mine, reference = ours.step(action), theirs.step(action)
        for a, b in zip(mine[:4], reference[:4]):
            assert a == pytest.approx(b, abs=1e-9)
            assert a.dtype == b.dtype
        assert mine[4]["speed"] == pytest.approx(reference[4]["speed"], abs=1e-9)
        assert ("final_obs" in mine[4]) == ("final_obs" in reference[4])
        if "final_obs" in mine[4]:
            assert np.array_equal(mine[4]["_final_obs"], reference[4]["_final_obs"])
            for i in np.flatnonzero(mine[4]["_final_obs"]):
                assert mine[4]["final_obs"][i] == pytest.approx(reference[4]["final_obs"][i], abs=1e-9)
            final, final_reference = mine[4]["final_info"], reference[4]["final_info"]
            assert final["speed"] == pytest.approx(final_reference["speed"], abs=1e-9)
            assert np.array_equal(final["_speed"], final_reference["_speed"])


# Nothing is shared


def scribble(answer) -> None:
    """Overwrite every array in it."""
    if isinstance(answer, dict):
        answer = list(answer.values())
    if isinstance(answer, tuple | list):
        for part in answer:
            scribble(part)
    else:
        answer[...] = 99 if answer.dtype != np.bool_ else ~answer


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_answers_are_copies(mode: str) -> None:
    a, b = highway(2, autoreset_mode=mode), highway(2, autoreset_mode=mode)
    scribble(a.reset(seed=7))
    b.reset(seed=7)
    rng = np.random.default_rng(0)
    for _ in range(12):
        action = gentle(rng, 2)
        mine = a.step(action)
        assert equal(mine, b.step(action.copy()))
        scribble(mine)
        scribble(a.state())
        scribble(a.render())
        action[:] = 99
        assert equal(a.state(), b.state())


# One world at a time or many


def test_threads_change_nothing() -> None:
    config = {**SMALL, "vehicles_count": 15}
    one, two, three = (make_vec("highway-v0", 7, **config, threads=n) for n in (1, 2, 3))
    assert two.simulator.threads.count == 2
    firsts = [envs.reset(seed=0) for envs in (one, two, three)]
    assert equal(firsts[0], firsts[1])
    assert equal(firsts[0], firsts[2])
    answers = [run(envs, 13) for envs in (one, two, three)]
    assert equal(answers[0], answers[1])
    assert equal(answers[0], answers[2])
    assert equal(one.state(), two.state())


@pytest.mark.parametrize("threads", [0, -1])
def test_bad_threads(threads: int) -> None:
    with pytest.raises(RciError, match="threads"):
        highway(threads=threads)


@pytest.mark.parametrize("threads", [1.5, "2", True])
def test_threads_of_a_wrong_kind(threads) -> None:
    with pytest.raises(RciError, match="threads"):
        highway(threads=threads)


@pytest.mark.parametrize("worlds", [0, -1, 2.0, True, "2", None])
def test_bad_numbers_of_worlds(worlds) -> None:
    with pytest.raises(RciError, match="num_envs"):
        make_vec("highway-v0", worlds)


def test_a_world_does_not_depend_on_its_batch() -> None:
    batch = highway(8)
    singles = [highway(1) for _ in range(8)]
    obs = batch.reset(seed=20)[0]
    for i, single in enumerate(singles):
        assert np.array_equal(single.reset(seed=20 + i)[0][0], obs[i])
    rng = np.random.default_rng(0)
    for _ in range(14):
        action = gentle(rng, 8)
        answer = batch.step(action)
        for i, single in enumerate(singles):
            alone = single.step(action[i : i + 1])
            assert all(np.array_equal(a[0], b[i]) for a, b in zip(alone[:4], answer[:4]))
            assert alone[4]["speed"][0] == answer[4]["speed"][i]
    state = batch.state()
    for i, single in enumerate(singles):
        assert all(np.array_equal(value[0], state[name][i]) for name, value in single.state().items())


# States


def test_a_state_goes_on_bit_for_bit() -> None:
    envs = highway(3)
    envs.reset(seed=7)
    run(envs, 4)
    state = envs.state()
    kept = {name: value.copy() for name, value in state.items()}
    first = run(envs, 9, seed=1)  # over an end and a new episode
    obs = envs.set_state(state)
    assert equal(state, kept)
    assert equal(envs.state(), kept)
    assert np.array_equal(obs, envs.simulator.observe())
    assert equal(run(envs, 9, seed=1), first)


def test_a_state_between_an_end_and_its_restart_goes_on() -> None:
    envs = highway(2)
    envs.reset(seed=7)
    run(envs, 5)
    state = envs.state()
    assert state["ended"].all()
    first = run(envs, 3, seed=1)
    envs.set_state(state)
    assert equal(run(envs, 3, seed=1), first)
    assert not first[0][1].any()  # the first of them was a restart


def test_a_state_goes_on_in_another_environment() -> None:
    envs, other = highway(2), highway(2)
    envs.reset(seed=7)
    run(envs, 3)
    other.reset(seed=99)
    other.set_state(envs.state())
    assert equal(run(envs, 9), run(other, 9))


def test_a_state_goes_on_in_an_environment_that_was_never_reset() -> None:
    envs, other = highway(2), highway(2)
    envs.reset(seed=7)
    run(envs, 3)
    other.set_state(envs.state())
    assert equal(run(envs, 9), run(other, 9))


def test_a_state_with_shuffled_rows_goes_on() -> None:
    shuffled = {"observation": {"type": "Kinematics", "order": "shuffled", "vehicles_count": 7}}
    envs = highway(2, **shuffled)
    envs.reset(seed=7)
    run(envs, 2)
    state = envs.state()
    first = run(envs, 9, seed=1)
    envs.set_state(state)
    assert equal(envs.state(), state)
    assert equal(run(envs, 9, seed=1), first)


def test_an_edited_state_is_seen_at_once() -> None:
    envs = highway(1, **LONG)
    envs.reset(seed=0)
    state = envs.state()
    state["x"][0] = 1000.0 + 30 * np.arange(9)[::-1]  # the ego is the foremost, then
    state["x"][0, 0] = 1045.0
    obs = envs.set_state(state)
    assert obs[0, :, 0].tolist() == [1] * 5
    assert obs[0, 1:, 1] == pytest.approx(np.array([15, 45, 75, 105]) / 200, abs=1e-7)


BAD_STATES = {
    "missing": ("speed", None),
    "unknown": ("colour", np.zeros((2, 9))),
    "wrong shape": ("x", np.zeros((2, 8))),
    "wrong worlds": ("clock", np.zeros(3)),
    "not finite": ("y", np.full((2, 9), math.nan)),
    "infinite": ("speed", np.full((2, 9), math.inf)),
    "no numbers": ("heading", np.full((2, 9), "east")),
    "too high a lane": ("target_lane", np.full((2, 9), 4)),
    "no such target": ("target_lane", np.full((2, 9), -1)),
    "half wrecked": ("crashed", np.full((2, 9), 2)),
    "no such partner": ("partner", np.full((2, 9), 9)),
}


@pytest.mark.parametrize("kind", BAD_STATES)
def test_bad_states_are_refused_and_change_nothing(kind: str) -> None:
    envs = highway(2)
    envs.reset(seed=7)
    before = envs.state()
    name, value = BAD_STATES[kind]
    run(envs, 2)
    now = envs.state()
    bad = {**before, name: value}
    if value is None:
        del bad[name]
    with pytest.raises(RciError, match=name):
        envs.set_state(bad)
    assert equal(envs.state(), now)


@pytest.mark.parametrize("name", ["ended", "begun"])
@pytest.mark.parametrize("value", [np.ones(5, bool), [True, True], np.array([[True, False]])])
def test_bad_flags_in_a_state_are_refused_and_change_nothing(name: str, value) -> None:
    envs = highway(2)
    envs.reset(seed=7)
    before = envs.state()
    run(envs, 2)
    now = envs.state()
    try:
        envs.set_state({**before, name: value})
    except RciError:
        assert equal(envs.state(), now)
    else:  # a list of two flags may as well be taken
        assert envs.state()[name].tolist() == [True, True]


@pytest.mark.parametrize("name", ["target_lane", "crashed", "stream"])
def test_whole_numbers_of_a_state_are_not_rounded(name: str) -> None:
    envs = highway(2)
    envs.reset(seed=7)
    state = envs.state()
    state[name] = state[name] / 3 + 0.25
    with pytest.raises(RciError, match=name):
        envs.set_state(state)


# Pictures


def centre_of(picture: np.ndarray, envs) -> tuple[int, ...]:
    across, down = envs.config["centering_position"]
    height, width = picture.shape[:2]
    return tuple(picture[int(down * height), int(across * width)].tolist())


def test_pictures() -> None:
    envs = highway(2, **LONG)
    envs.reset(seed=0)
    pictures = envs.render()
    assert len(pictures) == 2
    for picture in pictures:
        assert picture.shape == (150, 600, 3)
        assert picture.dtype == np.uint8
        assert centre_of(picture, envs) == drawing.EGO
    envs.step(np.zeros((2, 2), np.float32))
    assert not np.array_equal(envs.render()[0], pictures[0])


def test_a_wreck_has_its_own_colour() -> None:
    envs = highway(2, **LONG)
    envs.reset(seed=0)
    state = envs.state()
    state["crashed"][1, 0] = 1
    envs.set_state(state)
    pictures = envs.render()
    assert [centre_of(picture, envs) for picture in pictures] == [drawing.EGO, drawing.WRECK]
    assert not (pictures[1] == drawing.EGO).all(-1).any()


def test_pictures_are_to_scale() -> None:
    """A car 20 m ahead in the next lane to the right, at 4 px a metre in the middle of the screen."""
    envs = highway(
        1,
        **LONG,
        screen_width=400,
        screen_height=200,
        scaling=4.0,
        centering_position=[0.5, 0.5],
        vehicles_count=1,
    )
    envs.reset(seed=0)
    state = envs.state()
    state["x"][0], state["y"][0] = [500.0, 520.0], [0.0, 4.0]
    state["target_lane"][0] = [0, 1]
    envs.set_state(state)
    (picture,) = envs.render()
    assert picture.shape == (200, 400, 3)
    for colour, (column, row) in ((drawing.EGO, (200, 100)), (drawing.CAR, (280, 116))):
        rows, columns = np.nonzero((picture == colour).all(-1))
        assert (columns.min(), columns.max()) == (column - 10, column + 9)  # 5 m long
        assert (rows.min(), rows.max()) == (row - 4, row + 3)  # 2 m wide
    assert tuple(picture[90, 0].tolist()) == drawing.GRASS  # 2.4 m to the left of the first lane's centre
    assert tuple(picture[96, 0].tolist()) == drawing.ASPHALT
    assert tuple(picture[100 + 42, 0].tolist()) == drawing.GRASS  # right of the third lane


def test_the_ego_is_on_top() -> None:
    envs = highway(1, **LONG)
    envs.reset(seed=0)
    state = envs.state()
    state["x"][:], state["y"][:] = 500.0, 4.0
    state["target_lane"][:] = 1
    envs.set_state(state)
    (picture,) = envs.render()
    assert centre_of(picture, envs) == drawing.EGO
    assert not (picture == drawing.CAR).all(-1).any()


def test_a_turned_car_is_drawn_turned() -> None:
    envs = highway(1, **LONG, vehicles_count=0)
    envs.reset(seed=0)
    state = envs.state()
    state["heading"][:] = math.pi / 2
    envs.set_state(state)
    rows, columns = np.nonzero((envs.render()[0] == drawing.EGO).all(-1))
    assert np.ptp(rows) == pytest.approx(5 * 5.5, abs=1.5)
    assert np.ptp(columns) == pytest.approx(2 * 5.5, abs=1.5)


# Mistakes


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.zeros(2, np.float32), "shape"),
        (np.zeros((2, 2), np.float32), "shape"),
        (np.zeros((3, 3), np.float32), "shape"),
        (np.array([[0, 0], [0, math.nan], [0, 0]]), "environment 1 is not finite"),
        (np.array([[0, 0], [0, 0], [-math.inf, 0]]), "environment 2 is not finite"),
        (np.zeros((3, 2), bool), "numbers"),
        (np.zeros((3, 2), complex), "numbers"),
        (np.full((3, 2), "left"), "numbers"),
        (np.full((3, 2), None), "numbers"),
    ],
)
def test_bad_actions(action: np.ndarray, message: str) -> None:
    envs = highway(3)
    envs.reset(seed=0)
    before = envs.state()
    with pytest.raises(RciError, match=message):
        envs.step(action)
    assert equal(envs.state(), before)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.array([0, 5, 0]), "environment 1 must be 0 to 4, got 5"),
        (np.array([0, 0, -1]), "environment 2 must be 0 to 4"),
        (np.array([0.0, 1.0, 2.0]), "whole numbers"),
        (np.array([True, False, True]), "whole numbers"),
        (np.zeros((3, 1), int), "shape"),
        (np.zeros(2, int), "shape"),
    ],
)
def test_bad_meta_actions(action: np.ndarray, message: str) -> None:
    envs = highway(3, action={"type": "DiscreteMetaAction"})
    envs.reset(seed=0)
    with pytest.raises(RciError, match=message):
        envs.step(action)


def test_actions_may_be_lists_or_of_other_precision() -> None:
    envs = highway(1, **LONG)
    envs.reset(seed=0)
    for action in ([[0.5, 0.0]], np.array([[0.5, 0.0]], np.float16), np.array([[1, 0]])):
        envs.step(action)
    assert envs.state()["speed"][0, 0] == pytest.approx(25 + 0.2 * (2.5 + 2.5 + 5))


def test_actions_beyond_the_limits_are_clipped() -> None:
    wild, tame = highway(1, **LONG), highway(1, **LONG)
    for envs, size in ((wild, 50.0), (tame, 1.0)):
        envs.reset(seed=0)
        envs.step(np.array([[size, -size]], np.float32))
    assert equal(wild.state(), tame.state())


def test_a_reset_comes_first() -> None:
    envs = highway(3)
    with pytest.raises(RciError, match="environment 0 must be reset"):
        envs.step(np.zeros((3, 2), np.float32))
    envs.reset(seed=0, options={"reset_mask": np.array([True, False, True])})
    with pytest.raises(RciError, match="environment 1 must be reset"):
        envs.step(np.zeros((3, 2), np.float32))
    envs.reset(seed=0, options={"reset_mask": np.array([False, True, False])})
    envs.step(np.zeros((3, 2), np.float32))


def test_unknown_names() -> None:
    with pytest.raises(RciError, match="highway-fast-v0"):
        make_vec("highway-v1", 2)


# Edges


def test_nobody_else() -> None:
    envs = highway(2, vehicles_count=0, **LONG)
    obs, _ = envs.reset(seed=0)
    assert not obs[:, 1:].any()
    assert (obs[:, 0, 0] == 1).all()
    for _ in range(20):
        obs, _, terminated, _, _ = envs.step(np.array([[1.0, 0.0]] * 2, np.float32))
    assert not terminated.any()
    assert (envs.state()["speed"][:, 0] <= 41.0).all()
    assert not obs[:, 1:].any()
    envs.render()


def test_one_lane() -> None:
    envs = highway(4, lanes_count=1, **LONG)
    envs.reset(seed=0)
    state = envs.state()
    assert not state["y"].any()
    for _ in range(30):
        _, _, _, _, info = envs.step(np.array([[-0.2, 0.0]] * 4, np.float32))
    state = envs.state()
    assert not state["target_lane"].any()
    assert not state["y"].any()
    assert not info["rewards"]["right_lane_reward"].any()


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_an_ego_that_sees_only_itself(order: str) -> None:
    """highway-env returns rows for everybody in sight, against its own space."""
    config = {"observation": {"type": "Kinematics", "vehicles_count": 1, "order": order}}
    envs = highway(2, **config)
    obs, _ = envs.reset(seed=3)
    assert obs.shape == (2, 1, 5)
    assert envs.observation_space.contains(obs)
    theirs = make("highway-v0", **SMALL, **config)
    reference = theirs.reset(seed=3)[0]
    assert reference.shape[0] > 1
    assert obs[0, 0] == pytest.approx(reference[0], abs=1e-9)
    assert envs.step(np.zeros((2, 2), np.float32))[0].shape == (2, 1, 5)


def test_the_road_may_be_left_for_good() -> None:
    envs = highway(1, offroad_terminal=True, **LONG)
    envs.reset(seed=0)
    for _ in range(60):
        _, reward, terminated, _, info = envs.step(np.array([[0.0, 0.3]], np.float32))
        if terminated[0]:
            break
    assert terminated[0]
    assert not info["crashed"][0]
    assert reward[0] == 0.0


def test_a_first_lane_can_be_chosen() -> None:
    envs = highway(20, initial_lane_id=2)
    envs.reset(seed=0)
    state = envs.state()
    assert (state["y"][:, 0] == 8).all()
    assert set(state["y"][:, 1:].ravel().tolist()) == {0, 4, 8}


def test_one_kind_of_action_only() -> None:
    envs = highway(2, **{**LONG, "action": {"type": "ContinuousAction", "lateral": False}})
    envs.reset(seed=0)
    envs.step(np.ones((2, 1), np.float32))
    assert envs.state()["speed"][:, 0] == pytest.approx([26.0, 26.0])
    with pytest.raises(RciError, match="shape"):
        envs.step(np.ones((2, 2), np.float32))


def test_threads_end_with_the_environment() -> None:
    before = threading.active_count()
    envs = highway(8, threads=3)
    envs.reset(seed=0)
    run(envs, 2)
    assert threading.active_count() > before
    envs.close()
    assert threading.active_count() == before


def test_a_copy_goes_its_own_way() -> None:
    envs = highway(4, threads=2)
    envs.reset(seed=0)
    run(envs, 2)
    twin = copy.deepcopy(envs)
    assert equal(run(envs, 3, seed=1), run(twin, 3, seed=1))
    run(envs, 1)
    assert not equal(envs.state(), twin.state())


def test_gymnasium_can_record_videos() -> None:
    envs = highway(2, policy_frequency=5)
    assert envs.render_mode in envs.metadata["render_modes"]
    assert envs.metadata["render_fps"] == 5


def test_the_configuration_is_a_copy() -> None:
    envs = highway(1)
    envs.config["lanes_count"] = 99
    assert envs.config["lanes_count"] != 99


def test_rows_of_different_lengths_are_refused() -> None:
    envs = highway(2)
    envs.reset(seed=0)
    with pytest.raises(RciError, match=r"shape \(2, 2\)"):
        envs.step([[1.0, 2.0], [1.0]])
