"""Train any redistributor: minibatches of masked sequences, early stopping on held-out episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.batch import Sequences
from rci.data.errors import RciError
from rci.data.record import Array
from rci.redistribution.base import Redistributor


@dataclass(frozen=True)
class Training:
    """How long and on what to train."""

    epochs: int = 60
    batch_size: int = 64
    patience: int = 8  # epochs without a better held-out loss before training stops
    held_out_share: float = 0.2
    folds: int = 1  # from 2 on: cross-fitting, each episode is scored by a model that never saw it

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "patience", "folds"):
            if getattr(self, name) < 1:
                raise RciError(f"{name} must be at least 1, got {getattr(self, name)}.")
        if not 0 < self.held_out_share < 1:
            raise RciError(f"held_out_share must lie between 0 and 1, got {self.held_out_share}.")


class Fitted(NamedTuple):
    """The best state, the loss curves, and which episodes it never saw."""

    state: Any
    train_loss: list[float]
    held_out_loss: list[float]
    held_out: Array


def split(cost: Array, share: float, seed: int) -> tuple[Array, Array]:
    """Training and held-out episodes, with the same share of stopped ones in both."""
    rng = np.random.default_rng(seed)
    held_out = []
    for stopped in (True, False):
        members = rng.permutation(np.flatnonzero((cost > 0) == stopped))
        if len(members) < 2:
            raise RciError(
                f"a redistributor needs at least 2 stopped and 2 safe episodes to learn what tells them apart, got "
                f"{int((cost > 0).sum())} stopped and {int((cost == 0).sum())} safe; with labels like these only "
                "'sparse' and 'uniform' are possible."
            )
        held_out.append(members[: min(max(1, round(share * len(members))), len(members) - 1)])
    chosen = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(len(cost)), chosen), chosen


def cross_folds(cost: Array, folds: int, seed: int) -> list[Array]:
    """Every episode in exactly one fold, stopped and safe ones dealt out evenly."""
    rng = np.random.default_rng(seed)
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
    """One model, or one for each fold of cross-fitting; what a model holds out, it never saw."""
    if training.folds == 1:
        return [fit(method, data, hyper, training, seed, progress)]
    folds = cross_folds(data.cost, training.folds, seed)
    return [
        fit(method, data, hyper, training, seed + k, _part(progress, k, training.folds), held_out)
        for k, held_out in enumerate(folds)
    ]


def fit(
    method: Redistributor,
    data: Sequences,
    hyper: Any,
    training: Training,
    seed: int,
    progress: Callable[[float], None],
    held_out: Array | None = None,
) -> Fitted:
    """The state with the lowest held-out loss. Same seed, same result."""
    if method.update is None or method.held_out_loss is None:
        raise RciError("this redistributor has nothing to fit.")
    if held_out is None:
        train, held_out = split(data.cost, training.held_out_share, seed)
    else:
        train = np.setdiff1d(np.arange(len(data.cost)), held_out)
    init_key, order_key = jax.random.split(jax.random.key(seed))
    device = Sequences(*(jnp.asarray(array) for array in data))
    state = best = jax.jit(method.init)(init_key, Sequences(*(array[train] for array in device)))
    run_epoch = jax.jit(_epoch(method.update, min(training.batch_size, len(train))))
    judge = jax.jit(method.held_out_loss)
    unseen = Sequences(*(array[held_out] for array in device))
    history: list[tuple[float, float]] = []
    for epoch in range(training.epochs):
        state, train_loss = run_epoch(
            jax.random.fold_in(order_key, epoch), state, device, jnp.asarray(train), hyper
        )
        losses = float(train_loss), float(judge(state, unseen))
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
    return Fitted(best, [t for t, _ in history], [h for _, h in history], held_out)


def _part(progress: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    """Progress of one of several fits as progress of all."""
    return lambda share: progress((number + share) / count)


def _epoch(update: Callable, batch_size: int) -> Callable:
    def run(
        key: jax.Array, state: Any, data: Sequences, train: jax.Array, hyper: Any
    ) -> tuple[Any, jax.Array]:
        """One pass over the training episodes in random order; the last batch is filled up from the front."""
        order_key, update_key = jax.random.split(key)
        order = jax.random.permutation(order_key, train)
        batches = -(-len(train) // batch_size)
        order = jnp.resize(order, (batches, batch_size))
        keys = jax.random.split(update_key, batches)

        def step(state: Any, inputs: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            batch_key, index = inputs
            batch = Sequences(*(array[index] for array in data))
            state, info = update(batch_key, state, batch, hyper)
            return state, info.loss

        state, losses = jax.lax.scan(step, state, (keys, order))
        return state, losses.mean()

    return run
