"""CPQ: earn only through actions whose remaining cost is within the threshold, and distrust unknown actions.

Xu et al., "Constraints Penalized Q-learning for Safe Offline Reinforcement Learning", 2022.

1. An action is allowed where the cost critic Q_c is within the threshold, in every channel.
2. The reward critics learn r + gamma * Q(s', a') through allowed actions only: from a forbidden one nothing follows.
3. The cost critic is pushed up at actions that the behaviour would not take until they are forbidden. The weight of
   that push, one for each channel, rises while they are not.
4. The actor raises Q at allowed actions. It needs no multiplier: a forbidden action has no price, it is forbidden.

What the threshold means: it bounds the cost that is still to come, at every state alike. At the start that is the
budget. Later it is stricter than the budget where cost is left to come and laxer where some was spent; the policy does
not count what it has spent. With no budget everything is allowed, nothing is pushed, and the actor is plainly greedy.

Deviates:
- from both: a forbidden action is worth the worst recorded reward for ever, if that is negative, and 0 otherwise. Where
  rewards are negative the 0 of the paper would be a bonus.
- from both: cost targets stay within the range of recorded sums.
- from both: where its action is forbidden the actor lowers the cost that is over the threshold. Theirs has no gradient
  there and stays where it is.
- from both: unknown is an action far from the recorded one and from all that the behaviour model proposes, as far as
  these are from each other. Theirs compare the divergence of the
  model's latents, which is largest at the ends of the range of actions, even where all recorded actions lie there.
- from both: the push ends at the threshold plus `margin`, action by action, so that known actions close by are left
  alone; and a cost that is over the threshold by less than half the margin is allowed, for no critic is exact.
- from OSRL: the push has a gradient (there it is computed without one); a stop is absorbing for the cost, the end of an
  episode too, and only the environment's own end for the reward.
- from both: several channels; a policy of one action for each state, the mode.
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
from rci.learning.behaviour import FrozenBehaviour, propose
from rci.learning.dataset import Dataset
from rci.learning.losses import (
    Number,
    bellman_target,
    cost_continues,
    joint_squared_error,
    reward_continues,
    soft_update,
    squared_error,
    within_range,
)
from rci.nets.dense import Committee, PairMlp, rows_of
from rci.nets.gaussian import GaussianActor


@dataclass(frozen=True)
class Config:
    """What changes a shape."""

    hidden: int = 128
    candidates: int = 10  # actions that the behaviour proposes: with the recorded one, the known ones
    draws: int = 10  # actions of the actor at each state that may be unknown
    batch_size: int = 256

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "candidates", "draws", "batch_size")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again, the threshold among them."""

    threshold: Number = 0.0  # set from the budget: [K]
    discount: float = 0.99
    cost_discount: float = 1.0
    learning_rate: float = 1e-3
    target_rate: float = 0.03
    margin: float = 0.04  # how far over the threshold unknown actions are pushed
    unknown_distance: float = (
        2.0  # how far an action is from all known ones, where these are 1 apart on average
    )
    push_rate: float = 0.03


class Batch(NamedTuple):
    """B transitions with n actions of the behaviour."""

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
    worst: jax.Array  # []: the worst recorded reward, at most 0


class Networks(eqx.Module):
    """Everything that is learned by gradient; the costs of all channels are outputs of one network."""

    reward_critic: Committee
    cost_critic: PairMlp
    actor: GaussianActor


class State(NamedTuple):
    """Everything that changes."""

    online: Networks
    target: Networks
    optimiser: Any
    push: jax.Array  # [K]: the weight of the push


class Info(NamedTuple):
    """Diagnostics of one update."""

    reward_loss: jax.Array
    cost_loss: jax.Array
    actor_loss: jax.Array
    allowed: jax.Array  # share of the actor's actions
    unknown: jax.Array  # share of the actor's actions
    push: jax.Array  # [K]


