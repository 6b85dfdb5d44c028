"""`rci redistribute-shards`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rci.data.errors import RciError
from rci.pipeline.commands.command_line import (
    Address,
    AsJson,
    EngineName,
    Seed,
    Settings,
    Workers,
    print_json,
    print_text,
)


def redistribute_shards(
    shards: Annotated[
        str, typer.Argument(help="Folder or address of Parquet files, each of whole episodes.")
    ],
    out: Annotated[str, typer.Option("--out", "-o", help="Folder or address to write to.")],
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="COSTS", help="Use the models fitted for these step costs."),
    ] = None,
    fit_episodes: Annotated[
        int | None, typer.Option(min=2, help="Fit models to so many episodes, drawn from all shards.")
    ] = None,
    method: Annotated[str | None, typer.Option(help="Which redistributor to fit [rudder].")] = None,
    settings: Settings = [],  # noqa: B006
    mapping: Annotated[
        Path | None, typer.Option(help="TOML file: which columns are obs, action, reward, stop, ...")
    ] = None,
    prefix: Annotated[
        str, typer.Option(help="Before the names of the new columns cost, cost_sparse and stopped.")
    ] = "",
    engine: EngineName = "local",
    address: Address = None,
    workers: Workers = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Infer step costs for logs that are too large for one place, shard by shard.

    Every shard is written again, with the same name and rows, to OUT/shards. Shards that are done and unchanged are not
    done again; a killed run continues where it was. Fitted models are kept in OUT/fit.

    Example: rci redistribute-shards logs --fit-episodes 1000 --set loss=prefix --out runs/fleet

    Example: rci redistribute-shards logs --from runs/demo/costs --engine ray --address auto --out s3://bucket/fleet
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_progress
    from rci.pipeline.config import stage_flags
    from rci.shards.run import Fit
    from rci.shards.run import redistribute_shards as run

    where = Engine(engine, workers, address)
    options = stage_flags(settings)
    pessimism = 0.0
    models: Path | Fit
    if (source is None) == (fit_episodes is None):
        raise RciError("say where models come from: --from COSTS, or --fit-episodes N to fit them.")
    if source is not None:
        _refuse_idle(method, seed, options)
        models, pessimism = source, float(options.get("pessimism", 0.0))
    else:
        models = Fit(fit_episodes or 0, method or "rudder", options, seed)
    with show_progress() as report:
        facts = run(shards, out, models, mapping, prefix, pessimism, where, report)
    if as_json:
        print_json(facts)
        return
    for note in facts["notes"]:
        print_text(f"note: {note}")
    typer.echo(
        f"{facts['shards']} shards ({facts['unchanged']} unchanged), {facts['episodes']} episodes, "
        f"{facts['stopped']} of them stopped, {facts['steps']} steps with costs: {facts['out']}"
    )


def _refuse_idle(method: str | None, seed: int, options: dict[str, object]) -> None:
    """With --from nothing is fitted."""
    from rci.data.errors import unknown_name

    if method is not None:
        raise RciError(
            "--from and --method cannot be given together: the method is that of the fitted models."
        )
    if seed:
        raise RciError("--seed has no effect with --from: nothing is fitted.")
    for name in options:
        if name != "pessimism":
            raise unknown_name("setting of --from", name, ["pessimism"])
