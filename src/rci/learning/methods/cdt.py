"""Constrained decision transformer: do what was done by those who went on to earn this much at this cost.

Liu et al., "Constrained Decision Transformer for Offline Safe Reinforcement Learning", 2023.

1. Every recorded step is given with what its episode still earned and cost from there on, the return- and cost-to-go.
2. A causal transformer over the last steps learns to answer with the action that was taken.
3. To act, it is given a high return that episodes within the budget reached, and the budget as the cost-to-go.
4. After each step both are lowered by what the step earned and cost. The policy sees observations only, so those are
   estimates of its own, from two more heads that learn the recorded rewards and step costs.

Nothing is bootstrapped, so the policy never does better than the best that was recorded from such a state on; and
where episodes cost 0 or 1, a cost-to-go between them was never seen, and the answer is what the network makes of it.

Deviates:
- from the paper: return-to-go, cost-to-go, observation and the action before it enter as one token per step instead of
  four; this is the same, in a quarter of the sequence, which is what a CPU can bear. The heads for reward and cost see
  the action itself. How long ago a step was counts (ALiBi), not which step it was: no embedding of time.
- from the paper: one action without noise, by squared error, instead of a normal distribution with an entropy bonus;
  and no augmentation by pairs of a low cost and a return out of reach. Both are left out for simplicity.
- from the paper: the initial return is not set by hand for each task, but a quantile of the returns that were recorded
  within the budget. A channel without a budget is given what the best of those episodes cost in it.
- from OSRL: costs are numbers to regress on, of any size and sign; there they are cast to whole numbers, so that a
  cost of 0.3 is none, and the cost-to-go is subtracted from a fixed 50. There both are lowered by the simulator's own
  numbers at test time; a policy that is let loose has none.
- from OSRL: a step counts the same wherever it lies in its episode, although fewer windows hold the first ones.
- A stop cuts the recorded return, and without a critic nothing looks past it. So a stopped episode is one of low
  return here, where other learners bootstrap through the stop.
- A percentile is of discounted costs, the cost-to-go is not; as a cost-to-go it asks for less than it allows.
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
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.dataset import Dataset, first_steps
from rci.learning.losses import Number, weighted_squared_error
from rci.nets.attention import Transformer
from rci.nets.dense import Mlp, Normaliser, PairMlp, normaliser, rows_of


@dataclass(frozen=True)
class Config:
    """What changes a shape."""

    context: int = 10  # steps that the policy looks back at, the present one included
    hidden: int = 64
    heads: int = 4
    layers: int = 2
    batch_size: int = 128

    def __post_init__(self) -> None:
        require_positive(self, "context", "hidden", "heads", "layers", "batch_size")
        if self.hidden % self.heads:
            raise RciError(f"hidden must be a multiple of heads, got {self.hidden} and {self.heads}.")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    threshold: Number = 0.0  # set from the budget: [K]
    discount: float = 0.99  # of the costs that a percentile is of
    learning_rate: float = 1e-3
    return_quantile: float = 0.9  # of the returns within the budget: what the policy is asked to earn
    signal_weight: float = 0.1  # of the error of rewards and costs, next to that of actions


class Recorded(NamedTuple):
    """What the whole dataset is like; read once, before the first update. A signal is the reward, then K costs."""

    signal: tuple[jax.Array, jax.Array]  # mean and deviation over steps, [1 + K] each
    to_go: tuple[jax.Array, jax.Array]  # the same of what is to come
    total: jax.Array  # [N, 1 + K]: of each episode
    within: jax.Array  # [N]: 1 where it kept the budget


class Batch(NamedTuple):
    """B windows of T steps, those of one episode that follow a drawn step; behind its end there is padding."""

    obs: jax.Array  # [B, T, d]
    before: jax.Array  # [B, T, a]: the action before, 0 at the first step of an episode
    to_go: jax.Array  # [B, T, 1 + K]
    action: jax.Array  # [B, T, a]
    signal: jax.Array  # [B, T, 1 + K]
    weight: jax.Array  # [B, T]: 0 where padded
    recorded: Recorded


class Network(eqx.Module):
    """Tokens [B, T, features] -> what the policy does at each step, and what a step with an action earns and costs."""

    trunk: Transformer
    action_head: Mlp
    signal_head: PairMlp

    def __init__(self, key: jax.Array, obs_size: int, action_size: int, signals: int, config: Config) -> None:
        keys = jax.random.split(key, 3)
        features, hidden = signals + obs_size + action_size, config.hidden
        self.trunk = Transformer(keys[0], features, hidden, config.heads, config.layers, config.context)
        self.action_head = Mlp(keys[1], (hidden, action_size), last_scale=0.1)
        self.signal_head = PairMlp(keys[2], hidden, action_size, (hidden, signals), last_scale=0.1)

    def __call__(self, token: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Actions in [-1, 1], and the features that `signal_head` takes together with an action."""
        feature = self.trunk(token)
        return jnp.tanh(self.action_head(feature)), feature


