"""Feasible: of the actions that the logs support, the best one whose chance of a stop stays below a threshold.

Critics learn in-sample: no action is ever proposed in a target, so none can be overrated there.

1. Q is the return of going on well from an action that was recorded, its target r + discount * V(s'). V is an expectile
   of the lowest of the target critics over recorded actions. Kostrikov et al., "Offline Reinforcement Learning with
   Implicit Q-Learning", 2021.
2. The hazard P is the chance of a stop, discounted, learned in the same way: 1 at a stop, otherwise discount * V_p(s').
   V_p is a *low* expectile, because what counts is whether a good driver would still get out. On labels of stops this
   is the reachability operator of Zheng et al., "Safe Offline Reinforcement Learning with Feasibility-Guided Diffusion
   Model", 2024. A time limit does not end the hazard: the danger would still be there.
3. Acting: a fixed set of draws of the behaviour model; of those whose highest P is below the threshold, the one with
   the highest Q + weight * log b(a | s) / dimensions of a; if there is none, the one with the lowest P. Hansen-Estruch
   et al., "IDQL", 2023.

The threshold has no part in the training: one training serves every budget. Which threshold keeps which budget is
tried afterwards, in models of the world; see `rci.learning.judging.simulation.calibration`.

Step costs: those of `sparse` are labels, so P is a probability, learned by cross-entropy (`head = "hazard"`). Costs
between 0 and 1 (`sign = "nonnegative"` of a redistributor) can be read as chances that the step itself did it, and have
the same head. Others have no such meaning; their critic is linear, with squared errors, and its threshold is a number
on its own scale (`head = "linear"`). Several channels have a hazard and a threshold each.

Guides, for comparison: the target of the hazard of the labels is drawn towards what redistribution has charged so far
(`guide = "charged"`, for `rudder` the predicted chance of a stop), or towards what became of the episode
(`guide = "outcome"`, Monte Carlo). Both say how dangerous it was with the driver who was at the wheel.

What a person drove after taking over (`demonstrations`) are transitions without a stop, drawn with a weight.

Deviates:
- from IQL and IDQL: return and hazard are outputs of one network; acting uses running averages of the critics' weights,
  because those of a single update jump; no actor is extracted, and the density of the behaviour takes part in the
  choice, because the critics know little of an action that was hardly ever taken.
- from FISOR: labels of stops instead of a violation function of states; a threshold that is chosen, not 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.errors import RciError
from rci.data.options import require_positive
from rci.data.record import Array
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.dataset import Dataset, draw_fitted
from rci.learning.losses import (
    Number,
    bellman_target,
    best_of,
    expectile_error,
    hazard_target,
    joint_cross_entropy,
    joint_squared_error,
    soft_minimum,
    soft_update,
)
from rci.nets.dense import Committee, Mlp, in_blocks, rows_of
from rci.nets.rows import RowCommittee, RowMlp

BLOCK = 16  # observations whose candidates are judged at once; of a thousand it takes five times as long
FIRST_LOGIT = -2.0  # of a hazard: at first everything is fairly safe, and stops teach otherwise


@dataclass(frozen=True)
class Config:
    """What changes a shape or the program."""

    head: Literal["auto", "hazard", "linear"] = "auto"  # of the costs; auto: hazard for labels and guides
    guide: Literal["none", "charged", "outcome"] = "none"
    hidden: int = 128
    rows: int = 0  # how many an observation is made of; those of the behaviour model
    row_hidden: int = 64  # of what is seen of a row
    critics: int = 4
    test_candidates: int = 64
    batch_size: int = 256
    # Of each model of the world in which thresholds are tried after the training; 0 = none is tried or promised.
    model_updates: int = 6_000

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "row_hidden", "critics", "test_candidates", "batch_size")
        if self.model_updates < 0:
            raise RciError(f"model_updates must be at least 0, got {self.model_updates}.")
        if self.guide != "none" and self.head == "linear":
            raise RciError("a guide draws hazards, so head must be 'hazard' or 'auto' with it.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again; the threshold matters after training alone."""

    threshold: Number = 0.0  # set after the training: [K]
    discount: float = 0.98
    cost_discount: float = 0.99
    expectile: float = 0.7  # of the return: more is closer to the best recorded action
    cost_expectile: float = 0.1  # of the hazard: less is closer to the safest recorded action
    # Of log b(a | s) by dimension of the action, against the return in the unit of rewards.
    likelihood_weight: float = 0.1
    guide_weight: float = 0.5  # of the guide in the target of the hazard
    learning_rate: float = 1e-3
    target_rate: float = 0.02
    average_rate: float = 0.001  # how much of the critics that act an update replaces


class Batch(NamedTuple):
    """B transitions."""

    obs: jax.Array  # [B, d]
    action: jax.Array  # [B, a]
    reward: jax.Array  # [B]
    cost: jax.Array  # [B, K]
    label_cost: jax.Array  # [B, K]
    charged: jax.Array  # [B, K]: step costs of the episode so far, this one included
    outcome: jax.Array  # [B, K]: the label of the episode
    left: jax.Array  # [B]: how many transitions of the episode are to come
    next_obs: jax.Array  # [B, d]
    terminated: jax.Array  # [B]
    stopped: jax.Array  # [B]


