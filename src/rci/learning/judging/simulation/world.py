"""A model of the world, learned from logs, in which a policy can be tried: what would it have met?

Values that are learned by bootstrapping (fitted-Q evaluation) were tried first, and said a third of the truth or three
times it: a policy takes the very actions of which the critics think too well, and judges who learn from the same
transitions think the same. A model of single steps is asked a question that the recordings answer directly.

One's own row moves first; the others are seen from it, so that their motion depends on where it is then. Rows that
appear are copied from a recorded moment with as many rows left whose farthest row was about as far away.
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
from rci.learning.judging.simulation.motions import Frame, frame_of, frame_of_matches, match_rows, present
from rci.nets.dense import rows_of
from rci.nets.mixture import Parts, log_density
from rci.nets.transition import TransitionNet, sample

CHUNK = 500  # updates per compiled call
MATCHES = 2  # times that rows are matched anew
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
    own: Frame  # of one's own row
    other: Frame  # of the others
    low: jax.Array  # [rows, f]: of all that was seen
    high: jax.Array
    own_slight: (
        jax.Array
    )  # [f]: where a feature of one's own row is at its limit, less than this counts as rest
    reward_unit: jax.Array  # []


class Batch(NamedTuple):
    """B recorded steps, motions in their units."""

    table: jax.Array  # [B, rows, f]
    after: jax.Array
    action: jax.Array
    outcome: jax.Array
    own: jax.Array  # [B, m]
    other: jax.Array  # [B, n, m]
    stays: jax.Array  # [B, n]
    there: jax.Array  # [B, n]


class Settings(NamedTuple):
    """How a model is fitted."""

    updates: int = 6_000
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
    """What a model learns from; rows: of how many an observation is made, 0 = a flat vector."""
    obs = np.asarray(data.obs).reshape(len(data.obs), max(rows, 1), -1)
    row = np.asarray(data.row)
    before, after = obs[row], obs[row + 1]
    seen = np.column_stack([before[:, 0], np.asarray(data.action)])
    beside = _beside(jnp.asarray(before), data.action, jnp.asarray(after[:, 0]))
    others, later = before[:, 1:], after[:, 1:]
    became = match_rows(others, others, later)
    # Once it is known how rows move, who became whom is known better.
    for _ in range(MATCHES):
        frame = frame_of_matches(np.asarray(beside), others, later, became)
        became = match_rows(others, others + np.asarray(frame.lawful(beside)), later, became)
    old = np.zeros(became.shape, bool)
    step, slot = np.nonzero(became >= 0)
    old[step, became[step, slot]] = True
    reward_unit = unit_of(np.asarray(data.reward, np.float64))
    outcome = [data.reward[:, None] / reward_unit, data.terminated[:, None], data.stopped[:, None]]
    return Moments(
        obs=jnp.asarray(obs),
        row=jnp.asarray(row),
        action=data.action,
        outcome=jnp.concatenate([*outcome, data.label_cost], axis=1),
        became=jnp.asarray(became, jnp.int32),
        appeared=jnp.asarray(present(later) & ~old),
        own=frame_of(seen, after[:, 0] - before[:, 0]),
        other=frame_of_matches(np.asarray(beside), others, later, became),
        low=jnp.asarray(obs.min(axis=0)),
        high=jnp.asarray(obs.max(axis=0)),
        own_slight=jnp.asarray(0.1 * (after[:, 0] - before[:, 0]).std(axis=0)),
        reward_unit=jnp.asarray(reward_unit, jnp.float32),
    )


def unit_of(reward: Array) -> float:
    """How much rewards vary; where they are all alike but for rounding, how large they are, and 1 where they are 0."""
    spread, size = float(reward.std()), float(np.abs(reward).mean())
    return spread if spread > 1e-4 * size else size or 1.0


def fit_world(
    moments: Moments,
    drawn: jax.Array,
    key: jax.Array,
    settings: Settings,
    progress: Callable[[float], None] = lambda share: None,
) -> TransitionNet:
    """A model of recorded steps; drawn: which of them it sees, some perhaps several times."""
    start, run = _compiled(settings)
    state = start(key, moments)
    for first in range(0, settings.updates, CHUNK):
        state = run(key, first, min(CHUNK, settings.updates - first), state, moments, drawn)
        progress(min(1.0, (first + CHUNK) / settings.updates))
    net: TransitionNet = state[0]
    return net


def draw_episodes(rng: np.random.Generator, lengths: Array) -> Array:
    """Numbers of the steps of as many episodes as there are, drawn with replacement."""
    first = np.cumsum(lengths) - lengths
    chosen = rng.integers(len(lengths), size=len(lengths))
    return np.concatenate([np.arange(first[i], first[i] + lengths[i]) for i in chosen])


def batch_at(moments: Moments, index: jax.Array) -> Batch:
    """Steps by their numbers."""
    row = moments.row[index]
    table, after, became = moments.obs[row], moments.obs[row + 1], moments.became[index]
    action = moments.action[index]
    seen = jnp.concatenate([table[:, 0], action], axis=-1)
    next_rows = jnp.take_along_axis(after[:, 1:], jnp.maximum(became, 0)[..., None], axis=1)
    stays = became >= 0
    return Batch(
        table=table,
        after=after,
        action=action,
        outcome=moments.outcome[index],
        own=moments.own.encode(seen, after[:, 0] - table[:, 0]),
        other=jnp.where(
            stays[..., None],
            moments.other.encode(_beside(table, action, after[:, 0]), next_rows - table[:, 1:]),
            0.0,
        ),
        stays=stays.astype(jnp.float32),
        there=present(table[:, 1:]).astype(jnp.float32),
    )


def model_loss(net: TransitionNet, batch: Batch) -> jax.Array:
    """Minus the log-likelihood of motions, of who stays, and of outcomes; rewards by squared error."""
    table, action = batch.table, batch.action
    context = net.context(table, action)
    loss = -jnp.mean(log_density(net.own_motion(table, action, context), batch.own[:, None]))
    size, others, features = batch.other.shape
    if others:
        motion, stay = net.other_motion(table, action, context, batch.after[:, 0])
        parts = Parts(*(each.reshape(size * others, *each.shape[2:]) for each in motion))
        density = log_density(parts, batch.other.reshape(size * others, 1, features)).reshape(size, others)
        loss -= jnp.sum(density * batch.stays) / size
        stay_error = jax.nn.softplus(stay) - batch.stays * stay
        loss += jnp.sum(stay_error * batch.there) / size
    out = net.outcome(batch.after, action, table[:, 0])
    logit, happened = out[:, TERMINATED:], batch.outcome[:, TERMINATED:]
    loss += OUTCOME_WEIGHT * jnp.mean(jnp.sum(jax.nn.softplus(logit) - happened * logit, axis=-1))
    return loss + jnp.mean((out[:, REWARD] - batch.outcome[:, REWARD]) ** 2)


def advance(
    net: TransitionNet, moments: Moments, key: jax.Array, table: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """One step of B simulated episodes: what is seen next, and the outcome. Nothing leaves what was ever seen."""
    own_key, other_key, stay_key, new_key = jax.random.split(key, 4)
    context, seen = net.context(table, action), jnp.concatenate([table[:, 0], action], axis=-1)
    motion = sample(own_key, net.own_motion(table, action, context))
    own_row = move_within(table[:, 0], moments.own.decode(seen, motion), moments)
    after = own_row[:, None]
    if table.shape[1] > 1:
        others, there = table[:, 1:], present(table[:, 1:])
        motions, stay = net.other_motion(table, action, context, own_row)
        stays = there & (jax.random.uniform(stay_key, there.shape) < jax.nn.sigmoid(stay))
        rest = others + moments.other.decode(_beside(table, action, own_row), sample(other_key, motions))
        rest = jnp.where(stays[..., None], _within(rest, moments.low[1:], moments.high[1:]), 0.0)
        both = jnp.concatenate([rest, newcomers(moments, new_key, table, stays)], axis=1)
        order = jnp.argsort(~present(both), axis=1, stable=True)[:, : rest.shape[1]]
        after = jnp.concatenate([after, jnp.take_along_axis(both, order[..., None], axis=1)], axis=1)
    return after, net.outcome(after, action, table[:, 0])


def move_within(own_row: jax.Array, change: jax.Array, moments: Moments) -> jax.Array:
    """One's own row after a change [B, f], within what was ever seen.

    A sensor that has reached its limit shows the limit; noise that is cut off on one side would make it creep away.
    """
    low, high = (rows_of(bound[0], own_row) for bound in (moments.low, moments.high))
    at_limit = (own_row <= low) | (own_row >= high)
    held = at_limit & (jnp.abs(change) < rows_of(moments.own_slight, own_row))
    return jnp.where(held, own_row, jnp.clip(own_row + change, low, high))


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


def _beside(table: jax.Array, action: jax.Array, own_after: jax.Array) -> jax.Array:
    """What the motion of each other row follows from: [B, n, 3 f + a]."""
    seen, others = jnp.concatenate([table[:, 0], action, own_after], axis=-1), table[:, 1:]
    wide = jnp.broadcast_to(seen[:, None], (*others.shape[:2], seen.shape[-1]))
    return jnp.concatenate([wide, others], axis=-1)


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
        sizes = moments.obs.shape[-1], moments.action.shape[-1]
        motions, ends = (
            (len(moments.own.axes), len(moments.other.axes)),
            moments.outcome.shape[-1] - TERMINATED,
        )
        net = TransitionNet(jax.random.fold_in(key, 0), *sizes, motions, ends, settings.hidden)
        # Of numbers whose type is left open, `run` would be compiled three times.
        return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), (net, optimise.init(net)))

    @jax.jit
    def run(key: jax.Array, first: int, count: int, state: Any, moments: Moments, drawn: jax.Array) -> Any:
        def step(i: jax.Array, state: Any) -> Any:
            net, optimiser = state
            draw_key = jax.random.fold_in(key, first + i + 1)
            index = drawn[jax.random.randint(draw_key, (settings.batch_size,), 0, len(drawn))]
            gradient = jax.grad(model_loss)(net, batch_at(moments, index))
            change, optimiser = optimise.update(gradient, optimiser)
            return optax.apply_updates(net, change), optimiser

        return jax.lax.fori_loop(0, count, step, state)

    return start, run
