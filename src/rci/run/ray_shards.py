"""Shards on a Ray cluster, by Ray Data: every worker is an actor on a core of its own that keeps its models."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.run.cores import claim_core, prepare_process
from rci.run.engine import ATTEMPTS, Engine, Report, Task, Work, forget_failure, keep_failure, landing
from rci.run.leftovers import WORK, clear_leftovers, work_folder
from rci.run.ray_cluster import Cluster, last_line
from rci.run.ray_engine import difference, fingerprint
from rci.run.work_log import attempt


class RaySession:
    """A cluster, joined or started when there is the first work for it."""

    def __init__(self, engine: Engine, logs: Path | None = None) -> None:
        self.engine, self.logs = engine, logs
        self.cluster: Cluster | None = None

    def run(self, tasks: Sequence[Task], report: Report) -> None:
        """Do every task that is not done, as `run_tasks` does; tasks that need each other are not for here."""
        left = dict[str, tuple[Task, Work]]()
        for task in tasks:
            work = task.outstanding()
            if work is None:
                report(task, 1.0, None)
            else:
                left[task.name] = (task, work)
        failures = dict[str, str]()
        for row in self._results({name: work for name, (_, work) in left.items()}):
            task, _ = left.pop(row["task"])
            error = row["error"] or landing(task)
            if error:
                failures[task.name] = keep_failure(task.name, error, row["log"], self.logs)
            else:
                forget_failure(task.name, self.logs)
                report(task, 1.0, row["seconds"])
        if failures:
            raise RciError("\n".join(f"{name}: {why}" for name, why in sorted(failures.items())))

    def close(self) -> None:
        """Leave the cluster; one that was started for this run ends."""
        if self.cluster is not None:
            self.cluster.close()

    def _results(self, works: dict[str, Work]) -> Iterator[dict[str, Any]]:
        """One row per piece of work, as they are done."""
        if not works:
            return
        cluster = self._start()
        ray = cluster.ray
        cores = int(ray.cluster_resources().get("CPU", 0))
        workers = min(self.engine.workers or cores, cores, len(works))
        if workers == 0:
            raise RciError("the Ray cluster has no CPUs to work on.")
        data = ray.data
        names = [{"task": name} for name in works]
        try:
            yield from (
                data.from_items(names, override_num_blocks=len(names))
                .map_batches(
                    Worker,
                    fn_constructor_args=(works, cluster.near(_Attempts), fingerprint()),
                    batch_size=1,
                    compute=data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
                    num_cpus=1,
                )
                .iter_rows()
            )
        except ray.exceptions.RayError as error:
            raise RciError(f"Ray gave up: {last_line(error)}") from None

    def _start(self) -> Cluster:
        """The cluster, and Ray Data told to be quiet."""
        if self.cluster is None:
            self.cluster = Cluster(self.engine)
            data = _import_data()
            logging.getLogger("ray.data").setLevel(logging.ERROR)
            context = data.DataContext.get_current()
            context.enable_progress_bars = False
            context.print_on_execution_start = False
        return self.cluster


def _import_data() -> Any:
    try:
        import ray.data
    except ImportError as error:
        raise RciError(f"shards on Ray need Ray Data: pip install 'rci[ray]' ({error}).") from None
    return ray.data


class _Attempts:
    """An actor that counts how often each piece of work was begun."""

    def __init__(self) -> None:
        self.begun = Counter[str]()

    def begin(self, name: str) -> int:
        self.begun[name] += 1
        return self.begun[name]


class Worker:
    """An actor: pinned to a core before anything imports JAX; what it has read and compiled stays.

    Ray starts a worker that died again and gives it the same work, as often as it dies. So attempts are counted, and
    work that has killed enough workers is not begun again.
    """

    def __init__(self, works: dict[str, Work], attempts: Any, expected: dict[str, str]) -> None:
        clear_leftovers(WORK)  # of workers that were killed
        prepare_process(claim_core())
        self.works, self.attempts, self.expected = works, attempts, expected

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        """Do some of the work, and say how it ended."""
        rows = [self._do(str(name)) for name in batch["task"]]
        columns = ("task", "seconds", "error", "log")
        return {column: [row[i] for row in rows] for i, column in enumerate(columns)}

    def _do(self, name: str) -> tuple[str, float, str, str]:
        if fingerprint() != self.expected:
            return name, 0.0, difference(self.expected), ""
        import ray

        if ray.get(self.attempts.begin.remote(name)) > ATTEMPTS:
            return name, 0.0, f"the workers that ran it died, {ATTEMPTS} times", ""
        started = time.monotonic()
        with work_folder() as folder:
            failure = attempt(self.works[name], lambda share: None, folder / "printed.txt")
        return name, time.monotonic() - started, *(failure or ("", ""))
