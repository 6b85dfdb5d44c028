"""highway-env's keys: the same defaults, the same spaces, and no mistake that goes through."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from highway_env.envs.common.action import ContinuousAction, DiscreteMetaAction
from highway_env.envs.common.observation import KinematicObservation
from highway_env.envs.highway_env import HighwayEnv, HighwayEnvFast
from highway_env.vehicle.controller import MDPVehicle

from rci.data.errors import RciError
from rci.tasks import make_vec
from rci.tasks.highway import settings
from rci.tasks.highway.physics.layout import MAX_SPEED
from rci.tasks.highway.settings import complete

KINEMATICS = {"type": "Kinematics"}
CONTINUOUS = {"type": "ContinuousAction"}
META = {"type": "DiscreteMetaAction"}


def defaults_of(function) -> dict:
    """Names and default values of a constructor's arguments."""
    import inspect

    return {
        name: argument.default
        for name, argument in inspect.signature(function).parameters.items()
        if argument.default is not inspect.Parameter.empty
    }


# The same defaults as highway-env: a release that changes one is noticed here


@pytest.mark.parametrize(
    ("env", "ours"), [(HighwayEnv, settings.DEFAULTS), (HighwayEnvFast, settings.FAST_DEFAULTS)]
)
def test_defaults_are_highway_envs(env, ours: dict) -> None:
    theirs = env.default_config()
    assert set(theirs) == {*ours, *settings.FIXED}
    for key, value in ours.items():
        assert theirs[key] == value, key
        assert type(theirs[key]) is type(value), key
    for key, allowed in settings.FIXED.items():
        assert theirs[key] in allowed, key


def test_defaults_of_the_observation_are_highway_envs() -> None:
    theirs = defaults_of(KinematicObservation.__init__)
    ours = {**settings.OBSERVATION}
    assert ours.pop("type") == "Kinematics"
    assert ours.pop("features") == KinematicObservation.FEATURES
    assert theirs.pop("features") is None
    assert ours == theirs


def test_defaults_of_continuous_actions_are_highway_envs() -> None:
    theirs = defaults_of(ContinuousAction.__init__)
    ours = {**settings.CONTINUOUS}
    assert ours.pop("type") == "ContinuousAction"
    assert tuple(ours.pop("acceleration_range")) == ContinuousAction.ACCELERATION_RANGE
    assert tuple(ours.pop("steering_range")) == ContinuousAction.STEERING_RANGE
    assert theirs.pop("acceleration_range") is None
    assert theirs.pop("steering_range") is None
    assert theirs.pop("dynamical") in settings.FIXED_ACTION["dynamical"]
    assert ours == theirs


def test_defaults_of_meta_actions_are_highway_envs() -> None:
    theirs = defaults_of(DiscreteMetaAction.__init__)
    ours = {**settings.META}
    assert ours.pop("type") == "DiscreteMetaAction"
    assert ours.pop("target_speeds") == MDPVehicle.DEFAULT_TARGET_SPEEDS.tolist()
    assert theirs.pop("target_speeds") is None
    assert ours == theirs


def test_highway_envs_whole_configuration_is_accepted() -> None:
    for env, defaults in ((HighwayEnv, settings.DEFAULTS), (HighwayEnvFast, settings.FAST_DEFAULTS)):
        assert complete(env.default_config(), defaults) == complete({}, defaults)
        assert complete(env().config, defaults) == complete(
            {}, defaults
        )  # as one reads it off an environment


def test_observation_and_action_are_replaced_whole() -> None:
    """As in highway-env: what is not named again is the type's default."""
    chosen = complete({"observation": {**KINEMATICS, "vehicles_count": 9}, "action": CONTINUOUS})
    assert chosen["observation"] == {**settings.OBSERVATION, "vehicles_count": 9}
    assert chosen["action"] == settings.CONTINUOUS
    assert {k: v for k, v in chosen.items() if k not in ("observation", "action")} == {
        k: v for k, v in settings.DEFAULTS.items() if k not in ("observation", "action")
    }


def test_what_is_given_is_not_changed() -> None:
    given = {"observation": {**KINEMATICS, "features": None}, "action": {**META, "target_speeds": [10, 20]}}
    complete(given)
    assert given == {
        "observation": {**KINEMATICS, "features": None},
        "action": {**META, "target_speeds": [10, 20]},
    }


