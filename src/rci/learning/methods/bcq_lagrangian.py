"""BCQ-Lagrangian: choose among actions that the behaviour might have taken the best one within the budget.

Paper: Section IV, Stage 3; Fujimoto et al., "Off-Policy Deep Reinforcement Learning without Exploration", 2019.

1. A frozen behaviour model proposes candidate actions; a small actor may nudge each of them.
2. Twin critics learn the return, twin cost critics the remaining episodic cost, both of the policy below.
3. The policy takes the candidate with the highest Q - lambda * (cost).
4. lambda rises while the expected cost is over the threshold, and falls otherwise.
5. What lambda follows is estimated by an auditor: a critic of the labels themselves, which has no say in (3).

Controls, for those who think that the baseline was weak: the cost critic may learn from several recorded steps at once
(`cost_steps`, `cost_lambda`, to the end of the episode with `cost_steps = 0`), which carries a label back faster, but
is the cost of the recorded behaviour and not of the policy; and a hinge may stand in for lambda (`pricing`).

With several channels of cost there is one lambda for each, which follows its own estimate and threshold; the price of
an action is their sum.

`variant = "critic"`: the cost in (3) is the cost critic Q_c, and the reward critic stays pure.
`variant = "penalised"`: the paper's Bellman target, y = r + gamma * max_a' [Q(s', a') - lambda * c~(s', a')], with
a learned one-step cost model for c~(s', a'); Q then contains the penalties to come.

Deviates:
- from the paper: Q_c is trained in both variants, because its heatmaps need it. lambda is driven by the auditor. Q_c
  at the action that looked best is too low, because errors in its favour made it the best; and step costs sum to the
  label along recorded episodes, not on average over (s, a) along those of another policy. The auditor has neither
  fault. `estimate = "batch"` is the paper's rule, `"initial"` the same at initial states, without an auditor. A
  percentile of step costs means nothing to the auditor: such a budget is compared with Q_c at initial states.
- from BCQ and OSRL: the behaviour model is trained once and frozen; reward and cost targets share one set of
  candidates; two critics of each kind; a stop is absorbing for the cost, the end of an episode too, and only
  the environment's own end for the reward; lambda by the paper's rule, no PID controller; cost targets stay within the
  range of recorded sums, because undiscounted errors grow with every step and the choice of the best prefers them.
- from BCQ: at test time the candidates' latents come from one fixed seed, so the policy is a function.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour, propose
from rci.learning.budget import relative_gap, update_multiplier
from rci.learning.controls import own_proposals, summed_steps, to_learn_alongside
from rci.learning.dataset import Batch, Dataset, draw, look_ahead
from rci.learning.losses import (
    Number,
    bellman_target,
    best_of,
    constrained_value,
    cost_continues,
    hinged_value,
    joint_squared_error,
    reward_continues,
    soft_minimum,
    soft_update,
    squared_error,
    within_range,
)
from rci.learning.proposals.vae import Vae
from rci.nets.dense import Committee, PairMlp, rows_of

SMOOTHING = 0.01  # how much of the smoothed expected cost an update replaces


@dataclass(frozen=True)
class Config:
    """What changes a shape or the program."""

    variant: Literal["critic", "penalised"] = "critic"
    estimate: Literal["audited", "initial", "batch"] = (
        "audited"  # who estimates the expected cost for lambda, and where
    )
    gap: Literal["plain", "relative"] = (
        "plain"  # how the auditor's cost is held against a budget that is a number
    )
    draws: Literal["steps", "episodes"] = "steps"  # what is drawn evenly for a batch
    hidden: int = 128
    critics: int = 2  # networks of each kind
    candidates: int = 10
    test_candidates: int = 32
    batch_size: int = 256
    initial_batch_size: int = 4
    shared_targets: bool = True  # whether the targets of both critics look at the same candidates
    alongside: int = 0  # width of a behaviour model that learns with the critics; 0 = the frozen one
    stop_ends_reward: bool = False  # whether a stop ends the reward too; then the label leaks into it
    cost_steps: int = (
        1  # recorded steps that a cost target sums before it asks the critic; 0 = to the end of the episode
    )
    cost_lambda: float = (
        0.0  # above 0: their number is drawn anew, each further one with this chance (TD(lambda))
    )
    pricing: Literal["multiplier", "hinge"] = (
        "multiplier"  # hinge: a fixed price on what is over the threshold
    )

    def __post_init__(self) -> None:
        if self.cost_steps < 0 or not 0 <= self.cost_lambda < 1:
            raise RciError(
                f"cost_steps must not be negative and cost_lambda must be in [0, 1), got {self.cost_steps} and "
                f"{self.cost_lambda}."
            )
        if self.cost_lambda > 0 and self.cost_steps != 1:
            raise RciError("cost_lambda draws the number of steps, so cost_steps cannot be set as well.")
        if self.pricing == "hinge" and self.variant == "penalised":
            raise RciError("a hinge prices the cost critic; the penalised target has a price of its own.")
        require_positive(self, "hidden", "critics", "candidates", "test_candidates")
        require_positive(self, "batch_size", "initial_batch_size")
        if self.gap == "relative" and self.estimate != "audited":
            raise RciError(
                f"a relative gap is one between an auditor and a budget; estimate is {self.estimate!r}."
            )
        if self.alongside < 0:
            raise RciError(f"alongside is a width, so it cannot be {self.alongside}.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again, the threshold among them."""

    threshold: Number = 0.0  # set from the budget: [K]
    audited: Number = 0.0  # set from the budget: [K], 1 where the auditor is compared with it, 0 where Q_c is
    discount: float = 0.99
    cost_discount: float = 1.0
    learning_rate: float = 1e-3
    target_rate: float = 0.03  # fast, because an undiscounted cost must come back a whole episode
    reward_pessimism: float = 0.75  # weight of the lower twin
    cost_pessimism: float = 0.5  # weight of the higher twin
    nudge: float = 0.05  # largest change of a candidate by the actor
    multiplier_rate: float = 0.03
    hinge_price: float = 10.0  # in the unit of rewards


