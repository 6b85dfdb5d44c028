"""A model of the world, learned from logs, in which a policy can be tried: what would it have met?

Values that are learned by bootstrapping (fitted-Q evaluation) were tried first, and said a third of the truth or three
times it: a policy takes the very actions of which the critics think too well, and judges who learn from the same
transitions think the same. A model of single steps is asked a question that the recordings answer directly.

Rows of a table that are there before and after a step are found by where they are; rows that appear are copied from a
recorded moment with as many rows left whose farthest row was about as far away.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.record import Array
from rci.learning.dataset import Dataset
from rci.nets.dense import rows_of
from rci.nets.mixture import Parts, log_density
from rci.nets.transition import TransitionNet, sample

CHUNK = 500  # updates per compiled call
SAME = 4.0  # a row that changed by more, in units of the usual change and on average over features, is another one
STRIKING = 8.0  # more of a change in one feature does not count as more
DONORS = 256  # recorded moments among which one is looked for whose new rows are copied
OUTCOME_WEIGHT = 10.0  # of the errors of outcomes against the likelihood of motions
REWARD, TERMINATED, STOPPED, LABEL = 0, 1, 2, 3  # columns of outcomes; a label for each channel


class Moments(NamedTuple):
    """Recorded steps; observations are tables [observations, rows, f], whose other rows are n."""

    obs: jax.Array
    row: jax.Array  # [N]: the observation before
    action: jax.Array  # [N, a]
    outcome: jax.Array  # [N, 3 + K]
    became: jax.Array  # [N, n]: which row of the next observation each has become, -1 = none
    appeared: jax.Array  # [N, n]: rows of the next observation that were not there before
    own_unit: jax.Array  # [f]: how much one's own row usually moves; 0 where it never does
    other_unit: jax.Array  # [f]
    low: jax.Array  # [rows, f]: of all that was seen
    high: jax.Array
    reward_unit: jax.Array  # []


class Batch(NamedTuple):
    """B recorded steps, motions in their units."""

    table: jax.Array  # [B, rows, f]
    after: jax.Array
    action: jax.Array
    outcome: jax.Array
    own: jax.Array  # [B, f]
    other: jax.Array  # [B, n, f]
    stays: jax.Array  # [B, n]
    there: jax.Array  # [B, n]


class Settings(NamedTuple):
    """How a model is fitted."""

    updates: int = 8_000
    batch_size: int = 256
    hidden: int = 128
    learning_rate: float = 1e-3


class Drive(NamedTuple):
    """Where simulated episodes are."""

    table: jax.Array  # [B, rows, f]
    running: jax.Array  # [B]: the chance that nothing has ended it yet
    earning: jax.Array  # [B]: the same, where a stop does not count
    cost: jax.Array  # [B, K]
    reward: jax.Array  # [B]


def moments_of(data: Dataset, rows: int) -> Moments:
    """What a model learns from; rows: of how many an observation is made, 0 = it is no table."""
    obs = np.asarray(data.obs).reshape(len(data.obs), max(rows, 1), -1)
    row = np.asarray(data.row)
    before, after = obs[row], obs[row + 1]
    became = match_rows(before[:, 1:], after[:, 1:])
    old = np.zeros(became.shape, bool)
    step, slot = np.nonzero(became >= 0)
    old[step, became[step, slot]] = True
    moved = after[step, 1 + became[step, slot]] - before[step, 1 + slot]
    own_unit, other_unit = (_usual(change) for change in (after[:, 0] - before[:, 0], moved))
    reward_unit = float(np.std(data.reward)) or 1.0
    outcome = [data.reward[:, None] / reward_unit, data.terminated[:, None], data.stopped[:, None]]
    return Moments(
        obs=jnp.asarray(obs),
        row=jnp.asarray(row),
        action=data.action,
        outcome=jnp.concatenate([*outcome, data.label_cost], axis=1),
        became=jnp.asarray(became, jnp.int32),
        appeared=jnp.asarray(present(after[:, 1:]) & ~old),
        own_unit=jnp.asarray(own_unit, jnp.float32),
        other_unit=jnp.asarray(other_unit, jnp.float32),
        low=jnp.asarray(obs.min(axis=0)),
        high=jnp.asarray(obs.max(axis=0)),
        reward_unit=jnp.asarray(reward_unit, jnp.float32),
    )


def match_rows(before: Array, after: Array) -> Array:
    """Which row each row has become one step later, -1 where it is gone or never was: [N, n, f] twice -> [N, n].

    Rows may change places. Of all pairs the nearest are matched first, features counted in units of how much a row
    usually changes.
    """
    count, n, _ = before.shape
    became = np.full((count, n), -1)
    here, there = present(before), present(after)
    if not (here & there).any():
        return became
    change = np.abs(after - before)[here & there]
    usual = np.sqrt([np.mean(column[column <= np.quantile(column, 0.9)] ** 2) for column in change.T])
    weight = np.where(usual > 1e-6, 1.0 / np.maximum(usual, 1e-6), 0.0)
    apart = np.minimum(np.abs(before[:, :, None] - after[:, None]) * weight, STRIKING).sum(axis=-1)
    apart = np.where(here[:, :, None] & there[:, None], apart / max(1, np.count_nonzero(weight)), np.inf)
    every = np.arange(count)
    for _ in range(n):
        old, new = np.divmod(apart.reshape(count, -1).argmin(axis=1), n)
        close = np.flatnonzero(apart[every, old, new] < SAME)
        became[close, old[close]] = new[close]
        apart[close, old[close]] = np.inf
        apart[close, :, new[close]] = np.inf
    return became


def present(rows: Any) -> Any:
    """Which rows are somebody: [..., f] -> [...]."""
    return (rows != 0).any(axis=-1)


def fit_world(
    moments: Moments,
    key: jax.Array,
    settings: Settings,
    progress: Callable[[float], None] = lambda share: None,
) -> TransitionNet:
    """A model of the recorded steps."""
    start, run = _compiled(settings)
    state = start(key, moments)
    for first in range(0, settings.updates, CHUNK):
        state = run(key, first, min(CHUNK, settings.updates - first), state, moments)
        progress(min(1.0, (first + CHUNK) / settings.updates))
    net: TransitionNet = state[0]
    return net


def batch_at(moments: Moments, index: jax.Array) -> Batch:
    """Steps by their numbers."""
    row = moments.row[index]
    table, after, became = moments.obs[row], moments.obs[row + 1], moments.became[index]
    next_rows = jnp.take_along_axis(after[:, 1:], jnp.maximum(became, 0)[..., None], axis=1)
    stays = became >= 0
    return Batch(
        table=table,
        after=after,
        action=moments.action[index],
        outcome=moments.outcome[index],
        own=_in_units(after[:, 0] - table[:, 0], moments.own_unit),
        other=jnp.where(stays[..., None], _in_units(next_rows - table[:, 1:], moments.other_unit), 0.0),
        stays=stays.astype(jnp.float32),
        there=present(table[:, 1:]).astype(jnp.float32),
    )


def model_loss(net: TransitionNet, batch: Batch) -> jax.Array:
    """Minus the log-likelihood of motions, of who stays, and of outcomes; rewards by squared error."""
    motion = net(batch.table, batch.action)
    loss = -jnp.mean(log_density(motion.own, batch.own[:, None]))
    size, others, features = batch.other.shape
    if others:
        parts = Parts(*(each.reshape(size * others, *each.shape[2:]) for each in motion.other))
        density = log_density(parts, batch.other.reshape(-1, 1, features)).reshape(size, others)
        loss -= jnp.sum(density * batch.stays) / size
        stay_error = jax.nn.softplus(motion.stay) - batch.stays * motion.stay
        loss += jnp.sum(stay_error * batch.there) / size
    out = net.outcome(batch.after, batch.action, batch.own)
    logit, happened = out[:, TERMINATED:], batch.outcome[:, TERMINATED:]
    loss += OUTCOME_WEIGHT * jnp.mean(jnp.sum(jax.nn.softplus(logit) - happened * logit, axis=-1))
    return loss + jnp.mean((out[:, REWARD] - batch.outcome[:, REWARD]) ** 2)


def advance(
    net: TransitionNet, moments: Moments, key: jax.Array, table: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """One step of B simulated episodes: what is seen next, and the outcome. Nothing leaves what was ever seen."""
    own_key, other_key, stay_key, new_key = jax.random.split(key, 4)
    motion = net(table, action)
    moved = sample(own_key, motion.own)
    first = table[:, 0] + moved * rows_of(moments.own_unit, moved)
    after = _within(first, moments.low[0], moments.high[0])[:, None]
    if table.shape[1] > 1:
        change = sample(other_key, motion.other)
        there = present(table[:, 1:])
        stays = there & (jax.random.uniform(stay_key, there.shape) < jax.nn.sigmoid(motion.stay))
        rest = table[:, 1:] + change * rows_of(moments.other_unit, change)
        rest = jnp.where(stays[..., None], _within(rest, moments.low[1:], moments.high[1:]), 0.0)
        both = jnp.concatenate([rest, newcomers(moments, new_key, table, stays)], axis=1)
        order = jnp.argsort(~present(both), axis=1, stable=True)[:, : rest.shape[1]]
        after = jnp.concatenate([after, jnp.take_along_axis(both, order[..., None], axis=1)], axis=1)
    return after, net.outcome(after, action, moved)


def newcomers(moments: Moments, key: jax.Array, table: jax.Array, stays: jax.Array) -> jax.Array:
    """Rows that appear, zeros for none, [B, n, f]: those of the most similar of some recorded moments.

    Similar: as many rows stay, as many were there, and the farthest was about as far away, in this order.
    """
    index = jax.random.randint(key, (len(table), DONORS), 0, len(moments.row))
    donors = moments.obs[moments.row[index]][:, :, 1:]  # [B, DONORS, n, f]
    others = table[:, 1:]
    staying = jnp.sum(moments.became[index] >= 0, axis=-1) - jnp.sum(stays, axis=-1)[:, None]
    number = jnp.sum(present(donors), axis=-1) - jnp.sum(present(others), axis=-1)[:, None]
    farthest = _size(donors).max(axis=-1) - _size(others).max(axis=-1)[:, None]
    unlike = 100.0 * jnp.abs(staying) + 10.0 * jnp.abs(number) + jnp.abs(farthest)
    donor = jnp.take_along_axis(index, jnp.argmin(unlike, axis=1)[:, None], axis=1)[:, 0]
    new = moments.obs[moments.row[donor] + 1][:, 1:]
    return jnp.where(moments.appeared[donor][..., None], new, 0.0)


@partial(jax.jit, static_argnames=("act", "steps"))
def simulate(
    act: Callable[[Any, jax.Array, jax.Array], jax.Array],
    steps: int,
    actor: Any,
    threshold: jax.Array,
    net: TransitionNet,
    moments: Moments,
    obs: jax.Array,
    key: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Episodes from first observations [B, d] on: expected cost [B, K] and return [B].

    act(actor, thresholds [1, K], obs) -> [B, 1, a]. Stops are not drawn but weighed: their chance is added up,
    times the chance to come so far. A stop ends the cost and not what would have been earned.
    """

    def step(drive: Drive, key: jax.Array) -> tuple[Drive, None]:
        table = drive.table
        action = act(actor, threshold[None], table.reshape(len(table), -1))[:, 0]
        after, out = advance(net, moments, key, table, action)
        chance = jax.nn.sigmoid(out)
        on = 1.0 - chance[:, TERMINATED]
        return Drive(
            after,
            drive.running * on * (1.0 - chance[:, STOPPED]),
            drive.earning * on,
            drive.cost + drive.running[:, None] * chance[:, LABEL:],
            drive.reward + drive.earning * out[:, REWARD],
        ), None

    table, count = obs.reshape(len(obs), *moments.obs.shape[1:]), len(obs)
    channels = moments.outcome.shape[1] - LABEL
    begun = Drive(table, jnp.ones(count), jnp.ones(count), jnp.zeros((count, channels)), jnp.zeros(count))
    end, _ = jax.lax.scan(step, begun, jax.random.split(key, steps))
    return end.cost, end.reward * moments.reward_unit


