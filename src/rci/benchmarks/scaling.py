"""`rci bench scaling`: what an engine costs per task, and how much of a second core a sweep of trainings gets.

Every figure is a ratio of two times of the same run of this command: tasks with empty bodies against nothing, tasks
that sleep against the time that they sleep, two workers against one.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.engines.cores import available_cores
from rci.engines.engine import LOCAL, Engine, Named, Progress, Task
from rci.engines.run import run_tasks
from rci.formats.importing.imported import optional
from rci.pipeline.jobs import Job
from rci.pipeline.run_jobs import run_jobs
from rci.shards.run import Fit, redistribute_shards

Row = dict[str, Any]
NAP = 10.0  # seconds of a sleeping task
NAPS = 4  # of them for each worker
TRAININGS = 8
SHARDS, SHARD_EPISODES, SHARD_STEPS = 5, 1000, 100


@dataclass(frozen=True)
class Nap:
    """A task that does nothing, for a while."""

    name: str
    seconds: float = 0.0
    needs: tuple[str, ...] = ()

    def outstanding(self) -> Nap:
        """Itself: it is never done already."""
        return self

    def run(self, progress: Progress) -> None:
        """Let time pass."""
        time.sleep(self.seconds)

    def land(self) -> None:
        """There is nothing to bring home."""


def rows_of(engines: Sequence[str]) -> int:
    """How many rows `bench_scaling` gives."""
    return 3 * len(engines) + 1


def bench_scaling(tasks: int, updates: int, engines: Sequence[str]) -> Iterator[Row]:
    """Rows of `rci bench scaling`: empty tasks, sleeping tasks and a sweep of trainings on each engine; shards."""
    cores = len(available_cores())
    if cores < 2:
        raise RciError("a second core is what this measures, and there is only one.")
    for kind in engines:
        yield empty_tasks(kind, tasks, cores)
    for kind in engines:
        yield sleeping_tasks(kind, cores)
    with tempfile.TemporaryDirectory(prefix="rci-bench-") as folder:
        place = Path(folder)
        logged = prepare_logs(place)
        for kind in engines:
            yield trainings(kind, updates, logged, place / kind)
        yield sharded(place)


def empty_tasks(kind: str, tasks: int, workers: int) -> Row:
    """Time per task that does nothing."""
    start, took = timed([Nap(f"empty-{i}") for i in range(tasks)], kind, workers)
    settings = {"tasks": tasks, "workers": workers, "start_s": round(start, 2)}
    return _row(f"{kind}: empty tasks", settings, 1000 * took / tasks, "ms per task")


def sleeping_tasks(kind: str, workers: int) -> Row:
    """What an engine adds to tasks of ten seconds, in percent of their time."""
    ideal = NAP * NAPS
    start, took = timed([Nap(f"nap-{i}", NAP) for i in range(NAPS * workers)], kind, workers)
    settings = {"tasks": NAPS * workers, "workers": workers, "start_s": round(start, 2)}
    return _row(f"{kind}: overhead of 10 s tasks", settings, 100 * (took / ideal - 1), "%")


def timed(tasks: Sequence[Task], kind: str, workers: int) -> tuple[float, float]:
    """How long an engine takes until each worker has done something, and then for these tasks."""
    began, ends = time.perf_counter(), list[float]()

    def note(task: Named, share: float, seconds: float | None) -> None:
        if share == 1.0:
            ends.append(time.perf_counter() - began)

    first = [Nap(f"first-{i}") for i in range(workers)]
    run_tasks([*first, *tasks], Engine(kind, workers), note)
    return ends[workers - 1], ends[-1] - ends[workers - 1]


def trainings(kind: str, updates: int, logged: dict[str, Path], out: Path) -> Row:
    """How much faster the same trainings are with two workers, as a share of twice as fast."""
    # Not timed: this leaves the compiled code on the disk, so that the first of the two does not pay for both.
    run_jobs(plan(updates, 1, logged, out / "warm"), Engine(kind, 1), _nobody)
    took = []
    for workers in (1, 2):
        began = time.perf_counter()
        run_jobs(plan(updates, TRAININGS, logged, out / str(workers)), Engine(kind, workers), _nobody)
        took.append(time.perf_counter() - began)
    settings = {
        "trainings": TRAININGS,
        "updates": updates,
        "one_s": round(took[0], 1),
        "two_s": round(took[1], 1),
    }
    return _row(f"{kind}: efficiency of two cores", settings, 100 * took[0] / (2 * took[1]), "%")


def sharded(place: Path) -> Row:
    """Steps per second for which one worker infers costs, shard by shard; the first one starts it and is left out."""
    folder = place / "shards"
    write_shards(folder)
    took = list[float]()

    def note(task: Named, share: float, seconds: float | None) -> None:
        if share == 1.0 and seconds is not None and task.name.startswith("part-"):
            took.append(seconds)

    fit = Fit(200, options={"epochs": 2})
    redistribute_shards(folder, place / "fleet", fit, engine=Engine(workers=1), report=note)
    steps = (len(took) - 1) * SHARD_EPISODES * SHARD_STEPS
    settings = {
        "shards": SHARDS,
        "episodes": SHARDS * SHARD_EPISODES,
        "steps": SHARD_STEPS,
        "method": "rudder",
    }
    return _row("local: shards, one core", settings, steps / sum(took[1:]), "steps/s")


def write_shards(folder: Path) -> None:
    """Logs of runs that were stopped now and then."""
    pyarrow = optional("pyarrow", "pyarrow")
    parquet = optional("pyarrow.parquet", "pyarrow")
    folder.mkdir()
    random = np.random.default_rng(0)
    rows = SHARD_EPISODES * SHARD_STEPS
    for shard in range(SHARDS):
        stopped = np.zeros((SHARD_EPISODES, SHARD_STEPS), bool)
        stopped[::3, -1] = True
        episode = np.repeat(np.arange(SHARD_EPISODES) + shard * SHARD_EPISODES, SHARD_STEPS)
        columns = {
            "episode": episode,
            "step": np.tile(np.arange(SHARD_STEPS), SHARD_EPISODES),
            "obs": list(random.normal(size=(rows, 20)).astype(np.float32)),
            "action": list(random.normal(size=(rows, 2)).astype(np.float32)),
            "reward": random.normal(size=rows).astype(np.float32),
            "stopped": stopped.ravel(),
        }
        parquet.write_table(pyarrow.table(columns), folder / f"part-{shard}.parquet")


def plan(updates: int, count: int, logged: dict[str, Path], out: Path) -> list[Job]:
    """The same training with other seeds."""
    settings = {"method": "bcq-lagrangian", "updates": updates, "budget": "0.1"}
    return [Job(f"learn-{seed}", "learn", settings, seed, logged, out / str(seed)) for seed in range(count)]


def prepare_logs(place: Path) -> dict[str, Path]:
    """Episodes of the point task, their labels, step costs and behaviour model."""
    recording = {"task_name": "point", "episodes": 1000, "recipe": "mixed"}
    rule = {"rule": "point", "noise": "clean"}
    episodes, labels, costs, behaviour = (
        place / name for name in ("episodes", "labels", "costs", "behaviour")
    )
    logged = {"episodes": episodes, "labels": labels}
    jobs = [
        Job("collect", "collect", recording, 0, {}, episodes),
        Job("label", "label", rule, 0, {"episodes": episodes}, labels, ("collect",)),
        Job("costs", "redistribute", {"method": "uniform"}, 0, logged, costs, ("label",)),
        Job("behaviour", "behaviour", {"updates": 500}, 0, logged, behaviour, ("label",)),
    ]
    run_jobs(jobs, LOCAL, _nobody)
    return {**logged, "costs": costs, "behaviour": behaviour}


def _nobody(task: Named, share: float, seconds: float | None) -> None:
    """Nobody listens."""


def _row(name: str, config: Row, value: float, unit: str) -> Row:
    return {"name": name, "config": config, "value": value, "unit": unit}
