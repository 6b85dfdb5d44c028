"""Hand-worked numbers for the highway's equations, and slow but plain versions of its shortcuts."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

from rci.tasks.highway import settings
from rci.tasks.highway.physics import collision, observation, reset, traffic, worlds
from rci.tasks.highway.physics.layout import (
    ACCELERATION,
    CAR_FIELDS,
    COS,
    CRASHED,
    EXPONENT,
    HEADING,
    IMPACT_X,
    IMPACT_Y,
    LANE,
    ORDER,
    PARTNER,
    RANK,
    SIN,
    SPEED,
    STEERING,
    TAG_FIELDS,
    TARGET_LANE,
    TARGET_SPEED,
    TIMER,
    X,
    Y,
)
from rci.tasks.highway.physics.pcg64 import pack

compiled = numba.njit(error_model="numpy", _nrt=False)
DT = 0.1
DIAGONAL = math.sqrt(29)


def road(*cars: tuple[float, float, float], heading: dict[int, float] | None = None):
    """Cars at (x, y, speed), each content with its speed and its lane; headings of those that do not go straight."""
    car = np.zeros((len(CAR_FIELDS), len(cars)))
    tag = np.zeros((len(TAG_FIELDS), len(cars)), np.int32)
    car[X], car[Y], car[SPEED] = np.array(cars, float).T
    for i, angle in (heading or {}).items():
        car[HEADING, i] = angle
    car[COS], car[SIN] = np.cos(car[HEADING]), np.sin(car[HEADING])
    car[TARGET_SPEED], car[EXPONENT] = car[SPEED], 4.0
    tag[LANE] = tag[TARGET_LANE] = np.clip(np.rint(car[Y] / 4), 0, 3)
    tag[PARTNER] = -1
    tag[ORDER] = np.arange(len(cars))
    traffic.sort_along_road(car, tag)
    return car, tag


# Numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3.0, 3.0),
        (0.010001, 0.010001),
        (0.01, 0.01),
        (0.0, 0.01),
        (-0.0, 0.01),
        (-0.003, -0.01),
        (-7.0, -7.0),
    ],
)
def test_divisors_are_kept_from_zero(value: float, expected: float) -> None:
    assert traffic.not_zero(value) == expected


@pytest.mark.parametrize(
    ("angle", "expected"),
    [
        (0.0, 0.0),
        (3.0, 3.0),
        (math.pi, -math.pi),
        (-math.pi, -math.pi),
        (4.0, 4.0 - 2 * math.pi),
        (-4.0, 2 * math.pi - 4.0),
        (20.0, 20.0 - 6 * math.pi),
        (-20.0, 6 * math.pi - 20.0),
    ],
)
def test_angles_are_wrapped(angle: float, expected: float) -> None:
    assert traffic.wrap(angle) == pytest.approx(expected, abs=1e-14)


def test_wrapping_is_highway_envs_formula_bit_for_bit() -> None:
    for angle in np.random.default_rng(0).uniform(-12, 12, 2000).tolist():
        assert traffic.wrap(angle) == ((angle + np.pi) % (2 * np.pi)) - np.pi


def test_clip() -> None:
    assert [traffic.clip(v, -1.0, 2.0) for v in (-3.0, -1.0, 0.5, 2.0, 9.0)] == [-1.0, -1.0, 0.5, 2.0, 2.0]


# The intelligent driver model


@pytest.mark.parametrize(
    ("speed", "target", "exponent", "expected"),
    [
        (15.0, 30.0, 4.0, 3 * 15 / 16),
        (7.5, 30.0, 3.5, 3 * 127 / 128),
        (30.0, 30.0, 4.0, 0.0),
        (24.0, 60.0, 4.0, 3 * (1 - 0.4096)),  # nobody wants more than 30 m/s
        (-5.0, 20.0, 4.0, 3.0),  # reversing counts as standing
        (0.02, 0.0, 4.0, 3 * (1 - 16)),  # no target speed is 0.01 m/s
        (0.02, -8.0, 4.0, 3 * (1 - 16)),
    ],
)
def test_acceleration_on_a_free_road(speed: float, target: float, exponent: float, expected: float) -> None:
    assert traffic.free_road(speed, target, exponent) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("speed", "approach", "expected"),
    [
        (0.0, 0.0, 10.0),
        (20.0, 0.0, 40.0),
        (20.0, 5.0, 52.90994448735806),  # 40 + 100 / (2 sqrt 15)
        (20.0, -10.0, 14.180111025283882),
        (-4.0, 0.0, 4.0),
    ],
)
def test_desired_gap(speed: float, approach: float, expected: float) -> None:
    assert traffic.desired_gap(speed, approach) == pytest.approx(expected, rel=1e-14)


def test_approach_speed_is_along_the_heading_of_the_one_behind() -> None:
    car, _ = road((0, 0, 20.0), (50, 0, 15.0), (50, 4, 15.0), heading={2: math.pi / 2})
    assert traffic.approach_speed(car, 0, 1) == 5.0
    assert traffic.approach_speed(car, 0, 2) == pytest.approx(20.0)  # 2 drives across
    assert traffic.approach_speed(car, 2, 0) == pytest.approx(15.0)
    car, _ = road((0, 0, 10.0), (50, 0, 10.0), heading={0: math.pi / 3})
    assert traffic.approach_speed(car, 0, 1) == pytest.approx(5.0)
    assert traffic.approach_speed(car, 1, 0) == pytest.approx(5.0)


def test_idm_behind_a_leader() -> None:
    car, _ = road((0, 0, 20.0), (80, 0, 20.0), (80, 4, 15.0))
    assert traffic.idm(car, 0, -1, 4.0) == 0.0
    assert traffic.idm(car, 0, 1, 4.0) == pytest.approx(-0.75)  # 3 (40 / 80)^2
    assert traffic.idm(car, 0, 2, 4.0) == pytest.approx(-3 * (52.90994448735806 / 80) ** 2)


@pytest.mark.parametrize(("ahead", "divisor"), [(0.0, 0.01), (0.005, 0.01), (-0.005, -0.01), (-20.0, -20.0)])
def test_idm_level_with_its_leader_or_past_it(ahead: float, divisor: float) -> None:
    car, _ = road((100, 0, 20.0), (100 + ahead, 0, 20.0))
    assert traffic.idm(car, 0, 1, 4.0) == pytest.approx(-3 * (40 / divisor) ** 2, rel=1e-9)


# Who is where


def test_cars_are_sorted_from_back_to_front_with_ties_by_index() -> None:
    _, tag = road((30, 0, 1), (10, 0, 1), (30, 4, 1), (-2, 0, 1), (30, 8, 1), (10, 8, 1))
    assert tag[ORDER].tolist() == [3, 1, 5, 0, 2, 4]
    assert tag[RANK][tag[ORDER]].tolist() == list(range(6))


def test_sorting_again_mends_any_order() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        car, tag = road(*[(float(x), 0, 1) for x in rng.integers(0, 6, 9)])
        tag[ORDER] = rng.permutation(9)
        traffic.sort_along_road(car, tag)
        assert tag[ORDER].tolist() == np.argsort(car[X], kind="stable").tolist()
        assert tag[RANK].tolist() == np.argsort(tag[ORDER]).tolist()


@pytest.mark.parametrize(
    ("x", "y", "margin", "expected"),
    [
        (50, 4 + 2, 2.0, True),
        (50, 4 - 2, 2.0, True),
        (50, 4 + 2.001, 2.0, False),
        (50, 4 + 2.001, 3.0, True),
        (-5, 4, 2.0, True),
        (-5.001, 4, 2.0, False),
        (10_004.999, 4, 2.0, True),
        (10_005, 4, 2.0, False),
    ],
)
def test_on_lane(x: float, y: float, margin: float, expected: bool) -> None:
    car, _ = road((x, y, 20.0))
    assert traffic.on_lane(car, 0, 1, margin) == expected


def test_neighbours() -> None:
    car, tag = road((100, 0, 20), (130, 0, 20), (120, 4, 20), (90, 4, 20), (60, 0, 20), (110, 8, 20))
    ahead = [traffic.car_ahead(car, tag, 0, lane) for lane in range(4)]
    behind = [traffic.car_behind(car, tag, 0, lane) for lane in range(4)]
    assert (ahead, behind) == ([1, 2, 5, -1], [4, 3, -1, -1])


def test_a_car_between_lanes_is_a_neighbour_on_both() -> None:
    car, tag = road((100, 0, 20), (120, 2, 20), (140, 0, 20), (140, 4, 20), (80, 3, 20))
    assert [traffic.car_ahead(car, tag, 0, lane) for lane in (0, 1, 2)] == [1, 1, -1]
    assert [traffic.car_behind(car, tag, 0, lane) for lane in (0, 1, 2)] == [4, 4, -1]  # 3 m is on the lane
    car[Y, 1] = 0.999
    assert [traffic.car_ahead(car, tag, 0, lane) for lane in (0, 1)] == [1, 3]


def test_of_cars_that_are_level_the_last_is_ahead_and_the_first_is_behind() -> None:
    car, tag = road((100, 0, 20), (120, 0, 20), (120, 1, 20), (120, -1, 20), (80, 0, 20), (80, 1, 20))
    assert traffic.car_ahead(car, tag, 0, 0) == 3
    assert traffic.car_behind(car, tag, 0, 0) == 4


def test_a_car_level_with_oneself_is_ahead() -> None:
    car, tag = road((100, 4, 20), (100, 0, 20), (100, 4, 20), (100, 8, 20))
    for i in range(4):  # wherever in the order the asking car stands
        others = [j for j in (0, 2) if j != i]
        assert traffic.car_ahead(car, tag, i, 1) == others[-1]
        assert traffic.car_behind(car, tag, i, 1) == -1


def test_cars_beyond_the_ends_of_the_road_are_no_neighbours() -> None:
    car, tag = road((100, 0, 20), (10_006, 0, 20), (-6, 0, 20))
    assert traffic.car_ahead(car, tag, 0, 0) == -1
    assert traffic.car_behind(car, tag, 0, 0) == -1


def test_neighbours_are_those_of_a_plain_search() -> None:
    """highway-env's own loop over all cars, on crowded roads with many ties."""
    rng = np.random.default_rng(2)
    for _ in range(150):
        places = np.stack([rng.integers(0, 8, 10) * 5.0, rng.integers(-2, 15, 10) * 1.0, np.full(10, 20)], 1)
        car, tag = road(*[tuple(place) for place in places.tolist()])
        i, lane = int(rng.integers(10)), int(rng.integers(4))
        front, rear = -1, -1
        for j in range(10):
            if j == i or abs(car[Y, j] - 4 * lane) > 3:
                continue
            if car[X, j] >= car[X, i] and (front < 0 or car[X, j] <= car[X, front]):
                front = j
            if car[X, j] < car[X, i] and (rear < 0 or car[X, j] > car[X, rear]):
                rear = j
        assert traffic.car_ahead(car, tag, i, lane) == front
        assert traffic.car_behind(car, tag, i, lane) == rear


