"""The equations of constrained offline learning, one pure function each.

Shapes: B transitions, n candidate actions, K channels of cost. Flags are 0/1 numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import jax
import jax.numpy as jnp

from rci.nets.dense import rows_of

Number = jax.Array | float  # a traced setting, or a plain one


def reward_continues(terminated: jax.Array, stopped: jax.Array, stop_ends_reward: bool) -> jax.Array:
    """1 where the reward goes on after this transition.

    Only the environment's own end cuts it. A stop or a time limit does not: the safety label must not leak into
    the reward, where it would be a hidden penalty (positive rewards) or a hidden bonus (negative ones). With
    `stop_ends_reward` it does leak, as in learners that know a single done flag.
    """
    return (1.0 - terminated) * (1.0 - stopped) if stop_ends_reward else 1.0 - terminated


def cost_continues(last: jax.Array) -> jax.Array:
    """1 where the cost goes on after this transition.

    The cost is episodic: whatever ends the episode ends it, and a stop above all: an episode costs at most C. So
    does a recording that just breaks off, with no flag at all.
    """
    return 1.0 - last


def bellman_target(signal: jax.Array, discount: Number, continues: jax.Array, value: jax.Array) -> jax.Array:
    """y = signal + discount * continues * value of the next state.

    signal and value: [B], or [B, K] with channels, which `continues` [B] ends all alike.
    """
    on = continues.reshape(continues.shape + (1,) * (signal.ndim - continues.ndim))
    return signal + discount * on * value


def within_range(value: jax.Array, low: Number, high: Number) -> jax.Array:
    """No remaining cost is believed that lies outside of [low, high]. value [B, K]; low and high numbers or [K]."""
    return jnp.clip(value, rows_of(jnp.asarray(low), value), rows_of(jnp.asarray(high), value))


def soft_minimum(critics: Sequence[jax.Array], weight: Number) -> jax.Array:
    """weight * min + (1 - weight) * max of two or more critics. Fujimoto et al. 2019."""
    return weight * reduce(jnp.minimum, critics) + (1.0 - weight) * reduce(jnp.maximum, critics)


def constrained_value(reward_q: jax.Array, cost: jax.Array, multiplier: jax.Array) -> jax.Array:
    """What a constrained policy maximises: Q - sum_k lambda_k * cost_k. Paper: the bracket of the Bellman target.

    reward_q: [...]; cost: [..., K]; multiplier: [K].
    """
    return reward_q - jnp.sum(rows_of(multiplier, cost) * cost, axis=-1)


def hinged_value(reward_q: jax.Array, cost: jax.Array, threshold: Number, price: Number) -> jax.Array:
    """Q - price * sum_k max(0, cost_k - threshold_k): nothing is paid below the threshold. [...], [..., K], [K]."""
    over = jnp.maximum(cost - rows_of(jnp.asarray(threshold), cost), 0.0)
    return reward_q - price * jnp.sum(over, axis=-1)


def best_of(score: jax.Array, *values: jax.Array) -> tuple[jax.Array, ...]:
    """Each of `values` [B, n] or [B, n, K] at the candidate with the highest score [B, n]: [B] or [B, K].

    The first one wins a tie.
    """
    index = jnp.argmax(score, axis=-1)
    rows = (index.reshape(index.shape + (1,) * (value.ndim - 1)) for value in values)
    return tuple(jnp.take_along_axis(value, row, axis=1)[:, 0] for value, row in zip(values, rows))


def squared_error(prediction: jax.Array, target: jax.Array) -> jax.Array:
    """Mean over the batch of the squared error, summed over channels. Both [B] or [B, K]."""
    return jnp.mean(jnp.sum(((prediction - target) ** 2).reshape(len(target), -1), axis=-1))


def weighted_squared_error(prediction: jax.Array, target: jax.Array, weight: jax.Array) -> jax.Array:
    """sum_i w_i |prediction_i - target_i|^2 / sum_i w_i, summed over features. Both [..., n], weight [...]."""
    error = jnp.sum((prediction - target) ** 2, axis=-1)
    return jnp.sum(weight * error) / jnp.sum(weight)


def joint_squared_error(critics: Sequence[jax.Array], target: jax.Array) -> jax.Array:
    """Sum over the critics of the squared error; no gradient flows into the target."""
    target = jax.lax.stop_gradient(target)
    return reduce(jnp.add, [squared_error(q, target) for q in critics])


def hazard_target(cost: jax.Array, stopped: jax.Array, ahead: jax.Array) -> jax.Array:
    """The cost where the episode was stopped, elsewhere the chance that this step did it or what lies ahead does.

    cost and ahead [B, K], chances; stopped [B]. Labels are 0 before a stop, which leaves what lies ahead. A stop for
    one kind of danger ends the others: nothing can happen any more.
    """
    return jnp.where(stopped[:, None] > 0, cost, cost + (1.0 - cost) * ahead)


def joint_cross_entropy(critics: Sequence[jax.Array], target: jax.Array) -> jax.Array:
    """Sum over critics of -y log p - (1 - y) log(1 - p), from logits [B, K]: mean of the batch, sum over channels."""
    target = jax.lax.stop_gradient(target)
    each = (jax.nn.softplus(logit) - target * logit for logit in critics)
    return reduce(jnp.add, [jnp.mean(jnp.sum(error, axis=-1)) for error in each])


def expectile_error(value: jax.Array, target: jax.Array, expectile: Number) -> jax.Array:
    """Mean of |expectile - 1(target < value)| (target - value)^2, summed over channels. Both [B, K].

    Kostrikov et al. 2021: 0.5 is the mean, more is closer to the highest target, less to the lowest.
    """
    error = jax.lax.stop_gradient(target) - value
    weight = jnp.where(error > 0, expectile, 1.0 - expectile)
    return jnp.mean(jnp.sum(weight * error**2, axis=-1))


def gaussian_kl(mean: jax.Array, log_deviation: jax.Array) -> jax.Array:
    """KL(N(mean, deviation) || N(0, 1)), averaged over the batch and latent dimensions."""
    return jnp.mean(0.5 * (jnp.exp(2 * log_deviation) + mean**2 - 1.0) - log_deviation)


def soft_update(target: jax.Array, online: jax.Array, rate: Number) -> jax.Array:
    """target <- (1 - rate) * target + rate * online."""
    return target + rate * (online - target)
