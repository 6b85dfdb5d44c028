"""A picture of one world, rasterised from the arrays: no window, no font, no graphics library."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rci.data.record import Array
from rci.tasks.highway.physics.layout import CAR_LENGTH, CAR_WIDTH, COS, LANE_WIDTH, SIN, X, Y

GRASS, ASPHALT, LINE = (224, 231, 216), (108, 110, 116), (238, 238, 238)
EGO, CAR, WRECK, GLASS = (0, 158, 115), (86, 180, 233), (213, 94, 0), (30, 34, 40)
STRIPE, STRIPE_PERIOD = 3.0, 9.0  # m
LINE_WIDTH = 0.25  # m


def draw_frame(car: Array, crashed: Array, config: Mapping[str, Any]) -> Array:
    """The world around its ego as RGB [height, width, 3]. car: a world's block of floats."""
    height, width, scale = config["screen_height"], config["screen_width"], config["scaling"]
    across, down = config["centering_position"]
    # The centre of each pixel, in metres
    x = car[X, 0] + (np.arange(width) + 0.5 - across * width) / scale
    y = car[Y, 0] + (np.arange(height) + 0.5 - down * height) / scale
    picture = _road(x, y, config["lanes_count"])
    for i in reversed(range(car.shape[1])):  # the ego last, on top
        if x[0] - CAR_LENGTH <= car[X, i] <= x[-1] + CAR_LENGTH:
            body = WRECK if crashed[i] else EGO if i == 0 else CAR
            _rectangle(picture, x, y, car[:, i], (-CAR_LENGTH / 2, CAR_LENGTH / 2), CAR_WIDTH / 2, body)
            _rectangle(picture, x, y, car[:, i], (0.5, 1.4), 0.8 * CAR_WIDTH / 2, GLASS)
    return picture


def _road(x: Array, y: Array, lanes: int) -> Array:
    picture = np.empty((len(y), len(x), 3), np.uint8)
    picture[:] = GRASS
    top, bottom = -LANE_WIDTH / 2, LANE_WIDTH * (lanes - 0.5)
    picture[(y >= top) & (y <= bottom)] = ASPHALT
    for border in range(lanes + 1):
        rows = np.flatnonzero(np.abs(y - (top + LANE_WIDTH * border)) <= LINE_WIDTH / 2 + 1e-9)
        solid = border in (0, lanes)
        columns = np.arange(len(x)) if solid else np.flatnonzero(x % STRIPE_PERIOD < STRIPE)
        picture[np.ix_(rows, columns)] = LINE
    return picture


def _rectangle(
    picture: Array,
    x: Array,
    y: Array,
    car: Array,
    lengthwise: tuple[float, float],
    half_width: float,
    color: tuple[int, int, int],
) -> None:
    """Fill the part of a car between two distances from its centre along its heading."""
    radius = float(np.hypot(CAR_LENGTH, CAR_WIDTH)) / 2
    columns = np.flatnonzero(np.abs(x - car[X]) <= radius)
    rows = np.flatnonzero(np.abs(y - car[Y]) <= radius)
    if not len(columns) or not len(rows):
        return
    away_x, away_y = x[columns][None, :] - car[X], y[rows][:, None] - car[Y]
    along = away_x * car[COS] + away_y * car[SIN]
    aside = away_y * car[COS] - away_x * car[SIN]
    inside = (along >= lengthwise[0]) & (along <= lengthwise[1]) & (np.abs(aside) <= half_width)
    part = picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    part[inside] = color
