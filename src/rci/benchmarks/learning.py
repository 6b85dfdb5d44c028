"""`rci bench learn`: updates per second of every learner, against what the machine can do.

Every learner has its default sizes and trains on the same noise: 35 features, 2 actions, one channel of cost, 40
proposals for each observation, in the compiled chunks that training uses. The limit of an update is its matrix
products at the speed of sgemm, measured in the same run; they are counted in the traced program, because XLA's own
count takes the body of a loop once, however often it runs. The reference is `bcq-lagrangian` at the sizes of OSRL.
Time is this process's own, so that other work on the machine counts less.

Compiling is measured twice: for the first time, and from the cache on disk, as all but the first of many trainings
find it. The latter and 10,000 updates are what a policy takes.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np

from rci.benchmarks.simulators import ROUNDS, SGEMM_SIZE, Row, per_cpu_second, sgemm_runner

OBS, ACTIONS, PROPOSALS = 35, 2, 40
EPISODES, STEPS = 200, 50
CHUNK, CHUNK_GFLOP = 50, 40.0  # at most so many updates, or so much work, in one measured call
POLICY_UPDATES = 10_000
TABLES = [("feasible, 5 rows", "feasible", {"rows": 5})]  # an observation as a table
OSRL = {"hidden": 256, "batch_size": 512, "critics": 4, "shared_targets": False, "alongside": 400}
REFERENCE = "bcq-lagrangian"


class Measured(NamedTuple):
    """One learner, ready to be run."""

    settings: dict[str, Any]  # the static ones that say how large it is
    run: Callable[[], float]
    gflop: float  # matrix products of one update
    compile_seconds: float
    cached_seconds: float  # to compile again, from the cache on disk


def bench_learn(seconds: float = 1.0, cores: int = 1) -> Iterator[Row]:
    """One row for the matrix product, one for the reference, two for every learner: speed and policies per hour.

    cores: how many policies are trained at once on this machine, one on each.
    """
    from rci.learning import LEARNERS

    with _empty_cache():
        product, bare = sgemm_runner(), measured(REFERENCE, OSRL)
        sgemm = reference = 0.0
        for _ in range(ROUNDS):
            sgemm = max(sgemm, per_cpu_second(product, seconds / 4) / 1e9)
            reference = max(reference, per_cpu_second(bare.run, seconds))
        yield {"name": "sgemm", "config": {"size": SGEMM_SIZE}, "value": sgemm, "unit": "GFLOP/s"}
        yield _speed(f"{REFERENCE}, sizes of OSRL", bare, reference, reference, sgemm)
        hourly = []
        for name, method, options in [*((name, name, {}) for name in LEARNERS), *TABLES]:
            ours, speed = measured(method, options), 0.0
            for _ in range(ROUNDS):
                reference = max(reference, per_cpu_second(bare.run, seconds / 4))
                speed = max(speed, per_cpu_second(ours.run, seconds))
            yield _speed(name, ours, speed, reference, sgemm)
            hourly.append(_hourly(name, ours, speed, cores))
        yield from hourly


def measured(name: str, options: dict[str, Any]) -> Measured:
    """A learner on noise, compiled."""
    import jax

    from rci.learning import LEARNERS
    from rci.learning.train import _compiled

    entry = LEARNERS[name]
    config, hyper = entry.config(**options), entry.hyper(threshold=np.array([0.1], np.float32))
    # Only the VAE can learn with the critics, as in OSRL.
    data, behaviour = _noise(entry.proposes, "vae" if options.get("alongside") else "mixture")
    key = jax.random.key(0)

    def compile_anew() -> tuple[Any, Any, float]:
        """Tracing, compiling and the first update, of functions that were never called before."""
        start, run = _compiled.__wrapped__(entry.make, config)
        began = time.process_time()
        state = start(key, data, behaviour, hyper)
        jax.block_until_ready(run(key, 0, 1, state, data, behaviour, hyper))
        return run, state, time.process_time() - began

    _, _, cold = compile_anew()
    run, state, cached = compile_anew()

    learner = entry.make(config)

    def update(key: jax.Array, state: Any) -> Any:
        batch_key, update_key = jax.random.split(key)
        return learner.update(update_key, state, learner.sample(batch_key, data, behaviour), hyper)

    flop = product_flop(jax.make_jaxpr(update)(key, state).jaxpr)
    count = max(1, min(CHUNK, round(CHUNK_GFLOP * 1e9 / flop)))

    def chunk() -> float:
        # Always from the first state: nothing is learned from noise, so it may lead anywhere.
        jax.block_until_ready(run(key, 0, count, state, data, behaviour, hyper))
        return count

    sizes = {field: getattr(config, field) for field in ("hidden", "batch_size") if hasattr(config, field)}
    return Measured(sizes, chunk, flop / 1e9, cold, cached)


def product_flop(program: Any) -> float:
    """Floating-point operations of all matrix products of a traced program, 2 for each product of two numbers.

    The body of a loop counts as often as it runs, where that is known, and of two branches the dearer one.
    """
    total = 0.0
    for step in program.eqns:
        if step.primitive.name == "dot_general":
            (contracted, _), _ = step.params["dimension_numbers"]
            inner = math.prod(step.invars[0].aval.shape[axis] for axis in contracted)
            total += 2.0 * inner * math.prod(step.outvars[0].aval.shape)
            continue
        inside = [product_flop(part) for value in step.params.values() for part in _programs(value)]
        if step.primitive.name == "cond":
            total += max(inside)
        else:
            total += (
                step.params.get("length", 1) * sum(inside) if step.primitive.name == "scan" else sum(inside)
            )
    return total


def _programs(value: Any) -> list[Any]:
    """The traced programs that a parameter of a step holds."""
    if isinstance(value, tuple | list):
        return [program for part in value for program in _programs(part)]
    inner = getattr(value, "jaxpr", value)
    return [inner] if hasattr(inner, "eqns") else []


def _speed(name: str, one: Measured, speed: float, reference: float, sgemm: float) -> Row:
    limit = sgemm / one.gflop
    return {
        "name": name,
        "config": {
            **{"hidden": "", "batch_size": ""},
            **one.settings,
            "GFLOP/update": one.gflop,
            "compile_s": one.compile_seconds,
        },
        "value": speed,
        "unit": "updates/CPU-s",
        "reference": reference,
        "ratio": speed / reference,
        "limit": limit,
        "share_of_limit": speed / limit,
    }


def _hourly(name: str, one: Measured, speed: float, cores: int) -> Row:
    each = POLICY_UPDATES / speed + one.cached_seconds
    settings = {"updates": POLICY_UPDATES, "cores": cores, "cached_compile_s": one.cached_seconds}
    return {"name": name, "config": settings, "value": cores * 3600 / each, "unit": "policies/h"}


def _noise(proposes: bool, kind: Literal["mixture", "vae"]) -> tuple[Any, Any]:
    """Transitions of the right shape, every second episode stopped at its end, and a behaviour model."""
    import jax
    import jax.numpy as jnp

    from rci.data.types import Episodes, Labels, StepCosts, Transitions
    from rci.learning.behaviour import Config, FrozenBehaviour, build_model
    from rci.learning.dataset import measure_scaling, to_device

    rng = np.random.default_rng(0)
    steps, flags = EPISODES * STEPS, np.zeros(EPISODES, bool)
    episodes = Episodes(
        obs=rng.standard_normal((steps + EPISODES, OBS), np.float32),
        action=rng.uniform(-1, 1, (steps, ACTIONS)).astype(np.float32),
        reward=rng.standard_normal(steps, np.float32),
        lengths=np.full(EPISODES, STEPS),
        terminated=flags,
        truncated=~flags,
    )
    labels = Labels.for_episodes(episodes, np.where(np.arange(EPISODES) % 2, STEPS - 1, -1))
    cost = np.zeros(steps)
    cost[STEPS - 1 :: STEPS] = labels.cost
    costs = StepCosts(cost, labels.kept_lengths, labels.cost, True, "sparse", labels.hash)
    transitions = Transitions.build(episodes, labels, costs)
    scaling = measure_scaling(transitions)
    proposal = rng.uniform(-1, 1, (steps + EPISODES, PROPOSALS, ACTIONS)).astype(np.float32)
    data = to_device(transitions, scaling, proposal=proposal if proposes else None)
    model = build_model(jax.random.key(0), OBS, ACTIONS, Config(model=kind)) if proposes else None
    return jax.tree.map(jnp.asarray, data), FrozenBehaviour(model, scaling)


@contextmanager
def _empty_cache() -> Iterator[None]:
    """A cache of compiled code with nothing in it, so that compiling for the first time can be measured."""
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(prefix="rci-bench-") as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        compilation_cache.reset_cache()
        try:
            yield
        finally:
            jax.config.update("jax_compilation_cache_dir", before)
            compilation_cache.reset_cache()
