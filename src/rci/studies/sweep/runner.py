"""What the command `rci sweep` does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rci.data import store
from rci.data.errors import RciError
from rci.engines.engine import LOCAL, Engine, Named, Report
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.results.rows import Row
from rci.pipeline.results.tracking import SweepLog
from rci.reporting.trackers.tracker import UNTRACKED, Tracker
from rci.studies.study import OnProgress, Study, complete, silent
from rci.studies.sweep.grid import plain, points_of, read_grid
from rci.studies.sweep.plan import SweepPlan, plan_points
from rci.studies.sweep.rows import SweepRows, groups_of, row_of

if TYPE_CHECKING:
    from rci.reporting.sweep.groups import SweepGroup

Source = str | Path | Mapping[str, Any]  # a TOML file, or what it would hold
LISTED_POINTS = 5  # of those that miss a row
OF_OTHERS = ("config.json", "comparison.json", "paper.json")  # files of other commands, in folders of theirs


class SweepResult(NamedTuple):
    """What came of a sweep. failed: what went wrong, if anything; the rows of everything else are there."""

    rows: list[Row]
    groups: list[SweepGroup]
    page: Path | None  # none without any row
    failed: RciError | None


def sweep(grid: Source, out: str | Path, engine: Engine = LOCAL) -> list[Row]:
    """Run every point of a grid and return a row for every policy; what is done already is not done again.

    grid: a TOML file, or a table as one holds. If something fails, all that does not need it is done first; its rows
    are in sweep.json, in the folder `out`.
    """
    result = run_sweep(grid, Path(out), engine, lambda task, share, seconds: None)
    if result.failed is not None:
        raise result.failed
    return result.rows


def run_sweep(
    grid: Source,
    out: Path,
    engine: Engine,
    report: Report,
    command: str = "",
    on_progress: OnProgress = silent,
    tracker: Tracker = UNTRACKED,
) -> SweepResult:
    """Run what is not done, write the rows as they come, and the page at the end."""
    plan = plan_points(points_of(read_grid(grid)), out)
    _check_folder(out)
    prepare_folder(out)
    with alone_in(out):
        return _run_alone(plan, out, engine, report, command, on_progress, tracker)


def _run_alone(
    plan: SweepPlan,
    out: Path,
    engine: Engine,
    report: Report,
    command: str,
    on_progress: OnProgress,
    tracker: Tracker,
) -> SweepResult:
    from rci.reporting.sweep.groups import SweepFacts
    from rci.reporting.sweep.page import write_sweep

    rows, begun, failed = SweepRows(plan, out), False, None
    log = SweepLog(
        tracker,
        out.name,
        [
            (point.name, point.config.as_table(), {place: plan.jobs[name] for place, name in outputs.items()})
            for point, outputs in zip(plan.points, plan.outputs)
        ],
    )
    study = Study(
        cells=plan.policies,
        key=rows.key,
        plan=lambda missing: plan.jobs.values(),
        training=lambda policy: policy.job,
        tests=lambda policy: [policy.job],
        row=lambda policy, seconds: row_of(policy, plan),
    )

    def note(job: Named, share: float, seconds: float | None) -> None:
        nonlocal begun
        begun = True
        report(job, share, seconds)
        if share == 1.0:
            log.done(job.name)

    try:
        complete(study, rows, out, engine, note, on_progress)
    except RciError as error:
        if not begun:  # no worker could be started, for instance: nothing is known that was not known before
            raise
        failed = _failure(error, rows)
    finally:
        if begun:
            rows.write()
    every_row = rows.rows()
    groups, page = groups_of(every_row), None
    if every_row:
        scores = plan.jobs[f"evaluate-{every_row[0]['key']}"].output
        versions = store.read_manifest(scores)["provenance"]["versions"]
        missing = len(plan.policies) - len(every_row)
        facts = SweepFacts(command, len(plan.points), len(plan.policies), missing, versions)
        page = write_sweep(groups, facts, out / "report")
    log.close(page)
    return SweepResult(every_row, groups, page, failed)


def _failure(error: RciError, rows: SweepRows) -> RciError:
    """What failed, and which points miss rows because of it."""
    missing = rows.missing()
    names = list(dict.fromkeys(rows.plan.points[policy.point].name for policy in missing))
    more = f" and {len(names) - LISTED_POINTS} more" if len(names) > LISTED_POINTS else ""
    listed = "; ".join(names[:LISTED_POINTS])
    return RciError(
        f"{error}\n{len(missing)} of {len(rows.plan.policies)} policies have no row, at the points: {listed}{more}."
    )


def plan_sweep(grid: Source, out: Path) -> tuple[dict[str, Any], str]:
    """The points, and how many of their jobs are shared and left, without doing any: for machines, and as a table."""
    from rci.reporting.markdown import table

    plan = plan_points(points_of(read_grid(grid)), out)
    shared, left = plan.shared(), plan.left()
    lines = [
        {
            "grid": {name: plain(value) for name, value in point.values.items()},
            "jobs": len(names),
            "shared": len(shared.intersection(names)),
            "left": len(left.intersection(names)),
        }
        for point, names in zip(plan.points, plan.asked)
    ]
    facts = {
        "points": lines,
        "policies": len(plan.policies),
        "jobs": len(plan.jobs),
        "shared": len(shared),
        "left": len(left),
    }
    cells = [
        [point.name.replace("|", "\\|"), *(str(line[name]) for name in ("jobs", "shared", "left"))]
        for point, line in zip(plan.points, lines)
    ]
    summary = (
        f"{len(lines)} points, {len(plan.policies)} policies: {len(plan.jobs)} jobs, {len(shared)} of which serve "
        f"several points; {len(left)} are left to do."
    )
    return facts, f"{table(('point', 'jobs', 'shared', 'left'), cells)}\n{summary}"


def _check_folder(out: Path) -> None:
    """Refuse a folder in which another command keeps its report."""
    for name in OF_OTHERS:
        if (out / name).is_file():
            raise RciError(f"{out} holds something else already ({name}); a sweep needs a folder of its own.")
