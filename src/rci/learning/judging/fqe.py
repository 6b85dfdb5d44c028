"""Fitted-Q evaluation: what a finished policy will earn and cost, from logs alone.

Le et al., "Batch Policy Learning under Constraints", 2019, Algorithm 3; Paine et al., "Hyperparameter Selection for
Offline Reinforcement Learning", 2020.

1. The policy says once what it would do at every recorded observation; a policy is a function, so that never changes.
2. Q(s, a) and Q_c(s, a) are regressed onto r + gamma * Q(s', pi(s')) and c~ + Q_c(s', pi(s')), over and over.
3. Some episodes are held out: their first observations give the estimates, Q(s0, pi(s0)) and Q_c(s0, pi(s0)), and
   their transitions say how far the critics are from solving their own equation.
4. Nothing is maximised, and no candidate, multiplier or budget takes part, so that all policies are judged alike,
   whatever learner they come from.

The cost ends with the recording, and with a stop above all; the return only where the environment ended it, so that it
is what an episode without a time limit would earn, discounted.

Deviates:
- from Le et al.: one gradient step at a time towards slow target networks, instead of a regression solved anew in each
  iteration; the estimates are read from the slow networks, which average over the last steps.
- from Le et al.: the cost is not discounted, because budgets bound plain sums.
- from Paine et al.: expected values instead of distributions of them; estimates from episodes that were held out.
- from both: a policy with a memory is stepped along the recorded episodes, so it remembers what was recorded and not
  where its own actions would have led; the critics see the observation only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.artefacts.models import Policy
from rci.data.errors import RciError
from rci.data.options import build_parts, require_positive
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, StepCosts, Transitions
from rci.learning.dataset import Dataset, Scaling, flat_features, held_out, measure_scaling, to_device
from rci.learning.judging.actions import policy_actions
from rci.learning.losses import (
    bellman_target,
    cost_continues,
    reward_continues,
    soft_update,
    squared_error,
    within_range,
)
from rci.nets.dense import PairMlp
from rci.nets.keys import derived_seed, stage_key

CHUNK = 500  # updates per compiled call
PIECE = 2048  # rows that are looked at in one compiled call


@dataclass(frozen=True)
class Config:
    """What changes a shape."""

    hidden: int = 128
    batch_size: int = 256

    def __post_init__(self) -> None:
        require_positive(self, "hidden", "batch_size")


class Hyper(NamedTuple):
    """Numbers that may change without compiling again."""

    discount: float = 0.99
    cost_discount: float = 1.0
    learning_rate: float = 1e-3
    target_rate: float = 0.03


@dataclass(frozen=True)
class Schedule:
    """How long, how often, and on how many of the episodes."""

    updates: int = 10_000
    members: int = 1  # evaluations of their own networks and batches, whose mean is the estimate
    held_out: float = 0.2  # share of the episodes that the critics never see

    def __post_init__(self) -> None:
        require_positive(self, "updates", "members")
        if not 0 < self.held_out < 1:
            raise RciError(
                f"held_out is the share of episodes kept apart, between 0 and 1, got {self.held_out}."
            )


@dataclass(frozen=True)
class Judgement:
    """What logs say of a policy. Costs have one number for each channel, one in all where they have no names.

    The errors are standard errors over the first observations that were held out: how much the estimates would differ
    had other episodes been held out. They know nothing of what the critics get wrong everywhere; the spread, the
    standard deviation over members, knows some of it, and is None where there is but one member.
    """

    expected_return: float
    expected_cost: tuple[float, ...]
    return_error: float
    cost_error: tuple[float, ...]
    return_spread: float | None
    cost_spread: tuple[float, ...] | None
    return_td_error: float  # root mean squared, over the transitions that were held out
    cost_td_error: tuple[float, ...]
    initial_states: int
    updates: int
    seed: int
    channels: tuple[str, ...] = ()


class Critics(eqx.Module):
    """Networks of (obs, action): the return, and the cost of every channel."""

    reward: PairMlp
    cost: PairMlp

    def __call__(self, obs: jax.Array, action: jax.Array) -> tuple[jax.Array, jax.Array]:
        """[B] and [B, K]."""
        return self.reward(obs, action)[..., 0], self.cost(obs, action)


class State(NamedTuple):
    """Everything that changes."""

    online: Critics
    target: Critics
    optimiser: Any


class Logs(NamedTuple):
    """Transitions of all episodes; those of the fitted ones come first in `order`, the held-out ones follow."""

    data: Dataset
    order: jax.Array  # [transitions]
    fitted: jax.Array  # []: how many of them


class Prepared(NamedTuple):
    """Logs as every judgement of them needs them."""

    logs: Logs
    scaling: Scaling
    obs: Array  # [observations, d], as recorded
    counts: Array  # observations of each episode
    held_out: Array  # which episodes
    channels: tuple[str, ...]


def targets(
    critics: Critics, data: Dataset, index: jax.Array, action: jax.Array, hyper: Hyper
) -> tuple[jax.Array, jax.Array]:
    """r + gamma * Q(s', pi(s')) [B] and c~ + gamma_c * Q_c(s', pi(s')) [B, K]. Le et al. 2019, Algorithm 3.

    index: [B] transitions; action: [observations, a], what the policy does at each.
    """
    after = data.row[index] + 1
    reward_q, cost_q = critics(data.obs[after], action[after])
    reward_on = reward_continues(data.terminated[index], data.stopped[index], False)
    return (
        bellman_target(data.reward[index], hyper.discount, reward_on, reward_q),
        within_range(
            bellman_target(data.cost[index], hyper.cost_discount, cost_continues(data.last[index]), cost_q),
            *data.cost_range,
        ),
    )


def judge(
    policy: Policy,
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    **options: Any,
) -> Judgement:
    """What the policy is expected to earn and to cost, judged from the logs alone by fitted-Q evaluation.

    The logs need not be those that it was trained on. The return is discounted, the cost is not.
    options: see Config, Hyper and Schedule. Same seed, same judgement; judging other policies, or with other rates,
    discounts and seeds, does not compile again.
    """
    parse_options(options)  # before anything is prepared
    return judge_prepared(
        policy, prepare(episodes, labels, costs, seed, **options), seed, progress, **options
    )


def parse_options(options: dict[str, Any]) -> tuple[Config, Hyper, Schedule]:
    """Check the settings of a judgement without making one."""
    config, hyper, schedule = build_parts((Config, Hyper, Schedule), options, "judging")
    return config, hyper, schedule


def prepare(episodes: Episodes, labels: Labels, costs: StepCosts, seed: int = 0, **options: Any) -> Prepared:
    """The logs on the device, and which episodes are held out; the same for every policy that is judged by them."""
    expect(Episodes, episodes=episodes)
    expect(Labels, labels=labels)
    expect(StepCosts, costs=costs)
    _, _, schedule = parse_options(options)
    if not np.issubdtype(episodes.action.dtype, np.floating):
        raise RciError(f"the actions are {episodes.action.dtype}, but judging needs continuous ones.")
    if len(episodes) < 2:
        raise RciError("judging needs at least two episodes: one to learn from and one to hold out.")
    transitions = Transitions.build(episodes, labels, costs)
    scaling = measure_scaling(transitions)
    apart = held_out(len(episodes), schedule.held_out, seed)
    kept_apart = np.repeat(apart, transitions.lengths)
    return Prepared(
        logs=Logs(
            data=to_device(transitions, scaling),
            order=jnp.asarray(np.argsort(kept_apart, kind="stable"), jnp.int32),
            fitted=jnp.asarray(np.count_nonzero(~kept_apart), jnp.int32),
        ),
        scaling=scaling,
        obs=flat_features(transitions.obs[transitions.seen]),
        counts=transitions.lengths + 1,
        held_out=apart,
        channels=costs.channels,
    )


def judge_prepared(
    policy: Policy,
    prepared: Prepared,
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
    **options: Any,
) -> Judgement:
    """The same as `judge`, with logs that were prepared with this seed and these options."""
    config, hyper, schedule = parse_options(options)
    check_fits(policy, prepared)
    scaling, (data, order, _) = prepared.scaling, prepared.logs
    unit = float(scaling.reward_unit)
    action = scaling.encode_action(jnp.asarray(policy_actions(policy, prepared.obs, prepared.counts)))
    initial = np.asarray(data.initial)[prepared.held_out]
    apart = np.asarray(order)[int(prepared.logs.fitted) :]
    _, _, value, residual = _compiled(config)
    estimates, errors = [], []
    for member in range(schedule.members):
        share = _share_of(progress, member, schedule.members)
        critics = _fit(
            config, hyper, prepared.logs, action, schedule.updates, derived_seed(seed, member), share
        )
        estimates.append(_in_pieces(partial(value, critics, data, action), initial))
        errors.append(_in_pieces(partial(residual, critics, data, action, hyper), apart))
    # [members, rows, 1 + K]: the return first, in its own unit
    values, wrong = np.stack(estimates), np.stack(errors)
    values[..., 0] *= unit
    wrong[..., 0] *= unit
    states = values.mean(axis=0)
    error = states.std(axis=0, ddof=1) / len(states) ** 0.5 if len(states) > 1 else np.zeros(states.shape[-1])
    spread = values.mean(axis=1).std(axis=0, ddof=1).tolist() if schedule.members > 1 else None
    mean, td_error = states.mean(axis=0).tolist(), np.sqrt((wrong**2).mean(axis=(0, 1))).tolist()
    return Judgement(
        expected_return=mean[0],
        expected_cost=tuple(mean[1:]),
        return_error=float(error[0]),
        cost_error=tuple(error[1:].tolist()),
        return_spread=None if spread is None else spread[0],
        cost_spread=None if spread is None else tuple(spread[1:]),
        return_td_error=td_error[0],
        cost_td_error=tuple(td_error[1:]),
        initial_states=len(initial),
        updates=schedule.updates,
        seed=seed,
        channels=prepared.channels,
    )


def check_fits(policy: Policy, prepared: Prepared) -> None:
    """Refuse a policy that knows other observations or actions than the logs have."""
    expect(Policy, policy=policy)
    for what, size, recorded in (
        ("observations", int(policy.info["obs_size"]), prepared.obs.shape[-1]),
        ("actions", int(policy.info["action_size"]), prepared.logs.data.action.shape[-1]),
    ):
        if size != recorded:
            raise RciError(
                f"the policy knows {what} of {size} features, but those of the logs have {recorded}."
            )


def _share_of(progress: Callable[[float], None], member: int, members: int) -> Callable[[float], None]:
    return lambda share: progress((member + share) / members)


def _in_pieces(look: Callable[[jax.Array], jax.Array], rows: Array) -> Array:
    """look(rows) in pieces of one size, so that it is compiled once whatever is held out; in float64."""
    pieces = [
        np.asarray(
            look(jnp.asarray(rows[np.arange(first, first + PIECE) % len(rows)], jnp.int32)), np.float64
        )
        for first in range(0, len(rows), PIECE)
    ]
    return np.concatenate(pieces)[: len(rows)]


def _fit(
    config: Config,
    hyper: Hyper,
    logs: Logs,
    action: jax.Array,
    updates: int,
    seed: int,
    progress: Callable[[float], None],
) -> Critics:
    """The slow networks after so many updates."""
    start, run, _, _ = _compiled(config)
    init_key, key = jax.random.split(stage_key(seed, "judge"))
    state = start(init_key, logs.data)
    for first in range(0, updates, CHUNK):
        count = min(CHUNK, updates - first)
        state, loss = run(key, first, count, state, logs, action, hyper)
        if not jnp.isfinite(loss):
            raise RciError(f"judging diverged before update {first + count}; lower its learning_rate.")
        progress((first + count) / updates)
    return state.target


@lru_cache(maxsize=4)
def _compiled(config: Config) -> tuple[Callable, Callable, Callable, Callable]:
    optimise = optax.scale_by_adam()

    @jax.jit
    def start(key: jax.Array, data: Dataset) -> State:
        reward_key, cost_key = jax.random.split(key)
        sizes, layers = (data.obs.shape[-1], data.action.shape[-1]), (config.hidden, config.hidden)
        critics = Critics(
            PairMlp(reward_key, *sizes, (*layers, 1), last_scale=0.01),
            PairMlp(cost_key, *sizes, (*layers, data.cost.shape[-1]), last_scale=0.01),
        )
        return State(critics, critics, optimise.init(critics))

    def loss(
        online: Critics, data: Dataset, index: jax.Array, target: tuple[jax.Array, jax.Array]
    ) -> jax.Array:
        reward_q, cost_q = online(data.obs[data.row[index]], data.action[index])
        return squared_error(reward_q, target[0]) + squared_error(cost_q, target[1])

    def update(
        key: jax.Array, state: State, logs: Logs, action: jax.Array, hyper: Hyper
    ) -> tuple[State, jax.Array]:
        index = logs.order[jax.random.randint(key, (config.batch_size,), 0, logs.fitted)]
        target = targets(state.target, logs.data, index, action, hyper)
        value, gradient = jax.value_and_grad(loss)(state.online, logs.data, index, target)
        change, optimiser = optimise.update(gradient, state.optimiser)
        online = jax.tree.map(lambda p, c: p - hyper.learning_rate * c, state.online, change)
        slow = jax.tree.map(lambda t, o: soft_update(t, o, hyper.target_rate), state.target, online)
        return State(online, slow, optimiser), value

    @jax.jit
    def run(
        key: jax.Array, first: int, count: int, state: State, logs: Logs, action: jax.Array, hyper: Hyper
    ) -> tuple[State, jax.Array]:
        def step(i: jax.Array, carry: tuple[State, jax.Array]) -> tuple[State, jax.Array]:
            return update(jax.random.fold_in(key, first + i), carry[0], logs, action, hyper)

        return jax.lax.fori_loop(0, count, step, (state, jnp.zeros(())))

    @jax.jit
    def value(critics: Critics, data: Dataset, action: jax.Array, row: jax.Array) -> jax.Array:
        """Q(s, pi(s)) and Q_c(s, pi(s)) at observations: [B, 1 + K]."""
        return _joined(*critics(data.obs[row], action[row]))

    @jax.jit
    def residual(
        critics: Critics, data: Dataset, action: jax.Array, hyper: Hyper, index: jax.Array
    ) -> jax.Array:
        """How far the critics are from their own targets at transitions: [B, 1 + K]."""
        here = critics(data.obs[data.row[index]], data.action[index])
        return _joined(*here) - _joined(*targets(critics, data, index, action, hyper))

    return start, run, value, residual


def _joined(reward: jax.Array, cost: jax.Array) -> jax.Array:
    return jnp.concatenate([reward[:, None], cost], axis=-1)
