"""Does the spread of an ensemble rise where its costs are wrong? Models of one behaviour, asked about another.

An ensemble is fitted to episodes of random actions. It then scores fresh episodes of the same kind, and episodes of
PPO (on `point` also of the scripted seeker, whose exact risk is known). One row per seed and kind of episodes; what is
in the file of rows is not done again.

python -m rci.studies.shift point --work runs/shift-point --out results/shift.json --figure docs/images/shift.png
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from rci.data import store
from rci.data.errors import RciError
from rci.data.store import write_file
from rci.engines.cores import prepare_process
from rci.engines.engine import Engine
from rci.engines.progress import show_study
from rci.pipeline.commands.command_line import run_command
from rci.pipeline.config import load_config
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.jobs import Job
from rci.pipeline.results.rows import Row
from rci.studies.study import RowsFile, Study, complete


class Cell(NamedTuple):
    """Models of one seed, asked about one kind of episodes."""

    task: str
    scored: str
    seed: int


FIT = {"loss": "prefix", "members": 5}
FRESH = 500_000  # added to a seed: fresh episodes of the behaviour that the models were fitted to


def scored_behaviours(task: str) -> tuple[str, ...]:
    """What the models are asked about: what they know, then what they do not know."""
    from rci.tasks import get

    recipes = get(task).recipes
    if get(task).channels:
        raise RciError(f"the task {task!r} has several kinds of danger; the study is about one at a time.")
    if "random" not in recipes or "ppo" not in recipes:
        raise RciError(
            f"the task {task!r} has no recipes 'random' and 'ppo', between which behaviour shifts."
        )
    return tuple(name for name in ("random", "seeker", "ppo") if name in recipes)


def plan(task: str, seed: int, episodes: int, work: Path) -> list[Job]:
    """Record, label, fit the ensemble to `random` and apply it to everything else."""
    from rci.pipeline.ensemble_jobs import plan_members

    demonstrators = work / "demonstrators"
    training = {"task_name": task, **load_config(task, "quick").ppo}
    jobs = [Job("demonstrators", "demonstrators", training, 0, {}, demonstrators)]
    folder = work / f"seed{seed}"

    def record(name: str, recipe: str, number: int) -> dict[str, Path]:
        place = {"episodes": folder / name, "labels": folder / f"{name}-labels"}
        needed = {"demonstrators": demonstrators} if recipe == "ppo" else {}
        collect, label = f"collect-{name}-{seed}", f"label-{name}-{seed}"
        settings = {"task_name": task, "episodes": episodes, "recipe": recipe}
        jobs.append(Job(collect, "collect", settings, number, needed, place["episodes"], tuple(needed)))
        rule = {"rule": task, "noise": "clean"}
        jobs.append(
            Job(label, "label", rule, number, {"episodes": place["episodes"]}, place["labels"], (collect,))
        )
        return place

    known = record("known", "random", seed)
    fitted = folder / "costs"
    for job in plan_members("rudder", FIT, seed, known, fitted):
        needs = tuple(f"{name}-{seed}" for name in job.needs) or (f"label-known-{seed}",)
        jobs.append(
            Job(f"{job.name}-{seed}", job.stage, job.settings, job.seed, job.inputs, job.output, needs)
        )
    for recipe in scored_behaviours(task):
        place = record(recipe, recipe, seed + FRESH)
        needs = (f"redistribute-{seed}", f"label-{recipe}-{seed}")
        inputs = {**place, "costs": fitted}
        output = folder / f"{recipe}-costs"
        jobs.append(Job(f"transfer-{recipe}-{seed}", "transfer", {}, seed, inputs, output, needs))
    return jobs


def found_row(task: str, recipe: str, seed: int, work: Path) -> Row:
    """What became of one kind of episodes."""
    from rci.evaluation.uncertainty import trust
    from rci.pipeline.commands.comparison import exact_risk
    from rci.redistribution import score

    folder = work / f"seed{seed}"
    episodes, labels = (
        store.read(folder / recipe, "episodes"),
        store.read(folder / f"{recipe}-labels", "labels"),
    )
    costs = store.read(folder / f"{recipe}-costs", "costs")
    found = trust(costs, labels, score(costs, episodes), exact_risk(episodes, labels))
    counts = {"episodes": len(episodes), "stopped": int(labels.stopped.sum())}
    return {"task": task, "fitted": "random", "scored": recipe, "seed": seed, **counts, **found}


def study_of(task: str, seeds: Iterable[int], episodes: int, work: Path) -> Study[Cell]:
    """Every kind of episodes, seed after seed."""

    def row(cell: Cell, seconds: Mapping[str, float]) -> Row:
        prepare_process()  # scores come from one core, as everything does
        return found_row(*cell, work)

    return Study(
        [Cell(task, scored, seed) for seed in seeds for scored in scored_behaviours(task)],
        lambda cell: cell,
        lambda missing: [
            job
            for seed in dict.fromkeys(cell.seed for cell in missing)
            for job in plan(task, seed, episodes, work)
        ],
        lambda cell: f"redistribute-{cell.seed}",
        lambda cell: [f"transfer-{cell.scored}-{cell.seed}"],
        row,
    )


def rows_of(file: Path) -> RowsFile:
    """The rows of the study; what identifies one is its cell."""
    return RowsFile(file, lambda row: Cell(*(row[name] for name in Cell._fields)), Cell._fields, "this study")


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def study(
    task: Annotated[str, typer.Argument(help="Which task, such as point.")],
    work: Annotated[Path, typer.Option(help="Folder of episodes and models.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File of the rows; those in it are not done again.")
    ],
    figure: Annotated[Path | None, typer.Option(help="PNG file to draw all rows to.")] = None,
    episodes: Annotated[int, typer.Option(min=10, help="Episodes of every kind.")] = 1000,
    seeds: Annotated[int, typer.Option(min=1, help="How often everything is repeated.")] = 3,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes [one per core].")] = None,
) -> None:
    """Models that saw random actions only, asked about PPO: does their spread show that they are wrong?"""
    if figure is not None and not figure.parent.is_dir():
        raise RciError(f"there is no folder {figure.parent} to write {figure.name} to.")
    file, everything = rows_of(out), study_of(task, range(seeds), episodes, work)
    if any(row["task"] == task and row["episodes"] != episodes for row in file.rows()):
        raise RciError(f"{out} has rows of {task!r} with another number of episodes; choose another file.")
    prepare_folder(work)
    with alone_in(work), show_study("kinds of episodes") as (report, on_progress):
        complete(everything, file, work, Engine(workers=workers), report, on_progress)
    rows = file.rows()
    typer.echo(shift_table(rows))
    typer.echo(out)
    if figure is not None:
        from rci.reporting.figures.lines import shift_picture

        write_file(figure, shift_picture(rows).png)
        typer.echo(figure)


def shift_table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table, means over seeds with 95% intervals where there are several."""
    import numpy as np

    from rci.evaluation.stats import t_half_width

    def mean_text(group: Sequence[Row], name: str) -> str:
        values = [row[name] for row in group if row[name] is not None]
        if not values:
            return "–"
        half = f" ± {t_half_width(values):.3f}" if len(values) > 1 else ""
        return f"{np.mean(values):.3f}{half}"

    columns = {
        "mean_spread": "mean spread",
        "episode_error": "error at the end",
        "episode_correlation": "spread against it",
        "step_error": "error of a step",
        "step_correlation": "spread against it",
    }
    lines = [
        "| task | episodes of | seeds | " + " | ".join(columns.values()) + " |",
        "|" + " --- |" * (3 + len(columns)),
    ]
    for task, scored in dict.fromkeys((row["task"], row["scored"]) for row in rows):
        group = [row for row in rows if (row["task"], row["scored"]) == (task, scored)]
        cells = [task, scored, str(len(group)), *(mean_text(group, name) for name in columns)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run the study: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "shift")


if __name__ == "__main__":
    main()
