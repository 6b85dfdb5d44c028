"""COptiDICE: weigh recorded transitions so that they look like those of the best policy within the budget.

Lee et al., "COptiDICE: Offline Constrained Reinforcement Learning via Stationary Distribution Correction Estimation",
2022.

1. w(s, a) is how much more often the best policy passes a recorded transition than the behaviour did.
2. Such weights must conserve the flow: what enters a state leaves it. nu(s) is the price of breaking that.
3. In closed form w = (f')^-1(e / divergence) with e = r - lambda * c + gamma * nu(s') - nu(s), without critics.
4. lambda rises while the recorded costs, weighted by w, are over the threshold.
5. The policy imitates the recorded actions, each as much as its w says.

The budget holds for the weighted transitions. The policy keeps it as far as a Gaussian can imitate them: where they
pass a hazard on both sides, its mode is between them.

Deviates:
- from both: the occupancy is that of episodes, (1 / N) * sum over episodes and steps of gamma^t, without the factor
  1 - gamma. Weights of 1 are then the behaviour itself, even for episodes of a few steps, and the weighted costs of an
  episode are compared with the threshold as it is. By default both are discounted at the same rate; a number as a
  budget is scaled for it in `budget.py`. With another `cost_discount` the cost of step t counts by
  (cost_discount / discount)^t, which is exact only where a state is always reached after the same number of steps.
- from both: whatever ends a recording ends the flow, because no transition leaves its last state. If the environment
  did not end it (a stop, a time limit) the reward goes on as the behaviour would earn it, which a value network learns.
  The cost does not go on. Otherwise a stop would be a hidden penalty or bonus.
- from the paper: no network for an upper bound on the cost; the estimate is the plain weighted one, which may
  be too low for few data.
- from both: several channels of cost; lambda by the rule of all learners here, without an upper end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from rci.data.options import require_positive
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.budget import update_multiplier
from rci.learning.dataset import Dataset
from rci.learning.losses import (
    Number,
    bellman_target,
    constrained_value,
    cost_continues,
    reward_continues,
    soft_update,
    squared_error,
)
from rci.nets.dense import Mlp
from rci.nets.gaussian import GaussianActor


@dataclass(frozen=True)
class Config:
    """What changes a shape."""

    hidden: int = 128
    batch_size: int = 256
    initial_batch_size: int = 64

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "batch_size", "initial_batch_size")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again, the threshold among them."""

    threshold: Number = 0.0  # set from the budget: [K]
    discount: float = 0.99
    cost_discount: float = 0.99
    learning_rate: float = 1e-3
    target_rate: float = 0.005
    divergence: float = 0.05  # price of leaving the recorded transitions; less is greedier
    multiplier_rate: float = 1e-3


class Batch(NamedTuple):
    """B transitions and B0 initial states."""

    obs: jax.Array  # [B, d]
    action: jax.Array  # [B, a]
    reward: jax.Array  # [B]
    cost: jax.Array  # [B, K]
    next_obs: jax.Array  # [B, d]
    terminated: jax.Array  # [B]
    stopped: jax.Array  # [B]
    last: jax.Array  # [B]
    step: jax.Array  # [B]
    initial_obs: jax.Array  # [B0, d]
    mean_length: jax.Array  # []: recorded transitions per episode


class Networks(eqx.Module):
    """Everything that is learned by gradient."""

    nu: Mlp  # obs -> price of the flow through a state, [..., 1]
    value: Mlp  # obs -> what the behaviour earns from there on, [..., 1]
    actor: GaussianActor


class State(NamedTuple):
    """Everything that changes."""

    online: Networks
    slow_value: Mlp
    optimiser: Any
    multiplier: jax.Array  # [K]


class Info(NamedTuple):
    """Diagnostics of one update."""

    flow_loss: jax.Array
    value_loss: jax.Array
    actor_loss: jax.Array
    mean_correction: jax.Array  # about 1 as long as episodes keep their length
    cost_estimate: jax.Array  # [K]
    multiplier: jax.Array  # [K]


class Actor(NamedTuple):
    """What acting needs; of the behaviour only its scaling."""

    actor: GaussianActor
    behaviour: FrozenBehaviour


def correction(y: jax.Array) -> jax.Array:
    """w = exp(y) below 0 and 1 + y above: (f')^-1 of the soft chi-square divergence. Lee et al. 2022."""
    return jnp.where(y < 0.0, jnp.exp(jnp.minimum(y, 0.0)), 1.0 + y)


def conjugate(y: jax.Array) -> jax.Array:
    """max_w [w * y - f(w)] of the soft chi-square divergence; its slope is the correction.

    f(w) = w log w - w + 1 below 1 and (w - 1)^2 / 2 above, so this is exp(y) - 1 below 0 and y + y^2 / 2 above.
    """
    return jnp.where(y < 0.0, jnp.expm1(jnp.minimum(y, 0.0)), y + 0.5 * y**2)