class Networks(eqx.Module):
    """The first output is the return, the others are the costs of the channels: logits of hazards, or costs."""

    critic: Committee | RowCommittee
    value: Mlp | RowMlp


class State(NamedTuple):
    """Everything that changes."""

    online: Networks
    target: Committee | RowCommittee
    average: Committee | RowCommittee  # what acts
    optimiser: Any


class Info(NamedTuple):
    """Diagnostics of one update."""

    reward_loss: jax.Array
    cost_loss: jax.Array
    value_loss: jax.Array
    cost_value: jax.Array  # [K]: mean of V_p over the batch


class Actor(NamedTuple):
    """What acting needs."""

    critic: Committee | RowCommittee
    behaviour: FrozenBehaviour
    hyper: Hyper


class Judgement(NamedTuple):
    """Candidates [B, n] seen by the critics."""

    action: jax.Array  # [B, n, a]
    reward_q: jax.Array
    cost_q: jax.Array  # [B, n, K]
    value: jax.Array  # Q + weight * log b / a: what the policy maximises where it is allowed to


def choice_score(value: jax.Array, cost_q: jax.Array, threshold: jax.Array) -> jax.Array:
    """Highest for the action to take: [B, n], [B, n, K], [K] -> [B, n].

    Where some candidate is below the threshold in every channel: the value among those, -inf for the others. Where none
    is: minus how much the cost is over its threshold, in the worst channel.
    """
    excess = jnp.max(cost_q - rows_of(threshold, cost_q), axis=-1)
    allowed = excess < 0
    some = rows_of(jnp.any(allowed, axis=-1, keepdims=True), allowed)
    return jnp.where(some, jnp.where(allowed, value, -jnp.inf), -excess)


def settle(config: Config, costs: Array, labels: Array, rows: int) -> Config:
    """The configuration for these step costs and observations, "auto" replaced. costs and labels: [transitions, K]."""
    head = config.head
    costs_are_labels = bool(np.array_equal(costs, labels))
    if head == "auto":
        head = "hazard" if costs_are_labels or config.guide != "none" else "linear"
    if head == "hazard" and config.guide == "none" and not (costs.min() >= 0.0 and costs.max() <= 1.0 + 1e-6):
        raise RciError(
            "head='hazard' reads step costs as chances, so they must lie between 0 and 1, as those of 'sparse' do, or "
            "of a redistributor with sign='nonnegative'; these lie between "
            f"{costs.min():.3g} and {costs.max():.3g}. Leave head 'auto', or set 'linear'."
        )
    return replace(config, head=head, rows=rows)