class Actor(NamedTuple):
    """What acting needs, and for predictions the critics; of the behaviour only its scaling."""

    networks: Networks
    behaviour: FrozenBehaviour


def excess(cost_q: jax.Array, threshold: Number) -> jax.Array:
    """By how much the cost is over the threshold in each channel, 0 if it is not. [..., K]."""
    return jnp.maximum(0.0, cost_q - rows_of(jnp.asarray(threshold), cost_q))


def is_allowed(cost_q: jax.Array, threshold: Number, slack: Number) -> jax.Array:
    """1 where no channel's cost is over its threshold by more than the slack: [..., K] -> [...]. Xu et al. 2022."""
    return jnp.all(excess(cost_q, threshold) <= slack, axis=-1).astype(cost_q.dtype)


def masked_value(value: jax.Array, allowed: jax.Array, worst: Number) -> jax.Array:
    """The value where the action is allowed, the worst one where it is not. All [...]; in the paper worst is 0."""
    return jnp.where(allowed > 0, value, worst)


def worst_value(worst: Number, discount: Number) -> Number:
    """The worst reward for ever. Rewards go on behind stops and time limits, so no recorded sum is low enough."""
    return worst / jnp.maximum(1.0 - discount, 1e-3)


def is_unknown(action: jax.Array, known: jax.Array, distance: Number) -> jax.Array:
    """1 where the nearest known action is too far away: action [B, m, a], known [B, n, a] -> [B, m].

    Too far is more than `distance` times what known actions are from their nearest neighbours on average, so that it
    goes by how widely, and in how many dimensions, the behaviour spreads. A difference is that of the worst dimension.
    """
    apart, spacing = (jnp.max(jnp.abs(x[:, :, None] - known[:, None]), axis=-1) for x in (action, known))
    itself = jnp.eye(known.shape[1], dtype=bool)[None]
    neighbour = jnp.min(jnp.where(itself, jnp.inf, spacing), axis=-1)
    limit = distance * jnp.mean(neighbour, axis=-1, keepdims=True)
    return (jnp.min(apart, axis=-1) > limit).astype(action.dtype)


def shortfall(cost_q: jax.Array, unknown: jax.Array, goal: Number) -> jax.Array:
    """How far unknown actions are below the goal, mean over them: [B, m, K], [B, m] -> [K]. 0 where all are known.

    Minimising it is the push, so it must not be cut off from the cost critic.
    """
    below = jnp.maximum(0.0, rows_of(jnp.asarray(goal), cost_q) - cost_q)
    # A goal without end (no budget) pushes nothing; its gradient is cut off before it becomes one of infinities.
    below = jnp.where(jnp.isinf(below), 0.0, below)
    return jnp.sum(below * unknown[..., None], axis=(0, 1)) / jnp.maximum(1.0, jnp.sum(unknown))


def update_push(push: jax.Array, short: jax.Array, margin: Number, rate: Number) -> jax.Array:
    """weight <- max(0, weight + rate * (shortfall - margin / 2)): it rests where unknown actions are just forbidden."""
    return jnp.maximum(0.0, push + rate * (short - 0.5 * margin))