def flow_loss(
    initial_nu: jax.Array, advantage: jax.Array, weight: jax.Array, divergence: Number
) -> jax.Array:
    """mean nu(s0) + sum over an episode's steps of gamma^t * divergence * conjugate(e / divergence). Lee et al. 2022.

    initial_nu [B0]; advantage e [B]; weight [B]: gamma^t times the mean length, for transitions drawn uniformly.
    """
    return jnp.mean(initial_nu) + jnp.mean(weight * divergence * conjugate(advantage / divergence))


def weighted_cost(correction: jax.Array, weight: jax.Array, cost: jax.Array) -> jax.Array:
    """Episodic cost of the weighted transitions: mean of weight * w * c, [K]. correction, weight: [B]; cost: [B, K]."""
    return jnp.mean((correction * weight)[:, None] * cost, axis=0)


def imitation_loss(log_prob: jax.Array, correction: jax.Array) -> jax.Array:
    """-sum w * log pi(a | s) / sum w. Both [B]; no gradient flows into w."""
    share = jax.lax.stop_gradient(correction / (jnp.sum(correction) + 1e-6))
    return -jnp.sum(share * log_prob)


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        row_key, start_key = jax.random.split(key)
        index = jax.random.randint(row_key, (config.batch_size,), 0, len(data.row))
        start = jax.random.randint(start_key, (config.initial_batch_size,), 0, len(data.initial))
        row = data.row[index]
        return Batch(
            obs=data.obs[row],
            action=data.action[index],
            reward=data.reward[index],
            cost=data.cost[index],
            next_obs=data.obs[row + 1],
            terminated=data.terminated[index],
            stopped=data.stopped[index],
            last=data.last[index],
            step=data.step[index],
            initial_obs=data.obs[data.initial[start]],
            mean_length=jnp.asarray(len(data.row) / len(data.initial)),
        )

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        keys = jax.random.split(key, 3)
        sizes, channels = (batch.obs.shape[-1], batch.action.shape[-1]), batch.cost.shape[-1]
        layers = (sizes[0], config.hidden, config.hidden, 1)
        online = Networks(
            nu=Mlp(keys[0], layers, last_scale=0.01),
            value=Mlp(keys[1], layers, last_scale=0.01),
            actor=GaussianActor(keys[2], *sizes, config.hidden),
        )
        return State(online, online.value, optimise.init(online), jnp.zeros(channels))

    def paid(state: State, batch: Batch, hyper: Hyper) -> tuple[jax.Array, jax.Array]:
        """Reward [B] and cost [B, K] of each transition; what comes after the recording is part of the last reward."""
        left = batch.last * reward_continues(batch.terminated, batch.stopped, False)
        reward = bellman_target(batch.reward, hyper.discount, left, state.slow_value(batch.next_obs)[:, 0])
        rate = (hyper.cost_discount / hyper.discount) ** batch.step
        return reward, rate[:, None] * batch.cost

    def loss(
        online: Networks, state: State, batch: Batch, hyper: Hyper
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """All losses at once; each network is reached by its own loss only."""
        reward, cost = paid(state, batch, hyper)
        worth = constrained_value(reward, cost, state.multiplier)
        nu, next_nu, initial_nu = (online.nu(o)[:, 0] for o in (batch.obs, batch.next_obs, batch.initial_obs))
        advantage = bellman_target(worth, hyper.discount, cost_continues(batch.last), next_nu) - nu
        weight = batch.mean_length * hyper.discount**batch.step
        flow = flow_loss(initial_nu, advantage, weight, hyper.divergence)
        w = correction(advantage / hyper.divergence)
        imitation = imitation_loss(online.actor.log_prob(batch.obs, batch.action), w)
        goes_on = reward_continues(batch.terminated, batch.stopped, False)
        earned = bellman_target(batch.reward, hyper.discount, goes_on, state.slow_value(batch.next_obs)[:, 0])
        evaluation = squared_error(online.value(batch.obs)[:, 0], earned)
        estimate = weighted_cost(w, weight, cost)
        return flow + imitation + evaluation, (flow, evaluation, imitation, jnp.mean(w), estimate)

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        gradient, (flow, evaluation, imitation, mean_correction, estimate) = jax.grad(loss, has_aux=True)(
            state.online, state, batch, hyper
        )
        change, optimiser = optimise.update(gradient, state.optimiser)
        online = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.online, change)
        slow = jax.tree.map(lambda t, o: soft_update(t, o, hyper.target_rate), state.slow_value, online.value)
        multiplier = update_multiplier(state.multiplier, estimate, hyper.threshold, hyper.multiplier_rate)
        return State(online, slow, optimiser, multiplier), Info(
            flow, evaluation, imitation, mean_correction, estimate, multiplier
        )

    def policy(state: State, behaviour: FrozenBehaviour, hyper: Hyper) -> Actor:
        return Actor(state.online.actor, behaviour)

    def act(key: jax.Array, policy: Actor, memory: Any, obs: jax.Array) -> tuple[jax.Array, Any]:
        return policy.actor.mode(obs), memory

    return Learner(sample, init, update, policy, act)
