"""The commands of the whole pipeline: `rci run` and `rci report`. Heavy imports happen inside them."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rci.pipeline.commands.command_line import (
    Address,
    AsJson,
    EngineName,
    Log,
    Settings,
    Store,
    Workers,
    print_json,
    print_text,
    warn,
)


def run(
    task: Annotated[str, typer.Argument(help="Which task, such as point.")],
    preset: Annotated[str, typer.Option(help="Settings shipped under a name.")] = "quick",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run [runs/TASK-PRESET].")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings, over the preset.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result, bit for bit.")] = None,
    settings: Settings = [],  # noqa: B006 (typer copies it)
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    store: Store = None,
    log: Log = None,
    as_json: AsJson = False,
) -> None:
    """Run the whole pipeline: collect, label, redistribute, learn, evaluate, report.

    What is already done and unchanged is not done again; a killed run continues where it was.

    Example: rci run point --preset quick --set compare.budgets=[0.05,0.2]
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_progress
    from rci.pipeline.config import load_config
    from rci.pipeline.run import run_pipeline
    from rci.reporting.trackers.tracker import open_tracker
    from rci.tasks import get

    get(task)
    where = Engine(engine, workers, address, store)
    folder = out or Path("runs") / f"{task}-{preset}"
    chosen = load_config(task, preset, config, settings, seed)
    command = shlex.join(["rci", *sys.argv[1:]])
    tracker = open_tracker(log, folder, warn)
    with show_progress() as report:
        page = run_pipeline(chosen, folder, where, report, command, tracker)
    if as_json:
        print_json({"report": str(page), "results": json.loads((folder / "results.json").read_text())})
    else:
        print_text(json.loads((page.parent / "summary.json").read_text())["headline"])
        typer.echo(page)


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")], as_json: AsJson = False
) -> None:
    """Write the report of a finished run again.

    Example: rci report runs/point-quick
    """
    from rci.engines.engine import reporting
    from rci.engines.progress import show_progress
    from rci.pipeline.results.summary import rebuild_report

    with show_progress() as report, reporting(report, "report"):
        page = rebuild_report(folder)
    print_json({"report": str(page)}) if as_json else typer.echo(page)
