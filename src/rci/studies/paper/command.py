"""What the command `rci paper` does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from rci.data.errors import RciError
from rci.engines.cores import available_cores
from rci.engines.engine import Engine
from rci.engines.progress import show_study
from rci.pipeline.results.rows import Row
from rci.studies.paper.cells import Cell, cells, key_of
from rci.studies.paper.experiments import Scale
from rci.studies.paper.questions import QUESTIONS
from rci.studies.paper.rows import read_study
from rci.studies.paper.scales import scale_called
from rci.studies.paper.study import Rates, chosen, run_study, seconds_left

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
    from rci.studies.paper.page import write_page

    scale, experiments = scale_called(preset), chosen(only)
    with show_study() as (report, on_progress):
        every_row = run_study(experiments, scale, out, _file(scale, out, rows), engine, report, on_progress)
    names = {experiment.name for experiment in experiments}
    page = write_page(experiments, scale, every_row, out, command)
    return page, [row for row in every_row if row["experiment"] in names]


def plan_paper(
    only: Sequence[str], preset: str, out: Path, rows: Path | None
) -> tuple[list[dict[str, str | int | float]], str]:
    """What each experiment asks for, how much is there and how long the rest takes: for machines, and as a table."""
    from rci.reporting.markdown import table

    scale, cores = scale_called(preset), len(available_cores())
    kept = {row["key"]: row for row in read_study(_file(scale, out, rows))}
    experiments = chosen(only)
    wanted = {e.name: {key_of(cell, scale): cell for cell in cells(e, scale)} for e in experiments}
    rates = update_rates({key: cell for by_key in wanted.values() for key, cell in by_key.items()}, kept)
    lines: list[dict[str, str | int | float]] = []
    asked = set[str]()
    for experiment in experiments:
        keys = wanted[experiment.name]
        # A policy that several experiments ask for is trained once, for the first of them.
        missing = [cell for key, cell in keys.items() if key not in kept and key not in asked]
        asked |= set(keys)
        lines.append(
            {
                "experiment": experiment.name,
                "question": QUESTIONS.get(experiment.name, DRAWN)[1],
                "policies": len(keys),
                "done": 0 if experiment.drawn else len(keys.keys() & kept.keys()),
                "hours_left": round(seconds_left(missing, rates) / cores / 3600, 2),
            }
        )
    text = table(
        ("experiment", "policies", "done", "hours left", "question"), [_line(line) for line in lines]
    )
    hours = sum(float(line["hours_left"]) for line in lines)
    by = "by what policies so far have taken" if rates else "by a guess of a minute for each policy"
    return lines, f"{text}\nabout {hours:.1f} hours left on {cores} cores, {by}."


def _line(line: dict[str, str | int | float]) -> list[str]:
    return [str(line[name]) for name in ("experiment", "policies", "done", "hours_left", "question")]


def update_rates(asked: Mapping[str, Cell], kept: Mapping[str, Row]) -> Rates:
    """Seconds of an update of the policies that are there."""
    rates = defaultdict[tuple[str, str], list[float]](list)
    for key, row in kept.items():
        cell, seconds = asked.get(key), row.get("seconds")
        if cell is not None and seconds:
            rates[cell.logs.task, cell.learner].append(float(seconds) / cell.updates)
    return rates


def _file(scale: Scale, out: Path, rows: Path | None) -> Path:
    file = rows or (COMMITTED if scale.name == "full" else out / "paper.json")
    if file.is_dir():
        raise RciError(f"the rows of the study cannot be kept in {file}: it is a folder.")
    return file