@pytest.mark.parametrize(
    "accepted",
    [
        {"lanes_count": np.int64(3)},
        {"duration": 12.5, "vehicles_density": 0.25},
        {"initial_lane_id": 0},
        {"initial_lane_id": 3},
        {"simulation_frequency": 5, "policy_frequency": 5},
        {"reward_speed_range": np.array([20.0, 30.0])},
        {"reward_speed_range": (20, 30)},
        {"observation": {**KINEMATICS, "features": None, "features_range": {}}},
        {"observation": {**KINEMATICS, "features": ("x", "y")}},
        {"action": {**CONTINUOUS, "dynamical": False, "speed_range": [0, 30]}},
        {"action": {**CONTINUOUS, "acceleration_range": None, "steering_range": None}},
        {"action": {**META, "target_speeds": (0, 10, 20, 30)}},
        {"controlled_vehicles": 1, "offscreen_rendering": True, "neighbour_vehicles_connected_lanes": True},
        {"normalize_reward": False, "collision_reward": 0, "right_lane_reward": 0, "high_speed_reward": 0},
    ],
)
def test_accepted(accepted: dict) -> None:
    settings.rules_of(complete(accepted))


# Mistakes


def observed(**change) -> dict:
    return {"observation": {**KINEMATICS, **change}}


def continuous(**change) -> dict:
    return {"action": {**CONTINUOUS, **change}}


def meta(**change) -> dict:
    return {"action": {**META, **change}}


