"""The commands `rci import`, `rci export` and `rci monitor`: logs come in, datasets, policies and monitors go out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rci.data.errors import RciError
from rci.pipeline.commands.command_line import AsJson, Out, Overwrite, Seed, print_json, print_text


def import_dataset(
    source: Annotated[
        str, typer.Argument(help="A file, a folder, an address (s3://...), or the id of a Minari dataset.")
    ],
    out: Out,
    data_format: Annotated[
        str | None,
        typer.Option("--format", help="minari, dsrl, d4rl, omnisafe, lerobot, bags or logs [by its name]."),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option(
            help="TOML file: which columns of logs or of a LeRobot folder, or topics of bags, are obs, action, stop, "
            "...; for bags also autoware or ur."
        ),
    ] = None,
    cost_above: Annotated[
        float | None,
        typer.Option(help="Call an episode stopped where its recorded cost is first above this."),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Of bags that break off, take what can be read.")
    ] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Read a dataset of any known format as episodes; stops that it knows of become labels, in OUT-labels.

    Where a person took over goes to OUT-takeovers.

    It may be larger than memory. If it is interrupted, the same command goes on from where it was. What was decided
    where the data are silent is printed.

    Data at an address that fsspec reaches (s3://, hf://, ...) are fetched beside OUT first: pip install 'rci[store]'
    and the package for the address, such as s3fs.

    Example: rci import drives.csv --mapping columns.toml --out runs/mine/episodes

    Example: rci import s3://fleet/june --mapping columns.toml --out runs/june/episodes
    """
    from rci.engines.progress import show_share
    from rci.pipeline.commands.conversion import import_to

    with show_share("import") as progress:
        facts, text = import_to(
            source, out, data_format, mapping, cost_above, progress, _tell_continuing, partial, overwrite
        )
    print_json(facts) if as_json else print_text(text)


def _tell_continuing(steps: int) -> None:
    typer.echo(f"continuing from {steps} steps", err=True)


def export(
    source: Annotated[Path, typer.Argument(help="Episodes, or a policy.")],
    labels: Annotated[Path | None, typer.Argument(help="The labels of the episodes.")] = None,
    costs: Annotated[Path | None, typer.Argument(help="Their step costs.")] = None,
    *,
    out: Annotated[str, typer.Option("--out", "-o", help="File or folder to write, or the id for Minari.")],
    data_format: Annotated[
        str | None,
        typer.Option(
            "--format", help="minari, dsrl, parquet, costs, lerobot or lerobot-v2.1 [by the name of OUT]."
        ),
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="A policy as an ONNX file.")] = False,
    lerobot: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="FOLDER",
            help="LeRobot: the folder that the episodes are from; it is written again.",
        ),
    ] = None,
    monitor: Annotated[
        Path | None,
        typer.Option("--monitor", help="LeRobot: a monitor, or step costs; adds the column risk."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option("--rate", min=0.001, max=1e6, help="LeRobot: frames per second [as recorded]."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what stands there.")] = False,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Write episodes with inferred costs, sparse costs and stop flags for other programs, or a policy as ONNX.

    A .csv file, or --format costs, is a table of step costs with the run and the row that each step came from.

    Example: rci export runs/demo/episodes runs/demo/labels runs/demo/costs --out demo.hdf5

    Example: rci export runs/demo/episodes runs/demo/labels runs/demo/costs --out costs.csv

    With --format lerobot, columns cost and stopped are in a new LeRobot folder, or, with --source, added to one; labels
    and costs may be left out.

    Example: rci export runs/demo/policy --onnx --out policy.onnx
    """
    from rci.pipeline.commands.conversion import LeRobotWish, export_data, export_policy

    if onnx:
        others = (labels, costs, data_format, lerobot, monitor, rate)
        if overwrite or any(option is not None for option in others):
            raise RciError("--onnx takes a policy and a file to write, and nothing else.")
        facts, text = export_policy(source, Path(out), seed)
    else:
        if seed:
            raise RciError("--seed has no effect on a dataset: nothing is drawn.")
        facts, text = export_data(
            source, labels, costs, out, data_format, overwrite, LeRobotWish(lerobot, monitor, rate)
        )
    print_json(facts) if as_json else print_text(text)


def monitor(
    costs: Annotated[Path, typer.Argument(help="Step costs with the fitted redistributor.")],
    episodes: Annotated[Path, typer.Argument(help="Episodes that it was not fitted to.")],
    labels: Annotated[Path, typer.Argument(help="Their labels.")],
    out: Out,
    false_alarms: Annotated[
        float, typer.Option(min=0.0001, max=0.9999, help="Share of safe episodes that may be interrupted.")
    ] = 0.05,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Make a monitor that raises an alarm in a running episode; its level is chosen on held-out safe episodes.

    rci.runtime.load_monitor reads it, with NumPy alone. OUT-detection has a table and a figure: lead time and share of
    stops detected against false alarms.

    Example: rci monitor runs/demo/costs runs/held-out/episodes runs/held-out/labels --out runs/demo/monitor
    """
    from rci.engines.cores import prepare_process

    prepare_process()  # before anything imports JAX
    from rci.pipeline.commands.conversion import write_monitor

    facts, text = write_monitor(costs, episodes, labels, out, false_alarms, overwrite)
    print_json(facts) if as_json else print_text(text)