def _usual(change: Array) -> Array:
    deviation = change.std(axis=0) if len(change) else np.zeros(change.shape[-1])
    return np.where(deviation > 1e-7, deviation, 0.0)


def _in_units(change: jax.Array, unit: jax.Array) -> jax.Array:
    return change / rows_of(jnp.where(unit > 0, unit, 1.0), change)


def _within(x: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    return jnp.clip(x, rows_of(low, x), rows_of(high, x))


def _size(rows: jax.Array) -> jax.Array:
    return jnp.sum(jnp.abs(rows), axis=-1)


@lru_cache(maxsize=4)
def _compiled(settings: Settings) -> tuple[Callable, Callable]:
    # The rate falls to nothing, so that what is left does not depend on the last batches.
    optimise = optax.adam(optax.cosine_decay_schedule(settings.learning_rate, settings.updates))

    @jax.jit
    def start(key: jax.Array, moments: Moments) -> tuple[TransitionNet, Any]:
        sizes = moments.obs.shape[-1], moments.action.shape[-1], moments.outcome.shape[-1]
        net = TransitionNet(jax.random.fold_in(key, 0), *sizes, settings.hidden)
        return net, optimise.init(net)

    @jax.jit
    def run(key: jax.Array, first: int, count: int, state: Any, moments: Moments) -> Any:
        def step(i: jax.Array, state: Any) -> Any:
            net, optimiser = state
            draw_key = jax.random.fold_in(key, first + i + 1)
            index = jax.random.randint(draw_key, (settings.batch_size,), 0, len(moments.row))
            gradient = jax.grad(model_loss)(net, batch_at(moments, index))
            change, optimiser = optimise.update(gradient, optimiser)
            return optax.apply_updates(net, change), optimiser

        return jax.lax.fori_loop(0, count, step, state)

    return start, run
