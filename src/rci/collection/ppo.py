"""Proximal policy optimisation of the task reward, for demonstrators that know nothing of safety.

Schulman et al. 2017. A Gaussian policy acts in many worlds for a few steps; how much better each action was than
expected is estimated from those steps (Schulman et al. 2016); then the policy is moved towards the better actions,
several times over the same steps, but never far from the policy that took them.

Deviates: observations and rewards are scaled by running statistics, advantages are standardised over an iteration,
gradients are clipped and the learning rate falls to 0, as in every implementation that works (Engstrom et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.data.record import Array, set_fields
from rci.nets.dense import Mlp, Normaliser, normaliser, rows_of

OBS_LIMIT = 10.0  # scaled observations are clipped here: a feature that hardly varied may jump


@dataclass(frozen=True)
class Config:
    """How long and how PPO is trained."""

    total_steps: int = 1_000_000  # over all worlds; rounded down to whole iterations
    num_envs: int = 64
    rollout_length: int = 128  # steps of every world in one iteration
    epochs: int = 4  # how often an iteration goes over its steps
    minibatches: int = 8  # parts of an epoch, one update each
    learning_rate: float = 5e-4  # at first; it falls to 0. Twice as much is stuck with crashing on `highway`
    discount: float = 0.99
    trace_decay: float = 0.95  # lambda of the advantages
    clip: float = 0.2
    entropy_weight: float = 0.0
    value_weight: float = 0.5
    gradient_limit: float = 0.5
    initial_deviation: float = 0.6  # of an untrained policy's actions
    hidden: tuple[int, ...] = (64, 64)
    checkpoints: int = 5  # kept policies, evenly spread over the training; the last is the final one

    def __post_init__(self) -> None:
        set_fields(self, hidden=tuple(self.hidden))
        require_positive(
            self, "total_steps", "num_envs", "rollout_length", "epochs", "minibatches", "checkpoints"
        )
        for name in ("learning_rate", "clip", "gradient_limit", "initial_deviation"):
            if not 0 < getattr(self, name) < math.inf:
                raise RciError(f"{name} must be above 0, got {getattr(self, name)}.")
        for name in ("entropy_weight", "value_weight"):
            if not 0 <= getattr(self, name) < math.inf:
                raise RciError(f"{name} must be at least 0, got {getattr(self, name)}.")
        for name in ("discount", "trace_decay"):
            if not 0 <= getattr(self, name) <= 1:
                raise RciError(f"{name} must be 0 to 1, got {getattr(self, name)}.")
        if any(size < 1 for size in self.hidden):
            raise RciError(f"hidden must be sizes of at least 1, got {list(self.hidden)}.")
        if self.batch_size % self.minibatches:
            raise RciError(
                f"num_envs * rollout_length is {self.batch_size}, which {self.minibatches} minibatches do not divide."
            )
        if self.iterations < self.checkpoints:
            raise RciError(
                f"{self.checkpoints} checkpoints need total_steps of at least {self.checkpoints * self.batch_size} "
                f"(num_envs * rollout_length each), got {self.total_steps}."
            )

    @property
    def batch_size(self) -> int:
        """Steps of one iteration, over all worlds."""
        return self.num_envs * self.rollout_length

    @property
    def iterations(self) -> int:
        """Whole iterations in the training."""
        return self.total_steps // self.batch_size


class Moments(NamedTuple):
    """Running statistics of numbers seen so far."""

    seen: jax.Array  # how many there were
    mean: jax.Array
    variance: jax.Array


class Networks(eqx.Module):
    """The policy's mean and log deviation, and the critic of what is yet to come, all on scaled observations."""

    actor: Mlp
    log_deviation: jax.Array  # [a]; the same wherever the policy is
    critic: Mlp

    def __init__(self, key: jax.Array, obs_size: int, action_size: int, config: Config) -> None:
        actor_key, critic_key = jax.random.split(key)
        self.actor = Mlp(actor_key, (obs_size, *config.hidden, action_size), last_scale=0.01)
        self.log_deviation = jnp.full(action_size, math.log(config.initial_deviation), jnp.float32)
        self.critic = Mlp(critic_key, (obs_size, *config.hidden, 1))


