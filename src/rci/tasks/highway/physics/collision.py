"""Collisions: the separating-axis test on moving rectangles, and who is looked at at all.

A pair is (i, j) with i < j. "Meets now" and "will meet within a frame" are two questions: the second gives both
cars a push, which wrecks them in the next frame; the first wrecks them at once.
"""

from __future__ import annotations

import math

import numpy as np

from rci.tasks.highway.physics.compiled import equation
from rci.tasks.highway.physics.layout import (
    CAR_LENGTH,
    CAR_WIDTH,
    COS,
    CRASHED,
    IMPACT_X,
    IMPACT_Y,
    ORDER,
    PARTNER,
    SIN,
    SPEED,
    X,
    Y,
)

DIAGONAL = math.sqrt(CAR_LENGTH**2 + CAR_WIDTH**2)  # m; also the sum of two cars' half diagonals
CORNER_X = np.array([-CAR_LENGTH / 2, -CAR_LENGTH / 2, CAR_LENGTH / 2, CAR_LENGTH / 2])  # m, from the centre
CORNER_Y = np.array([-CAR_WIDTH / 2, CAR_WIDTH / 2, CAR_WIDTH / 2, -CAR_WIDTH / 2])
SURE = 1e-6  # m; farther apart than this, rounding cannot make two cars meet


@equation
def write_corners(car, i, box, row):
    """The corners of car i in the world: x in a row of `box`, y in the next."""
    for k in range(4):
        box[row, k] = car[COS, i] * CORNER_X[k] + -car[SIN, i] * CORNER_Y[k] + car[X, i]
        box[row + 1, k] = car[SIN, i] * CORNER_X[k] + car[COS, i] * CORNER_Y[k] + car[Y, i]


@equation
def projection(box, row, axis_x, axis_y):
    """The interval that the rectangle in two rows of `box` covers on an axis."""
    low = high = box[row, 0] * axis_x + box[row + 1, 0] * axis_y
    for k in range(1, 4):
        along = box[row, k] * axis_x + box[row + 1, k] * axis_y
        low = min(low, along)
        high = max(high, along)
    return low, high


@equation
def gap(low_a, high_a, low_b, high_b):
    """Distance of two intervals, negative where they overlap; not the shorter way out where one contains the other."""
    return low_b - high_a if low_a < low_b else low_a - high_b


@equation
def centre(box, row):
    """Mean of four corners, summed in order."""
    return (box[row, 0] + box[row, 1] + box[row, 2] + box[row, 3]) / 4


@equation
def surely_apart(car, i, j, dt):
    """A cheap proof that cars i and j neither meet nor will: far apart on one of the axes of car i.

    Both axes are among those that the full test looks at, so it would say the same.
    """
    c, s = car[COS, i], car[SIN, i]
    away_x, away_y = car[X, j] - car[X, i], car[Y, j] - car[Y, i]
    turn_cos = abs(c * car[COS, j] + s * car[SIN, j])
    turn_sin = abs(c * car[SIN, j] - s * car[COS, j])
    moved_x = (car[SPEED, i] * c - car[SPEED, j] * car[COS, j]) * dt
    moved_y = (car[SPEED, i] * s - car[SPEED, j] * car[SIN, j]) * dt
    across = abs(away_y * c - away_x * s) - abs(moved_y * c - moved_x * s)
    if across > CAR_WIDTH / 2 + (CAR_LENGTH * turn_sin + CAR_WIDTH * turn_cos) / 2 + SURE:
        return True
    along = abs(away_x * c + away_y * s) - abs(moved_x * c + moved_y * s)
    return along > CAR_LENGTH / 2 + (CAR_LENGTH * turn_cos + CAR_WIDTH * turn_sin) / 2 + SURE


@equation
def separating_axes(car, i, j, dt, box):
    """Whether cars i and j meet now, whether they will within dt, and the push (x, y) that parts them.

    box: room for the corners, [4, 4].
    """
    write_corners(car, i, box, 0)
    write_corners(car, j, box, 2)
    moved_x = car[SPEED, i] * car[COS, i] * dt - car[SPEED, j] * car[COS, j] * dt
    moved_y = car[SPEED, i] * car[SIN, i] * dt - car[SPEED, j] * car[SIN, j] * dt
    meets, will_meet = True, True
    least, push_x, push_y = math.inf, 0.0, 0.0
    for shape in (0, 2):
        for k in range(4):
            nxt = (k + 1) % 4
            normal_x = -box[shape + 1, nxt] + box[shape + 1, k]
            normal_y = box[shape, nxt] - box[shape, k]
            length = math.sqrt(normal_x * normal_x + normal_y * normal_y)
            normal_x, normal_y = normal_x / length, normal_y / length
            low_i, high_i = projection(box, 0, normal_x, normal_y)
            low_j, high_j = projection(box, 2, normal_x, normal_y)
            if gap(low_i, high_i, low_j, high_j) > 0:
                meets = False
            moved = normal_x * moved_x + normal_y * moved_y
            if moved < 0:
                low_i += moved
            else:
                high_i += moved
            distance = gap(low_i, high_i, low_j, high_j)
            if distance > 0:
                will_meet = False
            if not meets and not will_meet:
                return False, False, 0.0, 0.0
            if abs(distance) < least:
                least = abs(distance)
                apart_x = centre(box, 0) - centre(box, 2)
                apart_y = centre(box, 1) - centre(box, 3)
                outwards = apart_x * normal_x + apart_y * normal_y > 0
                push_x = normal_x if outwards else -normal_x
                push_y = normal_y if outwards else -normal_y
    return meets, will_meet, least * push_x, least * push_y


@equation
def push(car, tag, i, partner, x, y):
    """Note a push. Pairs are taken in order and a later one overwrites: the partner of highest index counts."""
    if partner > tag[PARTNER, i]:
        tag[PARTNER, i] = partner
        car[IMPACT_X, i] = x
        car[IMPACT_Y, i] = y


@equation
def collide(car, tag, i, j, dt, box):
    """What happens between cars i < j in this frame."""
    away_x, away_y = car[X, j] - car[X, i], car[Y, j] - car[Y, i]
    if math.sqrt(away_x * away_x + away_y * away_y) > DIAGONAL + car[SPEED, i] * dt:
        return
    if surely_apart(car, i, j, dt):
        return
    meets, will_meet, x, y = separating_axes(car, i, j, dt, box)
    if will_meet:
        push(car, tag, i, j, x / 2, y / 2)
        push(car, tag, j, i, -x / 2, -y / 2)
    if meets:
        tag[CRASHED, i] = 1
        tag[CRASHED, j] = 1


@equation
def collide_all(car, tag, dt, ego_only, box):
    """Look at all pairs that may touch. `tag[ORDER]` must be sorted: cars farther apart along the road are skipped."""
    cars = tag.shape[1]
    fastest = 0.0
    for i in range(cars):
        fastest = max(fastest, car[SPEED, i])
    reach = DIAGONAL + fastest * dt
    for place in range(cars):
        i = tag[ORDER, place]
        for ahead in range(place + 1, cars):
            j = tag[ORDER, ahead]
            if car[X, j] - car[X, i] > reach:
                break
            if ego_only and i != 0 and j != 0:
                continue
            collide(car, tag, min(i, j), max(i, j), dt, box)
