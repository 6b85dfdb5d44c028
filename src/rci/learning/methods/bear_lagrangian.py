"""BEAR-Lagrangian: an actor that stays among the behaviour's actions, and takes the best of its own within the budget.

Kumar et al., "Stabilizing Off-Policy Q-Learning via Bootstrapping Error Reduction", 2019.

1. A Gaussian actor raises Q - sum of lambda * Q_c, while the maximum mean discrepancy (MMD) between its actions and the
   behaviour's stays under a limit; a dual variable, the leash, rises while it does not.
2. Twin critics learn the return, twin cost critics the remaining episodic cost, both of the policy below.
3. The policy draws actions from the actor and takes the one with the highest Q - sum of lambda * Q_c.
4. lambda rises while the expected cost at initial states is over the threshold, one for each channel.

Deviates:
- from BEAR: cost critics and lambda; behaviour actions come from a model that was fitted beforehand; two critics, and
  no variance of an ensemble; at test time the draws come from one fixed seed, so the policy is a function.
- from BEAR and OSRL: the squared MMD in its unbiased form, so that a limit means the same for any number of draws (the
  biased one is never 0, not even for equal distributions); the leash follows the additive rule of lambda, as it is,
  where theirs moves a logarithm between fixed ends; no updates that look at the MMD only before training begins.
- from OSRL: a stop is absorbing for the cost, the end of an episode too, and only the environment's own end for the
  reward; lambda by the rule of all learners here, no PID controller, driven by initial states; cost targets stay within
  the range of recorded sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour, propose
from rci.learning.budget import update_multiplier
from rci.learning.dataset import Dataset
from rci.learning.losses import (
    Number,
    bellman_target,
    best_of,
    constrained_value,
    cost_continues,
    joint_squared_error,
    reward_continues,
    soft_minimum,
    soft_update,
    within_range,
)
from rci.nets.dense import Committee
from rci.nets.gaussian import GaussianActor


@dataclass(frozen=True)
class Config:
    """What changes a shape."""

    hidden: int = 128
    candidates: int = 10  # actions of the actor and of the behaviour at each state of a batch
    test_candidates: int = 32
    batch_size: int = 256
    initial_batch_size: int = 64

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "candidates", "test_candidates", "batch_size", "initial_batch_size")
        if self.candidates < 2:
            raise RciError(f"candidates must be at least 2 to compare distributions, got {self.candidates}.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again, the threshold among them."""

    threshold: Number = 0.0  # set from the budget: [K]
    discount: float = 0.99
    cost_discount: float = 1.0
    learning_rate: float = 1e-3
    target_rate: float = 0.03
    reward_pessimism: float = 0.75  # weight of the lower twin
    cost_pessimism: float = 0.5  # weight of the higher twin
    kernel_width: float = 0.5
    discrepancy_limit: float = 0.1  # largest squared MMD from the behaviour
    leash_rate: float = 1e-2
    multiplier_rate: float = 0.03


class Batch(NamedTuple):
    """B transitions with n actions of the behaviour, and B0 initial states."""

    obs: jax.Array  # [B, d]
    action: jax.Array  # [B, a]
    reward: jax.Array  # [B]
    cost: jax.Array  # [B, K]
    next_obs: jax.Array  # [B, d]
    terminated: jax.Array  # [B]
    stopped: jax.Array  # [B]
    last: jax.Array  # [B]
    cost_range: jax.Array  # [2, K]: what recorded sums range over
    candidate: jax.Array  # [B, n, a]
    initial_obs: jax.Array  # [B0, d]


class Networks(eqx.Module):
    """Everything that is learned by gradient; the costs of all channels are outputs of one network."""

    reward_critic: Committee
    cost_critic: Committee
    actor: GaussianActor


class State(NamedTuple):
    """Everything that changes, both dual variables included."""

    online: Networks
    target: Networks
    optimiser: Any
    multiplier: jax.Array  # [K]
    leash: jax.Array  # []