@pytest.mark.parametrize(
    ("x", "y", "heading", "lane"),
    [
        (50.0, 0.0, 0.0, 0),
        (50.0, 1.99, 0.0, 0),
        (50.0, 2.0, 0.0, 0),  # ties go to the first
        (50.0, 6.0, 0.3, 1),
        (50.0, 10.0, -0.3, 2),
        (50.0, 2.01, 0.0, 1),
        (50.0, 14.5, 0.0, 3),
        (50.0, -300.0, 0.0, 0),  # far off the road it is the nearest one still
        (50.0, 300.0, 2.0, 3),
        (-20.0, 7.0, 9.0, 2),
        (10_400.0, 7.0, 0.0, 2),
        (100.0, 2.0000000000000004, 0.0, 1),
        (-100.0, 2.0000000000000004, 0.0, 0),  # 100 m before the road, the same sum is rounded to a tie
    ],
)
def test_nearest_lane(x: float, y: float, heading: float, lane: int) -> None:
    assert traffic.nearest_lane(x, y, heading, 4) == lane


def test_nearest_lane_is_the_first_minimum() -> None:
    rng = np.random.default_rng(3)
    for _ in range(3000):
        x = float(rng.choice([-50.0, 70.0, 3000.0, 10_050.0]))
        border = (
            2.0 + 4 * rng.integers(-1, 4) + rng.choice([0.0, 1e-16, 1e-13, 1e-6, 1e-3, 0.3]) * rng.normal()
        )
        heading = float(rng.normal())
        cost = [
            abs(border - 4 * lane) + max(x - 10_000, 0) + max(0 - x, 0) + abs(traffic.wrap(heading))
            for lane in range(4)
        ]
        assert traffic.nearest_lane(x, float(border), heading, 4) == int(np.argmin(cost))


def test_one_lane_is_always_the_nearest() -> None:
    assert [traffic.nearest_lane(0.0, y, 0.0, 1) for y in (-9.0, 0.0, 2.0, 6.0)] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0, 12, True),
        (0, 12.001, False),
        (-0.001, 4, False),
        (10_004.9, 4, True),
        (10_005, 4, False),
        (9, -4, True),
    ],
)
def test_a_lane_is_reachable_within_8_metres(x: float, y: float, expected: bool) -> None:
    car, _ = road((x, y, 20.0))
    assert traffic.is_reachable(car, 0, 1) == expected


# MOBIL


def changing(own_leader: float, follower: tuple[float, float] | None = None, exponent: float = 4.0):
    """Car 1 at 100 m on lane 0, 20 m/s like its leader; perhaps a car (m behind, m/s) on lane 1; the ego far off."""
    cars = [(5000, 12, 25), (100, 0, 20), (100 + own_leader, 0, 20)]
    if follower:
        cars.append((100 - follower[0], 4, follower[1]))
    car, tag = road(*cars)
    car[TIMER] = 1.1
    car[EXPONENT] = 9.0  # nobody's business but the decider's own
    car[EXPONENT, 1] = exponent
    return car, tag


@pytest.mark.parametrize(("leader", "accepted"), [(150, True), (154, True), (156, False), (1000, False)])
def test_mobil_asks_for_a_gain(leader: float, accepted: bool) -> None:
    """3 (40 / d)^2 is 0.2 m/s2 at 154.9 m."""
    assert traffic.mobil_accepts(*changing(leader), 1, 1) == accepted


