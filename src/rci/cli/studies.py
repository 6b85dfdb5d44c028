"""Comparing: `rci sweep`, `rci paper` and `rci reference`. Heavy imports happen inside them."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rci.data.errors import RciError
from rci.pipeline.commands.command_line import (
    Address,
    AsJson,
    EngineName,
    Log,
    Out,
    Settings,
    Store,
    Workers,
    print_json,
    print_text,
    warn,
)


def sweep(
    grid: Annotated[Path, typer.Argument(help="TOML file: task, preset, settings, and a [grid] of values.")],
    out: Out,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    store: Store = None,
    log: Log = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only list the points, and how much is shared and left.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run every combination of settings that a file lists: one row per policy, in OUT/sweep.json and sweep.csv.

    What several points need is done once, a killed sweep goes on where it was, and values that are added later
    recompute nothing that is there.

    Example: rci sweep grid.toml --out runs/sweep
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_study
    from rci.reporting.trackers.tracker import open_tracker
    from rci.studies.sweep.runner import plan_sweep, run_sweep

    where, tracker = Engine(engine, workers, address, store), open_tracker(log, out, warn)
    if plan:
        facts, text = plan_sweep(grid, out)
        print_json(facts) if as_json else print_text(text)
        return
    command = shlex.join(["rci", *sys.argv[1:]])
    with show_study() as (report, on_progress):
        result = run_sweep(grid, out, where, report, command, on_progress, tracker)
    if as_json:
        print_json(result.rows)
    elif result.page is not None:
        from rci.reporting.sweep.groups import sweep_table

        print_text(sweep_table(result.groups))
        typer.echo(result.page)
    if result.failed is not None:
        raise result.failed


def paper(
    only: Annotated[list[str], typer.Option(help="Only this experiment; may be repeated.")] = [],  # noqa: B006
    preset: Annotated[str, typer.Option(help="full: overnight on two cores; smoke: ten minutes.")] = "smoke",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the study [runs/paper-PRESET].")
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="File of rows to go on from [full: results/paper.json, smoke: OUT/paper.json]."),
    ] = None,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    store: Store = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only list the experiments and what is left of them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run every experiment of the paper, and ours: policies, figures, tables and one page.

    Rows that are there already are not computed again, and a killed study goes on where it was. --out keeps what is
    large: datasets, policies, the page. The rows are all that is needed to go on elsewhere.

    Example: rci paper --preset smoke --only highway --only composition
    """
    from rci.engines.engine import Engine
    from rci.studies.paper.command import plan_paper, run_paper

    folder = out or Path("runs") / f"paper-{preset}"
    if plan:
        lines, table = plan_paper(only, preset, folder, rows)
        print_json(lines) if as_json else typer.echo(table)
        return
    command = shlex.join(["rci", *sys.argv[1:]])
    page, every_row = run_paper(only, preset, Engine(engine, workers, address, store), folder, rows, command)
    if as_json:
        print_json({"page": str(page), "rows": every_row})
    else:
        typer.echo(page)


def reference(
    task: Annotated[str, typer.Argument(help="Which task, such as highway.")],
    prices: Annotated[
        str | None, typer.Option(help="What a violation costs, such as 3,10,30 [the task's own].")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Drivers at each price.")] = 3,
    episodes: Annotated[int, typer.Option(min=2, help="Test episodes of each driver.")] = 1000,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the drivers [runs/reference-TASK].")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="File of rows to go on from [results/reference-TASK.json].")
    ] = None,
    settings: Settings = [],  # noqa: B006 (typer copies it)
    world: Annotated[
        list[str], typer.Option(metavar="KEY=VALUE", help="A change of the task; may be repeated.")
    ] = [],  # noqa: B006
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Train informed drivers online, with the truth, to see what is possible when the danger is known.

    A reference and no method: nothing learns from it. First a blind driver learns the reward; from there, informed
    ones go on to whom a violation costs a price. Scripts and PPO as it records are tested beside them. Reports of runs
    in this folder show the rows. Settings are those of PPO. Drivers that have a row are not trained again.

    Example: rci reference highway --prices 10,30 --seeds 3
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_study
    from rci.pipeline.config import parse_flags
    from rci.pipeline.results.known_danger import rows_file
    from rci.studies.reference.study import parse_prices, run_reference
    from rci.studies.reference.table import criteria_lines, reference_table
    from rci.tasks import TASKS, get

    if Path(task).exists() and task not in TASKS:
        raise RciError(
            f"{task} is recorded data; a reference needs a simulator and the rule of what is unsafe in it, so name a "
            f"task: {', '.join(TASKS)}."
        )
    get(task)
    chosen = None if prices is None else parse_prices(prices)
    with show_study("drivers") as (report, on_progress):
        drivers = run_reference(
            task,
            chosen,
            seeds,
            episodes,
            out,
            rows,
            parse_flags(settings),
            parse_flags(world),
            Engine(workers=workers),
            report,
            on_progress,
        )
    if as_json:
        print_json(drivers)
        return
    print_text(reference_table(drivers))
    for line in criteria_lines(drivers):
        print_text(line)
    typer.echo(rows or rows_file(task))
