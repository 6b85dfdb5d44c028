"""How cars move and how traffic decides: kinematics, lane keeping, IDM and MOBIL, one function per equation.

Every expression keeps the order of operations of highway-env 1.12, because floating-point sums depend on it and the
simulator is bitwise equal to the original. Speeds in m/s, lengths in m, angles in rad, accelerations in m/s2.
Models: IDM (Treiber, Hennecke, Helbing 2000), MOBIL (Kesting, Treiber, Helbing 2007), kinematic bicycle model
(Polack et al. 2017).
"""

from __future__ import annotations

import math

import numpy as np

from rci.tasks.highway.physics.compiled import equation
from rci.tasks.highway.physics.layout import (
    ACCELERATION,
    CAR_LENGTH,
    COS,
    CRASHED,
    EXPONENT,
    HEADING,
    IMPACT_X,
    IMPACT_Y,
    LANE,
    LANE_WIDTH,
    MAX_SPEED,
    ORDER,
    PARTNER,
    RANK,
    ROAD_LENGTH,
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

COMFORT_ACCELERATION = 3.0  # m/s2
COMFORT_BRAKING = -5.0  # m/s2
HARDEST_ACCELERATION = 6.0  # m/s2, either way
JAM_DISTANCE = 5.0 + CAR_LENGTH  # m, from centre to centre
TIME_GAP = 1.5  # s
LEAST_GAIN = 0.2  # m/s2 that a lane change must bring
MOST_IMPOSED_BRAKING = 2.0  # m/s2 that it may ask of the car behind
LANE_CHANGE_DELAY = 1.0  # s between two thoughts about changing lanes
LEAST_SPEED_TO_CHANGE = 1.0  # m/s
SPEED_GAIN = 1 / 0.6  # 1/s
HEADING_GAIN = 1 / 0.2  # 1/s
LATERAL_GAIN = 1 / 0.6  # 1/s
LARGEST_HEADING = math.pi / 4  # rad, that a lane change steers to
LARGEST_STEERING = math.pi / 3  # rad
SMALL = 1e-2  # divisors are kept this far from 0
TWO_PI = 2 * math.pi
BRAKING_SCALE = 2 * math.sqrt(-COMFORT_ACCELERATION * COMFORT_BRAKING)  # m/s2
LANE_MARGIN = LANE_WIDTH / 2 + 1.0  # m; a car between two lanes is a neighbour on both


@equation
def clip(value, low, high):
    """The nearest number in [low, high]."""
    return min(max(value, low), high)


@equation
def not_zero(value):
    """The value, kept away from 0; 0 itself counts as positive."""
    if abs(value) > SMALL:
        return value
    return SMALL if value >= 0 else -SMALL


@equation
def wrap(angle):
    """An angle in [-pi, pi)."""
    turned = angle + math.pi
    if not 0.0 <= turned < TWO_PI:
        turned = turned % TWO_PI
    return turned - math.pi


# Longitudinal: the intelligent driver model


@equation
def free_road(speed, target_speed, exponent):
    """IDM's acceleration with nobody ahead: a (1 - (v / v0)^delta)."""
    share = max(speed, 0.0) / abs(not_zero(clip(target_speed, 0.0, SPEED_LIMIT)))
    if share == 1.0:
        return 0.0  # what the formula gives; cars that nobody holds up drive just as fast as they want
    return COMFORT_ACCELERATION * (1 - math.pow(share, exponent))


@equation
def approach_speed(car, i, j):
    """How fast car i closes up on car j, along the heading of i."""
    across_x = car[SPEED, i] * car[COS, i] - car[SPEED, j] * car[COS, j]
    across_y = car[SPEED, i] * car[SIN, i] - car[SPEED, j] * car[SIN, j]
    return across_x * car[COS, i] + across_y * car[SIN, i]


@equation
def desired_gap(speed, approach):
    """IDM's wanted distance to the car ahead: s0 + v T + v dv / (2 sqrt(a b))."""
    return JAM_DISTANCE + speed * TIME_GAP + speed * approach / BRAKING_SCALE


@equation
def idm(car, i, front, exponent):
    """Acceleration of car i behind `front` (-1: nobody), as a driver with this exponent imagines it."""
    acceleration = free_road(car[SPEED, i], car[TARGET_SPEED, i], exponent)
    if front >= 0:
        gap = desired_gap(car[SPEED, i], approach_speed(car, i, front))
        ratio = gap / not_zero(car[X, front] - car[X, i])
        acceleration -= COMFORT_ACCELERATION * (ratio * ratio)
    return acceleration


# Who is where


@equation
def stands_behind(car, i, j):
    """Whether car i comes before car j on the way from back to front; ties by index."""
    return car[X, i] < car[X, j] or (car[X, i] == car[X, j] and i < j)


@equation
def sort_along_road(car, tag):
    """Cars from back to front: an insertion sort, because the order hardly changes in a frame."""
    for place in range(1, tag.shape[1]):
        i = tag[ORDER, place]
        hole = place
        while hole > 0 and stands_behind(car, i, tag[ORDER, hole - 1]):
            tag[ORDER, hole] = tag[ORDER, hole - 1]
            hole -= 1
        tag[ORDER, hole] = i
    for place in range(tag.shape[1]):
        tag[RANK, tag[ORDER, place]] = place


@equation
def on_lane(car, i, lane, margin):
    """Whether a car's centre is within `margin` of a lane's centre line, and on the road's length."""
    x = car[X, i]
    return abs(car[Y, i] - LANE_WIDTH * lane) <= margin and x >= -CAR_LENGTH and x < ROAD_LENGTH + CAR_LENGTH


@equation
def car_ahead(car, tag, i, lane):
    """The nearest car on a lane that is level with car i or ahead, -1 for none; of equals the last one."""
    place, found = tag[RANK, i], -1
    while place > 0 and car[X, tag[ORDER, place - 1]] == car[X, i]:
        place -= 1
    while place < tag.shape[1]:
        other = tag[ORDER, place]
        if found >= 0 and car[X, other] != car[X, found]:
            break
        if other != i and on_lane(car, other, lane, LANE_MARGIN):
            found = other
        place += 1
    return found


@equation
def car_behind(car, tag, i, lane):
    """The nearest car on a lane strictly behind car i, -1 for none; of equals the first one."""
    place, found = tag[RANK, i] - 1, -1
    while place >= 0:
        other = tag[ORDER, place]
        if found >= 0 and car[X, other] != car[X, found]:
            break
        if car[X, other] < car[X, i] and on_lane(car, other, lane, LANE_MARGIN):
            found = other
        place -= 1
    return found


@equation
def nearest_lane(x, y, heading, lanes):
    """The lane with the least |lateral| + what the car is beyond the road's ends + |heading|; the first of equals."""
    guess = clip(np.rint(y / LANE_WIDTH), 0.0, lanes - 1.0)
    if abs(abs(y - LANE_WIDTH * guess) - LANE_WIDTH / 2) > 1e-3:
        return np.int64(guess)  # far from a tie, rounding cannot matter
    best, least = 0, math.inf
    angle = abs(wrap(heading))
    for lane in range(lanes):
        distance = abs(y - LANE_WIDTH * lane) + max(x - ROAD_LENGTH, 0.0) + max(0.0 - x, 0.0) + angle
        if distance < least:
            best, least = lane, distance
    return best


@equation
def is_reachable(car, i, lane):
    """Whether a lane is near enough to change to."""
    x = car[X, i]
    return abs(car[Y, i] - LANE_WIDTH * lane) <= 2 * LANE_WIDTH and x >= 0 and x < ROAD_LENGTH + CAR_LENGTH


# Lateral: MOBIL decides, a cascade of two proportional controllers steers


@equation
def mobil_accepts(car, tag, i, lane):
    """Whether changing to `lane` is safe for the car behind there and worth it for car i (politeness 0)."""
    exponent = car[EXPONENT, i]
    follower = car_behind(car, tag, i, lane)
    if follower >= 0 and idm(car, follower, i, exponent) < -MOST_IMPOSED_BRAKING:
        return False
    there = idm(car, i, car_ahead(car, tag, i, lane), exponent)
    here = idm(car, i, car_ahead(car, tag, i, tag[LANE, i]), exponent)
    return not there - here < LEAST_GAIN


@equation
def must_abort(car, tag, i, first_driver):
    """Whether somebody ahead, within the desired gap, is already changing into the lane that car i changes into."""
    target = tag[TARGET_LANE, i]
    for other in range(first_driver, tag.shape[1]):
        if other != i and tag[LANE, other] != target and tag[TARGET_LANE, other] == target:
            distance = car[X, other] - car[X, i]
            if 0 < distance < desired_gap(car[SPEED, i], approach_speed(car, i, other)):
                return True
    return False


@equation
def choose_lane(car, tag, i, lanes, first_driver):
    """Finish, abort or begin a lane change. Of two good lanes the right one wins, because it is tried last."""
    lane = tag[LANE, i]
    if lane != tag[TARGET_LANE, i]:
        if must_abort(car, tag, i, first_driver):
            tag[TARGET_LANE, i] = lane
        return
    if not car[TIMER, i] > LANE_CHANGE_DELAY:
        return
    car[TIMER, i] = 0.0
    for candidate in (lane - 1, lane + 1):
        if (
            0 <= candidate < lanes
            and is_reachable(car, i, candidate)
            and not abs(car[SPEED, i]) < LEAST_SPEED_TO_CHANGE
            and mobil_accepts(car, tag, i, candidate)
        ):
            tag[TARGET_LANE, i] = candidate


@equation
def steering_angle(lateral, heading, speed):
    """Steer to the centre line `lateral` metres away: offset -> lateral speed -> heading -> turn rate -> wheel."""
    if lateral == 0.0 and heading == 0.0:
        return 0.0  # what the formulas give as well
    lateral_speed = -LATERAL_GAIN * lateral
    speed = not_zero(speed)
    wanted_heading = clip(
        math.asin(clip(lateral_speed / speed, -1.0, 1.0)), -LARGEST_HEADING, LARGEST_HEADING
    )
    turn_rate = HEADING_GAIN * wrap(wanted_heading - heading)
    slip = math.asin(clip(CAR_LENGTH / 2 / speed * turn_rate, -1.0, 1.0))
    return clip(math.atan(2 * math.tan(slip)), -LARGEST_STEERING, LARGEST_STEERING)


@equation
def drive(car, tag, i, lanes, first_driver):
    """What the traffic car i does in this frame."""
    choose_lane(car, tag, i, lanes, first_driver)
    lane, target = tag[LANE, i], tag[TARGET_LANE, i]
    car[STEERING, i] = steering_angle(car[Y, i] - LANE_WIDTH * target, car[HEADING, i], car[SPEED, i])
    acceleration = idm(car, i, car_ahead(car, tag, i, lane), car[EXPONENT, i])
    if lane != target:
        acceleration = min(acceleration, idm(car, i, car_ahead(car, tag, i, target), car[EXPONENT, i]))
    car[ACCELERATION, i] = clip(acceleration, -HARDEST_ACCELERATION, HARDEST_ACCELERATION)


@equation
def follow_targets(car, tag, i):
    """What an ego with meta-actions does in this frame: hold its target lane and target speed."""
    lateral = car[Y, i] - LANE_WIDTH * tag[TARGET_LANE, i]
    car[STEERING, i] = steering_angle(lateral, car[HEADING, i], car[SPEED, i])
    car[ACCELERATION, i] = SPEED_GAIN * (car[TARGET_SPEED, i] - car[SPEED, i])


# Motion


@equation
def limit_action(car, tag, i, slowest, fastest):
    """A wreck brakes and does not steer; nobody accelerates beyond the limits. The limited action stays latched."""
    speed = car[SPEED, i]
    if tag[CRASHED, i]:
        car[STEERING, i] = 0.0
        car[ACCELERATION, i] = -1.0 * speed
    if speed > fastest:
        car[ACCELERATION, i] = min(car[ACCELERATION, i], 1.0 * (fastest - speed))
    elif speed < slowest:
        car[ACCELERATION, i] = max(car[ACCELERATION, i], 1.0 * (slowest - speed))


@equation
def move(car, tag, i, dt, lanes, slowest, fastest):
    """One frame of the kinematic bicycle model; a push from the last frame's collision moves the car and wrecks it."""
    limit_action(car, tag, i, slowest, fastest)
    speed, heading = car[SPEED, i], car[HEADING, i]
    if car[STEERING, i] == 0.0:
        slip, turned = 0.0, False
        car[X, i] += speed * car[COS, i] * dt
        car[Y, i] += speed * car[SIN, i] * dt
    else:
        slip, turned = math.atan(1 / 2 * math.tan(car[STEERING, i])), True
        car[X, i] += speed * math.cos(heading + slip) * dt
        car[Y, i] += speed * math.sin(heading + slip) * dt
    if tag[PARTNER, i] >= 0:
        car[X, i] += car[IMPACT_X, i]
        car[Y, i] += car[IMPACT_Y, i]
        tag[CRASHED, i] = 1
        tag[PARTNER, i] = -1
    if turned:
        heading += speed * math.sin(slip) / (CAR_LENGTH / 2) * dt
        car[HEADING, i] = heading
        car[COS, i], car[SIN, i] = math.cos(heading), math.sin(heading)
    car[SPEED, i] = speed + car[ACCELERATION, i] * dt
    tag[LANE, i] = nearest_lane(car[X, i], car[Y, i], heading, lanes)


@equation
def move_all(car, tag, dt, lanes, slowest, fastest):
    """Move the ego within its own limits of speed, and all others within everybody's."""
    move(car, tag, 0, dt, lanes, slowest, fastest)
    for i in range(1, car.shape[1]):
        car[TIMER, i] += dt
        move(car, tag, i, dt, lanes, -MAX_SPEED, MAX_SPEED)
