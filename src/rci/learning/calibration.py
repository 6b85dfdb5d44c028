"""Which threshold keeps which budget: policies at many thresholds, judged from logs.

A ladder of thresholds makes a ladder of policies that share their networks. All of them are judged at once by fitted-Q
evaluation of the labels: one network with an output for every rung learns the chance of a stop before the end of the
episode, Q_j(s, t, a) = the label at a stop, 0 at the end, otherwise Q_j(s', t + 1, pi_j(s')). The step t is an input,
because the chance of a stop before the end depends on how much is left, which no observation tells.

The estimate of a rung is the mean of Q_j(s, 0, pi_j(s)) over first observations of episodes that had no part in the fit
of the policy. The equation itself is fitted to those episodes and, where they are few, to others as well: with a tenth
of the transitions, two judges of one safe policy said 11% and 43%.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.record import Array
from rci.data.thresholds import Ladder
from rci.learning.dataset import Dataset
from rci.learning.losses import hazard_target, soft_update
from rci.nets.dense import Committee, PairMlp
from rci.nets.keys import stage_key
from rci.nets.rows import RowCommittee, RowMlp

CHUNK = 500  # updates per compiled call
PIECE = 1024  # observations at which all policies act in one compiled call
ENOUGH = 50_000  # transitions that the judges see, where there are so many
MARGIN = 1.64  # standard errors: a one-sided bound of 95%
WRONG_TOGETHER = 1.3  # of tuning logs; see decision 020
HAZARDS = (0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6)
QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.995)


class Settings(NamedTuple):
    """How the policies are judged."""

    updates: int = 8000
    batch_size: int = 256
    learning_rate: float = 1e-3
    target_rate: float = 0.01
    members: int = 4  # judges, each of its own draw of the episodes


class Judge(eqx.Module):
    """Outputs for M rungs: the return [..., M], and logits of a stop [..., M, K]. The step stands beside the action."""

    net: PairMlp | RowMlp
    rungs: int = eqx.field(static=True)

    def __call__(self, obs: jax.Array, step: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """obs [B, d], step [B], action [B, a] or [B, n, a]."""
        step = jnp.broadcast_to(step.reshape(-1, *(1,) * (action.ndim - 1)), (*action.shape[:-1], 1))
        out = self.net(obs, jnp.concatenate([action, step], axis=-1))
        return out[..., : self.rungs], out[..., self.rungs :].reshape(*out.shape[:-1], self.rungs, -1)

    def own(self, obs: jax.Array, step: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Of each rung's own action, [B, M, a]: return [B, M], logit [B, M, K]."""
        reward, logit = self(obs, step, action)  # [B, M, M], [B, M, M, K]
        index = jnp.arange(self.rungs)
        return reward[:, index, index], logit[:, index, index]


class Held(NamedTuple):
    """Transitions, and what every policy does at their observations."""

    obs: jax.Array  # [observations, d]
    step: jax.Array  # [observations]: from -1 to 1, the longest episode's end
    row: jax.Array  # [n]
    action: jax.Array  # [n, a]
    reward: jax.Array  # [n]
    label: jax.Array  # [n, K]
    stopped: jax.Array  # [n]
    last: jax.Array  # [n]
    chosen: jax.Array  # [observations, M, a]
    initial: jax.Array  # [N]: first observations of the episodes apart
    range: jax.Array  # [2]: the lowest and the highest return that was still to come in a recording


class Estimates(NamedTuple):
    """Of each rung, by each member and for each held-out first observation: return [E, N, M], stop [E, N, M, K]."""

    returns: Array
    stops: Array


def calibrate(
    act_at: Callable[[Any, jax.Array, jax.Array], jax.Array],
    actor: Any,
    data: Dataset,
    lengths: Array,
    apart: Array,
    hazard: bool,
    seed: int,
    progress: Callable[[float], None] = lambda share: None,
    settings: Settings | None = None,
) -> Ladder:
    """Judge the policy at every rung.

    act_at(actor, thresholds [M, K], obs [B, d]) -> what the policy does under each threshold, [B, M, a]. lengths: kept
    transitions of each episode; apart: which episodes had no part in the fit, [N]; hazard: whether costs
    are chances, so that the usual thresholds fit.
    """
    settings = settings or Settings()
    thresholds = (*(HAZARDS if hazard else _quantiles(actor.critic, data, lengths, apart)), math.inf)
    every = jnp.broadcast_to(
        jnp.asarray(thresholds, jnp.float32)[:, None], (len(thresholds), data.label_cost.shape[-1])
    )
    judges = [
        first_judge(actor.critic, member, len(thresholds), hazard, stage_key(seed, "calibrate"))
        for member in range(settings.members)
    ]
    found = judge_all(
        hold(data, lengths, apart, partial(act_at, actor, every)), judges, seed, settings, progress
    )
    unit = float(actor.behaviour.scaling.reward_unit)
    return Ladder(
        np.array(thresholds),
        found.stops.mean(axis=(0, 1)),
        upper_bound(found.stops),
        unit * found.returns.mean(axis=(0, 1)),
    )