class State(NamedTuple):
    """Everything that changes, and what was read from the data at the beginning."""

    network: Network
    optimiser: Any
    signal_scale: Normaliser
    to_go_scale: Normaliser
    target: jax.Array  # [1 + K]: what an episode is given at its start


class Info(NamedTuple):
    """Diagnostics of one update; rewards and costs in units of their deviation."""

    action_loss: jax.Array
    signal_loss: jax.Array


class Actor(NamedTuple):
    """What acting needs."""

    network: Network
    signal_scale: Normaliser
    to_go_scale: Normaliser
    target: jax.Array
    behaviour: FrozenBehaviour


class Memory(NamedTuple):
    """One episode so far: its last tokens, the latest behind the others, and what is still asked of it."""

    token: jax.Array  # [T, features]
    taken: jax.Array  # []: how many steps
    to_go: jax.Array  # [1 + K]
    before: jax.Array  # [a]


def first_target(total: jax.Array, within: jax.Array, threshold: jax.Array, quantile: Number) -> jax.Array:
    """What an episode is asked to earn and cost: [1 + K], from totals [N, 1 + K] of recorded episodes.

    The return is a quantile over the episodes within the budget, a recorded one. The cost is the threshold; where that
    is infinite, the mean cost of the episodes within the budget that earned so much or more, so that the two agree.
    """
    kept = within > 0
    goal = jnp.nanquantile(jnp.where(kept, total[:, 0], jnp.nan), quantile, method="lower")
    best = (kept & (total[:, 0] >= goal)).astype(total.dtype)
    spent = best @ total[:, 1:] / jnp.sum(best)
    return jnp.concatenate([goal[None], jnp.where(jnp.isinf(threshold), spent, threshold)])


def window_rows(start: jax.Array, step: jax.Array, length: int) -> tuple[jax.Array, jax.Array]:
    """The transitions from each of `start` [B] on, and whether they are of its episode: [B, length] each.

    step: [rows], each transition's place in its episode. What lies behind the last row is that row, and is not.
    """
    row = start[:, None] + jnp.arange(length)[None]
    held = jnp.minimum(row, len(step) - 1)
    same = (step[held] - step[start][:, None] == jnp.arange(length)[None]) & (row == held)
    return held, same


def step_weight(step: jax.Array, valid: jax.Array, length: int) -> jax.Array:
    """1 / the number of windows that hold a step, 0 for padding. A window may begin at any step of an episode.

    Step t is in those that begin at t - length + 1 .. t, as far as there are such steps.
    """
    return valid / jnp.minimum(step + 1, length)


def tokens(to_go: jax.Array, obs: jax.Array, before: jax.Array, scale: Normaliser) -> jax.Array:
    """The inputs of each step: scaled return- and cost-to-go, observation, action before. [..., features]."""
    return jnp.concatenate([scale(to_go), obs, before], axis=-1)


def spend(to_go: jax.Array, estimate: jax.Array, scale: Normaliser) -> jax.Array:
    """What is left to earn and to cost after a step, by its scaled estimate: to_go - (mean + scale * estimate)."""
    return to_go - (rows_of(scale.mean, estimate) + rows_of(scale.scale, estimate) * estimate)


