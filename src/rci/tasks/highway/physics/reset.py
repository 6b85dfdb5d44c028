"""Where everybody is when an episode begins, drawn from the world's stream in highway-env's order."""

from __future__ import annotations

import math

from rci.tasks.highway.physics.compiled import equation
from rci.tasks.highway.physics.layout import (
    ACCELERATION,
    COS,
    CRASHED,
    EXPONENT,
    HEADING,
    IMPACT_X,
    IMPACT_Y,
    LANE,
    LANE_WIDTH,
    ORDER,
    PARTNER,
    RANK,
    SIN,
    SPEED,
    SPEED_LIMIT,
    STEERING,
    TARGET_LANE,
    TARGET_SPEED,
    TIMER,
    X,
    Y,
)
from rci.tasks.highway.physics.pcg64 import choice, uniform
from rci.tasks.highway.physics.traffic import LANE_CHANGE_DELAY

EGO_SPEED = 25.0  # m/s
SLOWEST_TRAFFIC = 0.7 * SPEED_LIMIT  # m/s
TRAFFIC_SPEED_WIDTH = 0.8 * SPEED_LIMIT - SLOWEST_TRAFFIC
LEAST_SPREAD, SPREAD_WIDTH = 0.9, 1.1 - 0.9  # of the distance to the car behind
LEAST_EXPONENT, EXPONENT_WIDTH = 3.5, 4.5 - 3.5
FREE_ROAD_BEHIND_EGO = 3  # times its distance to the car ahead


@equation
def usual_distance(spacing, speed, crowding):
    """How far apart two cars start: spacing * (12 m + 1 s * speed) * exp(-lanes / 8)."""
    return spacing * (12 + 1.0 * speed) * crowding


@equation
def place(car, tag, i, x, lane, speed):
    """Put car i on the centre line of a lane, going straight."""
    car[X, i], car[Y, i] = x, LANE_WIDTH * lane
    car[HEADING, i], car[COS, i], car[SIN, i] = 0.0, 1.0, 0.0
    car[SPEED, i] = car[TARGET_SPEED, i] = speed
    car[STEERING, i] = car[ACCELERATION, i] = 0.0
    car[IMPACT_X, i] = car[IMPACT_Y, i] = car[TIMER, i] = car[EXPONENT, i] = 0.0
    tag[LANE, i] = tag[TARGET_LANE, i] = lane
    tag[CRASHED, i], tag[PARTNER, i] = 0, -1
    tag[ORDER, i] = tag[RANK, i] = i  # every car starts ahead of those before it


@equation
def draw_ego(stream, car, tag, lanes, initial_lane, spacing, crowding, target_speed):
    """The ego comes first and has free road behind it. initial_lane: -1 for any."""
    lane = choice(stream, lanes) if initial_lane < 0 else initial_lane
    offset = usual_distance(spacing, EGO_SPEED, crowding)
    x = FREE_ROAD_BEHIND_EGO * offset + offset * uniform(stream, LEAST_SPREAD, SPREAD_WIDTH)
    place(car, tag, 0, x, lane, EGO_SPEED)
    car[TARGET_SPEED, 0] = target_speed


@equation
def draw_traffic(stream, car, tag, i, lanes, spacing, crowding):
    """Car i starts ahead of all before it; its lane, speed, distance and temper are drawn."""
    lane = choice(stream, lanes)
    speed = uniform(stream, SLOWEST_TRAFFIC, TRAFFIC_SPEED_WIDTH)
    offset = usual_distance(spacing, speed, crowding)
    x = car[X, i - 1] + offset * uniform(stream, LEAST_SPREAD, SPREAD_WIDTH)
    place(car, tag, i, x, lane, speed)
    car[TIMER, i] = ((x + car[Y, i]) * math.pi) % LANE_CHANGE_DELAY
    car[EXPONENT, i] = uniform(stream, LEAST_EXPONENT, EXPONENT_WIDTH)
