"""`rci sweep`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rci.pipeline.command_line import Address, AsJson, EngineName, Out, Store, Workers, print_json, print_text


def sweep(
    grid: Annotated[Path, typer.Argument(help="TOML file: task, preset, settings, and a [grid] of values.")],
    out: Out,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    store: Store = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only list the points, and how much is shared and left.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Every combination of settings that a file lists, one row per policy in OUT/sweep.json and sweep.csv.

    What several points need is done once, a killed sweep goes on where it was, and values that are added later
    recompute nothing that is there.

    Example: rci sweep grid.toml --out runs/sweep
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_progress
    from rci.studies.sweep.runner import plan_sweep, run_sweep

    where = Engine(engine, workers, address, store)
    if plan:
        facts, told = plan_sweep(grid, out)
        print_json(facts) if as_json else print_text(told)
        return
    command = shlex.join(["rci", *sys.argv[1:]])
    with show_progress() as report:
        result = run_sweep(grid, out, where, report, command)
    if as_json:
        print_json(result.rows)
    elif result.page is not None:
        from rci.reporting.sweep.groups import sweep_table

        print_text(sweep_table(result.groups))
        typer.echo(result.page)
    if result.failed is not None:
        raise result.failed
