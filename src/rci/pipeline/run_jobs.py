"""Run jobs on an engine, with or without a store of artefacts between the machines."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rci.data.errors import RciError
from rci.engines.engine import Accept, Engine, Report, Task, accept_none
from rci.engines.run import run_tasks
from rci.pipeline.jobs import Job, require_simulators

LATE = 60.0  # seconds after which a network file system shows what another machine wrote, at the latest


class SharedJob(Job):
    """A job that another machine may do, in a folder that all of them share."""

    def land(self) -> None:
        """See whether the output is where it belongs."""
        if not appears(self.output / "manifest.json"):
            raise RciError(
                f"{self.output} was written, but not here: a machine of the cluster does not share it; share it, "
                "or give a --store."
            )


def run_jobs(
    jobs: Sequence[Job],
    engine: Engine,
    report: Report,
    logs: Path | None = None,
    accept: Accept = accept_none,
) -> None:
    """Run every job whose output is not current, each after the jobs it needs; see `run_tasks`."""
    require_simulators(jobs)
    tasks: Sequence[Task] = jobs
    if engine.store is not None:
        from rci.engines.object_store import ObjectStore
        from rci.pipeline.stored_job import StoredJob

        store = ObjectStore(engine.store).absolute()
        store.prepare()
        tasks = [StoredJob(job, store) for job in jobs]
    elif engine.kind == "ray":
        tasks = [_shared(job) for job in jobs]
    run_tasks(tasks, engine, report, logs, accept)


def appears(path: Path, patience: float = LATE) -> bool:
    """Whether a file is there, or comes to be seen: what another machine wrote may be seen late."""
    deadline = time.monotonic() + patience
    while not path.is_file():
        if time.monotonic() > deadline:
            return False
        time.sleep(min(1.0, patience / 10))
        with contextlib.suppress(OSError):  # to open a folder makes a network file system look again
            os.listdir(path.parent)
    return True


def _shared(job: Job) -> SharedJob:
    """With paths that are the same for workers that were started in another folder."""
    inputs = {name: path.absolute() for name, path in job.inputs.items()}
    trail = None if job.trail is None else job.trail.absolute()
    return SharedJob(**vars(replace(job, inputs=inputs, output=job.output.absolute(), trail=trail)))
