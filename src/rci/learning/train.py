"""The training loop of every learner: compiled chunks of updates, checked and kept between chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rci.data.errors import RciError
from rci.learning.base import Learner
from rci.learning.behaviour import FrozenBehaviour
from rci.learning.checkpoint import Keeper
from rci.learning.dataset import Dataset
from rci.nets.keys import stage_key

CHUNK = 500  # updates per compiled call
LARGEST_MULTIPLIER = 1e4  # a violation worth ten thousand times what returns differ by is a ban, not a price


class Trouble(NamedTuple):
    """The first update of a chunk whose diagnostics are not sound, -1 = none, and those diagnostics."""

    update: jax.Array
    info: Any


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
    keeper: Keeper | None = None,
) -> tuple[Any, list[dict[str, float]]]:
    """The state after `updates` updates, and the mean diagnostics of every chunk.

    With channels, a diagnostic that has one number for each of them is reported as `multiplier proximity` and so on.

    The key of an update is made from the seed and its number alone, so a training that goes on from what its keeper
    kept ends in the same bits. A second call with other budgets, rates or seeds but the same config and data sizes
    does not compile again.
    """
    start, run = _compiled(make, config)
    key = stage_key(seed, "learn")
    state, done, history = start(key, data, behaviour, hyper), 0, list[dict[str, float]]()
    if keeper is not None:
        state, done, history = keeper.resume(state, updates)
    for first in range(done, updates, CHUNK):
        count = min(CHUNK, updates - first)
        state, info, trouble = run(key, first, count, state, data, behaviour, hyper)
        if trouble.update >= 0:
            raise RciError(_diverged(int(trouble.update), _named(trouble.info, channels)))
        history.append({"update": first + count, **_named(info, channels)})
        if keeper is not None:
            keeper.keep(state, first + count, history, last=first + count == updates)
        progress((first + count) / updates)
    # The diagnostics are of the numbers before the last step; the step itself may have been the one too many.
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(state)):
        raise RciError(
            f"training diverged at update {updates}: a network is not finite; lower learning_rate."
        )
    return state, history


def _named(info: Any, channels: Sequence[str]) -> dict[str, float]:
    """Diagnostics as plain numbers, each under its name, and where there is one per channel under that name too."""
    return {
        label: float(number)
        for name, value in info._asdict().items()
        for label, number in zip(_labels(name, value, channels), jnp.ravel(value))
    }


def _labels(name: str, value: jax.Array, channels: Sequence[str]) -> list[str]:
    return [f"{name} {channel}" for channel in channels] if channels and value.ndim else [name]


def _diverged(update: int, info: dict[str, float]) -> str:
    """What went wrong, where, and what may help."""
    for name, value in info.items():
        if not jnp.isfinite(value):
            return f"training diverged at update {update}: {name} is {value}; lower learning_rate."
    name, value = next(
        (n, v) for n, v in info.items() if n.startswith("multiplier") and v > LARGEST_MULTIPLIER
    )
    return (
        f"training diverged at update {update}: {name} rose to {value:.3g}, so the reward counts for nothing; lower "
        "multiplier_rate, or allow a larger budget."
    )


def _sound(info: Any) -> jax.Array:
    finite = jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(info)]))
    multiplier = getattr(info, "multiplier", jnp.zeros(()))
    return finite & jnp.all(multiplier <= LARGEST_MULTIPLIER)


@lru_cache(maxsize=32)
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
    ) -> tuple[Any, Any, Trouble]:
        def update(i: jax.Array, state: Any) -> tuple[Any, Any]:
            batch_key, update_key = jax.random.split(jax.random.fold_in(key, first + i + 1))
            return learner.update(update_key, state, learner.sample(batch_key, data, behaviour), hyper)

        def step(i: jax.Array, carry: tuple[Any, Any, Trouble]) -> tuple[Any, Any, Trouble]:
            state, total, trouble = carry
            state, info = update(i, state)
            new = (trouble.update < 0) & ~_sound(info)
            trouble = Trouble(
                jnp.where(new, first + i + 1, trouble.update),
                jax.tree.map(lambda now, then: jnp.where(new, now, then), info, trouble.info),
            )
            return state, jax.tree.map(jnp.add, total, info), trouble

        _, info = jax.eval_shape(update, jnp.zeros((), jnp.int32), state)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), info)
        begun = state, nothing, Trouble(jnp.full((), -1, jnp.int32), nothing)
        state, total, trouble = jax.lax.fori_loop(0, count, step, begun)
        return state, jax.tree.map(lambda leaf: leaf / count, total), trouble

    return start, run
