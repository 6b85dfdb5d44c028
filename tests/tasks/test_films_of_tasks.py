"""What the page is given to draw, compared with the simulators, the drawings and numbers by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from gymnasium import Env

import rci.tasks
from rci.data.errors import RciError
from rci.data.types import Episodes
from rci.tasks import TASKS
from rci.tasks.base import BehaviourPolicy, uniform_actions
from rci.tasks.fetch_reach.film import paths_film
from rci.tasks.fetch_reach.hazard import GOAL, GOAL_RADIUS, GOAL_REACH, GRIPPER, HAZARD, START, Hazard
from rci.tasks.film import Film
from rci.tasks.highway.film import road_film, unclipped, way
from rci.tasks.highway.scene import read_scene
from rci.tasks.highway.task import hold_lane

PRESENT, ALONG, ACROSS, COS, SIN, VX, VY = range(7)
LOOKS = {"danger", "goal", "agent", "ground", "region"}


def cars_of(film: Film) -> np.ndarray:
    return np.asarray(film.arrays["cars"])


# The road, by hand


def test_cars_are_in_metres_and_move_over_ground() -> None:
    obs = np.zeros((2, 3, 7), np.float32)
    obs[:, 0] = [1, 1, 0.25, 0.35, 0.01, 0.9, 0.1]  # lane 1, 28 m/s ahead, 0.8 m/s to the right
    obs[:, 1] = [1, 0.25, -0.25, -0.1, 0.02, 1, 0]  # 50 m ahead, a lane to the left, 8 m/s slower
    film = road_film(obs, step_seconds=0.2)
    assert cars_of(film)[0, 0] == pytest.approx([1, 0, 4, 0.9, 0.1, 28, 0.8], abs=1e-5)
    assert cars_of(film)[0, 1] == pytest.approx([1, 50, 0, 1, 0, 20, 2.4], abs=1e-5)
    assert not cars_of(film)[:, 2].any()  # nobody is there: nothing is said of it
    assert film.arrays["travelled"] == pytest.approx([0, 5.6], abs=1e-5)
    assert film.kind == "road"
    assert film.facts == {
        "lanes": 4,
        "lane_width": 4.0,
        "car_length": 5.0,
        "car_width": 2.0,
        "step_seconds": 0.2,
        "ahead": 100.0,
        "behind": 30.0,
    }


def test_a_road_with_more_lanes_is_wider() -> None:
    obs = np.zeros((1, 2, 7))
    obs[0, :] = [[1, 1, 0.5, 0, 0, 1, 0], [1, 0.1, 0.25, 0, 0, 1, 0]]
    film = road_film(obs, 0.2, lanes=10)
    assert film.facts["lanes"] == 10
    assert cars_of(film)[0, :, ACROSS].tolist() == [20, 30]


def test_the_way_is_summed_up_from_the_speed() -> None:
    assert way(np.array([10.0, 20.0, 20.0, -10.0]), 0.5).tolist() == [0, 7.5, 17.5, 20]
    assert way(np.array([10.0]), 0.5).tolist() == [0]


def test_beyond_the_limit_the_ego_is_carried_on() -> None:
    place = np.array([15.0, 16.0, 16.0, 16.0, 14.0, -16.0, -16.0])
    speed = np.array([10.0, 10.0, 10.0, -30.0, -30.0, 0.0, -5.0])
    # In steps of 1 s: 15 + 10, + 10, then -10 to 25, seen again at 14, and on the other side at least at the limit.
    assert unclipped(place, speed, 1.0, 16.0).tolist() == [15, 25, 35, 25, 14, -16, -18.5]
    assert unclipped(np.array([16.0, 16.0]), np.array([0.0, -50.0]), 1.0, 16.0).tolist() == [16, 16]


def test_cars_stay_in_their_lanes_while_the_ego_leaves_the_road() -> None:
    obs = np.zeros((3, 3, 7))
    obs[:, 0] = [1, 1, 1.0, 0.3, 0.05, 1, 0]  # 4 m/s to the right
    obs[0, 0, 2], obs[:, 1:, 0] = 0.975, 1  # 15.6 m, then 16.4 m and 17.2 m
    obs[:, 1, 2] = (12 - np.array([15.6, 16.4, 17.2])) / 16
    obs[:, 2, 2] = [-15.6 / 16, -1, -1]  # in the first lane: too far to the side for its place to be known
    cars = cars_of(road_film(obs, 0.2))
    assert cars[:, 0, ACROSS] == pytest.approx([15.6, 16.4, 17.2])
    assert cars[:, 1, ACROSS] == pytest.approx([12, 12, 12])
    assert cars[:, 2, PRESENT].tolist() == [1, 0, 0]
    assert cars[:, 0, VY] == pytest.approx([4, 4, 4])


def test_films_of_highway_tasks_know_their_clock() -> None:
    obs = np.zeros((3, 5, 7))
    obs[:, 0] = [1, 1, 0, 0.3, 0, 1, 0]
    clocks = {name: TASKS[name].film(obs) for name in TASKS if name.startswith("highway")}  # type: ignore[misc]
    assert len(clocks) == 6
    for name, film in clocks.items():
        seconds = 1 / 15 if name == "highway-15hz" else 0.2
        assert film.facts["step_seconds"] == pytest.approx(seconds)
        assert film.arrays["travelled"] == pytest.approx([0, 24 * seconds, 48 * seconds])


@pytest.mark.parametrize("shape", [(3, 5, 5), (3, 35), (3, 5, 7, 1)])
def test_other_observations_are_no_road(shape: tuple[int, ...]) -> None:
    with pytest.raises(RciError, match=r"shown as 'highway'.*\(any, 7\)"):
        road_film(np.zeros(shape), 0.2)


# The road, against highway-env


class Drive:
    """Observations of a drive in the original simulator, and where all its cars really were."""

    def __init__(
        self, env: Env[Any, Any], steps: int, drive: BehaviourPolicy = hold_lane, seed: int = 0
    ) -> None:
        rng, world = np.random.default_rng(seed), env.unwrapped
        obs, _ = env.reset(seed=seed)
        rows, cars = [obs], [self.read(world)]
        for _ in range(steps):
            obs = env.step(drive(rng, obs[None])[0])[0]
            rows.append(obs)
            cars.append(self.read(world))
        self.obs, self.cars = np.array(rows), np.array(cars)  # [T+1, V, 7], [T+1, all, 6]

    @staticmethod
    def read(world: Any) -> list[list[float]]:
        return [
            [*car.position, np.cos(car.heading), np.sin(car.heading), *car.velocity]
            for car in world.road.vehicles
        ]


@pytest.fixture(scope="module")
def drive() -> Iterator[Drive]:
    pytest.importorskip("highway_env")
    env = rci.tasks.make("highway-dense")
    yield Drive(env, steps=45)
    env.close()


def test_the_film_shows_the_simulators_cars(drive: Drive) -> None:
    film = TASKS["highway-dense"].film(drive.obs)  # type: ignore[misc]
    for shown, real in zip(cars_of(film), drive.cars):
        real = real.copy()
        real[:, 0] -= real[0, 0]
        assert shown[0, 1:] == pytest.approx(real[0], abs=1e-4)
        for car in shown[shown[:, PRESENT] == 1]:
            assert np.abs(real - car[1:]).max(axis=1).min() < 1e-4
    assert (cars_of(film)[:, 1:, PRESENT].sum(axis=1) >= 3).all()


def test_the_way_is_that_of_the_simulator(drive: Drive) -> None:
    film = TASKS["highway-dense"].film(drive.obs)  # type: ignore[misc]
    way = drive.cars[:, 0, 0] - drive.cars[0, 0, 0]
    assert (drive.obs[-1, 0, 1], way[-1] > 150) == (1.0, True)  # the observed place is clipped by then
    assert film.arrays["travelled"] == pytest.approx(way, abs=1.0)
    stripes = np.abs(np.diff(film.arrays["travelled"]) - np.diff(way))
    assert stripes.max() < 0.1  # from one moment to the next, where one would see them jump


def test_dead_reckoning_leads_to_the_next_moment(drive: Drive) -> None:
    film = TASKS["highway-dense"].film(drive.obs)  # type: ignore[misc]
    cars, seconds = cars_of(film), film.facts["step_seconds"]
    missed = []
    for now, after in pairwise(cars):
        moved = now[:, [ALONG, ACROSS]] + seconds * (now[:, [VX, VY]] - [now[0, VX], 0.0])
        there = after[after[:, PRESENT] == 1][:, [ALONG, ACROSS]]
        missed += [np.hypot(*(there - place).T).min() for place in moved[now[:, PRESENT] == 1]]
    # A car that leaves the four nearest has no next moment; everybody else is found within a hand's breadth or two.
    assert np.mean(np.array(missed) < 0.35) > 0.95


def test_the_film_shows_what_the_reports_draw(drive: Drive) -> None:
    for row, shown in zip(drive.obs, cars_of(TASKS["highway-dense"].film(drive.obs))):  # type: ignore[misc]
        drawn = np.stack(read_scene(row)[:4], -1)
        assert shown[shown[:, PRESENT] == 1][:, 1:5] == pytest.approx(drawn, abs=1e-9)


def test_an_ego_that_leaves_the_road_is_followed_and_the_others_stay_in_their_lanes() -> None:
    pytest.importorskip("highway_env")
    env = rci.tasks.make("highway-dense")
    drive = Drive(env, 25, lambda rng, obs: uniform_actions(2)(rng, obs) * [1.0, 0.1] + [0.0, 0.03])
    env.close()
    cars, clipped = cars_of(TASKS["highway-dense"].film(drive.obs)), np.abs(drive.obs[:, 0, 2]) >= 1  # type: ignore[misc]
    assert (clipped.sum() >= 5, drive.cars[:, 0, 1].max() > 25) == (True, True)
    assert cars[:, 0, ACROSS] == pytest.approx(drive.cars[:, 0, 1], abs=1.5)
    assert cars[~clipped, 0, ACROSS] == pytest.approx(drive.cars[~clipped, 0, 1], abs=1e-4)
    others = cars[clipped, 1:][cars[clipped, 1:, PRESENT] == 1]
    assert len(others) > 5
    assert np.abs(others[:, ACROSS] - 4 * np.rint(others[:, ACROSS] / 4)).max() < 1.5
    assert np.abs(others[:, ACROSS] - 6).max() < 8


def crowded_road(vehicles: int = 50, steps: int = 100, seed: int = 0) -> Film:
    """Dense traffic of highway-env's own cars on four lanes, watched from one in the middle."""
    lanes, gap, speed, hertz = 4, 11.0, 10.0, 5  # m from bumper to bumper and a car; m/s; steps a second
    config = {"lanes_count": lanes, "vehicles_count": vehicles, "policy_frequency": hertz}
    env = rci.tasks.make("highway-v0", action={"type": "ContinuousAction"}, **config)
    env.reset(seed=seed)
    road, rng = env.unwrapped.road, np.random.default_rng(seed)
    for k, car in enumerate(road.vehicles):  # the ego leads, so that nobody needs to drive it
        column, lane = divmod(k, lanes)
        car.position = np.array([1000.0 - gap * column + rng.uniform(-1, 1), 4.0 * lane])
        car.heading, car.speed, car.target_speed = 0.0, speed, speed + rng.uniform(0, 4) * (k > 0)
        car.lane_index = car.target_lane_index = ("0", "1", lane)
        car.lane = road.network.get_lane(car.lane_index)
    moments = [Drive.read(env.unwrapped)]
    for _ in range(steps):
        env.step(np.zeros(2, np.float32))
        moments.append(Drive.read(env.unwrapped))
    env.close()
    cars = np.array(moments)[:, np.roll(np.arange(vehicles + 1), -(vehicles * 3 // 4))]
    return road_film(as_observed(cars, lanes), 1 / hertz, lanes)


def as_observed(cars: np.ndarray, lanes: int) -> np.ndarray:
    """[T+1, V, 6] of the simulator as an observation [T+1, V, 7] that sees everybody, normalised but not clipped."""
    x, y, cos, sin, vx, vy = np.moveaxis(cars, -1, 0).copy()
    for values in (x, y, vx, vy):
        values[:, 1:] -= values[:, :1]
    return np.stack([np.ones_like(x), x / 200, y / (4 * lanes), vx / 80, vy / 80, cos, sin], -1)


def test_fifty_cars_at_once() -> None:
    pytest.importorskip("highway_env")
    cars = cars_of(crowded_road(steps=4))
    assert cars.shape == (5, 51, 7)
    assert cars[..., PRESENT].all()
    in_sight = (cars[..., ALONG] > -30) & (cars[..., ALONG] < 100)
    assert (in_sight.sum(axis=1) > 40).all()
    assert (np.abs(cars[..., ACROSS] - 6) < 9).all()
    apart = np.diff(cars[:, :, [ALONG, ACROSS]], axis=0) - 0.2 * (
        cars[:-1, :, [VX, VY]] - cars[:-1, :1, [VX, VY]] * [1, 0]
    )
    assert np.quantile(np.abs(apart), 0.98) < 0.35  # m: now and then somebody turns into another lane


# Paths


def test_the_points_film_is_its_recording(point_episodes: Episodes) -> None:
    task, episode = TASKS["point"], point_episodes[0]
    film = task.film(episode.obs)  # type: ignore[misc]
    assert film.arrays["view0"].shape == (len(episode.action) + 1, 1, 2)
    assert film.arrays["view0"][:, 0].tolist() == task.views[0].position(episode.obs).tolist()
    (view,) = film.facts["views"]
    assert (view["low"], view["high"]) == ([-58, -38], [58, 38])
    assert view["shapes"] == [
        {"shape": "box", "low": [-55, -35], "high": [55, 35], "look": "ground"},
        {"shape": "box", "low": [-52, -30], "high": [-36, 30], "look": "region"},
        {"shape": "circle", "centre": [0, 0], "radius": 12, "look": "danger"},
        {"shape": "circle", "centre": [45, 0], "radius": 6, "look": "goal"},
    ]
    assert film.facts["bodies"] == [{"name": "point", "look": "agent", "radius": 0, "trail": True}]


def test_the_points_hazard_is_where_the_rule_has_it(point_episodes: Episodes) -> None:
    film = TASKS["point"].film(point_episodes.obs)  # type: ignore[misc]
    danger = next(shape for shape in film.facts["views"][0]["shapes"] if shape["look"] == "danger")
    inside = np.hypot(*(film.arrays["view0"][:, 0] - danger["centre"]).T) <= danger["radius"]
    assert inside.tolist() == TASKS["point"].unsafe(point_episodes.obs).tolist()
    assert 0 < inside.mean() < 1


def reach(rng: np.random.Generator, steps: int = 6) -> np.ndarray:
    """An arm that wanders around the start, with a goal that stays."""
    obs = np.zeros((steps + 1, 16), np.float32)
    obs[:, GRIPPER] = START + np.cumsum(rng.uniform(-0.03, 0.03, (steps + 1, 3)), axis=0)
    obs[:, GOAL] = START + rng.uniform(-GOAL_REACH, GOAL_REACH, 3)
    return obs


def test_a_reach_is_seen_from_two_sides() -> None:
    task, obs = TASKS["fetch-reach"], reach(np.random.default_rng(0))
    film = task.film(obs)  # type: ignore[misc]
    assert [view["name"] for view in film.facts["views"]] == [view.name for view in task.views]
    assert film.facts["bodies"] == [
        {"name": "gripper", "look": "agent", "radius": 0, "trail": True},
        {"name": "goal", "look": "goal", "radius": GOAL_RADIUS, "trail": False},
    ]
    for k, view in enumerate(task.views):
        assert film.arrays[f"view{k}"].shape == (7, 2, 2)
        assert film.arrays[f"view{k}"][:, 0].tolist() == view.position(obs).tolist()
        assert film.arrays[f"view{k}"][:, 1].tolist() == obs[:, GOAL][:, [0, k + 1]].tolist()
    above, side = film.facts["views"]
    assert [shape["look"] for shape in above["shapes"]] == ["ground", "region", "danger"]
    assert (above["shapes"][0]["low"], above["shapes"][0]["high"]) == ([1.05, 0.4], [1.55, 1.1])
    assert (side["shapes"][0]["low"], side["shapes"][0]["high"]) == ([1.05, 0.0], [1.55, 0.4])
    assert (above["x_label"], above["y_label"], side["y_label"]) == ("x (m)", "y (m)", "z (m)")
    assert above["low"] == pytest.approx(START[:2] - 0.25)
    assert side["shapes"][2]["centre"] == [HAZARD.centre[0], HAZARD.centre[2]]


def test_a_hazard_of_ones_own_is_in_the_film_and_in_sight() -> None:
    hazard = Hazard(centre=(1.3418, 1.2, 0.55), radius=0.06)
    film = paths_film(hazard, reach(np.random.default_rng(1)))
    above = film.facts["views"][0]
    assert above["shapes"][2] == {
        "shape": "circle",
        "centre": [1.3418, 1.2],
        "radius": 0.06,
        "look": "danger",
    }
    assert above["high"][1] > 1.26


@pytest.mark.parametrize("name", ["point", "fetch-reach"])
def test_observations_of_another_shape_are_refused(name: str) -> None:
    with pytest.raises(RciError, match=f"cannot be shown as '{name}'"):
        TASKS[name].film(np.zeros((3, 5)))  # type: ignore[misc]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_every_task_has_a_film_of_plain_numbers(name: str) -> None:
    task = TASKS[name]
    film = task.film(np.zeros((4, *task.obs_shape), np.float32))  # type: ignore[misc]
    assert json.loads(json.dumps(film.facts)) == film.facts
    assert all(len(array) == 4 for array in film.arrays.values())
    for view in film.facts.get("views", []):
        assert {shape["look"] for shape in view["shapes"]} <= LOOKS


def test_the_disc_is_drawn_to_its_own_scale() -> None:
    """Cars further ahead than 100 m are at the end of sight, so nobody knows where they are."""
    obs = np.zeros((2, 5, 7))
    obs[:, 0] = [1, 1, 0.04, 0.3, 0, 1, 0]
    obs[:, 1] = [1, 0.3, 0.08, 0, 0, 1, 0]
    obs[:, 2] = [1, 1.0, 0.0, 0, 0, 1, 0]
    cars = cars_of(TASKS["highway-disc"].film(obs))  # type: ignore[misc]
    assert cars[0, :2, ACROSS] == pytest.approx([4.0, 12.0])
    assert cars[0, 1, ALONG] == pytest.approx(30.0)
    assert cars[:, 2, PRESENT].tolist() == [0, 0]
