"""Work on a Ray cluster: one task, one core. Retries are not left to Ray, so that both engines count and report alike.

Needs the extra `rci[ray]`, and the same version of this program on every machine of the cluster. Without a store, the
machines must share the folder that a run writes to.
"""

from __future__ import annotations

import contextlib
import os
import time
from functools import cache
from typing import Any

from rci.data.code import code_digest
from rci.data.store import versions
from rci.engines.cores import claim_core, prepare_process
from rci.engines.engine import Engine, News, Progress, Task, Work
from rci.engines.ray_cluster import Cluster, last_line
from rci.engines.temporary_folders import WORK, remove_stale_folders, work_folder
from rci.engines.work_log import Failure, attempt

COMPILER_SWITCHES = (
    "XLA_FLAGS",
    "JAX_ENABLE_X64",
    "JAX_DEFAULT_MATMUL_PRECISION",
    "JAX_DISABLE_MOST_OPTIMIZATIONS",
)
WAIT = 0.5  # seconds between two looks at the progress of tasks
REPORT_EVERY = 0.5  # seconds between two words of a worker


class RayPool:
    """The cores of a cluster. It may grow and shrink while it is used."""

    def __init__(self, engine: Engine) -> None:
        self.cluster = Cluster(engine)
        self.ray = self.cluster.ray
        self.limit = engine.workers
        self.working: dict[Any, tuple[Task, float]] = {}  # by reference to what will come of it
        self.perform = self.ray.remote(num_cpus=1, max_retries=0)(_perform)
        try:
            self.progress_actor = self.cluster.near(_ProgressActor)
        except BaseException:  # Ctrl-C, for instance: nobody else knows of the cluster yet
            self.cluster.close()
            raise

    @property
    def busy(self) -> int:
        return len(self.working)

    def has_room(self) -> bool:
        # At least one: a cluster that has lost its machines may get others.
        return len(self.working) < (self.limit or max(1, self.cluster.cores()))

    def start(self, task: Task, work: Work) -> None:
        result = self.perform.options(name=task.name).remote(
            work, task.name, fingerprint(), self.progress_actor
        )
        self.working[result] = task, time.monotonic()

    def news(self) -> list[News]:
        ready, _ = self.ray.wait(list(self.working), num_returns=len(self.working), timeout=0)
        if not ready:
            ready, _ = self.ray.wait(list(self.working), num_returns=1, timeout=WAIT)
        return [self._ended(result) for result in ready] or self._shares()

    def _ended(self, result: Any) -> News:
        task, started = self.working.pop(result)
        try:
            failure = self.ray.get(result)
        except self.ray.exceptions.RayTaskError as error:  # not the work, which reports its failures itself
            why = f"a worker could not begin it: {last_line(error)}"
            return News(task, 0.0, time.monotonic() - started, why, str(error))
        except self.ray.exceptions.RayError as error:
            why = f"the worker that ran it was lost ({type(error).__name__})"
            return News(task, 0.0, time.monotonic() - started, why, str(error), lost=True)
        seconds = time.monotonic() - started
        return News(task, 1.0, seconds) if failure is None else News(task, 0.0, seconds, *failure)

    def _shares(self) -> list[News]:
        """How far the tasks are. Only a convenience: where nobody answers, nothing is shown."""
        try:
            shares = self.ray.get(self.progress_actor.read.remote(), timeout=WAIT)
        except (self.ray.exceptions.RayError, TimeoutError):
            return []
        now = time.monotonic()
        known = [(task, started, shares.get(task.name)) for task, started in self.working.values()]
        return [News(task, share, now - started) for task, started, share in known if share is not None]

    def close(self) -> None:
        for result in self.working:
            with contextlib.suppress(Exception):  # what cannot be cancelled is gone already
                self.ray.cancel(result, force=True)
        self.cluster.close()


@cache
def fingerprint() -> dict[str, str]:
    """What must be the same on every machine for results to be the same: code, packages, how it is compiled."""
    switches = {name: os.environ.get(name, "") for name in COMPILER_SWITCHES}
    return {**versions(), **switches, "source files of rci": code_digest()[:12]}


class _ProgressActor:
    """Where workers write how far they are, for whoever wants to know."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}

    def write(self, name: str, share: float) -> None:
        self.shares[name] = share

    def read(self) -> dict[str, float]:
        shares, self.shares = self.shares, {}
        return shares


def _perform(work: Work, name: str, expected: dict[str, str], progress_actor: Any) -> Failure | None:
    """In a worker: do the work on one core, and say how it ended."""
    _prepare_once()
    if fingerprint() != expected:
        return Failure(difference(expected), "")
    with work_folder() as folder:
        return attempt(work, _reporter(name, progress_actor), folder / "printed.txt")


@cache
def _prepare_once() -> None:
    remove_stale_folders(WORK)  # of workers that were killed
    prepare_process(claim_core())


def _reporter(name: str, progress_actor: Any) -> Progress:
    last_sent = [time.monotonic()]

    def progress(share: float) -> None:
        if time.monotonic() - last_sent[0] >= REPORT_EVERY:
            last_sent[0] = time.monotonic()
            progress_actor.write.remote(name, min(share, 0.999))

    return progress


def difference(expected: dict[str, str]) -> str:
    """In what this machine differs from the one where the run was begun, as a sentence."""
    here = fingerprint()
    other = [
        f"{name} {here.get(name) or 'missing'} instead of {expected.get(name) or 'none'}"
        for name in sorted(set(here) | set(expected))
        if here.get(name) != expected.get(name)
    ]
    return f"a machine of the cluster differs from this one, so its results would too: {', '.join(other)}."