@pytest.mark.parametrize(("behind", "accepted"), [(30, False), (48.9, False), (49.1, True), (90, True)])
def test_mobil_spares_the_car_behind(behind: float, accepted: bool) -> None:
    """It would have to brake by 3 (40 / d)^2, which is 2 m/s2 at 48.99 m."""
    assert traffic.mobil_accepts(*changing(50, (behind, 20)), 1, 1) == accepted


@pytest.mark.parametrize(("exponent", "accepted"), [(3.5, True), (4.5, False)])
def test_mobil_imagines_others_with_its_own_exponent(exponent: float, accepted: bool) -> None:
    """A follower at 22 m/s that wants 20: 3 (1 - 1.1^delta) - 3 (48.68 / 100)^2 = -1.90 or -2.32."""
    car, tag = changing(50, (100, 22), exponent)
    car[TARGET_SPEED, 3] = 20
    assert traffic.mobil_accepts(car, tag, 1, 1) == accepted


@pytest.mark.parametrize(("speed", "accepted"), [(0.0, True), (1.0, False), (25.0, False), (-3.0, True)])
def test_nobody_merges_in_front_of_an_ego_without_a_target_speed(speed: float, accepted: bool) -> None:
    car, tag = changing(50)
    car[X, 0], car[Y, 0], car[SPEED, 0], car[TARGET_SPEED, 0] = 0.0, 4.0, speed, 0.0
    traffic.sort_along_road(car, tag)
    assert traffic.mobil_accepts(car, tag, 1, 1) == accepted


def test_a_worse_lane_is_refused() -> None:
    car, tag = road((5000, 12, 25), (100, 0, 20), (150, 0, 20), (140, 4, 20))
    assert not traffic.mobil_accepts(car, tag, 1, 1)


def test_choosing_a_lane_needs_time() -> None:
    for timer, target in ((0.5, 0), (1.0, 0), (1.0000001, 1)):  # strictly more than 1 s
        car, tag = changing(50)
        car[TIMER, 1] = timer
        traffic.choose_lane(car, tag, 1, 4, 1)
        assert tag[TARGET_LANE, 1] == target
        assert car[TIMER, 1] == (timer if target == 0 else 0.0)


def test_thinking_in_vain_takes_time_as_well() -> None:
    car, tag = changing(1000)
    traffic.choose_lane(car, tag, 1, 4, 1)
    assert tag[TARGET_LANE, 1] == 0
    assert car[TIMER, 1] == 0.0


@pytest.mark.parametrize(
    ("lane", "lanes", "blocked", "target"),
    [
        (1, 4, (), 2),
        (1, 4, (2,), 0),
        (3, 4, (), 2),
        (0, 4, (), 1),
        (0, 1, (), 0),
        (1, 2, (), 0),
        (1, 4, (0, 2), 1),
    ],
)
def test_of_two_good_lanes_the_right_one_wins(
    lane: int, lanes: int, blocked: tuple[int, ...], target: int
) -> None:
    cars = [
        (5000, 0, 25),
        (100, 4 * lane, 20),
        (150, 4 * lane, 20),
        *((130, 4 * other, 20) for other in blocked),
    ]
    car, tag = road(*cars)
    car[TIMER] = 2.0
    traffic.choose_lane(car, tag, 1, lanes, 1)
    assert tag[TARGET_LANE, 1] == target


@pytest.mark.parametrize(("speed", "target"), [(0.99, 0), (-0.99, 0), (1.0, 1), (20.0, 1)])
def test_only_moving_cars_change_lanes(speed: float, target: int) -> None:
    car, tag = changing(15)
    car[SPEED, 1] = speed
    traffic.choose_lane(car, tag, 1, 4, 1)
    assert tag[TARGET_LANE, 1] == target


def test_cars_before_the_road_begins_do_not_change_lanes() -> None:
    car, tag = road((5000, 12, 25), (-1, 0, 20), (49, 0, 20))
    car[TIMER] = 2.0
    traffic.choose_lane(car, tag, 1, 4, 1)
    assert tag[TARGET_LANE, 1] == 0


@pytest.mark.parametrize(
    ("ahead", "lane", "target", "abort"),
    [
        (30, 2, 1, True),
        (39.9, 2, 1, True),
        (40.1, 2, 1, False),  # the desired gap at 20 m/s is 40 m
        (0, 2, 1, False),
        (-5, 2, 1, False),
        (30, 1, 1, False),  # it is there already
        (30, 2, 2, False),
        (30, 2, 3, False),
        (30, 0, 1, True),
    ],
)
def test_a_lane_change_is_given_up_for_somebody_ahead(
    ahead: float, lane: int, target: int, abort: bool
) -> None:
    car, tag = road((5000, 12, 25), (100, 0, 20), (100 + ahead, 4 * lane, 20))
    tag[TARGET_LANE, 1:] = 1, target
    car[TIMER, 1] = 5.0
    assert traffic.must_abort(car, tag, 1, 1) == abort
    traffic.choose_lane(car, tag, 1, 4, 1)
    assert tag[TARGET_LANE, 1] == (0 if abort else 1)
    assert car[TIMER, 1] == 5.0  # giving up is no new thought


def test_only_an_ego_with_meta_actions_makes_others_give_up() -> None:
    car, tag = road((130, 8, 20), (100, 0, 20))
    tag[TARGET_LANE] = 1
    assert not traffic.must_abort(car, tag, 1, 1)
    assert traffic.must_abort(car, tag, 1, 0)


# Steering and what a driver does


def test_steering_is_a_cascade_of_two_controllers() -> None:
    """0.6 m -> -1 m/s -> asin(-1/10) -> 5 times that per second -> asin(2.5 / 10 * rate) -> atan(2 tan)."""
    heading = -0.1001674211615598
    slip = math.asin(0.25 * 5 * heading)
    assert traffic.steering_angle(0.6, 0.0, 10.0) == pytest.approx(math.atan(2 * math.tan(slip)), rel=1e-12)
    assert traffic.steering_angle(0.6, 0.0, 10.0) == pytest.approx(-0.247241, abs=1e-6)


@pytest.mark.parametrize(
    ("lateral", "heading", "speed", "sign"),
    [
        (1.0, 0.0, 20.0, -1),  # right of the line: to the left
        (-1.0, 0.0, 20.0, 1),
        (0.0, 0.2, 20.0, -1),
        (0.0, -0.2, 20.0, 1),
        (1.0, 0.0, -20.0, -1),  # reversing: the heading's sign and the wheel's sign both turn
        (0.0, 0.2, -20.0, 1),
        (0.0, 0.0, 20.0, 0),
        (0.0, 0.0, 0.0, 0),
    ],
)
def test_steering_signs(lateral: float, heading: float, speed: float, sign: int) -> None:
    assert np.sign(traffic.steering_angle(lateral, heading, speed)) == sign


def test_steering_limits() -> None:
    largest = math.pi / 3
    assert traffic.steering_angle(100.0, 0.0, 1.0) == -largest
    assert traffic.steering_angle(-100.0, 0.0, 1.0) == largest
    assert traffic.steering_angle(1e-3, 0.0, 0.0) == -largest  # standing: 0.01 m/s
    # The wanted heading is at most pi/4: with it, nothing is left to steer, however far the line
    assert traffic.steering_angle(-100.0, math.pi / 4, 20.0) == pytest.approx(0.0, abs=1e-14)
    assert traffic.steering_angle(-100.0, math.pi / 4 + 0.1, 20.0) < 0