MISTAKES = [
    # counts
    ("lanes_count", {"lanes_count": 0}),
    ("lanes_count", {"lanes_count": -2}),
    ("lanes_count", {"lanes_count": 3.0}),
    ("lanes_count", {"lanes_count": "4"}),
    ("lanes_count", {"lanes_count": True}),
    ("lanes_count", {"lanes_count": None}),
    ("vehicles_count", {"vehicles_count": -1}),
    ("vehicles_count", {"vehicles_count": 20.0}),
    ("screen_width", {"screen_width": 0}),
    ("screen_height", {"screen_height": 99.5}),
    ("initial_lane_id", {"initial_lane_id": 4}),
    ("initial_lane_id", {"initial_lane_id": -1}),
    ("initial_lane_id", {"initial_lane_id": 1.0}),
    ("initial_lane_id", {"initial_lane_id": 2, "lanes_count": 2}),
    # amounts
    ("simulation_frequency", {"simulation_frequency": 0}),
    ("simulation_frequency", {"simulation_frequency": math.nan}),
    ("simulation_frequency", {"simulation_frequency": 1, "policy_frequency": 2}),
    ("policy_frequency", {"policy_frequency": -1}),
    ("policy_frequency", {"policy_frequency": "5"}),
    ("policy_frequency", {"policy_frequency": 16}),
    ("duration", {"duration": 0}),
    ("duration", {"duration": math.inf}),
    ("vehicles_density", {"vehicles_density": -1}),
    ("vehicles_density", {"vehicles_density": 0}),
    ("vehicles_density", {"vehicles_density": math.nan}),
    ("ego_spacing", {"ego_spacing": 0.0}),
    ("ego_spacing", {"ego_spacing": None}),
    ("scaling", {"scaling": 0}),
    ("collision_reward", {"collision_reward": math.nan}),
    ("collision_reward", {"collision_reward": None}),
    ("right_lane_reward", {"right_lane_reward": "0.1"}),
    ("high_speed_reward", {"high_speed_reward": -math.inf}),
    ("normalize_reward", {"collision_reward": 0.5}),  # 0.1 + 0.4: nothing to map from
    # ranges
    ("reward_speed_range", {"reward_speed_range": [30, 20]}),
    ("reward_speed_range", {"reward_speed_range": [20, 20]}),
    ("reward_speed_range", {"reward_speed_range": [20]}),
    ("reward_speed_range", {"reward_speed_range": [20, 25, 30]}),
    ("reward_speed_range", {"reward_speed_range": [20, math.nan]}),
    ("reward_speed_range", {"reward_speed_range": 20}),
    ("reward_speed_range", {"reward_speed_range": "20"}),
    ("centering_position", {"centering_position": [0.3]}),
    ("centering_position", {"centering_position": [0.3, math.nan]}),
    ("centering_position", {"centering_position": ["left", "top"]}),
    # switches
    ("normalize_reward", {"normalize_reward": 1}),
    ("offroad_terminal", {"offroad_terminal": "no"}),
    ("offroad_terminal", {"offroad_terminal": None}),
    # fixed
    ("controlled_vehicles", {"controlled_vehicles": 2}),
    ("controlled_vehicles", {"controlled_vehicles": 0}),
    ("other_vehicles_type", {"other_vehicles_type": "highway_env.vehicle.behavior.AggressiveVehicle"}),
    ("lane_change_reward", {"lane_change_reward": 0.5}),
    ("show_trajectories", {"show_trajectories": True}),
    ("render_agent", {"render_agent": False}),
    ("offscreen_rendering", {"offscreen_rendering": False}),
    ("manual_control", {"manual_control": True}),
    ("real_time_rendering", {"real_time_rendering": True}),
    # unknown
    ("lane_count", {"lane_count": 4}),
    ("on_road_reward", {"on_road_reward": 1}),
    ("seed", {"seed": 1}),
    # the observation
    ("observation", {"observation": "Kinematics"}),
    ("observation", {"observation": {}}),
    ("observation", {"observation": None}),
    ("observation", {"observation": {"type": "OccupancyGrid"}}),
    ("GrayscaleObservation", {"observation": {"type": "GrayscaleObservation"}}),
    ("rows", observed(rows=5)),
    ("vehicles_count", observed(vehicles_count=0)),
    ("vehicles_count", observed(vehicles_count=5.0)),
    ("vehicles_count", observed(vehicles_count=None)),
    ("feature 'speed'", observed(features=["x", "speed"])),
    ("feature 'x' is named twice", observed(features=["x", "y", "x"])),
    ("order of observed vehicles 'random'", observed(order="random")),
    ("order", observed(order=None)),
    ("feature with a range 'speed'", observed(features_range={"speed": [0, 1]})),
    ("features_range.x", observed(features_range={"x": [1, -1]})),
    ("features_range.vy", observed(features_range={"vy": [0, math.inf]})),
    ("absolute", observed(absolute=1)),
    ("normalize", observed(normalize=None)),
    ("clip", observed(clip="yes")),
    ("see_behind", observed(see_behind=0)),
    ("observe_intentions", observed(observe_intentions=2)),
    ("include_obstacles", observed(include_obstacles=None)),
    # the action
    ("action", {"action": None}),
    ("action", {"action": {"longitudinal": True}}),
    ("DiscreteAction", {"action": {"type": "DiscreteAction"}}),
    ("MultiAgentAction", {"action": {"type": "MultiAgentAction"}}),
    ("longitudinal", continuous(longitudinal=False, lateral=False)),
    ("longitudinal", meta(longitudinal=False, lateral=False)),
    ("longitudinal", continuous(longitudinal=1)),
    ("lateral", meta(lateral=None)),
    ("dynamical", continuous(dynamical=True)),
    ("clip", continuous(clip=0)),
    ("acceleration_range", continuous(acceleration_range=[5, -5])),
    ("acceleration_range", continuous(acceleration_range=[-5, 0, 5])),
    ("steering_range", continuous(steering_range=[math.nan, 1])),
    ("steering_range", continuous(steering_range=0.5)),
    ("speed_range", continuous(speed_range=[30, 0])),
    ("speed_range", continuous(speed_range=[0, math.inf])),
    ("target_speeds", continuous(target_speeds=[20, 30])),  # a key of the other type
    ("acceleration_range", meta(acceleration_range=[-5, 5])),
    ("target_speeds", meta(target_speeds=[20])),
    ("target_speeds", meta(target_speeds=[30, 20])),
    ("target_speeds", meta(target_speeds=[20, 20, 30])),
    ("target_speeds", meta(target_speeds=[20, math.nan])),
    ("target_speeds", meta(target_speeds=["slow", "fast"])),
]


@pytest.mark.parametrize(
    ("named", "config"), MISTAKES, ids=[f"{k}-{name}" for k, (name, _) in enumerate(MISTAKES)]
)
def test_mistakes_are_refused_by_name(named: str, config: dict) -> None:
    with pytest.raises(RciError, match=named):
        complete(config)


