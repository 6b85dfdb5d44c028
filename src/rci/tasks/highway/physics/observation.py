"""What the ego sees and what it earns."""

from __future__ import annotations

import math

from rci.tasks.highway.physics.compiled import equation
from rci.tasks.highway.physics.layout import (
    COS,
    CRASHED,
    HEADING,
    LANE,
    LANE_WIDTH,
    PERCEPTION,
    REAR_VIEW,
    SIN,
    SPEED,
    TARGET_LANE,
    X,
    Y,
)
from rci.tasks.highway.physics.pcg64 import interval
from rci.tasks.highway.physics.traffic import clip, on_lane, wrap

# Features of the Kinematics observation, as highway-env names them. Nobody has a route: the directions of
# destinations are 0, as there.
FEATURES = (
    "presence", "x", "y", "vx", "vy", "heading", "cos_h", "sin_h", "cos_d", "sin_d", "long_off", "lat_off", "ang_off",
)  # fmt: skip


@equation
def feature(car, tag, i, code):
    """Feature number `code` of car i, in the world's coordinates."""
    if code == 0:
        return 1.0
    if code == 1 or code == 10:
        return car[X, i]
    if code == 2:
        return car[Y, i]
    if code == 3:
        return car[SPEED, i] * car[COS, i]
    if code == 4:
        return car[SPEED, i] * car[SIN, i]
    if code == 5:
        return car[HEADING, i]
    if code == 6:
        return car[COS, i]
    if code == 7:
        return car[SIN, i]
    if code == 11:
        return car[Y, i] - LANE_WIDTH * tag[LANE, i]
    if code == 12:
        return wrap(car[HEADING, i])
    return 0.0


@equation
def find_visible(car, seen, in_order, see_behind):
    """Indices of the cars that fill `seen`, and how many: the nearest along the road, or the first of the list."""
    count = 0
    for i in range(1, car.shape[1]):
        ahead, aside = car[X, i] - car[X, 0], car[Y, i] - car[Y, 0]
        if not math.sqrt(ahead * ahead + aside * aside) < PERCEPTION or not (
            see_behind or ahead > -REAR_VIEW
        ):
            continue
        hole = count
        if in_order:
            while hole > 0 and abs(car[X, seen[hole - 1]] - car[X, 0]) > abs(ahead):
                hole -= 1
        if hole == len(seen):
            continue
        count = min(count + 1, len(seen))
        for k in range(count - 1, hole, -1):
            seen[k] = seen[k - 1]
        seen[hole] = i
    return count


@equation
def scaled(value, low, high, clipped):
    """[low, high] -> [-1, 1]."""
    value = -1 + (value - low) * 2 / (high - low)
    return clip(value, -1.0, 1.0) if clipped else value


@equation
def observe(car, tag, stream, seen, obs, rules):
    """The Kinematics observation: a row for the ego, in the world's coordinates, and one for each visible car."""
    count = find_visible(car, seen, not rules.shuffled, rules.see_behind)
    for row in range(obs.shape[0]):
        if row > count:
            obs[row] = 0.0
            continue
        i = 0 if row == 0 else seen[row - 1]
        for column in range(obs.shape[1]):
            code = rules.features[column]
            value = feature(car, tag, i, code)
            if row > 0 and not rules.absolute and 1 <= code <= 4:
                value -= feature(car, tag, 0, code)
            if rules.has_range[column]:
                value = scaled(value, rules.low[column], rules.high[column], rules.clipped)
            obs[row, column] = value
    if rules.shuffled:
        shuffle_rows(stream, obs)


@equation
def shuffle_rows(stream, obs):
    """`Generator.shuffle(obs[1:])`."""
    for last in range(obs.shape[0] - 2, 0, -1):
        other = interval(stream, last)
        for column in range(obs.shape[1]):
            held = obs[1 + last, column]
            obs[1 + last, column] = obs[1 + other, column]
            obs[1 + other, column] = held


@equation
def reward_terms(car, tag, lanes, slow, fast, meta, terms):
    """Collision, right lane, speed, on the road: each in [0, 1]."""
    lane = tag[TARGET_LANE, 0] if meta else tag[LANE, 0]
    forward = car[SPEED, 0] * car[COS, 0]
    terms[0] = float(tag[CRASHED, 0])
    terms[1] = lane / max(lanes - 1, 1)
    terms[2] = clip(0 + (forward - slow) * 1 / (fast - slow), 0.0, 1.0)
    terms[3] = 1.0 if on_lane(car, 0, tag[LANE, 0], LANE_WIDTH / 2) else 0.0


@equation
def reward(terms, weights, normalised, off_road_pays):
    """The weighted sum of the first three terms, perhaps mapped to [0, 1]; as a rule nothing off the road."""
    total = 0 + weights[0] * terms[0] + weights[1] * terms[1] + weights[2] * terms[2]
    if normalised:
        total = 0 + (total - weights[0]) * 1 / ((weights[2] + weights[1]) - weights[0])
    return total if off_road_pays else total * terms[3]
