"""The command `rci view`: episodes as a recording that a viewer plays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rci.pipeline.commands.command_line import AsJson, print_json


def view(
    episodes: Annotated[Path, typer.Argument(help="Recorded episodes.")],
    costs: Annotated[Path | None, typer.Argument(help="Their step costs.")] = None,
    *,
    out: Annotated[Path, typer.Option("--out", "-o", help="The .rrd file to write.")],
    labels: Annotated[Path | None, typer.Option(help="Their labels: where they were stopped.")] = None,
    takeovers: Annotated[Path | None, typer.Option(help="Where a person drove.")] = None,
    monitor: Annotated[
        Path | None, typer.Option(help="A monitor, or step costs with a model: the risk after every step.")
    ] = None,
    frames: Annotated[
        Path | None, typer.Option(help="Folder of pictures: 3/ or 3.mp4 for episode 3, as for rci serve.")
    ] = None,
    episode: Annotated[list[int], typer.Option(help="Only this one; may be repeated [all].")] = [],  # noqa: B006
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a Rerun recording: named signals, camera, step costs, stops and the monitor's risk on one timeline.

    Needs the extra 'rerun'. Open it with: rerun OUT

    Example: rci view runs/demo/episodes runs/demo/costs --labels runs/demo/labels --out demo.rrd
    """
    from rci.pipeline.commands.viewing import view_episodes

    found = view_episodes(episodes, costs, labels, takeovers, monitor, frames, episode, out, overwrite)
    if as_json:
        print_json(found)
    else:
        typer.echo(f"{found['episodes']} episodes, {found['steps']} steps: {found['out']}")