def upper_bound(stops: Array) -> Array:
    """What the chance of a stop is not believed to exceed, from [judges, episodes, M, K]: [M, K].

    The estimate and 1.64 standard errors, of the first observations and of the judges, who disagree; and that 1.3
    times, because judges may be wrong together.
    """
    over_states = stops.mean(axis=0).std(axis=0) / math.sqrt(stops.shape[1])
    over_judges = stops.mean(axis=1).std(axis=0)
    bound = stops.mean(axis=(0, 1)) + MARGIN * np.hypot(over_states, over_judges)
    return np.minimum(WRONG_TOGETHER * bound, 1.0)


def _quantiles(
    critic: Committee | RowCommittee, data: Dataset, lengths: Array, apart: Array
) -> tuple[float, ...]:
    """Thresholds for costs of no known scale: what the critics say of actions that were recorded."""
    chosen = np.flatnonzero(np.repeat(apart, lengths))[: 8 * PIECE]
    obs, action = data.obs[data.row[chosen]], data.action[chosen]
    cost = np.maximum.reduce([np.asarray(out[:, 1:]) for out in critic(obs, action)])
    return tuple(np.unique(np.quantile(cost, QUANTILES).astype(np.float32)).astype(float).tolist())


def first_judge(
    critic: Committee | RowCommittee, member: int, rungs: int, hazard: bool, key: jax.Array
) -> Judge:
    """A judge that begins with what a critic of the policy has learned to see; its answers are that critic's.

    From there it takes a fraction of the updates, and it comes from below: the critic expects the best of what lies
    ahead. From random weights it comes from above and stays there: over a hundred steps, a little too much of
    danger in each adds up (70% where 5% was true). The step has no say at first. Where the critic's costs are no
    chances, its features alone are taken.
    """
    net = critic.member(member % len(critic))
    (*inner, last), (*biases, bias) = net.rest.weights, net.rest.biases
    if not hazard:
        last = 0.01 * jax.random.normal(jax.random.fold_in(key, member), last.shape)
        bias = jnp.zeros_like(bias)
    # [h, 1 + K] -> [h, M + M * K]: every rung the same.
    outputs = jnp.concatenate([jnp.repeat(last[:, :1], rungs, 1), jnp.tile(last[:, 1:], (1, rungs))], axis=1)
    start = jnp.concatenate([jnp.repeat(bias[:1], rungs), jnp.tile(bias[1:], rungs)])
    weight = cast(jax.Array, net.action_weight)  # a critic sees actions
    action_weight = jnp.concatenate([weight, jnp.zeros((1, weight.shape[1]))])
    net = eqx.tree_at(
        lambda n: (n.action_weight, n.rest.weights, n.rest.biases),
        net,
        (action_weight, (*inner, outputs), (*biases, start)),
    )
    return Judge(net, rungs)


def hold(data: Dataset, lengths: Array, apart: Array, act: Callable[[jax.Array], jax.Array]) -> Held:
    """Transitions of the episodes `apart` [N] and, up to ENOUGH, of others.

    act: [B, d] -> what each policy does there, [B, M, a].
    """
    order = np.argsort(~apart, kind="stable")
    many = int(np.searchsorted(np.cumsum(lengths[order]), ENOUGH, side="right"))
    used = np.zeros(len(apart), bool)
    used[order[: max(many, int(apart.sum()))]] = True
    transition = np.flatnonzero(np.repeat(used, lengths))
    seen = np.flatnonzero(np.repeat(used, lengths + 1))
    number = np.full(len(data.obs), -1)
    number[seen] = np.arange(len(seen))
    obs = np.asarray(data.obs)[seen]
    step = np.concatenate([np.arange(n + 1) for n in lengths[used]]) / int(lengths.max())
    pick = {
        name: jnp.asarray(np.asarray(getattr(data, name))[transition])
        for name in ("action", "reward", "stopped", "last")
    }
    return Held(
        obs=jnp.asarray(obs),
        step=jnp.asarray(2 * step - 1, jnp.float32),
        row=jnp.asarray(number[np.asarray(data.row)[transition]], jnp.int32),
        label=jnp.asarray(np.asarray(data.label_cost)[transition]),
        chosen=jnp.asarray(_in_pieces(act, obs)),
        initial=jnp.asarray(number[np.asarray(data.initial)[apart]], jnp.int32),
        range=jnp.asarray([data.reward_to_go.min(), data.reward_to_go.max()]),
        **pick,
    )


