"""How far and how fast a policy is without JAX: as NumPy, and as an ONNX model, against itself with JAX.

Two candidates of a policy that chooses may be worth the same up to rounding. Then either way may take either of them,
as JAX itself does when an observation comes alone or with others; `differing` counts where that happened, and
`parity_max_abs` is about all others.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rci.benchmarks.simulators import Row
from rci.data.record import Array
from rci.data.types import Policy

TOLERANCE = 1e-5
PIECE = 1000  # observations answered at once


def bench_policies(updates: int = 1500, observations: int = 10_000) -> Iterator[Row]:
    """The rows of `rci bench runtime`: a policy of every learner, trained for a while on `point`."""
    import rci
    from rci.learning import LEARNERS

    episodes, _ = rci.collect("point", episodes=300, seed=0)
    labels = rci.label(episodes, "point")
    costs = rci.redistribute(episodes, labels, method="uniform")
    new, _ = rci.collect("point", episodes=observations // 20, seed=1)
    obs = np.resize(new.obs, (observations, *new.obs.shape[1:]))
    variants: list[tuple[str, str, dict[str, Any]]] = [(name, name, {}) for name in LEARNERS]
    variants.insert(1, ("bcq-lagrangian, penalised", "bcq-lagrangian", {"variant": "penalised"}))
    for name, method, options in variants:
        budget = "inf" if method == "bc" else 0.1
        length = (
            max(1, updates // 5) if method == "cdt" else updates
        )  # it is slow to train, and as slow to run
        policy = rci.learn(episodes, labels, costs, method=method, budget=budget, updates=length, **options)
        yield from bench_runtime(policy, obs, name=name)


def bench_runtime(policy: Policy, obs: Array, calls: int = 1000, seed: int = 0, name: str = "") -> list[Row]:
    """One row each for NumPy and ONNX: milliseconds for a single observation, and how far actions are from JAX's.

    policy: from `rci.load` or `rci.learn`. obs: [rows, features], raw; all are compared, `calls` of them are timed.
    name: what the rows are called, if not by the method.
    """
    from rci.deploy.policies import act_with

    rows = np.asarray(obs, np.float32)
    expected = _in_pieces(lambda piece: policy.act(piece, seed), rows)
    jax_ms = _milliseconds(lambda row: policy.act(row, seed), rows, calls)
    taken = act_with(policy)
    ways: dict[str, Callable[[Array], Array]] = {"numpy": lambda piece: taken.act(piece, seed)}
    with tempfile.TemporaryDirectory() as folder:
        ways["onnx"] = _onnx(policy, Path(folder) / "policy.onnx", seed)
        return [
            _row(name or policy.model.method, way, policy, act, rows, expected, jax_ms, calls)
            for way, act in ways.items()
        ]


def _row(
    name: str,
    way: str,
    policy: Policy,
    act: Callable[[Array], Array],
    obs: Array,
    expected: Array,
    jax_ms: float,
    calls: int,
) -> Row:
    gap = np.abs(_in_pieces(act, obs) - expected).reshape(len(obs), -1).max(axis=1)
    alike = gap <= TOLERANCE
    own_ms = _milliseconds(act, obs[:, None] if way == "onnx" else obs, calls)
    return {
        "name": f"{name}, {way}",
        "config": {
            "observations": len(obs),
            "calls": calls,
            "hidden": policy.model.config["config"].get("hidden"),
        },
        "value": own_ms,
        "unit": "ms per action",
        "reference": jax_ms,
        "ratio": jax_ms / own_ms,
        "parity_max_abs": float(gap[alike].max(initial=0.0)),
        "differing": int((~alike).sum()),
    }


def _onnx(policy: Policy, path: Path, seed: int) -> Callable[[Array], Array]:
    """The exported policy as a function of observations, each the first of an episode."""
    import onnxruntime

    from rci.deploy.onnx import export_onnx

    session = onnxruntime.InferenceSession(
        str(export_onnx(policy, path, seed)), providers=["CPUExecutionProvider"]
    )
    first_memory = json.loads(session.get_modelmeta().custom_metadata_map.get("memory", "{}"))
    types = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
    start = {i.name: np.array(first_memory[i.name], types[i.type])[None] for i in session.get_inputs()[1:]}
    shape = policy.info.get("obs_shape", [policy.info["obs_size"]])

    def act(obs: Array) -> Array:
        memory = {name: np.repeat(value, len(obs), axis=0) for name, value in start.items()}
        return np.asarray(session.run(["action"], {"obs": obs.reshape(-1, *shape), **memory})[0])

    return act


def _in_pieces(act: Callable[[Array], Array], obs: Array) -> Array:
    return np.concatenate([act(obs[first : first + PIECE]) for first in range(0, len(obs), PIECE)])


def _milliseconds(act: Callable[[Array], Any], obs: Array, calls: int) -> float:
    """Median over single calls."""
    times = []
    for i in range(calls):
        before = time.perf_counter()
        act(obs[i % len(obs)])
        times.append(time.perf_counter() - before)
    return 1e3 * float(np.median(times))
