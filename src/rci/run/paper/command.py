"""What the command `rci paper` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rci.data.errors import RciError
from rci.run.engine import Engine
from rci.run.paper.cells import cells, key_of
from rci.run.paper.experiments import Scale
from rci.run.paper.rows import read_study
from rci.run.paper.scales import scale_called
from rci.run.paper.study import chosen, run_study
from rci.run.progress import show_study
from rci.run.rows import Row

DRAWN = "", "Policies of the first seed, to be drawn beside the main comparison."
COMMITTED = Path("results/paper.json")  # where the numbers of the full study are kept


def run_paper(
    only: Sequence[str],
    preset: str,
    engine: Engine,
    out: Path,
    rows: Path | None,
    command: str = "rci paper",
) -> tuple[Path, list[Row]]:
    """Run the experiments and write their page; its path, and their rows."""
    from rci.run.paper.page import write_page

    scale, experiments = scale_called(preset), chosen(only)
    with show_study() as (report, tell):
        every_row = run_study(experiments, scale, out, _file(scale, out, rows), engine, report, tell)
    names = {experiment.name for experiment in experiments}
    page = write_page(experiments, scale, every_row, out, command)
    return page, [row for row in every_row if row["experiment"] in names]


def plan_paper(
    only: Sequence[str], preset: str, out: Path, rows: Path | None
) -> tuple[list[dict[str, str | int]], str]:
    """What each experiment asks for, and how much of it is there: for machines, and as a table."""
    from rci.reporting.markdown import table
    from rci.run.paper.answers import QUESTIONS

    scale = scale_called(preset)
    known = {row["key"] for row in read_study(_file(scale, out, rows))}
    lines: list[dict[str, str | int]] = []
    for experiment in chosen(only):
        keys = {key_of(cell, scale) for cell in cells(experiment, scale)}
        lines.append(
            {
                "experiment": experiment.name,
                "question": QUESTIONS.get(experiment.name, DRAWN)[1],
                "policies": len(keys),
                "done": 0 if experiment.drawn else len(keys & known),
            }
        )
    return lines, table(("experiment", "policies", "done", "question"), [_line(line) for line in lines])


def _line(line: dict[str, str | int]) -> list[str]:
    return [str(line[name]) for name in ("experiment", "policies", "done", "question")]


def _file(scale: Scale, out: Path, rows: Path | None) -> Path:
    file = rows or (COMMITTED if scale.name == "full" else out / "paper.json")
    if file.is_dir():
        raise RciError(f"the rows of the study cannot be kept in {file}: it is a folder.")
    return file