def test_steering_from_a_heading_is_symmetric_and_wraps() -> None:
    assert traffic.steering_angle(0.0, 2 * math.pi + 0.1, 20.0) == pytest.approx(
        traffic.steering_angle(0.0, 0.1, 20.0), rel=1e-12
    )


def test_a_driver_keeps_lane_and_distance() -> None:
    car, tag = road((5000, 12, 25), (100, 0, 20), (180, 0, 20))
    traffic.drive(car, tag, 1, 4, 1)
    assert car[STEERING, 1] == 0.0
    assert car[ACCELERATION, 1] == pytest.approx(-0.75)


def test_while_changing_lanes_both_leaders_count() -> None:
    car, tag = road((5000, 12, 25), (100, 0, 20), (180, 0, 20), (160, 4, 20), (140, 8, 20))
    tag[TARGET_LANE, 1] = 1
    traffic.drive(car, tag, 1, 4, 1)
    assert car[ACCELERATION, 1] == pytest.approx(-3 * (40 / 60) ** 2)
    assert car[STEERING, 1] > 0  # lane 1 is to the right
    tag[TARGET_LANE, 1] = 0
    car[X, 3] = 300
    traffic.sort_along_road(car, tag)
    traffic.drive(car, tag, 1, 4, 1)
    assert car[ACCELERATION, 1] == pytest.approx(-0.75)


def test_accelerations_are_limited() -> None:
    car, tag = road((5000, 12, 25), (100, 0, 20), (110, 0, 0))
    traffic.drive(car, tag, 1, 1, 1)
    assert car[ACCELERATION, 1] == -6.0
    car, tag = road((5000, 12, 25), (100, 0, 20), (80, 4, 20))
    car[SPEED, 1] = -300.0  # backwards the wanted gap may become negative, and its square pushes as well
    traffic.drive(car, tag, 1, 1, 1)
    assert car[ACCELERATION, 1] == 3.0


def test_an_ego_with_meta_actions_follows_its_targets() -> None:
    car, tag = road((100, 0, 20), (110, 0, 20))
    car[TARGET_SPEED, 0], tag[TARGET_LANE, 0] = 25.0, 1
    traffic.follow_targets(car, tag, 0)
    assert car[ACCELERATION, 0] == pytest.approx(5 / 0.6)  # neither limited nor careful
    assert car[STEERING, 0] == traffic.steering_angle(-4.0, 0.0, 20.0)


# Motion


@pytest.mark.parametrize(
    ("speed", "given", "kept"),
    [
        (20.0, 5.0, 5.0),
        (40.0, 5.0, 5.0),  # the limit itself is allowed
        (41.0, 5.0, -1.0),
        (41.0, -3.0, -3.0),
        (-40.0, -5.0, -5.0),
        (-42.0, -5.0, 2.0),
        (-42.0, 4.0, 4.0),
    ],
)
def test_speed_limits(speed: float, given: float, kept: float) -> None:
    car, tag = road((100, 0, speed))
    car[ACCELERATION, 0], car[STEERING, 0] = given, 0.3
    traffic.limit_action(car, tag, 0, -40.0, 40.0)
    assert car[ACCELERATION, 0] == kept
    assert car[STEERING, 0] == 0.3


def test_a_limited_action_stays_limited() -> None:
    """One frame above the limit lowers the throttle for the rest of the policy step, even when it is below again."""
    car, tag = road((100, 0, 40.2))
    car[ACCELERATION, 0] = 5.0
    for expected in (39.9, 39.6, 39.3):
        traffic.move(car, tag, 0, 1.5, 4, -40.0, 40.0)
        assert car[SPEED, 0] == pytest.approx(expected, abs=1e-9)


def test_a_wreck_brakes_and_does_not_steer() -> None:
    car, tag = road((100, 0, 10.0))
    car[ACCELERATION, 0], car[STEERING, 0], tag[CRASHED, 0] = 5.0, 0.4, 1
    traffic.move(car, tag, 0, 0.1, 4, -40.0, 40.0)
    assert (car[STEERING, 0], car[ACCELERATION, 0], car[SPEED, 0]) == (0.0, -10.0, 9.0)
    assert (car[X, 0], car[HEADING, 0]) == (101.0, 0.0)


def test_straight_on() -> None:
    car, tag = road((100, 8, 20.0), heading={0: 0.25})
    car[ACCELERATION, 0] = -2.0
    traffic.move(car, tag, 0, 0.5, 4, -40.0, 40.0)
    assert car[X, 0] == pytest.approx(100 + 10 * math.cos(0.25))  # with the old speed
    assert car[Y, 0] == pytest.approx(8 + 10 * math.sin(0.25))
    assert (car[HEADING, 0], car[SPEED, 0]) == (0.25, 19.0)
    assert tag[LANE, 0] == 3


def test_the_bicycle_model() -> None:
    """A wheel at atan(2 tan 0.1) slips by 0.1."""
    car, tag = road((100, 8, 10.0), heading={0: 0.2})
    car[STEERING, 0], car[ACCELERATION, 0] = math.atan(2 * math.tan(0.1)), 3.0
    traffic.move(car, tag, 0, 0.5, 4, -40.0, 40.0)
    assert car[X, 0] == pytest.approx(100 + 5 * math.cos(0.3), rel=1e-13)
    assert car[Y, 0] == pytest.approx(8 + 5 * math.sin(0.3), rel=1e-13)
    assert car[HEADING, 0] == pytest.approx(0.2 + 10 * math.sin(0.1) / 2.5 * 0.5, rel=1e-13)
    assert (car[COS, 0], car[SIN, 0]) == (math.cos(car[HEADING, 0]), math.sin(car[HEADING, 0]))
    assert car[SPEED, 0] == 11.5
    assert tag[LANE, 0] == 2


def test_reversing_turns_the_other_way() -> None:
    car, tag = road((100, 8, -10.0))
    car[STEERING, 0] = 0.3
    traffic.move(car, tag, 0, 0.1, 4, -40.0, 40.0)
    assert car[X, 0] < 100
    assert car[HEADING, 0] < 0


def test_a_push_moves_and_wrecks() -> None:
    car, tag = road((100, 4, 10.0), (300, 4, 10.0))
    car[ACCELERATION, 0] = 2.0
    car[IMPACT_X, 0], car[IMPACT_Y, 0], tag[PARTNER, 0] = -0.5, 3.0, 1
    traffic.move(car, tag, 0, 0.1, 4, -40.0, 40.0)
    assert (car[X, 0], car[Y, 0]) == (100.5, 7.0)
    assert car[SPEED, 0] == 10.2  # in this frame it still drives
    assert tag[[CRASHED, PARTNER, LANE], 0].tolist() == [1, -1, 2]
    traffic.move(car, tag, 0, 0.1, 4, -40.0, 40.0)
    assert car[Y, 0] == 7.0  # pushed once
    assert car[SPEED, 0] == pytest.approx(10.2 * 0.9)


