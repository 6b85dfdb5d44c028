"""The loops over worlds: what Python calls."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rci.data.record import Array
from rci.tasks.highway.physics.collision import collide_all
from rci.tasks.highway.physics.compiled import equation, kernel
from rci.tasks.highway.physics.layout import (
    ACCELERATION,
    CAR_FIELDS,
    COS,
    CRASHED,
    HEADING,
    LANE,
    ORDER,
    REWARD_TERMS,
    SIN,
    SPEED,
    STEERING,
    TAG_FIELDS,
    TARGET_LANE,
    TARGET_SPEED,
    X,
    Y,
)
from rci.tasks.highway.physics.observation import observe, reward, reward_terms
from rci.tasks.highway.physics.pcg64 import STREAM_SIZE
from rci.tasks.highway.physics.reset import draw_ego, draw_traffic
from rci.tasks.highway.physics.traffic import (
    clip,
    drive,
    follow_targets,
    is_reachable,
    move_all,
    nearest_lane,
    sort_along_road,
)

FASTER, SLOWER, LANE_RIGHT, LANE_LEFT, IDLE = 0, 1, 2, 3, 4  # meta-actions


class Worlds(NamedTuple):
    """Everything that changes, for all worlds, and what each step answers."""

    car: Array  # float64 [worlds, car fields, cars]
    tag: Array  # int32 [worlds, tag fields, cars]
    stream: Array  # uint64 [worlds, 6], a PCG64 each
    clock: Array  # float64 [worlds], seconds
    obs: Array  # float32 [worlds, rows, features]
    terms: Array  # float64 [worlds, 4]
    reward: Array  # float64 [worlds]
    terminated: Array  # bool [worlds]
    truncated: Array  # bool [worlds]
    box: Array  # float64 [worlds, 4, 4], room for the corners of two cars
    seen: Array  # int64 [worlds, rows - 1], room for the visible cars


class Rules(NamedTuple):
    """Everything that does not change, as the kernels need it."""

    lanes: int
    frames: int  # simulated per step
    dt: float  # s per frame
    period: float  # s per step
    duration: float  # s
    meta: bool  # the ego follows meta-actions, not throttle and steering
    target_speeds: Array  # m/s, for meta-actions
    slowest: float  # m/s, of the ego
    fastest: float
    ego_only: bool  # only the ego's collisions count
    offroad_terminal: bool
    off_road_pays: bool  # the reward is not 0 off the road
    weights: Array  # of collision, right lane and speed
    slow: float  # m/s, where the speed term begins
    fast: float  # m/s, where it is full
    normalised: bool
    initial_lane: int  # -1: any
    ego_spacing: float
    spacing: float  # of the traffic
    crowding: float  # exp(-lanes / 8)
    features: Array  # codes, int64 [features]
    has_range: Array  # bool [features]
    low: Array  # float64 [features]
    high: Array
    clipped: bool
    absolute: bool
    see_behind: bool
    shuffled: bool


def allocate(worlds: int, cars: int, rows: int, features: int) -> Worlds:
    """Room for everything; nothing is meaningful before a reset."""
    return Worlds(
        car=np.zeros((worlds, len(CAR_FIELDS), cars)),
        tag=np.zeros((worlds, len(TAG_FIELDS), cars), np.int32),
        stream=np.zeros((worlds, STREAM_SIZE), np.uint64),
        clock=np.zeros(worlds),
        obs=np.zeros((worlds, rows, features), np.float32),
        terms=np.zeros((worlds, len(REWARD_TERMS))),
        reward=np.zeros(worlds),
        terminated=np.zeros(worlds, bool),
        truncated=np.zeros(worlds, bool),
        box=np.zeros((worlds, 4, 4)),
        seen=np.zeros((worlds, rows - 1), np.int64),
    )


@equation
def nearest_speed(speed, speeds):
    """Index of the target speed nearest to a speed, of evenly spaced ones."""
    last = len(speeds) - 1
    share = (speed - speeds[0]) / (speeds[last] - speeds[0])
    return int(clip(np.rint(share * last), 0.0, float(last)))


@equation
def obey(car, tag, command, lanes, speeds):
    """Take a meta-action: change the ego's target lane or target speed."""
    if command in (FASTER, SLOWER):
        change = 1 if command == FASTER else -1
        index = nearest_speed(car[SPEED, 0], speeds) + change
        car[TARGET_SPEED, 0] = speeds[min(max(index, 0), len(speeds) - 1)]
    elif command in (LANE_RIGHT, LANE_LEFT):
        side = 1 if command == LANE_RIGHT else -1
        lane = min(max(tag[TARGET_LANE, 0] + side, 0), lanes - 1)
        if is_reachable(car, 0, lane):
            tag[TARGET_LANE, 0] = lane


