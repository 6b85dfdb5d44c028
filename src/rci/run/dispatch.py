"""Run jobs on an engine, with or without a store of artefacts between the machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rci.run.engine import Engine, Report, Task, run_tasks
from rci.run.jobs import Job


def run_jobs(jobs: Sequence[Job], engine: Engine, report: Report, logs: Path | None = None) -> None:
    """Run every job whose output is not current, each after the jobs it needs; see `run_tasks`."""
    tasks: Sequence[Task] = jobs
    if engine.store is not None:
        from rci.run.object_store import ObjectStore
        from rci.run.stored_job import StoredJob

        store = ObjectStore(engine.store)
        store.tidy()
        tasks = [StoredJob(job, store) for job in jobs]
    run_tasks(tasks, engine, report, logs)