@pytest.mark.parametrize(
    ("named", "config"),
    [
        ("centering_position", {"centering_position": 3}),
        ("centering_position", {"centering_position": None}),
        ("features_range", observed(features_range=[0, 1])),
        ("features", observed(features=3)),
        ("features", observed(features="xy")),  # not the features x and y
        ("target_speeds", meta(target_speeds=25)),
        ("target_speeds", meta(target_speeds=[])),  # not the usual ones in silence
        ("action", {"action": {"type": ["ContinuousAction"]}}),
    ],
)
def test_values_of_a_wrong_kind_are_refused_by_name(named: str, config: dict) -> None:
    with pytest.raises(RciError, match=named):
        complete(config)


@pytest.mark.parametrize(
    ("array", "plain"),
    [
        (meta(target_speeds=np.linspace(20, 30, 3)), meta(target_speeds=[20.0, 25.0, 30.0])),
        (continuous(acceleration_range=np.array([-4.0, 4.0])), continuous(acceleration_range=[-4.0, 4.0])),
        (continuous(steering_range=np.array([-0.5, 0.5])), continuous(steering_range=[-0.5, 0.5])),
        (continuous(speed_range=np.array([0.0, 30.0])), continuous(speed_range=[0.0, 30.0])),
    ],
)
def test_arrays_are_as_good_as_lists(array: dict, plain: dict) -> None:
    """highway-env's own default target speeds are an array."""
    ours, same = settings.rules_of(complete(array)), settings.rules_of(complete(plain))
    for name in ours._fields:
        assert np.array_equal(getattr(ours, name), getattr(same, name)), name


def test_defaults_are_not_shared() -> None:
    """Whoever changes the configuration of one environment changes no other's."""
    chosen = complete({"action": CONTINUOUS})
    assert chosen["centering_position"] is not settings.DEFAULTS["centering_position"]
    assert chosen["reward_speed_range"] is not settings.DEFAULTS["reward_speed_range"]
    assert chosen["action"]["steering_range"] is not settings.CONTINUOUS["steering_range"]


@pytest.mark.parametrize(
    ("wrong", "meant"), [("lane_count", "lanes_count"), ("vehicle_density", "vehicles_density")]
)
def test_a_misspelt_key_is_shown_the_nearest(wrong: str, meant: str) -> None:
    with pytest.raises(RciError, match=f"Did you mean '{meant}'"):
        make_vec("highway-v0", 1, **{wrong: 2})


# What the kernels get


def test_rules_of_the_defaults() -> None:
    rules = settings.rules_of(complete({}))
    assert (rules.lanes, rules.frames, rules.dt, rules.period, rules.duration) == (4, 15, 1 / 15, 1.0, 40.0)
    assert (rules.meta, rules.slowest, rules.fastest, rules.initial_lane) == (True, -40.0, 40.0, -1)
    assert rules.weights.tolist() == [-1.0, 0.1, 0.4]
    assert rules.crowding == float(np.exp(-0.5))
    assert rules.features.tolist() == [0, 1, 2, 3, 4]
    assert rules.has_range.tolist() == [False, True, True, True, True]
    assert rules.low[1:].tolist() == [-200.0, -16.0, -80.0, -80.0]
    assert rules.high[1:].tolist() == [200.0, 16.0, 80.0, 80.0]


@pytest.mark.parametrize(
    ("simulation", "policy", "frames"), [(15, 2, 7), (15, 5, 3), (5, 5, 1), (12.5, 5, 2)]
)
def test_frames_of_a_step(simulation: float, policy: float, frames: int) -> None:
    rules = settings.rules_of(complete({"simulation_frequency": simulation, "policy_frequency": policy}))
    assert (rules.frames, rules.dt, rules.period) == (frames, 1 / simulation, 1 / policy)


def test_rules_of_other_settings() -> None:
    rules = settings.rules_of(
        complete(
            {
                "lanes_count": 2,
                "vehicles_density": 4,
                "initial_lane_id": 1,
                **observed(features=["vx", "cos_h"], features_range={"cos_h": [-1, 3]}, order="shuffled"),
                **continuous(speed_range=[5, 33]),
            }
        ),
        ego_only=True,
        off_road_pays=True,
    )
    assert (rules.lanes, rules.spacing, rules.initial_lane, rules.meta) == (2, 0.25, 1, False)
    assert (rules.slowest, rules.fastest, rules.shuffled) == (5.0, 33.0, True)
    assert (rules.ego_only, rules.off_road_pays) == (True, True)
    assert rules.has_range.tolist() == [False, True]  # own ranges replace the usual ones
    assert (rules.low[1], rules.high[1]) == (-1.0, 3.0)