def remember(token: jax.Array, taken: jax.Array, new: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The new token behind those of the episode [B, T, features], and its place [B]. Once full, the oldest goes."""
    length = token.shape[1]
    full = jnp.broadcast_to((taken >= length)[:, None, None], token.shape)
    token = jnp.where(full, jnp.roll(token, -1, axis=1), token)
    place = jnp.minimum(taken, length - 1)
    return token.at[jnp.arange(len(token)), place].set(new), place


def make(config: Config) -> Learner:
    """The learner with this configuration."""
    optimise = optax.scale_by_adam()

    def sample(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour) -> Batch:
        start = jax.random.randint(key, (config.batch_size,), 0, len(data.row))
        row, valid = window_rows(start, data.step, config.context)
        signal = jnp.concatenate([data.reward[:, None], data.cost], axis=-1)
        to_go = jnp.concatenate([data.reward_to_go[:, None], data.cost_to_go], axis=-1)
        first = first_steps(data)
        inner = (data.step[row] > 0)[..., None]
        return Batch(
            obs=data.obs[data.row[row]],
            before=jnp.where(inner, data.action[row - 1], 0.0),
            to_go=to_go[row],
            action=data.action[row],
            signal=signal[row],
            weight=step_weight(data.step[row], valid, config.context),
            # Only `init` reads these, so that nothing of them is computed in an update.
            recorded=Recorded(
                signal=(signal.mean(axis=0), signal.std(axis=0)),
                to_go=(to_go.mean(axis=0), to_go.std(axis=0)),
                total=to_go[first],
                within=data.within[first],
            ),
        )

    def init(key: jax.Array, batch: Batch, hyper: Hyper) -> State:
        recorded, signals = batch.recorded, batch.signal.shape[-1]
        network = Network(key, batch.obs.shape[-1], batch.action.shape[-1], signals, config)
        threshold = jnp.broadcast_to(jnp.asarray(hyper.threshold, jnp.float32), (signals - 1,))
        return State(
            network=network,
            optimiser=optimise.init(network),
            signal_scale=normaliser(*recorded.signal),
            to_go_scale=normaliser(*recorded.to_go),
            target=first_target(recorded.total, recorded.within, threshold, hyper.return_quantile),
        )

    def loss(network: Network, state: State, batch: Batch, hyper: Hyper) -> tuple[jax.Array, Info]:
        action, feature = network(tokens(batch.to_go, batch.obs, batch.before, state.to_go_scale))
        estimate = network.signal_head(feature, batch.action)
        action_loss = weighted_squared_error(action, batch.action, batch.weight)
        signal_loss = weighted_squared_error(estimate, state.signal_scale(batch.signal), batch.weight)
        return action_loss + hyper.signal_weight * signal_loss, Info(action_loss, signal_loss)

    def update(key: jax.Array, state: State, batch: Batch, hyper: Hyper) -> tuple[State, Info]:
        gradient, info = jax.grad(loss, has_aux=True)(state.network, state, batch, hyper)
        change, optimiser = optimise.update(gradient, state.optimiser)
        network = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.network, change)
        return state._replace(network=network, optimiser=optimiser), info

    def policy(state: State, behaviour: FrozenBehaviour, hyper: Hyper) -> Actor:
        return Actor(state.network, state.signal_scale, state.to_go_scale, state.target, behaviour)

    def memory(actor: Actor) -> Memory:
        features, actions = (
            actor.network.trunk.embedding_weight.shape[0],
            actor.network.action_head.biases[-1],
        )
        blank = jnp.zeros((config.context, features))
        return Memory(blank, jnp.zeros((), jnp.int32), actor.target, jnp.zeros_like(actions))

    def act(key: jax.Array, actor: Actor, memory: Memory, obs: jax.Array) -> tuple[jax.Array, Memory]:
        new = tokens(memory.to_go, obs, memory.before, actor.to_go_scale)
        token, place = remember(memory.token, memory.taken, new)
        actions, features = actor.network(token)
        row = jnp.arange(len(obs))
        action, feature = actions[row, place], features[row, place]
        estimate = actor.network.signal_head(feature, action)
        left = spend(memory.to_go, estimate, actor.signal_scale)
        return action, Memory(token, memory.taken + 1, left, action)

    return Learner(sample, init, update, policy, act, memory=memory)
