"""What every command of this package does with a user's mistake."""

from __future__ import annotations

import sys

import typer

from rci.data.errors import RciError


def run_command(app: typer.Typer, name: str) -> None:
    """Run a command line: exit code 2 and one sentence, with the command's name before it, for a user's mistake."""
    try:
        app()
    except RciError as error:
        typer.echo(f"{name}: {error}", err=True)
        sys.exit(2)
