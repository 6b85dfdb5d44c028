"""`rci bench redistribute`: sequences per second of every method that learns, against what the machine can do.

All methods train on the same sequences: 50 steps of 40 features in batches of 64, networks of width 64 where a
method has a width. The reference is measured in the same run: the bare gradient of an LSTM of that size, without
optimiser, sampling or data. The limit is 5,600 sequences per CPU-second where sgemm does 100 GFLOP/s, and
proportionally less where it does less. Time is this process's own, so that other work on the machine counts less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import numpy as np

from rci.benchmarks.simulators import ROUNDS, SGEMM_SIZE, Row, per_cpu_second, sgemm_runner

STEPS, OBS, ACTIONS, BATCH, HIDDEN = 50, 38, 2, 64, 64
BATCHES = 16  # of one epoch, the smallest unit that is measured
SEQUENCES = BATCHES * BATCH
LIMIT, LIMIT_SGEMM = (
    5600.0,
    100.0,
)  # sequences per CPU-second, and GFLOP/s of the core on which that was measured
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {"rudder": ({}, {"cell": "reduced", "loss": "auxiliary"})}


def learned_methods() -> list[tuple[str, dict[str, Any]]]:
    """Every method that has something to train, with its variants."""
    from rci.redistribution import REDISTRIBUTORS

    return [
        (name, options)
        for name, entry in REDISTRIBUTORS.items()
        if entry.make(entry.config()).update is not None
        for options in VARIANTS.get(name, ({},))
    ]


def bench_redistribute(seconds: float = 1.0) -> Iterator[Row]:
    """One row for the matrix product, one for the bare LSTM, two for every method: training and scoring."""
    bare, product = _bare_lstm_runner(), sgemm_runner()
    reference = sgemm = 0.0
    for _ in range(ROUNDS):
        reference = max(reference, per_cpu_second(bare, seconds))
        sgemm = max(sgemm, per_cpu_second(product, seconds / 4) / 1e9)
    limit = LIMIT * sgemm / LIMIT_SGEMM
    yield {"name": "sgemm", "config": {"size": SGEMM_SIZE}, "value": sgemm, "unit": "GFLOP/s"}
    yield _row("bare LSTM gradient", {}, "train", reference, reference, limit)
    scoring = []
    for name, options in learned_methods():
        train, score = _method_runners(name, options)
        trained = scored = 0.0
        for _ in range(ROUNDS):
            reference = max(reference, per_cpu_second(bare, seconds / 4))
            trained = max(trained, per_cpu_second(train, seconds))
            scored = max(scored, per_cpu_second(score, seconds / 4))
        yield _row(name, options, "train", trained, reference, limit)
        scoring.append(_row(name, options, "score", scored))
    yield from scoring


def _row(
    name: str, options: dict[str, Any], what: str, value: float, reference: float = 0.0, limit: float = 0.0
) -> Row:
    settings = {"does": what, "options": ", ".join(f"{k}={v}" for k, v in options.items())}
    row: Row = {"name": name, "config": settings, "value": value, "unit": "sequences/CPU-s"}
    if reference:  # scoring has no gradient, so what limits training says nothing about it
        row |= {"reference": reference, "ratio": value / reference}
        row |= {"limit": limit, "share_of_limit": value / limit}
    return row


def _method_runners(name: str, options: dict[str, Any]) -> tuple[Callable[[], float], Callable[[], float]]:
    """One epoch of training, and scores of as many episodes, as users get them."""
    import jax
    import jax.numpy as jnp

    from rci.data.batch import Sequences, sequences
    from rci.redistribution import REDISTRIBUTORS
    from rci.redistribution.fit import Groups, compiled, draw_order

    episodes, labels = _dataset()
    entry = REDISTRIBUTORS[name]
    width = {"hidden": HIDDEN} if "hidden" in get_type_hints(entry.config) else {}
    method = entry.make(entry.config(**{**width, **options}))
    data = sequences(episodes, labels)
    start, epoch, _ = compiled(method)
    device = Sequences(*(jnp.asarray(array) for array in data))
    groups = Groups.of(data, np.arange(SEQUENCES))
    first = start(jax.random.key(0), device)
    hyper = entry.hyper()

    def train() -> float:
        order = draw_order(jax.random.key(1), groups, BATCH, balance=False, crop=False)
        jax.block_until_ready(epoch(first, device, order, groups.stopped_length, hyper))
        return SEQUENCES

    def score() -> float:
        method.predict(first, episodes, labels.kept_lengths)
        return SEQUENCES

    return train, score


def _dataset() -> Any:
    """Noise of the right shape; every second episode is stopped, at its last step."""
    from rci.data.types import Episodes, Labels

    rng = np.random.default_rng(0)
    flags = np.zeros(SEQUENCES, bool)
    episodes = Episodes(
        obs=rng.standard_normal((SEQUENCES * (STEPS + 1), OBS), np.float32),
        action=rng.standard_normal((SEQUENCES * STEPS, ACTIONS), np.float32),
        reward=np.zeros(SEQUENCES * STEPS, np.float32),
        lengths=np.full(SEQUENCES, STEPS),
        terminated=flags,
        truncated=~flags,
    )
    return episodes, Labels.for_episodes(episodes, np.where(np.arange(SEQUENCES) % 2, STEPS - 1, -1))


def _bare_lstm_runner() -> Callable[[], float]:
    """The gradient of the squared error at the last step, one batch after the other."""
    import jax
    import jax.numpy as jnp

    from rci.nets.sequence import Lstm

    lstm_key, head_key, data_key = jax.random.split(jax.random.key(0), 3)
    weights = Lstm(lstm_key, OBS + ACTIONS, HIDDEN), jax.random.normal(head_key, (HIDDEN,))
    x = jax.random.normal(data_key, (BATCH, STEPS, OBS + ACTIONS))

    def loss(weights: Any, x: jax.Array) -> jax.Array:
        lstm, head = weights
        return jnp.mean((lstm(x)[:, -1] @ head - 1.0) ** 2)

    gradient = jax.jit(jax.grad(loss))

    def run() -> float:
        jax.block_until_ready([gradient(weights, x) for _ in range(BATCHES)])
        return SEQUENCES

    return run
