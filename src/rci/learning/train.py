"""The training loop of every learner: compiled chunks of updates, checked between chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp

from rci.data.errors import RciError
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.dataset import Dataset
from rci.nets.keys import stage_key

CHUNK = 500  # updates per compiled call


def train(
    make: Callable[[Any], Learner],
    config: Any,
    hyper: Any,
    data: Dataset,
    behaviour: FrozenBehaviour,
    updates: int,
    seed: int,
    progress: Callable[[float], None],
    channels: Sequence[str] = (),
) -> tuple[Any, list[dict[str, float]]]:
    """The state after `updates` updates, and the mean diagnostics of every chunk.

    With channels, a diagnostic that has one number for each of them is told as `multiplier proximity` and so on.

    The key of an update is made from the seed and its number alone. A second call with other budgets, rates or
    seeds but the same config and data sizes does not compile again.
    """
    start, run = _compiled(make, config)
    key = stage_key(seed, "learn")
    state = start(key, data, behaviour, hyper)
    history = []
    for first in range(0, updates, CHUNK):
        count = min(CHUNK, updates - first)
        state, info = run(key, first, count, state, data, behaviour, hyper)
        means = {
            label: float(number)
            for name, value in info._asdict().items()
            for label, number in zip(_labels(name, value, channels), jnp.ravel(value))
        }
        for name, value in means.items():
            if not jnp.isfinite(value):
                raise RciError(
                    f"training diverged between updates {first} and {first + count}: {name} is {value}; lower "
                    "learning_rate or multiplier_rate."
                )
        history.append({"update": first + count, **means})
        progress((first + count) / updates)
    # The diagnostics are of the numbers before the last step; the step itself may have been the one too many.
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state)):
        raise RciError(
            f"training diverged at update {updates}: a network is not finite; lower learning_rate."
        )
    return state, history


def _labels(name: str, value: jax.Array, channels: Sequence[str]) -> list[str]:
    """What the numbers of a diagnostic are called: one number has its name, one per channel have theirs as well."""
    return [f"{name} {channel}" for channel in channels] if channels and value.ndim else [name]


@lru_cache(maxsize=8)
def _compiled(make: Callable[[Any], Learner], config: Any) -> tuple[Callable, Callable]:
    learner = make(config)

    @jax.jit
    def start(key: jax.Array, data: Dataset, behaviour: FrozenBehaviour, hyper: Any) -> Any:
        init_key, batch_key = jax.random.split(jax.random.fold_in(key, 0))
        return learner.init(init_key, learner.sample(batch_key, data, behaviour), hyper)

    @jax.jit
    def run(
        key: jax.Array,
        first: int,
        count: int,
        state: Any,
        data: Dataset,
        behaviour: FrozenBehaviour,
        hyper: Any,
    ) -> tuple[Any, Any]:
        def update(i: jax.Array, state: Any) -> tuple[Any, Any]:
            batch_key, update_key = jax.random.split(jax.random.fold_in(key, first + i + 1))
            return learner.update(update_key, state, learner.sample(batch_key, data, behaviour), hyper)

        def step(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            state, total = carry
            state, info = update(i, state)
            return state, jax.tree.map(jnp.add, total, info)

        _, info = jax.eval_shape(update, jnp.zeros((), jnp.int32), state)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)
        state, total = jax.lax.fori_loop(0, count, step, (state, nothing))
        return state, jax.tree.map(lambda leaf: leaf / count, total)

    return start, run