def test_everybody_moves_and_only_the_ego_has_limits_of_its_own() -> None:
    car, tag = road((100, 0, 33.0), (200, 4, 33.0), (300, 4, 41.0))
    car[ACCELERATION], car[TIMER], tag[CRASHED, 1] = 4.0, 0.5, 1
    traffic.move_all(car, tag, 0.1, 4, 10.0, 32.0)
    assert car[X] == pytest.approx([103.3, 203.3, 304.1])
    assert car[ACCELERATION] == pytest.approx([-1.0, -33.0, -1.0])
    assert car[TIMER].tolist() == [0.5, 0.6, 0.6]  # wrecks' clocks run on


# Collisions


def parts(car, dt: float = DT, i: int = 0, j: int = 1):
    """Meets, will meet, push."""
    return collision.separating_axes(car, i, j, dt, np.zeros((4, 4)))


def test_corners() -> None:
    box = np.zeros((4, 4))
    car, _ = road((10, 4, 0), (20, 8, 0), heading={1: math.pi / 2})
    collision.write_corners(car, 0, box, 0)
    collision.write_corners(car, 1, box, 2)
    assert box[0].tolist() == [7.5, 7.5, 12.5, 12.5]
    assert box[1].tolist() == [3.0, 5.0, 5.0, 3.0]
    assert box[2] == pytest.approx([21, 19, 19, 21])
    assert box[3] == pytest.approx([5.5, 5.5, 10.5, 10.5])
    assert (collision.centre(box, 0), collision.centre(box, 1)) == (10.0, 4.0)
    assert collision.projection(box, 0, 1.0, 0.0) == (7.5, 12.5)
    assert collision.projection(box, 0, 0.0, -1.0) == (-5.0, -3.0)
    assert collision.projection(box, 0, 0.6, 0.8) == pytest.approx(
        (7.5 * 0.6 + 3 * 0.8, 12.5 * 0.6 + 5 * 0.8)
    )


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0, 2), (5, 9), 3),
        ((5, 9), (0, 2), 3),
        ((0, 5), (5, 9), 0),
        ((0, 6), (5, 9), -1),
        ((5, 9), (0, 6), -1),
        ((0, 10), (4, 6), -6),  # contained: the way out at the end that begins later, not the shorter one
        ((4, 6), (0, 10), -6),
        ((0, 10), (3, 4), -7),
        ((3, 4), (0, 10), -7),
        ((0, 4), (0, 10), -10),  # level beginnings: not symmetric
        ((0, 10), (0, 4), -4),
    ],
)
def test_distance_of_intervals(a: tuple[float, float], b: tuple[float, float], expected: float) -> None:
    assert collision.gap(*map(float, a), *map(float, b)) == expected


@pytest.mark.parametrize(
    ("x", "y", "meets"),
    [(5, 0, True), (5.001, 0, False), (0, 2, True), (0, 2.001, False), (-5, -2, True), (-5, -2.001, False)],
)
def test_touching_is_meeting(x: float, y: float, meets: bool) -> None:
    car, _ = road((10, 4, 20), (10 + x, 4 + y, 20))
    assert parts(car)[:2] == (meets, meets)  # equally fast: what is now will be


def test_overlapping_cars_are_parted_the_short_way() -> None:
    for away, push in (
        ((4, 0), (-1, 0)),
        ((-4, 0), (1, 0)),
        ((0, 1.5), (0, -0.5)),
        ((1, -1.5), (0, 0.5)),
        ((4, 1), (-1, 0)),  # equally short: along the car, which is tried first
    ):
        car, _ = road((10, 4, 20), (10 + away[0], 4 + away[1], 20))
        meets, will_meet, x, y = parts(car)
        assert meets
        assert will_meet
        assert (x, y) == pytest.approx(push, abs=1e-12)


def test_cars_that_will_meet() -> None:
    """Half a metre apart and 10 m/s faster: in 0.1 s they overlap by half a metre."""
    car, _ = road((10, 4, 20), (15.5, 4, 10))
    assert parts(car) == (False, True, -0.5, 0.0)
    car, _ = road((15.5, 4, 10), (10, 4, 20))
    assert parts(car) == (False, True, 0.5, 0.0)
    car, _ = road((10, 4, 20), (15.5, 4, 15.1))
    assert parts(car) == (False, False, 0.0, 0.0)  # not in this frame
    car, _ = road((10, 4, 10), (15.5, 4, 20))
    assert parts(car)[:2] == (False, False)  # it drives away


def test_cars_that_will_touch_do_meet() -> None:
    car, _ = road((10, 4, 20), (15.5, 4, 12), (16, 4, 12))
    assert parts(car, dt=0.0625)[:2] == (False, True)  # 8 m/s for 1/16 s
    assert parts(car, dt=0.0625, j=2)[:2] == (False, False)


def test_a_turned_car() -> None:
    """A car across the road reaches 1 m along it and 2.5 m aside."""
    for away, meets in (((3.49, 0), True), ((3.51, 0), False), ((0, 3.49), True), ((0, 3.51), False)):
        car, _ = road((10, 4, 0), (10 + away[0], 4 + away[1], 0), heading={1: math.pi / 2})
        assert parts(car)[0] == meets
    # At 45 degrees the corner sticks out by (5 + 2) / sqrt(8)
    reach = 2.5 + 7 / math.sqrt(8)
    for x, meets in ((reach - 0.01, True), (reach + 0.01, False)):
        car, _ = road((10, 4, 0), (10 + x, 4 + 1.06, 0), heading={1: math.pi / 4})
        assert parts(car)[0] == meets


def test_an_axis_of_the_second_car_can_part_them() -> None:
    """Near a corner the bounding intervals on the first car's axes overlap, and the turned car's do not."""
    car, _ = road((0, 0, 0), (4.6, 2.6, 0), heading={1: -math.pi / 4})
    box = np.zeros((4, 4))
    collision.write_corners(car, 0, box, 0)
    collision.write_corners(car, 1, box, 2)
    for axis in ((1.0, 0.0), (0.0, 1.0)):
        assert collision.gap(*collision.projection(box, 0, *axis), *collision.projection(box, 2, *axis)) < 0
    assert parts(car)[:2] == (False, False)


def test_the_shorter_way_out_of_a_car_inside_another_is_not_always_taken() -> None:
    """The lower car's interval grows by its motion until it contains the other's."""
    car, _ = road((0, 0, 60), (1, 0, 0))
    meets, will_meet, x, y = parts(car)  # moved 6 m: [-2.5, 8.5] and [-1.5, 3.5] on the x axis
    assert meets
    assert will_meet
    assert (x, y) == pytest.approx((0, -2)) or (x, y) == pytest.approx((0, 2))  # 2 m aside is shorter than 10
    assert collision.gap(-2.5, 8.5, -1.5, 3.5) == -10.0


def test_exactly_on_top_of_each_other() -> None:
    car, _ = road((10, 4, 20), (10, 4, 20))
    meets, will_meet, x, y = parts(car)
    assert meets
    assert will_meet
    assert math.hypot(x, y) == pytest.approx(2.0)


def test_a_highest_partner_counts() -> None:
    car, tag = road((0, 0, 0))
    for partner, x in ((3, 1.0), (7, 2.0), (5, 3.0)):
        collision.push(car, tag, 0, partner, x, -x)
    assert (tag[PARTNER, 0], car[IMPACT_X, 0], car[IMPACT_Y, 0]) == (7, 2.0, -2.0)


