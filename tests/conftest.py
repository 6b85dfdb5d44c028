"""Strict arithmetic for every test, and small data to share."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

# Compiled code is kept for the length of one test session only: tests must pass from a cold start. All processes of a
# session share it, those that run tests side by side too.
if "RCI_TEST_SESSION" not in os.environ:
    _CACHE = tempfile.TemporaryDirectory(prefix="rci-test-cache-")
    os.environ["RCI_TEST_SESSION"] = os.environ["RCI_CACHE"] = _CACHE.name
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(_CACHE.name, "compiled")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
# Networks here are tiny and run for seconds, so most of the time of the tests is compiling. Done with the older
# emitters, on one thread and, but for what is `optimised`, not thoroughly, it takes a third of the time.
os.environ["XLA_FLAGS"] = (
    "--xla_llvm_disable_expensive_passes=true --xla_backend_optimization_level=1"
    " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
)
os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_DEBUG_KEY_REUSE"] = "1"

from pathlib import Path

import jax
import numpy as np
import pytest
from tiny_run import made_once

from rci.collection import collect
from rci.data.types import Episodes, Labels, StepCosts
from rci.labeling import label

TESTS = Path(__file__).parent

# The files that take longest, which begin first, so that no process is left with one of them at the end.
LONGEST = [
    "test_learners.py",
    "test_pipeline.py",
    "test_highway_parity.py",
    "test_redistributors.py",
    "test_docs.py",
]


# What trains, compiles, draws whole pages or starts servers: files that `make test-quick` leaves out.
COMPILES = [
    "collection/*",
    "contract/*",
    "evaluation/test_metrics.py",
    "learning/*",
    "parity/*",
    "labeling/test_server.py",
    "redistribution/*",
    "reporting/test_films.py",
    "reporting/test_page.py",
    "reporting/test_paper_figures.py",
    "reporting/test_paper_samples.py",
    "reporting/test_run_summary.py",
    "run/test_agreement.py",
    "run/test_answers.py",
    "run/test_bench.py",
    "run/test_bench_learn.py",
    "run/test_bench_runtime.py",
    "run/test_both_engines.py",
    "run/test_cli.py",
    "run/test_comparison.py",
    "run/test_exchange_commands.py",
    "run/test_faults.py",
    "run/test_monitor.py",
    "run/test_object_store.py",
    "run/test_paper_study.py",
    "run/test_ray_*.py",
    "run/test_remote_shards.py",
    "run/test_select.py",
    "run/test_shards.py",
    "run/test_shift.py",
    "run/test_sweep_run.py",
    "run/test_takeover_commands.py",
    "runtime/*",
    "tasks/test_batched_env.py",
    "tasks/test_fetch_*.py",
    "tasks/test_films_of_tasks.py",
    "tasks/test_highway_*.py",
    "tasks/test_pcg64.py",
    "test_docs.py",
    "test_pipeline.py",
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    rank = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(LONGEST)))
    compiling = {path for pattern in COMPILES for path in TESTS.glob(pattern)}
    for item in items:
        if item.path in compiling or "tiny_run" in getattr(item, "fixturenames", ()):
            item.add_marker("compiles")


def pytest_configure(config: pytest.Config) -> None:
    # Of what another process is just writing; it is compiled once more then.
    config.addinivalue_line("filterwarnings", "ignore:Error reading persistent compilation cache entry")


@pytest.fixture(autouse=True)
def every_core() -> Iterator[None]:
    """A command that is called in this process keeps it to one core; the next test has all of them again."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    yield
    if cores is not None:
        os.sched_setaffinity(0, cores)


@pytest.fixture(scope="module")
def optimised() -> Iterator[None]:
    """Code that runs faster and takes longer to compile, for the tests of a file that train for long."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="session")
def point_episodes() -> Episodes:
    return collect("point", 60, "mixed", seed=3)[0]


@pytest.fixture(scope="session")
def point_labels(point_episodes: Episodes) -> Labels:
    return label(point_episodes, "point")


@pytest.fixture(scope="session")
def tiny_run() -> tuple[Path, str]:
    """The folder of a finished `rci run point` and what it printed, for tests that read it."""
    return made_once(Path(os.environ["RCI_TEST_SESSION"]) / "tiny-run")


def ragged(lengths: list[int], seed: int = 0, obs_size: int = 3, action_size: int = 2) -> Episodes:
    """Random episodes of the given lengths."""
    rng = np.random.default_rng(seed)
    steps, count = sum(lengths), len(lengths)
    return Episodes(
        obs=rng.normal(size=(steps + count, obs_size)).astype(np.float32),
        action=rng.uniform(-1, 1, (steps, action_size)).astype(np.float32),
        reward=rng.normal(size=steps).astype(np.float32),
        lengths=np.array(lengths),
        terminated=rng.random(count) < 0.5,
        truncated=np.zeros(count, bool),
    )


def sparse_costs(labels: Labels) -> StepCosts:
    """The cost of every episode at its last kept step, in each channel by itself."""
    kept = labels.kept_lengths
    cost = np.zeros((int(kept.sum()), *labels.cost.shape[1:]))
    cost[np.cumsum(kept) - 1] = labels.cost
    return StepCosts(cost, kept, labels.cost, True, "sparse", labels.hash, channels=labels.channels)


@pytest.fixture(scope="session")
def object_server():
    """An S3 server of our own; s3:// means it as long as the fixture lasts, in programs that are started too."""
    program = Path(__file__).parent / "run" / "object_server.py"
    server = subprocess.Popen(
        [sys.executable, str(program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    endpoint = server.stdout.readline().strip()
    assert endpoint.startswith("http://127.0.0.1:")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_DEFAULT_REGION", "us-east-1"),
        ):
            patch.setenv(name, value)
        yield endpoint
    server.communicate(timeout=30)  # the end of its input is its end
