"""`rci assess`: from logs to a verdict."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rci.pipeline.commands.command_line import AsJson, Seed, Settings, Workers, print_json, print_text

NOT_DEPLOYED = 3  # exit code


def assess(
    logs: Annotated[Path, typer.Argument(help="Logs: a file, a folder, or an artefact of episodes.")],
    mapping: Annotated[
        Path | None, typer.Option(help="TOML file that names the columns of plain logs.")
    ] = None,
    budget: Annotated[
        str, typer.Option(help="Share of runs that may be stopped, such as 0.05 or 5%.")
    ] = "0.05",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the assessment [runs/assess-LOGS].")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Labels of an artefact of episodes [LOGS-labels].")
    ] = None,
    settings: Settings = [],  # noqa: B006 (typer copies it)
    seed: Seed = 0,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """May I deploy a policy from these logs, how safe will it be, and how sure is that? A verdict and a page.

    Imports the logs, learns policies for several budgets and a monitor, and estimates from runs that nothing was
    learned from how often each policy would be stopped. What is done and unchanged is not done again; a killed
    assessment goes on where it was.

    Exit code 0: deploy under a monitor. Exit code 3: do not deploy, or the logs cannot say.

    Example: rci assess runs.csv --mapping columns.toml --budget 5% --out runs/robot
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_study
    from rci.pipeline.assessing.assess import run_assessment
    from rci.pipeline.assessing.settings import assess_config

    config = assess_config(settings, seed)
    folder = out or Path("runs") / f"assess-{logs.stem}"
    command = shlex.join(["rci", *sys.argv[1:]])
    with show_study("jobs") as (report, on_progress):
        assessment = run_assessment(
            config,
            logs,
            mapping,
            budget,
            folder,
            labels,
            Engine("local", workers),
            report,
            on_progress,
            command,
        )
    if as_json:
        print_json({"page": str(assessment.page), **assessment.table})
    else:
        print_text("\n".join([*assessment.sentences(), str(assessment.page)]))
    if not assessment.deploy:
        raise typer.Exit(NOT_DEPLOYED)
