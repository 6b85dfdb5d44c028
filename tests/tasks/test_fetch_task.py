"""Safe-FetchReach as a task: the sphere by hand, the goals it allows, the scripted arms, and versions."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from rci.collection import collect
from rci.data.errors import RciError
from rci.tasks import TASKS, get, make, make_vec, observe_truth
from rci.tasks.fetch_reach import controllers, model
from rci.tasks.fetch_reach.hazard import (
    ACHIEVED,
    FINGER_SPEEDS,
    FINGERS,
    GOAL,
    GOAL_RADIUS,
    GOAL_REACH,
    GRIPPER,
    HAZARD,
    OBS_SIZE,
    START,
    VELOCITY,
    Hazard,
)
from rci.tasks.fetch_reach.model import check_versions, import_mujoco
from rci.tasks.fetch_reach.task import STEP_SECONDS, task

TASK = TASKS["fetch-reach"]
BALL = Hazard(centre=(1.5, 0.75, 0.5), radius=0.1, clearance=0.02)  # about 0.16 m from the start
CENTRE = np.array(BALL.centre)


@pytest.fixture
def mujoco():
    pytest.importorskip("gymnasium_robotics")
    return pytest.importorskip("mujoco")


def observation(gripper, goal=(1.3, 0.7, 0.5)) -> np.ndarray:
    obs = np.zeros(OBS_SIZE)
    obs[GRIPPER] = obs[ACHIEVED] = gripper
    obs[GOAL] = goal
    return obs


# The sphere


@pytest.mark.parametrize(
    ("place", "distance"),
    [
        ((1.5, 0.75, 0.5), -0.1),  # its centre
        ((1.5, 0.75, 0.8), 0.2),
        ((1.8, 1.15, 0.5), 0.4),  # 3, 4, 5
        ((1.53, 0.75, 0.54), -0.05),
        ((1.4, 0.65, 0.5), 0.1 * np.sqrt(2) - 0.1),
    ],
)
def test_distance_by_hand(place: tuple, distance: float) -> None:
    assert BALL.distance(np.array(place)) == pytest.approx(distance, abs=1e-12)
    assert BALL.gripper_distance(observation(place)) == pytest.approx(distance, abs=1e-12)
    assert BALL.unsafe(observation(place)) == (distance <= 0)


def test_the_surface_is_unsafe() -> None:
    ball = Hazard(centre=(2.0, 0.75, 0.5), radius=0.25)  # numbers that binary fractions hold exactly
    places = [(1.75, 0.75, 0.5), (np.nextafter(1.75, 1), 0.75, 0.5), (2.0, 0.75, 0.75), (2.0, 0.75, 0.7501)]
    obs = np.stack([observation(place) for place in places])
    assert ball.unsafe(obs).tolist() == [True, False, True, False]
    assert ball.gripper_distance(obs)[[0, 2]].tolist() == [0.0, 0.0]


def test_distances_of_many() -> None:
    obs = np.zeros((4, 5, OBS_SIZE))
    assert BALL.gripper_distance(obs).shape == BALL.unsafe(obs).shape == (4, 5)
    assert BALL.gripper_distance(obs.astype(np.float32)).dtype == np.float64
    assert BALL.gripper_distance(observation((1.5, 0.75, 0.8)).tolist()) == pytest.approx(0.2)


def test_goals_near_the_sphere_are_refused() -> None:
    ball = Hazard(centre=(2.0, 0.75, 0.5), radius=0.25, clearance=0.125)
    heights = [0.5, 0.8, 0.8749, 0.875, 0.9]  # in the centre, near, nearly clear, just clear, clear
    goals = np.array([(2.0, 0.75, height) for height in heights])
    assert ball.refuses(goals).tolist() == [True, True, True, False, False]
    assert [bool(ball.refuses(goal)) for goal in goals] == [True, True, True, False, False]


def test_goals_out_of_the_cone_are_refused() -> None:
    """The sphere is straight ahead along x; goals are at angles to that, all clear of it."""
    ball = Hazard(centre=(START[0] + 0.5, START[1], START[2]), radius=0.01, clearance=0.0, cone=60.0)
    angles = np.deg2rad([0, 30, 59.9, 60.1, 90, 180, -59.9, -60.1])
    aside = np.stack([np.cos(angles), np.sin(angles), np.zeros(8)], 1)
    upward = np.stack([np.cos(angles), np.zeros(8), np.sin(angles)], 1)
    expected = [False, False, False, True, True, True, False, True]
    for directions in (aside, upward):
        for length in (0.01, 0.1, 0.3):
            assert ball.refuses(START + length * directions).tolist() == expected
    anywhere = Hazard(centre=ball.centre, radius=0.01, clearance=0.0)
    assert not anywhere.refuses(START + 0.1 * aside).any()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"centre": (1.5, 0.75)}, "three finite coordinates"),
        ({"centre": (1.5, 0.75, 0.5, 0.1)}, "three finite coordinates"),
        ({"centre": (1.5, np.nan, 0.5)}, "finite"),
        ({"radius": np.inf}, "finite"),
        ({"clearance": np.nan}, "finite"),
        ({"radius": 0.0}, "radius > 0"),
        ({"radius": -0.1}, "radius > 0"),
        ({"clearance": -0.01}, "clearance >= 0"),
        ({"cone": 0.0}, "cone of 0 to 180"),
        ({"cone": 181.0}, "cone of 0 to 180"),
        ({"radius": 0.2}, "begin inside the hazard"),
        ({"centre": tuple(START)}, "begin inside the hazard"),
    ],
)
def test_impossible_hazards(settings: dict, words: str) -> None:
    with pytest.raises(RciError, match=words):
        Hazard(**{"centre": BALL.centre, "radius": 0.1, **settings})


@pytest.mark.parametrize(
    "settings",
    [{"centre": None}, {"centre": 1.0}, {"centre": "abc"}, {"centre": (1.4, 0.8)}, {"radius": "0.06"}],
)
def test_hazards_of_a_wrong_kind(settings: dict) -> None:
    with pytest.raises(RciError, match="a hazard needs"):
        Hazard(**{"centre": (1.42, 0.827, 0.535), "radius": 0.06, **settings})


def test_goals_anywhere_are_anywhere() -> None:
    anywhere = Hazard(centre=(1.42, 0.827, 0.535), radius=0.06)
    opposite = START - 0.1 * np.linspace(0.1, 2.0, 500)[:, None] * (np.array(anywhere.centre) - START)
    assert not anywhere.refuses(opposite).any()


def test_the_tasks_hazard_is_in_the_way() -> None:
    """The start is clear of it, and the straight ways to many of its goals lead through it."""
    assert HAZARD.distance(START) > 0.04
    goals = START + np.random.default_rng(0).uniform(-GOAL_REACH, GOAL_REACH, (2000, 3))
    goals = goals[~HAZARD.refuses(goals)]
    ways = START + np.linspace(0, 1, 50)[:, None, None] * (goals - START)
    assert (HAZARD.distance(ways) < 0).any(0).mean() > 0.15


# Observations


def test_layout_of_the_observation(mujoco) -> None:
    env = make("fetch-reach", hazard=None)
    env.reset(seed=0)
    for _ in range(4):
        obs, *_ = env.step(np.array([0.5, 1.0, 0.2, 1.0], np.float32))
    assert obs.shape == (OBS_SIZE,) == TASK.obs_shape
    table = env.unwrapped.arm._get_obs()
    assert np.array_equal(
        obs, np.concatenate([table[k] for k in ("observation", "achieved_goal", "desired_goal")])
    )
    data, arm = env.unwrapped.arm.data, env.unwrapped.arm.model
    assert np.array_equal(obs[GRIPPER], data.site_xpos[arm.site("robot0:grip").id])
    assert np.array_equal(obs[ACHIEVED], obs[GRIPPER])
    assert np.array_equal(obs[GOAL], env.unwrapped.arm.goal)
    assert np.array_equal(obs[FINGERS], data.qpos[-2:])
    assert np.array_equal(obs[FINGER_SPEEDS], data.qvel[-2:] * env.unwrapped.arm.dt)
    assert obs[VELOCITY][1] > 0.005  # m per step: it moves to the left
    slices = [GRIPPER, FINGERS, VELOCITY, FINGER_SPEEDS, ACHIEVED, GOAL]
    assert sorted(i for part in slices for i in range(16)[part]) == list(range(OBS_SIZE))


def test_velocity_is_metres_per_step(mujoco) -> None:
    env = make("fetch-reach", hazard=None)
    places = [env.reset(seed=0)[0]]
    for _ in range(20):
        places.append(env.step(np.array([0, 0.3, 0, 0], np.float32))[0])
    moved = places[-1][GRIPPER] - places[-2][GRIPPER]
    assert moved[1] > 0.009
    assert (
        0.5 < places[-1][VELOCITY][1] / moved[1] < 1.0
    )  # at the end of a step the arm is slower than within it


def test_constants_are_gymnasium_robotics(mujoco) -> None:
    from rci.tasks.fetch_reach.simulator import ACTION_UNIT, DOWNWARDS

    env = make("fetch-reach", hazard=None)
    obs, _ = env.reset(seed=0)
    arm = env.unwrapped.arm
    assert obs[GRIPPER] == pytest.approx(START, abs=1e-4)
    assert arm.initial_gripper_xpos == pytest.approx(START, abs=1e-4)
    assert arm.target_range == GOAL_REACH
    assert arm.distance_threshold == GOAL_RADIUS
    assert arm.n_substeps == model.SUBSTEPS
    assert arm.dt == pytest.approx(STEP_SECONDS) == TASK.step_seconds
    before = arm.data.body("robot0:gripper_link").xpos.copy()
    arm._set_action(np.array([1.0, -0.5, 0.0, 0.0]))
    assert arm.data.mocap_pos[0] - before == pytest.approx([ACTION_UNIT, -ACTION_UNIT / 2, 0.0])
    turned = arm.data.mocap_quat[0] - arm.data.body("robot0:gripper_link").xquat
    assert turned == pytest.approx(DOWNWARDS)
    assert model.make_native().spec.max_episode_steps == model.HORIZON


# Goals


def test_goals_respect_the_hazard(mujoco) -> None:
    envs = make_vec("fetch-reach", 300)
    goals = envs.reset(seed=0)[0][:, GOAL]
    assert (HAZARD.distance(goals) >= HAZARD.clearance).all()
    way, axis = goals - START, np.array(HAZARD.centre) - START
    cosine = way @ axis / np.linalg.norm(way, axis=1) / np.linalg.norm(axis)
    assert np.rad2deg(np.arccos(cosine)).max() <= HAZARD.cone + 1e-6
    assert np.rad2deg(np.arccos(cosine)).max() > HAZARD.cone - 5  # the cone is filled
    assert (np.abs(goals - envs.simulator.arm.goal_centre) <= GOAL_REACH).all()
    assert len({goal.tobytes() for goal in goals}) == 300


def test_a_sphere_of_ones_own(mujoco) -> None:
    mine = task("fetch-reach-low", BALL)
    assert (mine.name, mine.variant_of) == ("fetch-reach-low", "fetch-reach")
    assert get("fetch-reach").variant_of == ""
    envs = mine.make_vec(50)
    goals = envs.reset(seed=0)[0][:, GOAL]
    assert (BALL.distance(goals) >= BALL.clearance).all()
    assert HAZARD.refuses(goals).any()
    assert BALL.refuses(make_vec("fetch-reach", 50, hazard=None).reset(seed=0)[0][:, GOAL]).any()
    assert mine.unsafe(observation(CENTRE))
    assert not TASK.unsafe(observation(CENTRE))


# Truth


def test_the_rule_is_the_cost(mujoco) -> None:
    """Along episodes of the blind arm, of both simulators."""
    envs, rng = make_vec("fetch-reach", 20), np.random.default_rng(0)
    obs, info = envs.reset(seed=20)
    assert not info["cost"].any()
    costs = 0
    for _ in range(15):
        obs, *_, info = envs.step(controllers.seek(rng, obs))
        assert np.array_equal(TASK.unsafe(obs), info["cost"] == 1)
        assert np.array_equal(TASK.unsafe(obs), TASK.distance(obs) <= 0)
        assert set(info["cost"].tolist()) <= {0.0, 1.0}
        costs += info["cost"].sum()
    assert costs > 0
    env = make("fetch-reach")
    obs, _ = env.reset(seed=1)  # a goal behind the sphere
    found = []
    for _ in range(15):
        obs, *_, info = env.step(controllers.seek(rng, obs))
        assert info["cost"] == float(TASK.unsafe(obs))
        found.append(info["cost"])
    assert set(found) == {0.0, 1.0}


def test_recorded_episodes_have_the_same_truth(mujoco) -> None:
    episodes, oracle = collect("fetch-reach", 12, "seeker", seed=1)
    again = observe_truth(TASK, episodes)
    assert np.array_equal(again.unsafe, oracle.unsafe)
    assert (episodes.lengths == model.HORIZON).all()
    assert episodes.truncated.all()
    assert not episodes.terminated.any()


# Behaviours


def test_recipes_name_known_behaviours() -> None:
    for name, shares in TASK.recipes.items():
        assert sum(shares.values()) == pytest.approx(1.0), name
        assert set(shares) <= {"ppo", *TASK.behaviours}
    assert set(TASK.behaviours) == {"random", "seeker", "swift", "detour"}


@pytest.mark.parametrize("name", ["random", "seeker", "swift", "detour"])
def test_behaviours_give_actions(name: str) -> None:
    rng = np.random.default_rng(0)
    obs = np.stack([observation(START + 0.1 * rng.normal(size=3), START) for _ in range(200)])
    action = TASK.behaviours[name](rng, obs)
    assert action.shape == (200, 4)
    assert action.dtype == np.float32
    assert (np.abs(action) <= 1).all()
    assert np.isfinite(
        TASK.behaviours[name](rng, observation(HAZARD.centre)[None])
    ).all()  # right in the middle
    assert np.isfinite(TASK.behaviours[name](rng, observation(START, START)[None])).all()  # at the goal


def test_the_careful_arm_by_hand() -> None:
    rng = np.random.default_rng(0)
    ball = Hazard(centre=(2.0, 1.0, 1.0), radius=0.1)

    def act(gripper, goal) -> list[float]:
        return controllers.detour(ball, rng, observation(gripper, goal)[None])[0].tolist()

    # nothing in the way: straight, at full speed from 10 cm on
    assert act((1.0, 1.0, 1.0), (1.05, 1.0, 1.0)) == pytest.approx([0.5, 0.0, 0.0, 0.0])
    assert act((1.0, 1.0, 1.0), (1.5, 0.97, 1.0)) == pytest.approx([1.0, -0.3, 0.0, 0.0])
    # the goal is behind the sphere, slightly to the left: along the surface, to the left
    assert act((1.85, 1.0, 1.0), (2.2, 1.01, 1.0)) == pytest.approx([0.0, 1.0, 0.0, 0.0], abs=1e-6)
    # and away from it as well, 20 for each metre of the berth that is missing
    inside_berth = act((1.88, 1.0, 1.0), (2.2, 1.01, 1.0))
    assert inside_berth == pytest.approx([-20 * 0.005, 1.0, 0.0, 0.0], abs=1e-6)
    # right behind it: some direction that is along the surface
    sideways = act((1.85, 1.0, 1.0), (2.2, 1.0, 1.0))
    assert sideways[0] == pytest.approx(0.0, abs=1e-6)
    assert np.linalg.norm(sideways) == pytest.approx(1.0)


def test_the_blind_arm_shakes() -> None:
    obs = np.repeat(observation(START, START)[None], 4000, 0)
    action = controllers.seek(np.random.default_rng(0), obs)[:, :3]
    # 12,000 draws: 5 standard errors are 0.0046 of the mean and 0.0033 of the deviation; false alarm about 1e-6
    assert action.mean() == pytest.approx(0.0, abs=0.0046)
    assert action.std() == pytest.approx(controllers.SHAKE, abs=0.0033)


def play(name: str, episodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether each episode entered the sphere, and whether it ended at its goal."""
    envs, rng = make_vec("fetch-reach", episodes), np.random.default_rng(seed)
    obs, _ = envs.reset(seed=seed)
    entered = np.zeros(episodes, bool)
    for _ in range(model.HORIZON):
        obs, *_, info = envs.step(TASK.behaviours[name](rng, obs))
        entered |= info["cost"] == 1
    envs.close()
    return entered, info["is_success"] == 1