class Info(NamedTuple):
    """Diagnostics of one update."""

    reward_loss: jax.Array
    cost_loss: jax.Array
    actor_loss: jax.Array
    discrepancy: jax.Array
    leash: jax.Array
    cost_estimate: jax.Array  # [K]
    multiplier: jax.Array  # [K]


class Actor(NamedTuple):
    """What acting needs."""

    networks: Networks
    behaviour: FrozenBehaviour
    multiplier: jax.Array
    hyper: Hyper


class Judgement(NamedTuple):
    """Actions seen by the critics."""

    reward_q: jax.Array  # [B, n]
    cost_q: jax.Array  # [B, n, K]
    value: jax.Array  # [B, n]: Q - sum of lambda * Q_c, what the policy maximises


def laplacian_kernel(one: jax.Array, two: jax.Array, width: Number) -> jax.Array:
    """exp(-|x - y| / (2 * width)), |.| summed over dimensions: [B, n, a], [B, m, a] -> [B, n, m]. Kumar et al. 2019."""
    distance = jnp.sum(jnp.abs(one[:, :, None] - two[:, None]), axis=-1)
    return jnp.exp(-distance / (2.0 * width))


def squared_discrepancy(one: jax.Array, two: jax.Array, width: Number) -> jax.Array:
    """Squared MMD: mean k(x, x') + mean k(y, y') - 2 mean k(x, y), no draw with itself. [B, n, a], [B, m, a] -> [B].

    Gretton et al. 2012, the unbiased estimate; around 0 it may be negative.
    """
    within = [_mean_of_pairs(laplacian_kernel(draws, draws, width)) for draws in (one, two)]
    return within[0] + within[1] - 2.0 * jnp.mean(laplacian_kernel(one, two, width), axis=(1, 2))