@equation
def simulate_frame(car, tag, box, rules):
    """Everybody acts in turn, everybody moves, and then pairs collide."""
    if rules.meta:
        follow_targets(car, tag, 0)
    first_driver = 0 if rules.meta else 1
    for i in range(1, car.shape[1]):
        if not tag[CRASHED, i]:
            drive(car, tag, i, rules.lanes, first_driver)
    move_all(car, tag, rules.dt, rules.lanes, rules.slowest, rules.fastest)
    sort_along_road(car, tag)
    collide_all(car, tag, rules.dt, rules.ego_only, box)


@kernel
def step_worlds(worlds, rules, command, live, first, last):
    """One policy step of the worlds first .. last that are live.

    command [worlds, 2]: acceleration in m/s2 and steering in rad, or a meta-action and nothing.
    """
    for w in range(first, last):
        if not live[w]:
            continue
        car, tag = worlds.car[w], worlds.tag[w]
        if rules.meta:
            obey(car, tag, int(command[w, 0]), rules.lanes, rules.target_speeds)
        else:
            car[ACCELERATION, 0], car[STEERING, 0] = command[w, 0], command[w, 1]
        for _ in range(rules.frames):
            simulate_frame(car, tag, worlds.box[w], rules)
        worlds.clock[w] += rules.period
        look(worlds, rules, w)


@equation
def look(worlds, rules, w):
    """Observe world w, and say what its state earns and whether it has ended."""
    car, tag, terms = worlds.car[w], worlds.tag[w], worlds.terms[w]
    observe(car, tag, worlds.stream[w], worlds.seen[w], worlds.obs[w], rules)
    reward_terms(car, tag, rules.lanes, rules.slow, rules.fast, rules.meta, terms)
    worlds.reward[w] = reward(terms, rules.weights, rules.normalised, rules.off_road_pays)
    worlds.terminated[w] = tag[CRASHED, 0] != 0 or (rules.offroad_terminal and terms[3] == 0.0)
    worlds.truncated[w] = worlds.clock[w] >= rules.duration


@kernel
def reset_worlds(worlds, rules, index):
    """Begin new episodes in the worlds `index`, each from where its stream stands."""
    for w in index:
        car, tag, stream = worlds.car[w], worlds.tag[w], worlds.stream[w]
        target = rules.target_speeds[nearest_speed(25.0, rules.target_speeds)] if rules.meta else 0.0
        draw_ego(stream, car, tag, rules.lanes, rules.initial_lane, rules.ego_spacing, rules.crowding, target)
        for i in range(1, car.shape[1]):
            draw_traffic(stream, car, tag, i, rules.lanes, rules.spacing, rules.crowding)
        worlds.clock[w] = 0.0
        look(worlds, rules, w)


@kernel
def restore_worlds(worlds, rules):
    """Work out anew what follows from places and headings: directions, lanes, the order along the road."""
    for w in range(len(worlds.clock)):
        car, tag = worlds.car[w], worlds.tag[w]
        for i in range(car.shape[1]):
            heading = car[HEADING, i]
            car[COS, i], car[SIN, i] = math.cos(heading), math.sin(heading)
            tag[LANE, i] = nearest_lane(car[X, i], car[Y, i], heading, rules.lanes)
            tag[ORDER, i] = i
        sort_along_road(car, tag)
        look(worlds, rules, w)
