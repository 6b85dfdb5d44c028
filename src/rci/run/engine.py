"""Run jobs that depend on each other in worker processes, one per core and pinned to it.

On a CPU, pinned single-thread processes beat threads; and since every job runs on one thread wherever it runs,
its result does not depend on how many workers there are.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any

from rci.data.cache import cache_folder
from rci.data.errors import RciError
from rci.run.jobs import Job, run_job

# report(job, share done, seconds); share 1.0 = finished; seconds None = nothing had to be done
Report = Callable[[Job, float, float | None], None]


def run_jobs(jobs: Sequence[Job], workers: int | None, report: Report) -> None:
    """Run every job whose output is not current, each after the jobs it needs.

    A job that fails stops the run: what is finished stays, what is half-written never appears.
    """
    cores = available_cores()
    if workers is not None and workers > len(cores):
        raise RciError(
            f"{workers} workers were asked for, but there are only {len(cores)} cores to pin them to."
        )
    pool = _Pool(cores[: workers or len(cores)])
    place = {job.name: i for i, job in enumerate(jobs)}
    waiting, queue = list(jobs), list[Job]()
    finished: set[str] = set()
    try:
        while waiting or queue or pool.busy:
            # A job's inputs are final once the jobs it needs are done, so each is checked for changes just once.
            ready = [job for job in waiting if set(job.needs) <= finished]
            for job in ready:
                waiting.remove(job)
                if job.is_current():
                    report(job, 1.0, None)
                    finished.add(job.name)
                else:
                    queue.append(job)
            if waiting and not (ready or queue or pool.busy):
                missing = sorted({name for job in waiting for name in job.needs} - set(place))
                raise RuntimeError(
                    f"{waiting[0].name!r} waits for jobs that nobody planned: {', '.join(missing)}"
                )
            queue.sort(key=lambda job: place[job.name])
            while queue and pool.start(queue[0]):
                report(queue.pop(0), 0.0, 0.0)
            for job, share, seconds in pool.news():
                report(job, share, seconds)
                if share == 1.0:
                    finished.add(job.name)
    finally:
        pool.close()


class _Pool:
    """Worker processes, started when there is work for them."""

    def __init__(self, cores: Sequence[int]) -> None:
        self.free_cores = list(cores)
        self.idle: list[_Worker] = []
        self.busy: dict[Any, _Worker] = {}  # by connection

    def start(self, job: Job) -> bool:
        """Give the job to an idle worker, or to a new one while there are cores left."""
        if not self.idle and self.free_cores:
            self.idle.append(_Worker(self.free_cores.pop(0)))
        if not self.idle:
            return False
        worker = self.idle.pop()
        worker.begin(job)
        self.busy[worker.connection] = worker
        return True

    def news(self) -> list[tuple[Job, float, float]]:
        """Wait for word from the workers. A failed job or a dead worker is an error."""
        heard = []
        for connection in wait(list(self.busy)) if self.busy else ():
            worker = self.busy[connection]
            job, started = worker.job, worker.started
            try:
                share, trouble = worker.connection.recv()
            except EOFError:
                worker.process.join()
                raise RciError(
                    f"the worker that ran {job.name!r} died (exit code {worker.process.exitcode}); what was finished "
                    "is kept, run the same command again to continue."
                ) from None
            if trouble is not None:
                error, message = trouble
                raise error(f"{job.name}: {message}")
            if share == 1.0:
                self.idle.append(self.busy.pop(connection))
            heard.append((job, share, time.monotonic() - started))
        return heard

    def close(self) -> None:
        """End all workers at once; an unfinished job leaves only temporary folders, removed by the next writer."""
        for worker in [*self.idle, *self.busy.values()]:
            worker.process.terminate()
        for worker in [*self.idle, *self.busy.values()]:
            worker.process.join()


class _Worker:
    """One process on one core."""

    def __init__(self, core: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(core, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.started = 0.0

    def begin(self, job: Job) -> None:
        self.job, self.started = job, time.monotonic()
        self.connection.send(job)


def _serve(core: int, connection: Connection) -> None:
    """A worker's life: take a job, send its progress, say how it ended; end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    prepare_process(core)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            job = connection.recv()
            try:
                run_job(job, lambda share: connection.send((min(share, 0.999), None)))
                connection.send((1.0, None))
            except RciError as error:
                connection.send((0.0, (RciError, str(error))))
            except (EOFError, BrokenPipeError):
                raise
            except Exception:
                connection.send((0.0, (RuntimeError, traceback.format_exc())))


def prepare_process(core: int | None = None) -> None:
    """Pin this process to one core, before JAX counts them, and let compiled code survive the process.

    Where the system cannot pin (anything but Linux), jobs run all the same, on as many threads as XLA likes.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = available_cores()
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)] if core is None else core})
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
