"""What the commands of this package share: common options, and what is done with a user's mistake."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rci.data.errors import RciError, printable

MAX_SEED = 2**31 - 1
Seed = Annotated[int, typer.Option(min=0, max=MAX_SEED, help="Same seed, same result, bit for bit.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every detail of what was made.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what was made there with other settings.")
]
Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="TRACKER",
        help="Log curves, results and figures to mlflow, wandb or tensorboard [nothing].",
    ),
]
Settings = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Workers at once [one per core].")]
EngineName = Annotated[
    str, typer.Option("--engine", help="Where work is done: local processes, or ray, a cluster.")
]
Address = Annotated[
    str | None, typer.Option(help="A running Ray cluster: HOST:PORT or auto [one for this run].")
]
Store = Annotated[
    str | None,
    typer.Option(help="Folder or fsspec address (s3://...) that keeps results for other runs and machines."),
]


def print_json(value: Any) -> None:
    """A result for machines."""
    typer.echo(json.dumps(value, indent=1, sort_keys=True))


def print_text(text: Any) -> None:
    """A result for people. What is said in it may come from files of others, so a terminal has nothing to obey."""
    typer.echo(printable(str(text)))


def warn(sentence: str) -> None:
    """A remark on standard error; the command goes on."""
    typer.echo(printable(f"rci: {sentence}"), err=True)


def run_command(app: typer.Typer, name: str) -> None:
    """Run a command line: exit code 2 and one sentence, with the command's name before it, for a user's mistake."""
    try:
        app()
    except RciError as error:
        typer.echo(f"{name}: {error}", err=True)
        sys.exit(2)
