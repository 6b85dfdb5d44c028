"""Jobs of a single command: run them, here or in workers, and say what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rci.pipeline.commands.command_line import print_json, print_text

if TYPE_CHECKING:  # heavy, and help should answer at once
    from rci.engines.engine import Engine
    from rci.pipeline.jobs import Job


@dataclass(frozen=True)
class Shown:
    """How a command prints what it made, and whether it may replace what stood there."""

    as_json: bool = False
    verbose: bool = False
    overwrite: bool = False


def run_here(jobs: list[Job], shown: Shown, outputs: Sequence[Path] = ()) -> None:
    """Run jobs in this process, on one core like every worker, so that the result is the same.

    outputs: what to print of what was made, the last one alone if not given.
    """
    from rci.engines.cores import prepare_process
    from rci.engines.engine import LOCAL
    from rci.engines.progress import show_progress
    from rci.engines.run import ThisProcess, run_tasks
    from rci.pipeline.jobs import require_simulators

    prepare_process()
    require_simulators(jobs)
    _check_outputs(jobs, shown)
    with show_progress() as report:
        run_tasks(jobs, LOCAL, report, pool=ThisProcess(report))
    if len(outputs) > 1 and shown.as_json:
        from rci.pipeline.commands.inspection import describe

        print_json({path.name: describe(path, False) for path in outputs})
        return
    for path in outputs or [jobs[-1].output]:
        show(path, shown.as_json, shown.verbose)


def show(path: Path, as_json: bool, verbose: bool, verify: bool = False) -> None:
    """Print what an artefact is, and with `verify` whether it is intact."""
    from rci.pipeline.commands.inspection import describe, describe_lines
    from rci.pipeline.commands.sentences import sentences

    if as_json:
        print_json(describe(path, verify))
        return
    print_text(sentences(path))
    if verbose:
        print_text("\n".join(describe_lines(path, describe(path, verify))))


def run_in_workers(jobs: list[Job], engine: Engine, shown: Shown) -> None:
    """Run jobs where the engine says; what was said of those that failed is kept in OUT-failed."""
    from rci.data.store import check_place
    from rci.engines.progress import show_progress
    from rci.pipeline.run_jobs import run_jobs

    output = jobs[-1].output
    check_place(output)  # before anything is fitted for nothing
    _check_outputs(jobs, shown)
    with show_progress() as report:
        run_jobs(jobs, engine, report, output.with_name(f"{output.name}-failed"))
    show(output, shown.as_json, shown.verbose)


def _check_outputs(jobs: list[Job], shown: Shown) -> None:
    from rci.pipeline.commands.replacing import refuse_replacing

    if not shown.overwrite:
        refuse_replacing(jobs)