class Actor(eqx.Module):
    """What is kept of a policy: enough to act."""

    scaling: Normaliser
    network: Mlp
    log_deviation: jax.Array

    def mean(self, obs: jax.Array) -> jax.Array:
        """obs [n, d] -> the most likely action [n, a]."""
        return self.network(scaled(self.scaling, obs))


@jax.jit
def mean_action(actor: Actor, obs: jax.Array) -> jax.Array:
    """obs [n, d] -> the most likely action [n, a]; compiled once for all actors of a shape."""
    return actor.mean(obs)


def noisy_action(actor: Actor, rng: np.random.Generator, obs: Array) -> Array:
    """An action as in training, obs [n, ...] -> [n, a]; a BehaviourPolicy once the actor is bound."""
    mean = np.asarray(mean_action(actor, obs.reshape(len(obs), -1)))
    noise = rng.standard_normal(mean.shape, np.float32)
    return np.clip(mean + np.exp(np.asarray(actor.log_deviation)) * noise, -1.0, 1.0)


class State(NamedTuple):
    """Everything that changes in the training."""

    networks: Networks
    optimiser: Any
    obs_moments: Moments
    return_moments: Moments
    discounted: jax.Array  # [n], discounted sum of each world's past rewards; only its spread is used

    @property
    def actor(self) -> Actor:
        """The policy as it acts now."""
        return Actor(scaling_of(self.obs_moments), self.networks.actor, self.networks.log_deviation)


class Rollout(NamedTuple):
    """The steps of one iteration. Where an episode ended, `next_obs` is its final observation, not the next start."""

    obs: Any  # [T, n, d]
    action: Any  # [T, n, a], before it was clipped for the world
    reward: Any  # [T, n]
    next_obs: Any  # [T, n, d]
    terminated: Any  # [T, n]
    truncated: Any  # [T, n]


class Batch(NamedTuple):
    """What the updates of one iteration learn from, one row per step."""

    obs: jax.Array  # scaled
    action: jax.Array
    log_prob: jax.Array  # of the action under the policy that took it
    advantage: jax.Array
    target: jax.Array  # of the critic


class Info(NamedTuple):
    """Means over the updates of one iteration."""

    surrogate_loss: jax.Array
    value_loss: jax.Array
    entropy: jax.Array


class Ppo(NamedTuple):
    """The compiled functions of one training."""

    init: Callable[[jax.Array], State]
    act: Callable[[jax.Array, Any, Actor, Any], jax.Array]  # (key, step, actor, obs [n, d]) -> action [n, a]
    improve: Callable[[State, Rollout, Any], tuple[State, Info]]  # the rows of each update [updates, rows]


def gaussian_log_prob(action: jax.Array, mean: jax.Array, log_deviation: jax.Array) -> jax.Array:
    """Log density of independent normals, summed over the action: [..., a] -> [...]."""
    z = (action - mean) * jnp.exp(-log_deviation)
    return -jnp.sum(0.5 * z**2 + log_deviation + 0.5 * math.log(2 * math.pi), axis=-1)


def gaussian_entropy(log_deviation: jax.Array) -> jax.Array:
    """Entropy of independent normals: [a] -> a number."""
    return jnp.sum(log_deviation + 0.5 * math.log(2 * math.pi * math.e))


