"""A stirred tank that is heated by its jacket: more heat, more yield, but a temperature that must not be passed.

What reacts in the tank gives off heat of its own, the faster the hotter it is, so that what was heated too boldly
cannot be cooled in time. The inflow is now warmer, now colder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rci.benchmarks.trust.simulator import Simulator
from rci.data.record import Array

STEP = 0.5  # min
STEPS = 80
LIMIT = 95.0  # degrees Celsius
COOLEST, HOTTEST = 15.0, 130.0  # degrees Celsius, of what flows through the jacket
EXCHANGE, FLOW = 0.25, 0.08  # 1/min: with the jacket, and of the inflow
JACKET_LAG = 3.0  # min
REACTION, WARMTH, SLOPE = 1.2, 75.0, 9.0  # K/min at so many degrees, e times as much every so many more
INFLOW, WANDER = 40.0, 2.5  # degrees Celsius: its mean, and how far it wanders in a minute


class Tank(NamedTuple):
    """n tanks; all in degrees Celsius, [n]."""

    temperature: Array
    jacket: Array
    inflow: Array
    trend: Array  # K/min, of the temperature


def begin(rng: np.random.Generator, count: int) -> Tank:
    """Warm tanks."""
    return Tank(
        rng.uniform(50.0, 70.0, count),
        rng.uniform(50.0, 80.0, count),
        rng.normal(INFLOW, 5.0, count),
        np.zeros(count),
    )


def advance(rng: np.random.Generator, tank: Tank, action: Array) -> Tank:
    """Half a minute; the action is what flows through the jacket, from coolest to hottest, and how fast."""
    asked = COOLEST + (HOTTEST - COOLEST) * (0.5 + 0.5 * action[:, 0])
    swift = 0.6 + 0.4 * action[:, 1]
    jacket = tank.jacket + STEP / JACKET_LAG * swift * (asked - tank.jacket)
    own = REACTION * np.exp(np.minimum((tank.temperature - WARMTH) / SLOPE, 4.0))
    trend = (
        EXCHANGE * (jacket - tank.temperature)
        + FLOW * (tank.inflow - tank.temperature)
        + np.minimum(own, 12.0)
    )
    noise = rng.normal(size=(2, len(trend)))
    inflow = tank.inflow + 0.1 * STEP * (INFLOW - tank.inflow) + WANDER * STEP**0.5 * noise[0]
    return Tank(tank.temperature + STEP * trend + 0.15 * noise[1], jacket, inflow, trend)


def observe(tank: Tank) -> Array:
    """[n, 4]: temperature, jacket, inflow, trend."""
    return np.column_stack([tank.temperature, tank.jacket, tank.inflow, tank.trend])


def reward(before: Tank, after: Tank) -> Array:
    """The yield of half a minute, [n]: nothing below 60 degrees, 1 at the limit."""
    return np.clip((after.temperature - 60.0) / (LIMIT - 60.0), 0.0, 1.0) * STEP


def unsafe(tank: Tank) -> Array:
    """Too hot, [n]."""
    return tank.temperature > LIMIT


def operators(rng: np.random.Generator, count: int) -> Callable[[int, Array], Array]:
    """Controllers with set points of their own, some of them too high, who look ahead more or less."""
    wanted, ahead = rng.uniform(68.0, 95.0, count), rng.uniform(0.0, 3.0, count)
    gain, unsteady = rng.uniform(2.0, 6.0, count), rng.uniform(0.05, 0.3, count)

    def act(step: int, obs: Array) -> Array:
        error = wanted - (obs[:, 0] + ahead * obs[:, 3])
        asked = obs[:, 0] + gain * error
        heat = 2.0 * (asked - COOLEST) / (HOTTEST - COOLEST) - 1.0
        noise = unsteady[:, None] * rng.normal(size=(count, 2))
        return np.clip(np.column_stack([heat, 0.2 * np.abs(error)]) + noise, -1.0, 1.0).astype(np.float32)

    return act


SIMULATOR = Simulator("tank", STEPS, begin, advance, observe, reward, unsafe, operators)
