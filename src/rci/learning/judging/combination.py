"""Several opinions of one chance, and the interval that they leave.

Chances are compared as angles, asin(sqrt(p)): there a share of n episodes has the standard error 1 / (2 sqrt(n))
whatever it is, and an interval that is cut at 0 and pi / 2 never leaves [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from rci.data.record import Array
from rci.data.risk.estimates import Interval

RIGHT = math.pi / 2
SHARED = 0.5  # correlation of the errors of any two methods: all of them read the same logs


class Opinion(NamedTuple):
    """A chance as an angle, and its standard error."""

    angle: float
    error: float


def angle(chance: Array | float) -> Array:
    """asin(sqrt(p)), p within [0, 1]."""
    return np.arcsin(np.sqrt(np.clip(np.asarray(chance, np.float64), 0.0, 1.0)))


def chance(angle: Array | float) -> Array:
    """sin(angle)^2, the reverse of `angle`; angles beyond 0 and pi / 2 are at the ends."""
    return np.sin(np.clip(np.asarray(angle, np.float64), 0.0, RIGHT)) ** 2


def spread_of_methods(angles: Array, errors: Array) -> float:
    """By how much opinions differ beyond their own errors: the variance between methods, at least 0.

    DerSimonian and Laird 1986: (Q - (k - 1)) / (sum w - sum w^2 / sum w), with w = 1 / error^2 and
    Q = sum w (angle - mean)^2.
    """
    weight = 1.0 / np.asarray(errors, np.float64) ** 2
    mean = np.sum(weight * angles) / np.sum(weight)
    excess = np.sum(weight * (angles - mean) ** 2) - (len(weight) - 1)
    room = np.sum(weight) - np.sum(weight**2) / np.sum(weight)
    return float(max(0.0, excess / room)) if room > 0 else 0.0


def combined(opinions: Mapping[str, Opinion]) -> Opinion:
    """All opinions as one, each weighed by its own error and by how much they differ: a random-effects mean.

    With weights w that sum to 1, errors e of which any two have the correlation c, and the spread s between methods,
    the squared error is c (sum w e)^2 + (1 - c) sum w^2 e^2 + s sum w^2.
    """
    angles, errors = (np.array(each, np.float64) for each in zip(*opinions.values()))
    spread = spread_of_methods(angles, errors)
    weight = 1.0 / (errors**2 + spread)
    weight /= np.sum(weight)
    together, apart = np.sum(weight * errors) ** 2, np.sum((weight * errors) ** 2)
    squared = SHARED * together + (1.0 - SHARED) * apart + spread * np.sum(weight**2)
    return Opinion(float(np.sum(weight * angles)), float(np.sqrt(squared)))


def widened(opinion: Opinion, error: float) -> Opinion:
    """The opinion with another error that has nothing to do with its own."""
    return opinion._replace(error=math.hypot(opinion.error, error))


def checked(opinion: Opinion, bias: float) -> Opinion:
    """The opinion of a method that was wrong by `bias` where the truth is known.

    Elsewhere it may be as wrong or not wrong at all: half of it is taken off, and all of it is added to the error.
    """
    return Opinion(opinion.angle - 0.5 * bias, math.hypot(opinion.error, bias))


def unshared(biases: Mapping[str, float]) -> dict[str, float]:
    """What each method gets wrong about the control beyond what all of them get wrong alike.

    The control is a memoryless copy of whoever recorded the logs. A copy of several drivers changes the driver at every
    step, so its chance of a stop is not that of the logs, and methods that fail differently agree on the difference.
    """
    least = min(biases.values(), key=abs, default=0.0)
    alike = all(bias * least > 0.0 for bias in biases.values())
    return {name: bias - least if alike else bias for name, bias in biases.items()}


def interval(opinion: Opinion, level: float) -> Interval:
    """The chance, and what it lies between at this level."""
    reach = normal_quantile(level) * opinion.error
    low, middle, high = (float(chance(opinion.angle + side * reach)) for side in (-1.0, 0.0, 1.0))
    return Interval(middle, low, high)


def one_sided(opinion: Opinion, level: float) -> tuple[float, float]:
    """What the chance is at least, and at most: each of the two bounds holds at this level."""
    _, low, high = interval(opinion, max(0.0, 2 * level - 1))
    return low, high


def normal_quantile(level: float) -> float:
    """How many standard errors on either side hold this share of a normal distribution."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + level / 2)