def test_a_push_is_shared_and_a_meeting_wrecks_at_once() -> None:
    car, tag = road((10, 4, 20), (15.5, 4, 10), (500, 4, 20))
    collision.collide(car, tag, 0, 1, DT, np.zeros((4, 4)))
    assert car[IMPACT_X].tolist() == [-0.25, 0.25, 0.0]
    assert tag[PARTNER].tolist() == [1, 0, -1]
    assert tag[CRASHED].tolist() == [0, 0, 0]  # not before the push is felt
    car[X, 1] = 14.0
    collision.collide(car, tag, 0, 1, DT, np.zeros((4, 4)))
    assert tag[CRASHED].tolist() == [1, 1, 0]


def test_only_the_first_cars_speed_widens_the_search() -> None:
    """A fast car running into a slow one is seen if it is the first of the pair; otherwise only nearer than sqrt 29."""
    fast_behind, slow_ahead = (0, 0, 40), (DIAGONAL + 0.5, 0, 0)
    for cars, seen in (((fast_behind, slow_ahead), True), ((slow_ahead, fast_behind), False)):
        car, tag = road(*cars)
        collision.collide(car, tag, 0, 1, DT, np.zeros((4, 4)))
        assert (tag[PARTNER, 0] >= 0) == seen
    car, tag = road((0, 0, -10), (5.1, 0, -40))  # reversing shrinks it: 5.1 m is beyond sqrt 29 - 1
    collision.collide(car, tag, 0, 1, DT, np.zeros((4, 4)))
    assert tag[PARTNER, 0] == -1
    assert parts(car)[1]