def test_without_normalising_there_are_no_ranges() -> None:
    assert not settings.rules_of(
        complete(observed(normalize=False, features_range={"x": [0, 1]}))
    ).has_range.any()
    assert complete({})["observation"]["normalize"]
    assert settings.feature_ranges(complete({}))["vx"] == [-2 * MAX_SPEED, 2 * MAX_SPEED]


# Spaces


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"lanes_count": 2, **continuous()},
        observed(vehicles_count=8, features=["x", "cos_h", "heading"]),
        continuous(lateral=False),
        continuous(longitudinal=False),
        meta(lateral=False),
        meta(longitudinal=False),
    ],
)
def test_spaces_are_highway_envs(config: dict) -> None:
    env, chosen = HighwayEnv(config=config), complete(config)
    assert settings.observation_space(chosen) == env.observation_space
    assert settings.action_space(chosen) == env.action_space
    assert settings.action_space(chosen).dtype == env.action_space.dtype


# Actions


def one_by_one(actions: np.ndarray, ranges) -> np.ndarray:
    """highway-env's own arithmetic, an action at a time, in the precision in which it comes."""
    rows = []
    for action in np.clip(actions, -1, 1):
        rows.append([low + (a - -1) * (high - low) / (1 - -1) for a, (low, high) in zip(action, ranges)])
    return np.array([[float(a) for a in row] for row in rows])


USUAL = ((-5, 5.0), (-np.pi / 4, np.pi / 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_actions_are_mapped_in_the_precision_they_come_in(dtype: type) -> None:
    actions = np.random.default_rng(0).uniform(-1.4, 1.4, (3000, 2)).astype(dtype)
    command = settings.commands(complete(continuous()), actions)
    assert command.dtype == np.float64
    assert np.array_equal(command, one_by_one(actions, USUAL))
    if dtype is np.float32:
        assert not np.array_equal(command, one_by_one(actions.astype(np.float64), USUAL))


@pytest.mark.parametrize(
    ("action", "command"),
    [
        ((0.0, 0.0), (0.0, 0.0)),
        ((1.0, -1.0), (5.0, -np.pi / 4)),
        ((-0.5, 0.5), (-2.5, np.pi / 8)),
        ((7.0, -9.0), (5.0, -np.pi / 4)),
    ],
)
def test_commands_by_hand(action, command) -> None:
    assert settings.commands(complete(continuous()), np.array([action]))[0] == pytest.approx(
        command, abs=1e-15
    )
    whole = np.rint(action).astype(int)
    assert settings.commands(complete(continuous()), whole[None])[0] == pytest.approx(
        one_by_one(whole[None].astype(float), USUAL)[0], abs=1e-15
    )


def test_own_ranges_and_no_clipping() -> None:
    chosen = complete(continuous(acceleration_range=[-7, 4], steering_range=[-0.3, 0.2], clip=False))
    assert settings.commands(chosen, np.array([[0.0, 0.0], [2.0, -3.0]])).tolist() == [
        pytest.approx([-1.5, -0.05]),
        pytest.approx([9.5, -0.8]),
    ]


def test_one_of_two_actions() -> None:
    actions = np.array([[0.5], [-1.0]], np.float32)
    assert settings.commands(complete(continuous(lateral=False)), actions).tolist() == [[2.5, 0], [-5, 0]]
    steering = settings.commands(complete(continuous(longitudinal=False)), actions)
    assert steering == pytest.approx(np.array([[0, np.pi / 8], [0, -np.pi / 4]]), abs=1e-7)


@pytest.mark.parametrize(
    ("change", "labels"),
    [
        ({}, DiscreteMetaAction.ACTIONS_ALL),
        ({"lateral": False}, DiscreteMetaAction.ACTIONS_LONGI),
        ({"longitudinal": False}, DiscreteMetaAction.ACTIONS_LAT),
    ],
)
def test_meta_actions_have_highway_envs_numbers(change: dict, labels: dict[int, str]) -> None:
    from rci.tasks.highway.physics import worlds

    command = settings.commands(complete(meta(**change)), np.arange(len(labels)))
    assert command.tolist() == [[getattr(worlds, labels[k]), 0] for k in range(len(labels))]


def test_spaces_of_a_batch() -> None:
    envs = make_vec("highway-v0", 3, **continuous())
    assert envs.single_action_space == gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    assert envs.action_space.shape == (3, 2)
    assert envs.observation_space.shape == (3, 5, 5)
