"""Jobs of a single command: run them, here or in workers, and say what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rci.pipeline.command_line import print_json, print_text

if TYPE_CHECKING:  # heavy, and help should answer at once
    from rci.engines.engine import Engine
    from rci.pipeline.jobs import Job


def run_here(jobs: list[Job], as_json: bool, outputs: Sequence[Path] = ()) -> None:
    """Run jobs in this process, on one core like every worker, so that the result is the same.

    outputs: what to print of what was made, the last one alone if not given.
    """
    from rci.engines.cores import prepare_process
    from rci.engines.engine import LOCAL
    from rci.engines.progress import show_progress
    from rci.engines.run import ThisProcess, run_tasks

    prepare_process()
    with show_progress() as report:
        run_tasks(jobs, LOCAL, report, pool=ThisProcess(report))
    if len(outputs) > 1 and as_json:
        from rci.pipeline.inspection import describe

        print_json({path.name: describe(path, False) for path in outputs})
        return
    for path in outputs or [jobs[-1].output]:
        show(path, as_json)


def show(path: Path, as_json: bool, verify: bool = False) -> None:
    """Print what an artefact is, and with `verify` whether it is intact."""
    from rci.pipeline.inspection import describe, describe_lines

    description = describe(path, verify)
    if as_json:
        print_json(description)
    else:
        print_text("\n".join(describe_lines(path, description)))


def run_in_workers(jobs: list[Job], engine: Engine, as_json: bool) -> None:
    """Run jobs where the engine says; what was said of those that failed is kept in OUT-failed."""
    from rci.data.store import check_place
    from rci.engines.progress import show_progress
    from rci.pipeline.run_jobs import run_jobs

    output = jobs[-1].output
    check_place(output)  # before anything is fitted for nothing
    with show_progress() as report:
        run_jobs(jobs, engine, report, output.with_name(f"{output.name}-failed"))
    show(output, as_json)