class Networks(eqx.Module):
    """Everything that is learned by gradient; the last three are None where the configuration has no use for them.

    The costs of all channels are outputs of one network.
    """

    reward_critic: Committee
    cost_critic: Committee
    actor: PairMlp
    step_cost: PairMlp | None
    auditor: PairMlp | None
    vae: Vae | None


class State(NamedTuple):
    """Everything that changes."""

    online: Networks
    target: Networks
    optimiser: Any
    multiplier: jax.Array  # [K]
    smoothed: jax.Array  # [K]: the expected cost, averaged over the last updates


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


class Targets(NamedTuple):
    """What the critics learn: of the return [B], the cost [B, K] and, where there is an auditor, the label [B, K]."""

    reward: jax.Array
    cost: jax.Array
    audit: jax.Array | None


class Judgement(NamedTuple):
    """Candidates [B, n] seen by the critics."""

    reward_q: jax.Array
    cost_q: jax.Array  # [B, n, K]
    value: jax.Array  # Q - sum of lambda * cost: what the policy maximises


def nudge(actor: PairMlp, obs: jax.Array, candidate: jax.Array, limit: Number) -> jax.Array:
    """candidate + limit * tanh(actor(obs, candidate)), kept in [-1, 1]. Fujimoto et al. 2019."""
    return jnp.clip(candidate + limit * jnp.tanh(actor(obs, candidate)), -1.0, 1.0)


def judge(
    networks: Networks,
    obs: jax.Array,
    action: jax.Array,
    multiplier: jax.Array,
    hyper: Hyper,
    hinge: bool = False,
) -> Judgement:
    """Return, cost and constrained value of actions. obs [B, d]; action [B, a] or [B, n, a]."""
    reward_q = soft_minimum(networks.reward_critic(obs, action), hyper.reward_pessimism)[..., 0]
    cost_q = soft_minimum(networks.cost_critic(obs, action), 1.0 - hyper.cost_pessimism)
    if hinge:
        return Judgement(reward_q, cost_q, hinged_value(reward_q, cost_q, hyper.threshold, hyper.hinge_price))
    cost = cost_q if networks.step_cost is None else networks.step_cost(obs, action)
    return Judgement(reward_q, cost_q, constrained_value(reward_q, cost, multiplier))


