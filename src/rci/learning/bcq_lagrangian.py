"""BCQ-Lagrangian: choose among actions that the behaviour might have taken the best one within the budget.

Paper: Section IV, Stage 3; Fujimoto et al., "Off-Policy Deep Reinforcement Learning without Exploration", 2019.

1. A frozen behaviour model proposes candidate actions; a small actor may nudge each of them.
2. Twin critics learn the return, twin cost critics the remaining episodic cost, both of the policy below.
3. The policy takes the candidate with the highest Q - lambda * (cost).
4. lambda rises while the expected cost is over the threshold, and falls otherwise.

With several channels of cost there is one lambda for each, which follows its own estimate and threshold; the price of
an action is their sum.

`variant = "critic"`: the cost in (3) is the cost critic Q_c, and the reward critic stays pure.
`variant = "penalised"`: the paper's Bellman target, y = r + gamma * max_a' [Q(s', a') - lambda * c~(s', a')], with
a learned one-step cost model for c~(s', a'); Q then contains the penalties to come.

Deviates:
- from the paper: Q_c is trained in both variants (its heatmaps need it), and lambda is driven by it.
- from BCQ and OSRL: the behaviour model is trained once and frozen; reward and cost targets share one set of
  candidates; two critics of each kind; a stop is absorbing for the cost, the end of an episode too, and only
  the environment's own end for the reward; lambda by the paper's rule, no PID controller.
- from BCQ: at test time the candidates' latents come from one fixed seed, so the policy is a function.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from rci.data.options import require_positive
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour, propose
from rci.learning.budget import update_multiplier
from rci.learning.dataset import Batch, Dataset
from rci.learning.losses import (
    Number,
    bellman_target,
    best_of,
    constrained_value,
    cost_continues,
    reward_continues,
    soft_minimum,
    soft_update,
    squared_error,
    twin_squared_error,
)
from rci.nets.critic import Critic
from rci.nets.dense import PairMlp


@dataclass(frozen=True)
class Config:
    """What changes a shape or the program."""

    variant: Literal["critic", "penalised"] = "critic"
    estimate: Literal["initial", "batch"] = "initial"  # where the expected cost is measured for lambda
    hidden: int = 128
    candidates: int = 10
    test_candidates: int = 32
    batch_size: int = 256
    initial_batch_size: int = 64
    stop_ends_reward: bool = False  # whether a stop ends the reward too; then the label leaks into it

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "candidates", "test_candidates", "batch_size", "initial_batch_size")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again, the threshold among them."""

    threshold: Number = 0.0  # set from the budget: [K]
    discount: float = 0.99
    cost_discount: float = 1.0
    learning_rate: float = 1e-3
    target_rate: float = 0.005
    reward_pessimism: float = 0.75  # weight of the lower twin
    cost_pessimism: float = 0.5  # weight of the higher twin
    nudge: float = 0.05  # largest change of a candidate by the actor
    multiplier_rate: float = 1e-3


class Networks(eqx.Module):
    """Everything that is learned by gradient. `step_cost` is None unless the variant needs it.

    The costs of all channels are outputs of one network.
    """

    reward_critic: Critic
    cost_critic: Critic
    actor: PairMlp
    step_cost: PairMlp | None


class State(NamedTuple):
    """Everything that changes."""

    online: Networks
    target: Networks
    optimiser: Any
    multiplier: jax.Array  # [K]


class Info(NamedTuple):
    """Diagnostics of one update."""

    reward_loss: jax.Array
    cost_loss: jax.Array
    actor_loss: jax.Array
    cost_estimate: jax.Array  # [K]
    multiplier: jax.Array  # [K]


class Actor(NamedTuple):
    """What acting needs: the networks, the behaviour that proposes, and the final multiplier."""

    networks: Networks
    behaviour: FrozenBehaviour
    multiplier: jax.Array
    hyper: Hyper


class Judgement(NamedTuple):
    """Candidates [B, n] seen by the critics."""

    reward_q: jax.Array
    cost_q: jax.Array  # [B, n, K]
    value: jax.Array  # Q - sum of lambda * cost: what the policy maximises


def nudge(actor: PairMlp, obs: jax.Array, candidate: jax.Array, limit: Number) -> jax.Array:
    """candidate + limit * tanh(actor(obs, candidate)), kept in [-1, 1]. Fujimoto et al. 2019."""
    return jnp.clip(candidate + limit * jnp.tanh(actor(obs, candidate)), -1.0, 1.0)