def actor_loss(value: jax.Array, cost_q: jax.Array, allowed: jax.Array, threshold: Number) -> jax.Array:
    """Mean of -Q where the action is allowed, and of the cost over the threshold where it is not. [B], [B, K], [B]."""
    over = jnp.sum(excess(cost_q, threshold), axis=-1)
    return jnp.mean(jnp.where(allowed > 0, -value, over))


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        row_key, candidate_key = jax.random.split(key)
        index = jax.random.randint(row_key, (config.batch_size,), 0, len(data.row))
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
            candidate=propose(candidate_key, data, behaviour, row, config.candidates),
            worst=jnp.minimum(0.0, jnp.min(data.reward)),
        )

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        keys = jax.random.split(key, 3)
        sizes, channels = (batch.obs.shape[-1], batch.action.shape[-1]), batch.cost.shape[-1]
        layers = (config.hidden, config.hidden, channels)
        online = Networks(
            reward_critic=Committee(keys[0], *sizes, (*layers[:2], 1), 2, last_scale=0.01),
            cost_critic=PairMlp(keys[1], *sizes, layers, last_scale=0.01),
            actor=GaussianActor(keys[2], *sizes, config.hidden),
        )
        return State(online, online, optimise.init(online), jnp.zeros(channels))

    def targets(noise: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[jax.Array, jax.Array]:
        """Bellman targets of both critics at the actor's next action."""
        action = state.target.actor.squash(batch.next_obs, noise)[:, 0]
        reward_q = jnp.minimum(*state.target.reward_critic(batch.next_obs, action))[:, 0]
        cost_q = state.target.cost_critic(batch.next_obs, action)
        allowed = is_allowed(cost_q, hyper.threshold, 0.5 * hyper.margin)
        reward_on = reward_continues(batch.terminated, batch.stopped, False)
        next_value = masked_value(reward_q, allowed, worst_value(batch.worst, hyper.discount))
        return (
            bellman_target(batch.reward, hyper.discount, reward_on, next_value),
            within_range(
                bellman_target(batch.cost, hyper.cost_discount, cost_continues(batch.last), cost_q),
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
        cost_loss = squared_error(
            online.cost_critic(batch.obs, batch.action), jax.lax.stop_gradient(target[1])
        )
        drawn = online.actor.squash(batch.obs, noise)
        known = jnp.concatenate([batch.candidate, batch.action[:, None]], axis=1)
        unknown = is_unknown(drawn, known, hyper.unknown_distance)
        pushed = online.cost_critic(batch.obs, jax.lax.stop_gradient(drawn))
        short = shortfall(pushed, unknown, hyper.threshold + hyper.margin)
        frozen, action = jax.lax.stop_gradient(online), drawn[:, 0]
        value = jnp.minimum(*frozen.reward_critic(batch.obs, action))[:, 0]
        cost_q = frozen.cost_critic(batch.obs, action)
        allowed = is_allowed(cost_q, hyper.threshold, 0.5 * hyper.margin)
        improvement = actor_loss(value, cost_q, allowed, hyper.threshold)
        total = reward_loss + cost_loss + jnp.sum(state.push * short) + improvement
        return total, (reward_loss, cost_loss, improvement, jnp.mean(allowed), jnp.mean(unknown), short)

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        shape = (config.batch_size, 1 + config.draws, batch.action.shape[-1])  # one for the targets
        next_noise, noise = jnp.split(jax.random.normal(key, shape), (1,), axis=1)
        target = targets(next_noise, state, batch, hyper)
        gradient, (reward_loss, cost_loss, improvement, allowed, unknown, short) = jax.grad(
            loss, has_aux=True
        )(state.online, noise, state, batch, target, hyper)
        change, optimiser = optimise.update(gradient, state.optimiser)
        online = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.online, change)
        slow = jax.tree.map(lambda t, o: soft_update(t, o, hyper.target_rate), state.target, online)
        push = update_push(state.push, short, hyper.margin, hyper.push_rate)
        return State(online, slow, optimiser, push), Info(
            reward_loss, cost_loss, improvement, allowed, unknown, push
        )

    def policy(state: State, behaviour: FrozenBehaviour, hyper: Hyper) -> Actor:
        return Actor(state.online, behaviour)

    def act(key: jax.Array, policy: Actor, memory: Any, obs: jax.Array) -> tuple[jax.Array, Any]:
        return policy.networks.actor.mode(obs), memory

    def predict(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        action = policy.networks.actor.mode(obs)
        reward_q = jnp.minimum(*policy.networks.reward_critic(obs, action))[:, 0]
        return reward_q, policy.networks.cost_critic(obs, action)

    return Learner(sample, init, update, policy, act, predict)
