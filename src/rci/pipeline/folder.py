"""The folder of a run: one run at a time, and how long its jobs took."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rci.data.disk.files import saying, take_lock, write_file
from rci.data.errors import RciError
from rci.engines.engine import Accept, Engine, Named, Report, accept_none
from rci.pipeline.jobs import Job
from rci.pipeline.run_jobs import run_jobs


@contextmanager
def alone_in(out: Path) -> Iterator[None]:
    """Keep other runs out of the folder.

    What killed writers of plain files left is cleared away once nobody else can be writing.
    """
    path = out / "run.lock"
    try:
        file = take_lock(path)
    except BlockingIOError:
        raise RciError(f"another run is at work in {out}; wait for it, or choose another --out.") from None
    except OSError as error:
        what = f"write {path}, which keeps other runs away" if error.filename else f"lock {out}"
        raise RciError(f"cannot {what}: {error.strerror or error}.") from None
    try:
        for pattern in (".*.tmp-*", "report/.*.tmp-*", "report/figures/.*.tmp-*", "failed/.*.tmp-*"):
            for stale in out.glob(pattern):
                if stale.is_file():
                    stale.unlink(missing_ok=True)
        yield
    finally:
        os.close(file)


def run_timed(
    jobs: Sequence[Job],
    out: Path,
    engine: Engine,
    report: Report,
    timings: dict[str, float],
    accept: Accept = accept_none,
) -> None:
    """Run jobs, and keep in timings.json how long each took when it was last run; `timings` is known already.

    What was said of jobs that failed is kept in the folder `failed`. accept: see `run_tasks`.
    """

    def note(job: Named, share: float, seconds: float | None) -> None:
        if share == 1.0 and seconds is not None:
            timings[job.name] = round(seconds, 3)
            write_json(out / "timings.json", timings)
        report(job, share, seconds)

    run_jobs(jobs, engine, note, out / "failed", accept)


def prepare_folder(out: Path) -> None:
    """Make the run's folder, or say why it cannot be."""
    if (out / "manifest.json").is_file():
        raise RciError(f"{out} is an artefact; a run needs a folder of its own.")
    if out.exists() and not out.is_dir():
        raise RciError(f"cannot write to {out}: it is a file, and a run needs a folder.")
    with saying("write to", out):
        out.mkdir(parents=True, exist_ok=True)


def read_timings(out: Path) -> dict[str, float]:
    """Seconds that each job took when it was last run; none if that was not kept."""
    try:
        timings = json.loads((out / "timings.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return timings if isinstance(timings, dict) else {}


def write_json(path: Path, value: Any) -> None:
    """Write JSON values as a file, whole or not at all."""
    write_file(path, (json.dumps(value, indent=1, sort_keys=True, default=str) + "\n").encode())
