"""Train any redistributor: minibatches of masked sequences, early stopping on episodes kept aside."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.data.record import Array
from rci.nets.keys import stage_key
from rci.redistribution.base import Redistributor, Training


class Fitted(NamedTuple):
    """The best state, the loss curves, and which episodes had no part in it."""

    state: Any
    train_loss: list[float]
    held_out_loss: list[float]  # of the episodes that decide when to stop
    held_out: Array = np.empty(0, np.int64)


def split(cost: Array, members: Array, share: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """`members` in two parts, the second one `share` of them, with as many stopped ones in both as can be."""
    chosen = []
    for stopped in (True, False):
        mine = rng.permutation(members[(cost[members] > 0) == stopped])
        if len(mine) < 2:
            raise RciError(
                f"a redistributor needs at least 3 stopped and 3 safe episodes to learn what tells them apart and to "
                f"check it, and more with folds, got {int((cost > 0).sum())} stopped and {int((cost == 0).sum())} safe "
                "(in this channel, if there are several); with labels like these only 'sparse' and 'uniform' are "
                "possible."
            )
        chosen.append(mine[: min(max(1, round(share * len(mine))), len(mine) - 1)])
    part = np.sort(np.concatenate(chosen))
    return np.setdiff1d(members, part), part


def cross_folds(cost: Array, folds: int, seed: int) -> list[Array]:
    """Every episode in exactly one fold, stopped and safe ones dealt out evenly."""
    rng = np.random.default_rng([seed, folds])
    fold = np.empty(len(cost), np.int64)
    for stopped in (True, False):
        members = rng.permutation(np.flatnonzero((cost > 0) == stopped))
        if len(members) < folds:
            raise RciError(
                f"{folds} folds need at least {folds} stopped and {folds} safe episodes, got "
                f"{int((cost > 0).sum())} stopped and {int((cost == 0).sum())} safe."
            )
        fold[members] = np.arange(len(members)) % folds
    return [np.flatnonzero(fold == k) for k in range(folds)]


def fit_folds(
    method: Redistributor,
    data: Sequences,
    hyper: Any,
    training: Training,
    seed: int,
    progress: Callable[[float], None],
) -> list[Fitted]:
    """One model, or one for each fold of cross-fitting; what a model holds out, it never saw in any way."""
    everyone = np.arange(len(data.cost))
    if training.folds == 1:
        held_out = [split(data.cost, everyone, training.held_out_share, np.random.default_rng([seed, 1]))[1]]
    else:
        held_out = cross_folds(data.cost, training.folds, seed)
    fits = []
    for number, unseen in enumerate(held_out):
        rng = np.random.default_rng([seed, training.folds, number])
        train, stopping = split(data.cost, np.setdiff1d(everyone, unseen), training.stopping_share, rng)
        key = jax.random.fold_in(stage_key(seed, "redistribute"), number)
        part = part_of(progress, number, len(held_out))
        fits.append(fit(method, data, hyper, training, key, train, stopping, part)._replace(held_out=unseen))
    return fits


def fit(
    method: Redistributor,
    data: Sequences,
    hyper: Any,
    training: Training,
    key: jax.Array,
    train: Array,
    stopping: Array,
    progress: Callable[[float], None],
) -> Fitted:
    """Train on `train` and return the state with the lowest loss on `stopping`. Same key, same result."""
    if method.update is None or method.held_out_loss is None:
        raise RciError("this redistributor has nothing to fit.")
    init_key, order_key = jax.random.split(key)
    start, run_epoch, judge = compiled(method)
    size = min(training.batch_size, len(train))
    device = Sequences(*(jnp.asarray(array) for array in data))
    groups = Groups.of(data, train)
    state = best = start(init_key, Sequences(*(array[train] for array in device)))
    others = _judged(data, stopping, groups, training)
    history: list[tuple[float, float]] = []
    for epoch in range(training.epochs):
        order = draw_order(
            jax.random.fold_in(order_key, epoch), groups, size, training.balance, training.crop
        )
        # Without a use for the lengths they are left out: every number of stopped episodes would compile anew.
        lengths = groups.stopped_length if training.crop else jnp.zeros(1, jnp.int32)
        state, train_loss = run_epoch(state, device, order, lengths, hyper)
        losses = float(train_loss), float(judge(state, others))
        if not np.isfinite(losses).all():
            raise RciError(
                f"training diverged in epoch {epoch}: loss {losses[0]}, held-out loss {losses[1]}; lower learning_rate."
            )
        history.append(losses)
        curve = [held for _, held in history]
        if curve[-1] == min(curve):
            best = state
        progress((epoch + 1) / training.epochs)
        if epoch - int(np.argmin(curve)) >= training.patience:
            break
    progress(1.0)
    return Fitted(best, [t for t, _ in history], [h for _, h in history])


class Groups(NamedTuple):
    """The episodes to train on, all of them and by kind, and how long the stopped ones are."""

    everyone: jax.Array
    stopped: jax.Array
    safe: jax.Array
    stopped_length: jax.Array

    @classmethod
    def of(cls, data: Sequences, members: Array) -> Groups:
        """`members` by whether they were stopped."""
        stopped, safe = members[data.cost[members] > 0], members[data.cost[members] == 0]
        length = data.mask[stopped].sum(axis=1).astype(np.int32)
        return cls(*(jnp.asarray(array) for array in (members, stopped, safe, length)))


def balanced_order(key: jax.Array, stopped: jax.Array, safe: jax.Array, batches: int, size: int) -> jax.Array:
    """[batches, size] episodes, half of each batch stopped; a kind that is too rare comes again and again."""
    stopped_key, safe_key = jax.random.split(key)
    half = size // 2
    return jnp.concatenate(
        [
            jnp.resize(jax.random.permutation(stopped_key, stopped), (batches, half)),
            jnp.resize(jax.random.permutation(safe_key, safe), (batches, size - half)),
        ],
        axis=1,
    )


def crop_safe(key: jax.Array, batch: Sequences, stopped_length: jax.Array) -> Sequences:
    """Safe episodes cut to the lengths of stopped ones, drawn at random: a safe episode's prefix is safe as well."""
    drawn = jax.random.choice(key, stopped_length, batch.cost.shape)
    limit = jnp.where(batch.cost > 0, batch.mask.shape[1], drawn)
    return batch._replace(mask=batch.mask * (jnp.arange(batch.mask.shape[1])[None] < limit[:, None]))