def guided(target: jax.Array, guide: jax.Array, weight: Number, stopped: jax.Array) -> jax.Array:
    """(1 - weight) * target + weight * guide; where the episode was stopped, there is nothing to guess. [B, K], [B]."""
    weight = weight * (1.0 - stopped[:, None])
    return target + weight * (guide - target)


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()
    hazard = config.head != "linear"

    def return_and_cost(outputs: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Outputs of a network as return [...] and costs [..., K]."""
        cost = outputs[..., 1:]
        return outputs[..., 0], jax.nn.sigmoid(cost) if hazard else cost

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        index = draw_fitted(key, data, config.batch_size)
        row = data.row[index]
        return Batch(
            obs=data.obs[row],
            action=data.action[index],
            reward=data.reward[index],
            cost=data.cost[index],
            label_cost=data.label_cost[index],
            charged=data.cost_to_go[index - data.step[index]] - data.cost_to_go[index] + data.cost[index],
            outcome=data.label_cost[index + data.left[index]],
            left=data.left[index],
            next_obs=data.obs[row + 1],
            terminated=data.terminated[index],
            stopped=data.stopped[index],
        )

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        critic_key, value_key = jax.random.split(key)
        obs_size, action_size, channels = batch.obs.shape[-1], batch.action.shape[-1], batch.cost.shape[-1]
        bias = jnp.concatenate([jnp.zeros(1), jnp.full(channels, FIRST_LOGIT if hazard else 0.0)])
        outputs, start = 1 + channels, (0.01, bias)  # at first all answer about the bias
        critic: Committee | RowCommittee
        value: Mlp | RowMlp
        if config.rows:
            layers, rows = (config.row_hidden, config.hidden, outputs), config.rows
            critic = RowCommittee(critic_key, rows, obs_size, action_size, layers, config.critics, *start)
            value = RowMlp(value_key, rows, obs_size, 0, layers, *start)
        else:
            layers = (config.hidden, config.hidden, outputs)
            critic = Committee(critic_key, obs_size, action_size, layers, config.critics, *start)
            value = Mlp(value_key, (obs_size, *layers), *start)
        online = Networks(critic, value)
        return State(online, critic, critic, optimise.init(online))

    def targets(state: State, batch: Batch, hyper: Hyper) -> tuple[jax.Array, jax.Array]:
        """What the critics learn: of the return [B] and of the costs [B, K]."""
        next_value, next_cost = return_and_cost(state.online.value(batch.next_obs))
        on = 1.0 - batch.terminated
        reward = bellman_target(batch.reward, hyper.discount, on, next_value)
        if hazard:
            ahead = hyper.cost_discount * on[:, None] * next_cost
            own = batch.cost if config.guide == "none" else batch.label_cost
            target = hazard_target(own, batch.stopped, ahead)
            if config.guide == "none":
                return reward, target
            guide = jnp.clip(batch.charged, 0.0, 1.0)
            if config.guide == "outcome":
                guide = batch.outcome * hyper.cost_discount ** batch.left[:, None]
            return reward, guided(target, guide, hyper.guide_weight, batch.stopped)
        on = on * (1.0 - batch.stopped)
        return reward, bellman_target(batch.cost, hyper.cost_discount, on, next_cost)

    def loss(
        online: Networks, state: State, batch: Batch, target: tuple[jax.Array, jax.Array], hyper: Hyper
    ) -> tuple[jax.Array, Info]:
        outputs = online.critic(batch.obs, batch.action)
        reward_loss = joint_squared_error([out[:, :1] for out in outputs], target[0][:, None])
        compare = joint_cross_entropy if hazard else joint_squared_error
        cost_loss = compare([out[:, 1:] for out in outputs], target[1])
        seen = [return_and_cost(out) for out in state.target(batch.obs, batch.action)]
        lowest = soft_minimum([reward for reward, _ in seen], 1.0)
        highest = soft_minimum([cost for _, cost in seen], 0.0)
        value, cost_value = return_and_cost(online.value(batch.obs))
        value_loss = expectile_error(value[:, None], lowest[:, None], hyper.expectile)
        value_loss += expectile_error(cost_value, highest, hyper.cost_expectile)
        info = Info(reward_loss, cost_loss, value_loss, jnp.mean(cost_value, axis=0))
        return reward_loss + cost_loss + value_loss, info

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        target = jax.lax.stop_gradient(targets(state, batch, hyper))
        gradient, info = jax.grad(loss, has_aux=True)(state.online, state, batch, target, hyper)
        change, optimiser = optimise.update(gradient, state.optimiser)
        online = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.online, change)
        slow = jax.tree.map(lambda t, o: soft_update(t, o, hyper.target_rate), state.target, online.critic)
        average = jax.tree.map(
            lambda a, o: soft_update(a, o, hyper.average_rate), state.average, online.critic
        )
        return State(online, slow, average, optimiser), info

    def policy(state: State, behaviour: FrozenBehaviour, hyper: Hyper) -> Actor:
        return Actor(state.average, behaviour, jax.tree.map(jnp.asarray, hyper))

    def draw(key: jax.Array, policy: Actor) -> jax.Array:
        return policy.behaviour.model.draws(key, (config.test_candidates,))

    def consider(policy: Actor, draws: jax.Array, obs: jax.Array) -> Judgement:
        action = policy.behaviour.from_draws(draws, obs)
        seen = [return_and_cost(out) for out in policy.critic(obs, action)]
        reward_q = soft_minimum([reward for reward, _ in seen], 1.0)
        cost_q = soft_minimum([cost for _, cost in seen], 0.0)
        likelihood = policy.behaviour.log_prob(obs, action)
        weight = policy.hyper.likelihood_weight / action.shape[-1]
        value = reward_q if likelihood is None else reward_q + weight * likelihood
        return Judgement(action, reward_q, cost_q, value)

    def choose(policy: Actor, draws: jax.Array, obs: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The action to take, and what the critics say of it."""
        seen = consider(policy, draws, obs)
        score = choice_score(seen.value, seen.cost_q, jnp.asarray(policy.hyper.threshold))
        action, reward_q, cost_q = best_of(score, seen.action, seen.reward_q, seen.cost_q)
        return action, reward_q, cost_q

    def act(key: jax.Array, policy: Actor, memory: Any, obs: jax.Array) -> tuple[jax.Array, Any]:
        return in_blocks(partial(choose, policy, draw(key, policy)), obs, BLOCK)[0], memory

    def act_at(key: jax.Array, policy: Actor, thresholds: jax.Array, obs: jax.Array) -> jax.Array:
        draws = draw(key, policy)

        def choices(obs: jax.Array) -> jax.Array:
            seen = consider(policy, draws, obs)
            score = jax.vmap(choice_score, (None, None, 0))(seen.value, seen.cost_q, thresholds)
            index = jnp.argmax(score, axis=-1)  # [M, B]
            return jnp.take_along_axis(seen.action, index.T[..., None], axis=1)

        return in_blocks(choices, obs, BLOCK)

    def predict(key: jax.Array, policy: Actor, obs: jax.Array) -> tuple[jax.Array, jax.Array]:
        return in_blocks(partial(choose, policy, draw(key, policy)), obs, BLOCK)[1:]

    return Learner(sample, init, update, policy, act, predict, act_at)
