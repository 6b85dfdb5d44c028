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


def print_json(value: Any) -> None:
    """A result for machines."""
    typer.echo(json.dumps(value, indent=1, sort_keys=True))


def print_text(text: Any) -> None:
    """A result for people. What is said in it may come from files of others, so a terminal has nothing to obey."""
    typer.echo(printable(str(text)))


def run_command(app: typer.Typer, name: str) -> None:
    """Run a command line: exit code 2 and one sentence, with the command's name before it, for a user's mistake."""
    try:
        app()
    except RciError as error:
        typer.echo(f"{name}: {error}", err=True)
        sys.exit(2)
