"""The page of a study: what its rows say, and its policies drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rci.pipeline.results.known_danger import known_rulers
from rci.pipeline.results.rows import Row
from rci.reporting.paper.page import write_paper
from rci.studies.paper.cells import Cell, StudyPaths, cells
from rci.studies.paper.experiments import Experiment, Scale
from rci.studies.paper.findings.summary import paper_summary
from rci.studies.paper.samples import SamplePaths, Samples, TaskPaths, sample_pictures
from rci.tasks import TASKS

COMPARISONS = Path("results")  # where comparisons of redistributors are kept, as redistributors-TASK.json


def write_page(
    experiments: Sequence[Experiment], scale: Scale, rows: Sequence[Row], out: Path, command: str
) -> Path:
    """Write OUT/report: the page of all rows, its figures and tables, the policies of these experiments drawn."""
    drawn = [cell for experiment in experiments if experiment.drawn for cell in cells(experiment, scale)]
    samples = sample_pictures(sample_paths(drawn, scale, StudyPaths(out))) if drawn else Samples([], [])
    return write_paper(
        paper_summary(rows, known_rulers(TASKS)), samples.pictures, out / "report", samples.missing, command
    )


def sample_paths(drawn: Iterable[Cell], scale: Scale, paths: StudyPaths) -> SamplePaths:
    """Where the policies to be drawn are, and all that they were made from."""
    tasks: dict[str, TaskPaths] = {}
    for cell in drawn:
        before, named = tasks.get(cell.logs.task, TaskPaths()), (cell.method, cell.budget)
        tasks[cell.logs.task] = TaskPaths(
            episodes=paths.logs(cell, scale) / "episodes",
            labels=paths.of(cell, scale) / "labels",
            costs={**before.costs, cell.method: paths.costs(cell, scale)},
            policies={**before.policies, named: paths.policy(cell, scale)},
            rollouts={**before.rollouts, named: paths.rollouts(cell, scale)},
        )
    known = {
        task: COMPARISONS / f"redistributors-{task}.json" for task in ("point", "highway", "fetch-reach")
    }
    return SamplePaths(tasks, {task: file for task, file in known.items() if file.is_file()})