def _judged(data: Sequences, stopping: Array, groups: Groups, training: Training) -> Sequences:
    """The episodes that decide when to stop, seen in the same way as those that are trained on."""
    if training.balance:
        stopped, safe = stopping[data.cost[stopping] > 0], stopping[data.cost[stopping] == 0]
        size = max(len(stopped), len(safe))
        stopping = np.concatenate([np.resize(stopped, size), np.resize(safe, size)])
    batch = Sequences(*(jnp.asarray(array[stopping]) for array in data))
    return crop_safe(jax.random.key(0), batch, groups.stopped_length) if training.crop else batch


def part_of(progress: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    """The progress of one of several parts as progress of all."""
    return lambda share: progress((number + share) / count)


class Order(NamedTuple):
    """Which episodes make up the batches of an epoch, and the keys of what is drawn for each."""

    episode: jax.Array  # [batches, size]
    update_key: jax.Array  # [batches]
    crop_key: jax.Array | None


@partial(jax.jit, static_argnames=("size", "balance", "crop"))
def draw_order(key: jax.Array, groups: Groups, size: int, balance: bool, crop: bool) -> Order:
    """One pass over the training episodes in random order; the last batch is filled up from the front."""
    order_key, update_key, *crop_key = jax.random.split(key, 3 if crop else 2)
    batches = -(-len(groups.everyone) // size)
    if balance:
        index = balanced_order(order_key, groups.stopped, groups.safe, batches, size)
    else:
        index = jnp.resize(jax.random.permutation(order_key, groups.everyone), (batches, size))
    crop_keys = jax.random.split(crop_key[0], batches) if crop else None
    return Order(index, jax.random.split(update_key, batches), crop_keys)


@lru_cache(maxsize=32)
def compiled(method: Redistributor) -> tuple[Callable, Callable, Callable]:
    """init, one epoch and the held-out loss, compiled once for all fits of the same sizes, later calls included."""
    update: Any = method.update

    def run(
        state: Any, data: Sequences, order: Order, stopped_length: jax.Array, hyper: Any
    ) -> tuple[Any, jax.Array]:
        def step(state: Any, drawn: Order) -> tuple[Any, jax.Array]:
            batch = Sequences(*(array[drawn.episode] for array in data))
            if drawn.crop_key is not None:
                batch = crop_safe(drawn.crop_key, batch, stopped_length)
            state, info = update(drawn.update_key, state, batch, hyper)
            return state, info.loss

        state, losses = jax.lax.scan(step, state, order)
        return state, losses.mean()

    return jax.jit(method.init), jax.jit(run), jax.jit(method.held_out_loss)  # type: ignore[arg-type]