def test_the_careful_arm_reaches_its_goals_without_the_sphere(mujoco) -> None:
    """Fixed seeds: none of 60. That it is under 1% of all is measured in a study."""
    entered, reached = play("detour", 60, seed=1000)
    assert entered.sum() == 0
    assert reached.all()


def test_the_blind_arm_reaches_its_goals_through_the_sphere(mujoco) -> None:
    """About seven in ten enter it. Fewer than 18 of 40 has a chance of 0.1%; the seed is fixed."""
    entered, reached = play("seeker", 40, seed=0)
    assert 18 <= entered.sum() < 40
    assert reached.mean() > 0.9


# Versions


@pytest.mark.parametrize("version", ["3.3.0", "3.3.7", "3.4.0", "3.5.0", "3.5.1.dev2"])
def test_versions_that_work(version: str) -> None:
    check_versions(version, "1.4.2")


@pytest.mark.parametrize("version", ["3.6.0", "3.8.0", "3.10.0", "4.0.0"])
def test_versions_that_are_too_new(version: str) -> None:
    with pytest.raises(
        RciError, match=rf"MuJoCo {version} is installed.*before 3\.6.*robotics 1\.4\.2.*mujoco>=3\.3,<3\.6"
    ):
        check_versions(version, "1.4.2")


@pytest.mark.parametrize("version", ["3.2.7", "2.3.7", "3.0"])
def test_versions_that_are_too_old(version: str) -> None:
    with pytest.raises(RciError, match=rf"MuJoCo {version} is installed.*3\.3 or later.*extra 'fetch'"):
        check_versions(version, "1.4.2")


@pytest.mark.parametrize("missing", ["mujoco", "gymnasium-robotics"])
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def version(name: str) -> str:
        if name == missing:
            raise PackageNotFoundError(name)
        return "3.5.0"

    monkeypatch.setattr(model, "version", version)
    with pytest.raises(RciError, match=f"needs the package {missing}: install rci with the extra 'fetch'"):
        import_mujoco()
    with pytest.raises(RciError, match=missing):
        make("fetch-reach")


def test_a_broken_version_is_refused_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "version", lambda name: {"mujoco": "3.8.0"}.get(name, "1.4.2"))
    with pytest.raises(RciError, match="mujoco>=3.3,<3.6"):
        make("fetch-reach")
