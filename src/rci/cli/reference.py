"""The command `rci reference`. Heavy imports happen inside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rci.data.errors import RciError
from rci.pipeline.command_line import AsJson, Settings, Workers, print_json, print_text


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
    """The informed driver: trained online, with the truth, for what is possible when the danger is known.

    A reference and no method: nothing learns from it. First a blind driver learns the reward; from there, informed
    ones go on to whom a violation costs a price. Scripts and PPO as it records are tested beside them. Reports of runs
    in this folder show the rows. Settings are those of PPO. Drivers that have a row are not trained again.

    Example: rci reference highway --prices 10,30 --seeds 3
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_study
    from rci.pipeline.config import parse_flags
    from rci.pipeline.known_danger import rows_file
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
    with show_study("drivers") as (report, tell):
        found = run_reference(
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
            tell,
        )
    if as_json:
        print_json(found)
        return
    print_text(reference_table(found))
    for line in criteria_lines(found):
        print_text(line)
    typer.echo(rows or rows_file(task))