def judge(
    networks: Networks, obs: jax.Array, action: jax.Array, multiplier: jax.Array, hyper: Hyper
) -> Judgement:
    """Return, cost and constrained value of actions. obs [B, d]; action [B, a] or [B, n, a]."""
    reward_q = soft_minimum(*networks.reward_critic(obs, action), hyper.reward_pessimism)[..., 0]
    cost_q = soft_minimum(*networks.cost_critic(obs, action), 1.0 - hyper.cost_pessimism)
    cost = cost_q if networks.step_cost is None else networks.step_cost(obs, action)
    return Judgement(reward_q, cost_q, constrained_value(reward_q, cost, multiplier))


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        keys = jax.random.split(key, 5)
        now = 1 if config.estimate == "initial" else config.candidates  # the actor needs one
        index = jax.random.randint(keys[0], (config.batch_size,), 0, len(data.row))
        start = jax.random.randint(keys[1], (config.initial_batch_size,), 0, len(data.initial))
        row, first = data.row[index], data.initial[start]
        return Batch(
            obs=data.obs[row],
            next_obs=data.obs[row + 1],
            action=data.action[index],
            reward=data.reward[index],
            cost=data.cost[index],
            terminated=data.terminated[index],
            truncated=data.truncated[index],
            stopped=data.stopped[index],
            last=data.last[index],
            candidate=propose(keys[2], data, behaviour, row, now),
            next_candidate=propose(keys[3], data, behaviour, row + 1, config.candidates),
            initial_obs=data.obs[first],
            initial_candidate=propose(keys[4], data, behaviour, first, config.candidates),
        )

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        keys = jax.random.split(key, 4)
        sizes, channels = (batch.obs.shape[-1], batch.action.shape[-1]), batch.cost.shape[-1]
        layers = (config.hidden, config.hidden, channels)
        online = Networks(
            reward_critic=Critic(keys[0], *sizes, config.hidden, 1),
            cost_critic=Critic(keys[1], *sizes, config.hidden, channels),
            actor=PairMlp(keys[2], *sizes, (config.hidden, config.hidden, sizes[1])),
            step_cost=PairMlp(keys[3], *sizes, layers) if config.variant == "penalised" else None,
        )
        return State(online, online, optimise.init(online), jnp.zeros(channels))

    def targets(state: State, batch: Batch, hyper: Hyper) -> tuple[jax.Array, jax.Array]:
        """Bellman targets of both critics at the action that the policy would take next."""
        action = nudge(state.target.actor, batch.next_obs, batch.next_candidate, hyper.nudge)
        seen = judge(state.target, batch.next_obs, action, state.multiplier, hyper)
        value = seen.value if config.variant == "penalised" else seen.reward_q
        next_value, next_cost = best_of(seen.value, value, seen.cost_q)
        reward_on = reward_continues(batch.terminated, batch.stopped, config.stop_ends_reward)
        return (
            bellman_target(batch.reward, hyper.discount, reward_on, next_value),
            bellman_target(batch.cost, hyper.cost_discount, cost_continues(batch.last), next_cost),
        )

    def loss(
        online: Networks,
        batch: Batch,
        target: tuple[jax.Array, jax.Array],
        multiplier: jax.Array,
        hyper: Hyper,
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
        """All losses at once; each network is reached by its own loss only."""
        reward_loss = twin_squared_error(online.reward_critic(batch.obs, batch.action), target[0][:, None])
        cost_loss = twin_squared_error(online.cost_critic(batch.obs, batch.action), target[1])
        frozen = jax.lax.stop_gradient(online)
        proposal = batch.candidate[:, 0]
        action = nudge(online.actor, batch.obs, proposal, hyper.nudge)
        # Divided by 1 + lambda: Adam's memory of earlier gradients stays in scale while lambda moves.
        value = judge(frozen, batch.obs, action, multiplier, hyper).value
        actor_loss = -jnp.mean(value) / (1.0 + jnp.sum(multiplier))
        total = reward_loss + cost_loss + actor_loss
        if online.step_cost is not None:
            total += squared_error(online.step_cost(batch.obs, batch.action), batch.cost)
        return total, (reward_loss, cost_loss, actor_loss)

    def expected_cost(online: Networks, batch: Batch, multiplier: jax.Array, hyper: Hyper) -> jax.Array:
        """Mean Q_c(s, pi(s)), [K]: over initial states, which the budget is about, or over the batch (the paper)."""
        if config.estimate == "initial":
            obs, candidate = batch.initial_obs, batch.initial_candidate
        else:
            obs, candidate = batch.obs, batch.candidate
        seen = judge(online, obs, nudge(online.actor, obs, candidate, hyper.nudge), multiplier, hyper)
        return jnp.mean(best_of(seen.value, seen.cost_q)[0], axis=0)

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        target = targets(state, batch, hyper)
        gradient, parts = jax.grad(loss, has_aux=True)(state.online, batch, target, state.multiplier, hyper)
        change, optimiser = optimise.update(gradient, state.optimiser)
        online = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.online, change)
        slow = jax.tree.map(lambda t, o: soft_update(t, o, hyper.target_rate), state.target, online)
        estimate = expected_cost(online, batch, state.multiplier, hyper)
        multiplier = update_multiplier(state.multiplier, estimate, hyper.threshold, hyper.multiplier_rate)
        return State(online, slow, optimiser, multiplier), Info(
            parts[0], parts[1], parts[2], estimate, multiplier
        )

    def policy(state: State, behaviour: FrozenBehaviour, hyper: Hyper) -> Actor:
        return Actor(state.online, behaviour, state.multiplier, jax.tree.map(jnp.asarray, hyper))

    def consider(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, Judgement]:
        latent = jax.random.normal(key, (config.test_candidates, policy.behaviour.vae.latent_size))
        candidate = policy.behaviour.decode(obs, jnp.broadcast_to(latent, (len(obs), *latent.shape)))
        action = nudge(policy.networks.actor, obs, candidate, policy.hyper.nudge)
        return action, judge(policy.networks, obs, action, policy.multiplier, policy.hyper)

    def act(key: jax.Array, policy: Actor, memory: Any, obs: jax.Array) -> tuple[jax.Array, Any]:
        action, seen = consider(key, policy, obs)
        return best_of(seen.value, action)[0], memory

    def predict(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, seen = consider(key, policy, obs)
        reward_q, cost_q = best_of(seen.value, seen.reward_q, seen.cost_q)
        return reward_q, cost_q

    return Learner(sample, init, update, policy, act, predict)