@compiled
def contradictions(cars, dt, box, answers):
    """For pairs in the columns 2k, 2k + 1: [surely apart and yet meeting, surely apart, meet, only will meet]."""
    for k in range(cars.shape[1] // 2):
        sure = collision.surely_apart(cars, 2 * k, 2 * k + 1, dt[k])
        meets, will_meet, _, _ = collision.separating_axes(cars, 2 * k, 2 * k + 1, dt[k], box)
        answers[0] += sure and (meets or will_meet)
        answers[1] += sure
        answers[2] += meets
        answers[3] += will_meet and not meets


def random_pairs(rng: np.random.Generator, pairs: int, borderline: bool):
    """Pairs of cars near each other; borderline: within some 1e-5 m of where the cheap proof changes its mind."""
    car = np.zeros((len(CAR_FIELDS), 2 * pairs))
    straight = rng.random(2 * pairs) < 0.3
    car[HEADING] = np.where(
        straight, rng.integers(-2, 3, 2 * pairs) * np.pi / 2, rng.uniform(-4, 4, 2 * pairs)
    )
    car[HEADING] *= rng.choice([1.0, 0.02], 2 * pairs)
    car[COS], car[SIN] = np.cos(car[HEADING]), np.sin(car[HEADING])
    car[SPEED] = rng.choice([-1.0, 0.0, 1.0, 1.0, 1.0], 2 * pairs) * rng.uniform(0, 45, 2 * pairs)
    dt = rng.choice([1 / 15, 1 / 5, 1.0, 1e-3], pairs)
    a, b = car[:, ::2], car[:, 1::2]
    a[X], a[Y] = rng.uniform(-100, 11_000, pairs), rng.uniform(-300, 300, pairs)
    c, s = a[COS], a[SIN]
    if borderline:
        swap = rng.random(pairs) < 0.5  # along the car or across it
        axis_x, axis_y = np.where(swap, c, -s), np.where(swap, s, c)
        cos, sin = np.abs(c * b[COS] + s * b[SIN]), np.abs(c * b[SIN] - s * b[COS])
        half = np.where(swap, 2.5 + (5 * cos + 2 * sin) / 2, 1 + (5 * sin + 2 * cos) / 2)
        moved = (a[SPEED] * c - b[SPEED] * b[COS]) * axis_x + (a[SPEED] * s - b[SPEED] * b[SIN]) * axis_y
        away = np.abs(moved * dt) + half + rng.choice([1e-9, 1e-6, 1e-5], pairs) * rng.normal(size=pairs)
        away *= np.where(rng.random(pairs) < 0.8, np.where(moved < 0, -1, 1), rng.choice([-1, 1], pairs))
        aside = rng.uniform(-2, 2, pairs)
    else:
        axis_x, axis_y = c, s
        away, aside = rng.uniform(-12, 12, pairs), rng.uniform(-8, 8, pairs)
    b[X], b[Y] = a[X] + away * axis_x - aside * axis_y, a[Y] + away * axis_y + aside * axis_x
    return car, dt


@pytest.mark.parametrize("borderline", [False, True])
def test_what_is_surely_apart_never_meets(borderline: bool) -> None:
    answers = np.zeros(4, np.int64)
    car, dt = random_pairs(np.random.default_rng(4), 200_000, borderline)
    contradictions(car, dt, np.zeros((4, 4)), answers)
    assert answers[0] == 0
    assert (answers[1:] > 2_000).all()  # all three kinds were looked at


def test_the_cheap_proof_is_worth_something() -> None:
    """Side by side in neighbouring lanes, and one behind the other, need no second look."""
    car, _ = road((0, 0, 25), (0, 4, 20), (7.0, 0, 20))
    assert collision.surely_apart(car, 0, 1, 1 / 15)
    assert collision.surely_apart(car, 0, 2, 1 / 15)
    car, _ = road((0, 0, 25), (5.3, 0, 20))
    assert not collision.surely_apart(car, 0, 1, 1 / 15)


def test_separating_axes_as_in_highway_env() -> None:
    from highway_env.utils import are_polygons_intersecting
    from highway_env.vehicle.kinematics import Vehicle

    car, dt = random_pairs(np.random.default_rng(5), 600, False)
    kinds = set()
    for k in range(600):
        pair = [Vehicle(None, car[[X, Y], i], car[HEADING, i], car[SPEED, i]) for i in (2 * k, 2 * k + 1)]
        meets, will_meet, push = are_polygons_intersecting(
            pair[0].polygon(), pair[1].polygon(), pair[0].velocity * dt[k], pair[1].velocity * dt[k]
        )
        ours = parts(car, float(dt[k]), 2 * k, 2 * k + 1)
        assert ours[:2] == (meets, will_meet)
        if will_meet:
            assert ours[2:] == pytest.approx(push, abs=1e-8)
        kinds.add((meets, will_meet))
    assert kinds == {(True, True), (False, True), (False, False)}


@compiled
def collide_plainly(car, tag, dt, ego_only, box):
    """All pairs in index order, without the window along the road and without the cheap proof; the last push counts."""
    for i in range(car.shape[1]):
        for j in range(i + 1, car.shape[1]):
            if ego_only and i != 0:
                continue
            x, y = car[X, j] - car[X, i], car[Y, j] - car[Y, i]
            if math.sqrt(x * x + y * y) > DIAGONAL + car[SPEED, i] * dt:
                continue
            meets, will_meet, x, y = collision.separating_axes(car, i, j, dt, box)
            if will_meet:
                car[IMPACT_X, i], car[IMPACT_Y, i], tag[PARTNER, i] = x / 2, y / 2, j
                car[IMPACT_X, j], car[IMPACT_Y, j], tag[PARTNER, j] = -x / 2, -y / 2, i
            if meets:
                tag[CRASHED, i] = tag[CRASHED, j] = 1


@pytest.mark.parametrize("ego_only", [False, True])
def test_all_collisions_are_those_of_all_pairs_in_order(ego_only: bool) -> None:
    rng = np.random.default_rng(6)
    wrecks = pushes = crowded = 0
    for _ in range(400):
        places = zip(rng.uniform(0, 30, 8), rng.uniform(-1, 13, 8), rng.uniform(-30, 45, 8))
        car, tag = road(*places, heading=dict(enumerate(rng.normal(0, 0.5, 8).tolist())))
        plain_car, plain_tag = car.copy(), tag.copy()
        collision.collide_all(car, tag, DT, ego_only, np.zeros((4, 4)))
        collide_plainly(plain_car, plain_tag, DT, ego_only, np.zeros((4, 4)))
        assert np.array_equal(car, plain_car)
        assert np.array_equal(tag, plain_tag)
        wrecks, pushes = wrecks + tag[CRASHED].sum(), pushes + (tag[PARTNER] >= 0).sum()
        crowded += (tag[PARTNER] >= 0).sum() > 4
    assert wrecks > 300
    assert pushes > wrecks
    assert ego_only or crowded > 100


# What the ego sees


def rules(**config):
    return settings.rules_of(settings.complete(config))


def test_features_in_the_worlds_coordinates() -> None:
    car, tag = road((100, 5, 20), heading={0: 0.3})
    values = [observation.feature(car, tag, 0, code) for code in range(len(observation.FEATURES))]
    vx, vy = 20 * math.cos(0.3), 20 * math.sin(0.3)
    expected = [1, 100, 5, vx, vy, 0.3, math.cos(0.3), math.sin(0.3), 0, 0, 100, 1, 0.3]
    assert values == pytest.approx(expected, abs=1e-12)
    car[HEADING, 0] = 7.0
    assert observation.feature(car, tag, 0, 5) == 7.0
    assert observation.feature(car, tag, 0, 12) == pytest.approx(7.0 - 2 * math.pi)


def visible(cars, room: int, in_order: bool = True, see_behind: bool = False) -> list[int]:
    seen = np.full(room, -1, np.int64)
    count = observation.find_visible(road((1000, 4, 25), *cars)[0], seen, in_order, see_behind)
    return seen[:count].tolist()


def test_the_nearest_along_the_road_are_seen() -> None:
    cars = [(1150, 4, 20), (1030, 12, 20), (1020, 4, 20), (991, 0, 20), (1100, 8, 20)]
    assert visible(cars, 4) == [4, 3, 2, 5]
    assert visible(cars, 2) == [4, 3]
    assert visible(cars, 9) == [4, 3, 2, 5, 1]
    assert visible(cars, 0) == []
    assert visible([], 3) == []


def test_only_the_way_along_the_road_orders_them() -> None:
    assert visible([(1010, 4, 20), (1009, 40, 20)], 2) == [2, 1]


def test_of_equally_near_ones_the_first_comes_first() -> None:
    assert visible([(1030, 0, 20), (1030, 8, 20), (1020, 4, 20), (1030, 4, 20)], 4) == [3, 1, 2, 4]
    assert visible([(1030, 0, 20), (1030, 8, 20), (1030, 4, 20)], 2) == [1, 2]
    assert visible([(1005, 0, 20), (995, 8, 20)], 2) == [1, 2]


def test_limits_of_sight() -> None:
    assert visible([(1200, 4, 20), (1199.9, 4, 20)], 5) == [2]  # strictly less than 200 m
    assert visible([(1160, 4 + 119.9, 20), (1160, 4 + 120, 20)], 5) == [1]  # in a circle
    assert visible([(990, 4, 20), (990.1, 4, 20)], 5) == [2]  # strictly less than 10 m behind
    assert visible([(990, 4, 20), (801, 4, 20), (800, 4, 20)], 5, see_behind=True) == [1, 2]


def test_out_of_order_the_first_of_the_list_are_seen() -> None:
    cars = [(1150, 4, 20), (900, 4, 20), (1020, 4, 20), (991, 0, 20)]
    assert visible(cars, 2, in_order=False) == [1, 3]
    assert visible(cars, 9, in_order=False) == [1, 3, 4]


@pytest.mark.parametrize(
    ("value", "clipped", "expected"),
    [(0.0, True, 0.0), (100.0, True, 0.5), (250.0, True, 1.0), (250.0, False, 1.25), (-300.0, True, -1.0)],
)
def test_scaling(value: float, clipped: bool, expected: float) -> None:
    assert observation.scaled(value, -200.0, 200.0, clipped) == expected


def see(car, tag, rows: int, **observed) -> np.ndarray:
    """What `observe` writes."""
    chosen = rules(observation={"type": "Kinematics", "vehicles_count": rows, **observed})
    obs = np.full((rows, len(chosen.features)), 7, np.float32)
    stream = pack(np.random.PCG64(0).state)
    observation.observe(car, tag, stream, np.zeros(rows - 1, np.int64), obs, chosen)
    return obs


def test_an_observation() -> None:
    car, tag = road((150, 4, 25), (170, 8, 20), (190, 4, 22), heading={1: 0.1})
    expected = np.array(
        [
            [1, 150 / 200, 4 / 16, 25 / 80, 0],
            [1, 20 / 200, 4 / 16, (20 * math.cos(0.1) - 25) / 80, 20 * math.sin(0.1) / 80],
            [1, 40 / 200, 0, -3 / 80, 0],
            [0, 0, 0, 0, 0],
        ]
    )
    assert see(car, tag, 4) == pytest.approx(expected, abs=1e-7)
    assert see(car, tag, 2) == pytest.approx(expected[:2], abs=1e-7)
    assert see(car, tag, 1) == pytest.approx(expected[:1], abs=1e-7)
    raw = see(car, tag, 3, absolute=True, normalize=False, features=["x", "heading", "vx", "presence"])
    assert raw == pytest.approx(
        np.array([[150, 0, 25, 1], [170, 0.1, 20 * math.cos(0.1), 1], [190, 0, 22, 1]]), rel=1e-6
    )


def test_the_egos_place_saturates_unless_it_is_not_clipped() -> None:
    car, tag = road((300, 4, 25))
    assert see(car, tag, 2)[0, 1] == 1.0
    assert see(car, tag, 2, clip=False)[0, 1] == 1.5


def test_shuffled_rows_are_the_same_rows() -> None:
    car, tag = road((150, 4, 25), *[(160 + 5 * i, 4, 20) for i in range(6)])
    plain, mixed = see(car, tag, 9), see(car, tag, 9, order="shuffled")
    assert np.array_equal(plain[0], mixed[0])
    assert not np.array_equal(plain, mixed)
    assert sorted(plain.tolist()) == sorted(mixed.tolist())
    np.random.default_rng(0).shuffle(plain[1:])
    assert np.array_equal(plain, mixed)


# Rewards


@pytest.mark.parametrize(
    ("speed", "heading", "expected"),
    [
        (25.0, 0.0, 0.5),
        (20.0, 0.0, 0.0),
        (18.0, 0.0, 0.0),
        (30.0, 0.0, 1.0),
        (37.0, 0.0, 1.0),
        (50.0, math.pi / 3, 0.5),  # only what goes forward counts
        (-25.0, math.pi, 0.5),
    ],
)
def test_the_speed_term(speed: float, heading: float, expected: float) -> None:
    car, tag = road((100, 8, speed), heading={0: heading})
    terms = np.zeros(4)
    observation.reward_terms(car, tag, 4, 20.0, 30.0, False, terms)
    assert terms == pytest.approx([0, 2 / 3, expected, 1])


def test_the_other_terms() -> None:
    terms = np.zeros(4)
    car, tag = road((100, 14.1, 20))
    tag[TARGET_LANE, 0], tag[CRASHED, 0] = 1, 1
    observation.reward_terms(car, tag, 4, 20.0, 30.0, False, terms)
    assert terms.tolist() == [1, 1, 0, 0]  # 2.1 m beside the last lane is off the road
    car[Y, 0] = 14.0
    observation.reward_terms(car, tag, 4, 20.0, 30.0, True, terms)
    assert terms == pytest.approx([1, 1 / 3, 0, 1])  # with meta-actions the lane aimed at counts
    tag[LANE, 0] = 0
    car[Y, 0] = 0
    observation.reward_terms(car, tag, 1, 20.0, 30.0, False, terms)
    assert terms.tolist() == [1, 0, 0, 1]  # one lane is no right lane


@pytest.mark.parametrize(
    ("terms", "normalised", "off_road_pays", "expected"),
    [
        ((0, 1, 0.5, 1), False, False, 0.1 + 0.2),
        ((1, 1, 0.5, 1), False, False, -1 + 0.1 + 0.2),
        ((0, 1, 0.5, 1), True, False, 1.3 / 1.5),
        ((0, 1, 1, 1), True, False, 1.0),
        ((1, 0, 0, 1), True, False, 0.0),
        ((0, 1, 1, 0), True, False, 0.0),
        ((0, 1, 1, 0), False, True, 0.5),
    ],
)
def test_the_reward(terms, normalised: bool, off_road_pays: bool, expected: float) -> None:
    weights = np.array([-1.0, 0.1, 0.4])
    assert observation.reward(np.array(terms, float), weights, normalised, off_road_pays) == pytest.approx(
        expected
    )


# The beginning of an episode


def test_usual_distance() -> None:
    assert reset.usual_distance(2.0, 25.0, math.exp(-0.5)) == pytest.approx(74 * math.exp(-0.5), rel=1e-14)


def test_a_car_is_placed_clean() -> None:
    car, tag = np.full((len(CAR_FIELDS), 2), 9.0), np.full((len(TAG_FIELDS), 2), 9, np.int32)
    reset.place(car, tag, 1, 123.0, 2, 24.0)
    expected = {"x": 123, "y": 8, "speed": 24, "cos": 1, "target_speed": 24}
    assert car[:, 1].tolist() == [expected.get(name, 0) for name in CAR_FIELDS]
    expected = {"lane": 2, "target_lane": 2, "partner": -1, "order": 1, "rank": 1}
    assert tag[:, 1].tolist() == [expected.get(name, 0) for name in TAG_FIELDS]
    assert (car[:, 0] == 9).all()


@pytest.mark.parametrize(("lanes", "initial"), [(4, -1), (4, 2), (1, -1), (3, 0)])
def test_draws_in_highway_envs_order(lanes: int, initial: int) -> None:
    car, tag = np.zeros((len(CAR_FIELDS), 4)), np.zeros((len(TAG_FIELDS), 4), np.int32)
    stream, rng = pack(np.random.PCG64(11).state), np.random.Generator(np.random.PCG64(11))
    crowding = math.exp(-lanes / 8)
    for _ in range(100):  # often enough that even the last bit of 1.1 - 0.9 shows
        reset.draw_ego(stream, car, tag, lanes, initial, 2.0, crowding, 7.0)
        lane = rng.choice(lanes) if initial < 0 else initial
        offset = 2 * 37 * crowding
        x = 3 * offset + offset * rng.uniform(0.9, 1.1)
        assert car[[X, Y, SPEED, TARGET_SPEED], 0].tolist() == [x, 4 * lane, 25, 7]  # every bit
        for i in range(1, 4):
            reset.draw_traffic(stream, car, tag, i, lanes, 0.5, crowding)
            lane, speed = rng.choice(lanes), rng.uniform(21, 24)
            x += 0.5 * (12 + speed) * crowding * rng.uniform(0.9, 1.1)
            timer, exponent = (x + 4 * lane) * math.pi % 1, rng.uniform(3.5, 4.5)
            expected = [x, 4 * lane, speed, speed, exponent, timer]
            assert car[[X, Y, SPEED, TARGET_SPEED, EXPONENT, TIMER], i].tolist() == expected
            assert tag[[LANE, TARGET_LANE], i].tolist() == [lane, lane]


# Meta-actions


@pytest.mark.parametrize(
    ("speed", "index"),
    [
        (19, 0),
        (22.4, 0),
        (22.6, 1),
        (22.5, 0),
        (27.5, 2),
        (28, 2),
        (99, 2),
        (-9, 0),
    ],  # halves go to the even one
)
def test_nearest_target_speed(speed: float, index: int) -> None:
    assert worlds.nearest_speed(float(speed), np.array([20.0, 25.0, 30.0])) == index


@pytest.mark.parametrize(
    ("command", "speed", "target_speed"),
    [
        (worlds.FASTER, 25.0, 30.0),
        (worlds.FASTER, 29.0, 30.0),
        (worlds.SLOWER, 25.0, 20.0),
        (worlds.SLOWER, 3.0, 20.0),
        (worlds.FASTER, 3.0, 25.0),
        (worlds.IDLE, 3.0, 26.0),
    ],
)
def test_commands_about_speed(command: int, speed: float, target_speed: float) -> None:
    car, tag = road((100, 4, speed))
    car[TARGET_SPEED, 0] = 26.0
    worlds.obey(car, tag, command, 4, np.array([20.0, 25.0, 30.0]))
    assert car[TARGET_SPEED, 0] == target_speed
    assert tag[TARGET_LANE, 0] == 1


@pytest.mark.parametrize(
    ("command", "y", "target", "new"),
    [
        (worlds.LANE_RIGHT, 4, 1, 2),
        (worlds.LANE_LEFT, 4, 1, 0),
        (worlds.LANE_LEFT, 0, 0, 0),
        (worlds.LANE_RIGHT, 12, 3, 3),
        (worlds.LANE_RIGHT, 0, 1, 2),  # from where it aims at, not from where it is
        (worlds.LANE_RIGHT, 0, 2, 2),  # 12 m is too far
        (worlds.IDLE, 4, 3, 3),
    ],
)
def test_commands_about_lanes(command: int, y: float, target: int, new: int) -> None:
    car, tag = road((100, y, 25))
    tag[TARGET_LANE, 0] = target
    worlds.obey(car, tag, command, 4, np.array([20.0, 25.0, 30.0]))
    assert tag[TARGET_LANE, 0] == new
    assert car[TARGET_SPEED, 0] == 25.0