def leaders(networks: Networks) -> Networks:
    """The first member of every committee: it is enough to give the actor a direction. Fujimoto et al. 2019."""
    first = (networks.reward_critic.lead(), networks.cost_critic.lead())
    return eqx.tree_at(lambda n: (n.reward_critic, n.cost_critic), networks, first)


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()
    steps_ahead = config.cost_steps != 1 or config.cost_lambda > 0

    seen_by = partial(judge, hinge=config.pricing == "hinge")

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        keys = jax.random.split(key, 6)
        now = config.candidates if config.estimate == "batch" else 1  # the actor needs one
        index = draw(keys[0], data, config.batch_size, config.draws)
        ahead, ahead_row = None, data.row[index] + 1
        if steps_ahead:
            steps = summed_steps(key, config.batch_size, config.cost_steps, config.cost_lambda, len(data.row))
            ahead, ahead_row = look_ahead(data, index, steps)
        start = jax.random.randint(keys[1], (config.initial_batch_size,), 0, len(data.initial))
        row, first = data.row[index], data.initial[start]
        return Batch(
            obs=data.obs[row],
            next_obs=data.obs[row + 1],
            action=data.action[index],
            reward=data.reward[index],
            cost=data.cost[index],
            label_cost=data.label_cost[index],
            cost_range=data.cost_range,
            model=to_learn_alongside(behaviour.model) if config.alongside else None,
            terminated=data.terminated[index],
            truncated=data.truncated[index],
            stopped=data.stopped[index],
            last=data.last[index],
            candidate=propose(keys[2], data, behaviour, row, now),
            next_candidate=propose(keys[3], data, behaviour, row + 1, config.candidates),
            cost_candidate=None
            if config.shared_targets and not steps_ahead
            else propose(keys[5], data, behaviour, ahead_row, config.candidates),
            initial_obs=data.obs[first],
            initial_candidate=propose(keys[4], data, behaviour, first, config.candidates),
            ahead=ahead,
        )

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        keys = jax.random.split(key, 6)
        sizes, channels = (batch.obs.shape[-1], batch.action.shape[-1]), batch.cost.shape[-1]
        layers = (config.hidden, config.hidden, channels)
        # Critics near zero at first: a random answer would move the multiplier before anything was learned.
        online = Networks(
            reward_critic=Committee(keys[0], *sizes, (*layers[:2], 1), config.critics, last_scale=0.01),
            cost_critic=Committee(keys[1], *sizes, layers, config.critics, last_scale=0.01),
            actor=PairMlp(keys[2], *sizes, (*layers[:2], sizes[1])),
            step_cost=PairMlp(keys[3], *sizes, layers) if config.variant == "penalised" else None,
            auditor=PairMlp(keys[5], *sizes, layers, last_scale=0.01)
            if config.estimate == "audited"
            else None,
            vae=None if batch.model is None else batch.model.fresh(keys[4], config.alongside),
        )
        return State(online, online, optimise.init(online), jnp.zeros(channels), jnp.zeros(channels))

    def targets(state: State, batch: Batch, hyper: Hyper) -> Targets:
        """Bellman targets of all critics at the action that the policy would take next."""

        def look(candidate: jax.Array, obs: jax.Array) -> tuple[jax.Array, ...]:
            action = nudge(state.target.actor, obs, candidate, hyper.nudge)
            seen = seen_by(state.target, obs, action, state.multiplier, hyper)
            value = seen.value if config.variant == "penalised" else seen.reward_q
            return best_of(seen.value, value, seen.cost_q, action)

        next_value, next_cost, next_action = look(batch.next_candidate, batch.next_obs)
        if batch.cost_candidate is not None:
            after = batch.next_obs if batch.ahead is None else batch.ahead.obs
            _, next_cost, _ = look(batch.cost_candidate, after)
        reward_on = reward_continues(batch.terminated, batch.stopped, config.stop_ends_reward)
        cost_on = cost_continues(batch.last)
        cost, on = (batch.cost, cost_on) if batch.ahead is None else (batch.ahead.cost, batch.ahead.on)
        audit = None
        if state.target.auditor is not None:
            next_label = state.target.auditor(batch.next_obs, next_action)
            audit = within_range(bellman_target(batch.label_cost, 1.0, cost_on, next_label), 0.0, 1.0)
        return Targets(
            reward=bellman_target(batch.reward, hyper.discount, reward_on, next_value),
            cost=within_range(bellman_target(cost, hyper.cost_discount, on, next_cost), *batch.cost_range),
            audit=audit,
        )

    def loss(
        online: Networks,
        key: jax.Array,
        batch: Batch,
        target: Targets,
        multiplier: jax.Array,
        hyper: Hyper,
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
        """All losses at once; each network is reached by its own loss only."""
        reward_loss = joint_squared_error(
            online.reward_critic(batch.obs, batch.action), target.reward[:, None]
        )
        cost_loss = joint_squared_error(online.cost_critic(batch.obs, batch.action), target.cost)
        frozen = jax.lax.stop_gradient(online)
        proposal = batch.candidate[:, 0]
        action = nudge(online.actor, batch.obs, proposal, hyper.nudge)
        # Divided by 1 + lambda: Adam's memory of earlier gradients stays in scale while lambda moves.
        value = seen_by(leaders(frozen), batch.obs, action, multiplier, hyper).value
        actor_loss = -jnp.mean(value) / (1.0 + jnp.sum(multiplier))
        total = reward_loss + cost_loss + actor_loss
        if online.step_cost is not None:
            total += squared_error(online.step_cost(batch.obs, batch.action), batch.cost)
        if online.auditor is not None and target.audit is not None:
            total += joint_squared_error([online.auditor(batch.obs, batch.action)], target.audit)
        if online.vae is not None:
            total += online.vae.loss(key, batch.obs, batch.action)
        return total, (reward_loss, cost_loss, actor_loss)

    def expected_cost(online: Networks, batch: Batch, multiplier: jax.Array, hyper: Hyper) -> jax.Array:
        """Mean cost of pi(s), [K]: at initial states, which the budget is about, or over the batch (the paper)."""
        if config.estimate == "batch":
            obs, candidate = batch.obs, batch.candidate
        else:
            obs, candidate = batch.initial_obs, batch.initial_candidate
        action = nudge(online.actor, obs, candidate, hyper.nudge)
        seen = seen_by(online, obs, action, multiplier, hyper)
        cost, chosen = best_of(seen.value, seen.cost_q, action)
        if online.auditor is not None:
            audited = rows_of(jnp.asarray(hyper.audited), cost)
            cost = jnp.where(audited > 0, online.auditor(obs, chosen), cost)
        return jnp.mean(cost, axis=0)

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        keys = jax.random.split(key)
        if state.online.vae is not None:
            batch = own_proposals(keys[0], state.online.vae, batch)
        target = targets(state, batch, hyper)
        gradient, parts = jax.grad(loss, has_aux=True)(
            state.online, keys[1], batch, target, state.multiplier, hyper
        )
        change, optimiser = optimise.update(gradient, state.optimiser)
        online = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.online, change)
        slow = jax.tree.map(lambda t, o: soft_update(t, o, hyper.target_rate), state.target, online)
        estimate = expected_cost(online, batch, state.multiplier, hyper)
        smoothed = soft_update(state.smoothed, estimate, SMOOTHING)
        followed = estimate
        if config.gap == "relative":
            gap = relative_gap(smoothed, hyper.threshold)
            followed = jnp.where(jnp.asarray(hyper.audited) > 0, hyper.threshold + gap, estimate)
        multiplier = update_multiplier(state.multiplier, followed, hyper.threshold, hyper.multiplier_rate)
        return State(online, slow, optimiser, multiplier, smoothed), Info(
            parts[0], parts[1], parts[2], estimate, multiplier
        )

    def policy(state: State, behaviour: FrozenBehaviour, hyper: Hyper) -> Actor:
        if state.online.vae is not None:
            behaviour = behaviour._replace(model=state.online.vae)
        return Actor(state.online, behaviour, state.multiplier, jax.tree.map(jnp.asarray, hyper))

    def consider(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, Judgement]:
        candidate = policy.behaviour.same_draws(key, obs, config.test_candidates)
        action = nudge(policy.networks.actor, obs, candidate, policy.hyper.nudge)
        return action, seen_by(policy.networks, obs, action, policy.multiplier, policy.hyper)

    def act(key: jax.Array, policy: Actor, memory: Any, obs: jax.Array) -> tuple[jax.Array, Any]:
        action, seen = consider(key, policy, obs)
        return best_of(seen.value, action)[0], memory

    def predict(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        _, seen = consider(key, policy, obs)
        reward_q, cost_q = best_of(seen.value, seen.reward_q, seen.cost_q)
        return reward_q, cost_q

    return Learner(sample, init, update, policy, act, predict)
