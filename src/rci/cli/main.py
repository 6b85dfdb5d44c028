"""The command line. Heavy imports happen inside commands, so that help answers at once."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Annotated

import typer

from rci import __version__
from rci.cli.assess import assess
from rci.cli.bench import bench
from rci.cli.conversion import export, import_dataset, monitor
from rci.cli.help import COMPARING, OWN_LOGS, PIPELINE, SCALING, STAGES, TOOLS, command_line
from rci.cli.labels import labels, serve
from rci.cli.learning import learn, select
from rci.cli.pipeline import report, run
from rci.cli.redistribute import redistribute
from rci.cli.shards import redistribute_shards
from rci.cli.stages import collect, evaluate, inspect, label
from rci.cli.studies import paper, reference, sweep
from rci.cli.view import view
from rci.engines.signals import end_politely
from rci.pipeline.commands.command_line import run_command

ENDED = tuple(128 + number for number in (signal.SIGINT, signal.SIGTERM))  # exit codes

app = command_line(
    "Learn safe policies from logs in which somebody only ever pressed STOP.\n\nExample: rci run point --preset quick"
)

GROUPS: dict[str, list[Callable[..., None]]] = {
    PIPELINE: [run, report],
    STAGES: [collect, label, redistribute, learn, select, evaluate, monitor],
    COMPARING: [sweep, paper, reference],
    SCALING: [redistribute_shards],
    TOOLS: [inspect, view],
}
for heading, commands in GROUPS.items():
    for command in commands:
        app.command(rich_help_panel=heading)(command)
app.command(rich_help_panel=OWN_LOGS)(assess)
app.command(name="import", rich_help_panel=OWN_LOGS)(import_dataset)
app.command(rich_help_panel=OWN_LOGS)(serve)
app.add_typer(labels, name="labels", rich_help_panel=OWN_LOGS)
app.command(rich_help_panel=OWN_LOGS)(export)
app.add_typer(bench, name="bench", rich_help_panel=TOOLS)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Options that stand before any command."""
    if version:
        typer.echo(f"rci {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line: exit code 2 and one sentence for a user's mistake, 130 after Ctrl-C, 143 after SIGTERM."""
    end_politely()
    try:
        run_command(app, "rci")
    except SystemExit as end:
        if end.code in ENDED:
            typer.echo(
                "rci: stopped; finished artefacts are kept, and the same command continues from them.",
                err=True,
            )
        raise