def judge(
    networks: Networks, obs: jax.Array, action: jax.Array, multiplier: jax.Array, hyper: Hyper
) -> Judgement:
    """Return, cost and constrained value of actions. obs [B, d]; action [B, n, a]."""
    reward_q = soft_minimum(networks.reward_critic(obs, action), hyper.reward_pessimism)[..., 0]
    cost_q = soft_minimum(networks.cost_critic(obs, action), 1.0 - hyper.cost_pessimism)
    return Judgement(reward_q, cost_q, constrained_value(reward_q, cost_q, multiplier))


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        keys = jax.random.split(key, 3)
        index = jax.random.randint(keys[0], (config.batch_size,), 0, len(data.row))
        start = jax.random.randint(keys[1], (config.initial_batch_size,), 0, len(data.initial))
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
            cost_range=data.cost_range,
            candidate=propose(keys[2], data, behaviour, row, config.candidates),
            initial_obs=data.obs[data.initial[start]],
        )

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        keys = jax.random.split(key, 3)
        sizes, channels = (batch.obs.shape[-1], batch.action.shape[-1]), batch.cost.shape[-1]
        layers = (config.hidden, config.hidden, channels)
        online = Networks(
            reward_critic=Committee(keys[0], *sizes, (*layers[:2], 1), 2, last_scale=0.01),
            cost_critic=Committee(keys[1], *sizes, layers, 2, last_scale=0.01),
            actor=GaussianActor(keys[2], *sizes, config.hidden),
        )
        return State(online, online, optimise.init(online), jnp.zeros(channels), jnp.ones(()))

    def targets(noise: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[jax.Array, jax.Array]:
        """Bellman targets of both critics at the action that the policy would take next."""
        action = state.target.actor.squash(batch.next_obs, noise)
        seen = judge(state.target, batch.next_obs, action, state.multiplier, hyper)
        next_reward, next_cost = best_of(seen.value, seen.reward_q, seen.cost_q)
        reward_on = reward_continues(batch.terminated, batch.stopped, False)
        return (
            bellman_target(batch.reward, hyper.discount, reward_on, next_reward),
            within_range(
                bellman_target(batch.cost, hyper.cost_discount, cost_continues(batch.last), next_cost),
                *batch.cost_range,
            ),
        )

    def loss(
        online: Networks,
        noise: jax.Array,
        state: State,
        batch: Batch,
        target: tuple[jax.Array, jax.Array],
        hyper: Hyper,
    ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
        """All losses at once; each network is reached by its own loss only."""
        reward_loss = joint_squared_error(online.reward_critic(batch.obs, batch.action), target[0][:, None])
        cost_loss = joint_squared_error(online.cost_critic(batch.obs, batch.action), target[1])
        action = online.actor.squash(batch.obs, noise)
        value = judge(jax.lax.stop_gradient(online), batch.obs, action, state.multiplier, hyper).value
        discrepancy = jnp.mean(squared_discrepancy(action, batch.candidate, hyper.kernel_width))
        # Divided by 1 + lambda: the leash need not grow with lambda.
        actor_loss = -jnp.mean(value) / (1.0 + jnp.sum(state.multiplier)) + state.leash * discrepancy
        return reward_loss + cost_loss + actor_loss, (reward_loss, cost_loss, actor_loss, discrepancy)

    def expected_cost(
        noise: jax.Array, online: Networks, batch: Batch, multiplier: jax.Array, hyper: Hyper
    ) -> jax.Array:
        """Mean Q_c(s, pi(s)) over initial states, [K]."""
        action = online.actor.squash(batch.initial_obs, noise)
        seen = judge(online, batch.initial_obs, action, multiplier, hyper)
        return jnp.mean(best_of(seen.value, seen.cost_q)[0], axis=0)

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        rows = (
            config.batch_size,
            2 * config.batch_size,
        )  # for the actor, for the targets, for the initial states
        every = jax.random.normal(
            key, (rows[1] + config.initial_batch_size, config.candidates, batch.action.shape[-1])
        )
        noise, next_noise, initial_noise = jnp.split(every, rows)
        target = targets(next_noise, state, batch, hyper)
        gradient, (reward_loss, cost_loss, actor_loss, discrepancy) = jax.grad(loss, has_aux=True)(
            state.online, noise, state, batch, target, hyper
        )
        change, optimiser = optimise.update(gradient, state.optimiser)
        online = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.online, change)
        slow = jax.tree.map(lambda t, o: soft_update(t, o, hyper.target_rate), state.target, online)
        estimate = expected_cost(initial_noise, online, batch, state.multiplier, hyper)
        multiplier = update_multiplier(state.multiplier, estimate, hyper.threshold, hyper.multiplier_rate)
        leash = update_multiplier(state.leash, discrepancy, hyper.discrepancy_limit, hyper.leash_rate)
        return (
            State(online, slow, optimiser, multiplier, leash),
            Info(reward_loss, cost_loss, actor_loss, discrepancy, leash, estimate, multiplier),
        )

    def policy(state: State, behaviour: FrozenBehaviour, hyper: Hyper) -> Actor:
        return Actor(state.online, behaviour, state.multiplier, jax.tree.map(jnp.asarray, hyper))

    def consider(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, Judgement]:
        action_size = policy.behaviour.scaling.action_centre.shape[0]
        noise = jax.random.normal(key, (config.test_candidates, action_size))  # the same for every row
        action = policy.networks.actor.squash(obs, jnp.broadcast_to(noise, (len(obs), *noise.shape)))
        return action, judge(policy.networks, obs, action, policy.multiplier, policy.hyper)

    def act(key: jax.Array, policy: Actor, memory: Any, obs: jax.Array) -> tuple[jax.Array, Any]:
        action, seen = consider(key, policy, obs)
        return best_of(seen.value, action)[0], memory

    def predict(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, seen = consider(key, policy, obs)
        reward_q, cost_q = best_of(seen.value, seen.reward_q, seen.cost_q)
        return reward_q, cost_q

    return Learner(sample, init, update, policy, act, predict)


def _mean_of_pairs(kernel: jax.Array) -> jax.Array:
    """Mean over pairs of different draws: [B, n, n] -> [B]."""
    count = kernel.shape[-1]
    own = jnp.trace(kernel, axis1=1, axis2=2)
    return (jnp.sum(kernel, axis=(1, 2)) - own) / (count * (count - 1))