def generalised_advantage(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    discount: float,
    trace_decay: float,
) -> jax.Array:
    """How much better each step was than expected, [T, n]. Schulman et al. 2016, Eq. (16).

    Behind a termination nothing is worth anything. A truncation only ends the watching: the value of the final
    observation stands for what would have come. Neither lets the trace run on into the next episode.
    """
    surprise = reward + discount * next_value * (1.0 - terminated) - value
    runs_on = (1.0 - terminated) * (1.0 - truncated)

    def back(later: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        now = step[0] + discount * trace_decay * step[1] * later
        return now, now

    _, advantage = jax.lax.scan(back, jnp.zeros_like(surprise[0]), (surprise, runs_on), reverse=True)
    return advantage


def clipped_surrogate_loss(
    log_prob: jax.Array, old_log_prob: jax.Array, advantage: jax.Array, clip: float
) -> jax.Array:
    """Minus the advantage that the new policy is given credit for. Schulman et al. 2017, Eq. (7)."""
    ratio = jnp.exp(log_prob - old_log_prob)
    return -jnp.mean(jnp.minimum(ratio * advantage, jnp.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage))


def value_loss(value: jax.Array, target: jax.Array) -> jax.Array:
    """Half the mean squared error. Schulman et al. 2017, Eq. (9)."""
    return 0.5 * jnp.mean((value - target) ** 2)


def standardised(x: jax.Array) -> jax.Array:
    """Mean 0, standard deviation 1."""
    return (x - x.mean()) / (x.std() + 1e-8)


def merged_moments(old: Moments, x: jax.Array) -> Moments:
    """The statistics once the rows of x [rows, ...] have been seen as well. Chan et al. 1979."""
    rows, seen = x.shape[0], old.seen + x.shape[0]
    gap = x.mean(0) - old.mean
    spread = old.variance * old.seen + x.var(0) * rows + gap**2 * (old.seen * rows / seen)
    return Moments(seen, old.mean + gap * (rows / seen), spread / seen)


def discounted_sums(
    before: jax.Array, reward: jax.Array, ended: jax.Array, discount: float
) -> tuple[jax.Array, jax.Array]:
    """Discounted sums of past rewards after each step [T, n], and what is carried on; an end sets them to 0."""

    def forward(total: jax.Array, step: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        total = discount * total + step[0]
        return total * (1.0 - step[1]), total

    after, sums = jax.lax.scan(forward, before, (reward, ended))
    return sums, after


def scaling_of(moments: Moments) -> Normaliser:
    """The scaling to mean 0 and deviation 1 that the statistics ask for."""
    return normaliser(moments.mean, jnp.sqrt(moments.variance))


def scaled(scaling: Normaliser, obs: jax.Array) -> jax.Array:
    """Observations as the networks see them."""
    return jnp.clip(scaling(obs), -OBS_LIMIT, OBS_LIMIT)


def ppo_loss(networks: Networks, batch: Batch, config: Config) -> tuple[jax.Array, Info]:
    """Surrogate, critic and entropy together. Schulman et al. 2017, Eq. (9)."""
    mean = networks.actor(batch.obs)
    log_prob = gaussian_log_prob(batch.action, mean, rows_of(networks.log_deviation, mean))
    surrogate = clipped_surrogate_loss(log_prob, batch.log_prob, batch.advantage, config.clip)
    critic = value_loss(networks.critic(batch.obs)[..., 0], batch.target)
    entropy = gaussian_entropy(networks.log_deviation)
    total = surrogate + config.value_weight * critic - config.entropy_weight * entropy
    return total, Info(surrogate, critic, entropy)


@lru_cache(maxsize=8)
def make(config: Config, obs_size: int, action_size: int) -> Ppo:
    """PPO for one task's sizes. A second training of the same sizes does not compile again."""
    updates = config.iterations * config.epochs * config.minibatches
    rate = optax.linear_schedule(config.learning_rate, 0.0, updates)
    optimise = optax.chain(optax.clip_by_global_norm(config.gradient_limit), optax.adam(rate, eps=1e-5))

    @jax.jit
    def init(key: jax.Array) -> State:
        networks = Networks(key, obs_size, action_size, config)
        nothing = jnp.zeros(())
        return State(
            networks=networks,
            optimiser=optimise.init(networks),
            obs_moments=Moments(nothing, jnp.zeros(obs_size), jnp.ones(obs_size)),
            return_moments=Moments(nothing, nothing, jnp.ones(())),
            discounted=jnp.zeros(config.num_envs),
        )

    @jax.jit
    def act(key: jax.Array, step: jax.Array, actor: Actor, obs: jax.Array) -> jax.Array:
        mean = actor.mean(obs)
        noise = jax.random.normal(jax.random.fold_in(key, step), mean.shape)
        return mean + rows_of(jnp.exp(actor.log_deviation), mean) * noise

    @jax.jit
    def improve(state: State, rollout: Rollout, order: jax.Array) -> tuple[State, Info]:
        """All updates of one iteration. The rows come shuffled, because sorting is slow in here."""
        ended = jnp.maximum(rollout.terminated, rollout.truncated)
        sums, discounted = discounted_sums(state.discounted, rollout.reward, ended, config.discount)
        return_moments = merged_moments(state.return_moments, sums.reshape(-1))
        # The steps were taken under the old scaling, so it is the old policy only under that.
        batch = learnable(state, rollout, scaling_of(return_moments).scale)

        def update(carry: tuple[Networks, Any], index: jax.Array) -> tuple[tuple[Networks, Any], Info]:
            networks, optimiser = carry
            part = Batch(*(rows[index] for rows in batch))
            (_, info), gradient = jax.value_and_grad(ppo_loss, has_aux=True)(networks, part, config)
            change, optimiser = optimise.update(gradient, optimiser)
            return (eqx.apply_updates(networks, change), optimiser), info

        (networks, optimiser), info = jax.lax.scan(update, (state.networks, state.optimiser), order)
        obs_moments = merged_moments(state.obs_moments, rollout.obs.reshape(-1, obs_size))
        state = State(networks, optimiser, obs_moments, return_moments, discounted)
        return state, Info(*(numbers.mean() for numbers in info))

    def learnable(state: State, rollout: Rollout, reward_scale: jax.Array) -> Batch:
        networks, scaling = state.networks, scaling_of(state.obs_moments)
        obs = scaled(scaling, rollout.obs)
        value = networks.critic(obs)[..., 0]
        next_value = networks.critic(scaled(scaling, rollout.next_obs))[..., 0]
        advantage = generalised_advantage(
            rollout.reward / reward_scale,
            value,
            next_value,
            rollout.terminated,
            rollout.truncated,
            config.discount,
            config.trace_decay,
        )
        mean = networks.actor(obs)
        log_prob = gaussian_log_prob(rollout.action, mean, rows_of(networks.log_deviation, mean))
        batch = Batch(obs, rollout.action, log_prob, standardised(advantage), advantage + value)
        return Batch(*(x.reshape(config.batch_size, *x.shape[2:]) for x in batch))

    return Ppo(init, act, improve)


def shuffled_rows(rng: np.random.Generator, config: Config) -> Array:
    """Which rows each update of an iteration learns from: every row once per epoch, [updates, rows]."""
    epochs = [rng.permutation(config.batch_size) for _ in range(config.epochs)]
    return np.concatenate(epochs).astype(np.int32).reshape(config.epochs * config.minibatches, -1)


def blank_start(config: Config, obs_size: int, action_size: int) -> tuple[Networks, Moments]:
    """The shapes of networks and of the statistics of observations, without their numbers."""

    def blank() -> tuple[Networks, Moments]:
        networks = Networks(jax.random.key(0), obs_size, action_size, config)
        return networks, Moments(jnp.zeros(()), jnp.zeros(obs_size), jnp.ones(obs_size))

    return jax.eval_shape(blank)


def blank_actor(config: Config, obs_size: int, action_size: int) -> Actor:
    """The shapes of an actor, without its numbers."""
    networks, moments = blank_start(config, obs_size, action_size)
    return jax.eval_shape(lambda n, m: Actor(scaling_of(m), n.actor, n.log_deviation), networks, moments)