def judge_all(
    held: Held, judges: Sequence[Judge], seed: int, settings: Settings, progress: Callable[[float], None]
) -> Estimates:
    """All policies, by every judge."""
    start, run, answer = _compiled(settings)
    returns, stops = [], []
    lengths = np.diff(np.flatnonzero(held.last), prepend=-1)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    for member, judge in enumerate(judges):
        key = jax.random.fold_in(stage_key(seed, "calibrate"), member)
        # Each member sees its own draw of the episodes, with repetition, so that they differ as other logs would.
        drawn = np.random.default_rng([seed, member]).integers(0, len(lengths), len(lengths))
        rows = np.repeat(np.arange(len(episode)), np.bincount(drawn, minlength=len(lengths))[episode])
        again = jnp.asarray(np.resize(rows, len(episode)), jnp.int32)  # of one size: compiled once
        state = start(judge)
        for first in range(0, settings.updates, CHUNK):
            state = run(key, first, min(CHUNK, settings.updates - first), state, held, again)
            progress((member + min(1.0, (first + CHUNK) / settings.updates)) / len(judges))
        reward, stop = answer(state[1], held)
        returns.append(np.asarray(reward, np.float64))
        stops.append(np.asarray(stop, np.float64))
    return Estimates(np.stack(returns), np.stack(stops))


def _in_pieces(act: Callable[[jax.Array], jax.Array], obs: Array) -> Array:
    pieces = [
        np.asarray(act(jnp.asarray(obs[np.arange(first, first + PIECE) % len(obs)])))
        for first in range(0, len(obs), PIECE)
    ]
    return np.concatenate(pieces)[: len(obs)]


@lru_cache(maxsize=4)
def _compiled(settings: Settings) -> tuple[Callable, Callable, Callable]:
    optimise = optax.scale_by_adam()

    @jax.jit
    def start(judge: Judge) -> tuple[Judge, Judge, Any]:
        return judge, judge, optimise.init(judge)

    def loss(judge: Judge, held: Held, index: jax.Array, target: tuple[jax.Array, jax.Array]) -> jax.Array:
        row = held.row[index]
        reward, logit = judge(held.obs[row], held.step[row], held.action[index])
        error = jax.nn.softplus(logit) - target[1] * logit
        return jnp.mean(jnp.sum((reward - target[0]) ** 2, axis=-1)) + jnp.mean(jnp.sum(error, axis=(1, 2)))

    @jax.jit
    def run(key: jax.Array, first: int, count: int, state: Any, held: Held, rows: jax.Array) -> Any:
        def step(i: jax.Array, state: Any) -> Any:
            online, slow, optimiser = state
            draw_key = jax.random.fold_in(key, first + i)
            index = rows[jax.random.randint(draw_key, (settings.batch_size,), 0, len(rows))]
            after = held.row[index] + 1
            reward, logit = slow.own(held.obs[after], held.step[after], held.chosen[after])
            # A stop ends the chance of another one, but not what would have been earned; the end ends both.
            on = 1.0 - held.last[index] * (1.0 - held.stopped[index])
            ahead = on[:, None, None] * jax.nn.sigmoid(logit)
            stop = jax.vmap(hazard_target, (None, None, 1), 1)(held.label[index], held.stopped[index], ahead)
            earned = held.reward[index][:, None] + on[:, None] * reward
            target = jnp.clip(earned, held.range[0], held.range[1]), stop
            gradient = jax.grad(loss)(online, held, index, jax.lax.stop_gradient(target))
            change, optimiser = optimise.update(gradient, optimiser)
            online = jax.tree.map(lambda p, c: p - settings.learning_rate * c, online, change)
            slow = jax.tree.map(lambda t, o: soft_update(t, o, settings.target_rate), slow, online)
            return online, slow, optimiser

        return jax.lax.fori_loop(0, count, step, state)

    @jax.jit
    def answer(judge: Judge, held: Held) -> tuple[jax.Array, jax.Array]:
        first = held.initial
        reward, logit = judge.own(held.obs[first], held.step[first], held.chosen[first])
        return reward, jax.nn.sigmoid(logit)

    return start, run, answer
