"""Recorded episodes weighed by how the policy would have acted: importance sampling, and doubly robust.

Precup, Sutton and Singh 2000 (per decision, weighted); Thomas and Brunskill 2016 (weighted doubly robust).

A deterministic policy would never have taken exactly what was recorded. It is given a kernel: a Gaussian around what it
does, as wide as `WIDTH` in actions of [-1, 1]. What is estimated is then that noisy policy, which is near the policy
where a slight change of an action matters little. Everything is padded to [N, T], N episodes of at most T steps; an
episode that is over keeps its last weight, so that it counts on among those that did not stop later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rci.data.record import Array

WIDTH = 0.25
LARGEST_LOG_RATIO = 3.0  # of one step: a density that is fitted errs most where it is lowest
RESAMPLES = 40
AGREEMENT = 0.5  # largest distance, by dimension, at which an action agrees with what was recorded
AGREEING_SHARE = 0.9  # of its steps in an episode that agrees


class Weighed(NamedTuple):
    """What weighed episodes say: an estimate, and those of draws of the episodes."""

    estimate: float
    resampled: Array  # [RESAMPLES]


def log_ratio(action: Array, policy_action: Array, log_behaviour: Array) -> Array:
    """log N(a; pi(s), WIDTH^2) - log b(a | s), at most 3 either way. [n, a], [n, a], [n] -> [n]."""
    z = (action - policy_action) / WIDTH
    log_kernel = -0.5 * np.sum(z**2, axis=1) - action.shape[1] * (np.log(WIDTH) + 0.5 * np.log(2 * np.pi))
    return np.clip(log_kernel - log_behaviour, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)


def padded(values: Array, lengths: Array, fill: float | None = 0.0) -> Array:
    """[sum of lengths] -> [N, T]; behind the end stands `fill`, or the last value where that is None."""
    steps = np.arange(int(lengths.max()))
    start = np.cumsum(lengths) - lengths
    row = start[:, None] + np.minimum(steps, lengths[:, None] - 1)
    return values[row] if fill is None else np.where(steps < lengths[:, None], values[row], fill)


def cumulative_weights(log_ratios: Array) -> Array:
    """w[i, t] = product of the ratios of steps 0 to t, up to a factor of each t: [N, T] -> [N, T]."""
    total = np.cumsum(log_ratios, axis=1)
    return np.exp(total - total.max(axis=0))


def normalised(weights: Array, times: Array) -> Array:
    """Weights that sum to 1 at every step, where episode i was drawn times[i] times. [N, T], [N] -> [N, T]."""
    drawn = weights * times[:, None]
    return drawn / np.maximum(drawn.sum(axis=0), 1e-300)


def weighted_stop(share: Array, stopped: Array) -> float:
    """sum_t sum_i share[i, t] stopped[i, t]: the chance of a stop, per decision. Within [0, 1]."""
    return float(np.clip(np.sum(share * stopped), 0.0, 1.0))


def doubly_robust_stop(share: Array, times: Array, error: Array, first: Array) -> float:
    """Mean of V(s_0), and the errors of the critic weighed: sum_t sum_i share[i, t] error[i, t]. Within [0, 1].

    error[i, t] = stopped + V(s_{t+1}) - Q(s_t, a_t), V 0 where the episode ends. first: V(s_0), [N].
    """
    start = np.sum(times * first) / np.sum(times)
    return float(np.clip(start + np.sum(share * error), 0.0, 1.0))


def effective_count(weights: Array) -> float:
    """(sum w)^2 / sum w^2, as many episodes as these are worth. [N]."""
    return float(np.sum(weights) ** 2 / np.sum(weights**2))


def weigh(
    weights: Array, stopped: Array, error: Array, first: Array, rng: np.random.Generator
) -> tuple[Weighed, Weighed]:
    """Importance sampling and doubly robust, both bootstrapped by episode. [N, T] each, first [N]."""
    count = len(weights)
    draws = [np.ones(count), *rng.multinomial(count, np.full(count, 1 / count), RESAMPLES)]
    plain, robust = [], []
    for times in draws:
        share = normalised(weights, times)
        plain.append(weighted_stop(share, stopped))
        robust.append(doubly_robust_stop(share, times, error, first))
    return Weighed(plain[0], np.array(plain[1:])), Weighed(robust[0], np.array(robust[1:]))


def agreeing(action: Array, policy_action: Array, lengths: Array) -> Array:
    """Which episodes the policy agrees with: in 90% of the steps nothing it does is far from what was done, [N]."""
    near = np.abs(action - policy_action).max(axis=1) <= AGREEMENT
    return np.add.reduceat(near, np.cumsum(lengths) - lengths) >= AGREEING_SHARE * lengths
