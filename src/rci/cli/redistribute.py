"""`rci redistribute`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rci.cli.command_jobs import Shown, run_here, run_in_workers
from rci.data.errors import RciError
from rci.pipeline.commands.command_line import (
    MAX_SEED,
    Address,
    AsJson,
    EngineName,
    Out,
    Overwrite,
    Seed,
    Settings,
    Store,
    Verbose,
    Workers,
    print_json,
    print_text,
)

if TYPE_CHECKING:
    from rci.engines.engine import Engine


def redistribute(
    episodes: Annotated[Path, typer.Argument(help="Recorded episodes.")],
    labels: Annotated[Path, typer.Argument(help="Their labels.")],
    out: Out,
    method: Annotated[str | None, typer.Option(help="Which redistributor [rudder].")] = None,
    settings: Settings = [],  # noqa: B006
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="COSTS", help="Fit nothing: use the models fitted for these step costs."
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="VARIANTS", help="Redistributors to compare, METHOD[:KEY=VALUE]..., or all."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Seeds of every variant, with --compare [1].")
    ] = None,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    store: Store = None,
    seed: Seed = 0,
    verbose: Verbose = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Turn one bit per episode into a cost per step that sums exactly to it.

    The members of an ensemble (--set members=5) are fitted side by side, in OUT-members, and joined. With --compare,
    OUT is a folder with a table, a page and the step costs of every variant; variants are separated by commas.

    Example: rci redistribute runs/demo/episodes runs/demo/labels --set loss=prefix --out runs/demo/costs

    Example: rci redistribute runs/demo/episodes runs/demo/labels --compare rudder,rudder:loss=prefix,uniform
    --seeds 3 --out runs/demo/comparison
    """
    from rci.engines.engine import Engine

    where, shown = Engine(engine, workers, address, store), Shown(as_json, verbose, overwrite)
    inputs = {"episodes": episodes, "labels": labels}
    given = {"--from": source, "--compare": compare, "--method": method, "--set": settings or None}
    for one, other, why in (
        ("--compare", "--method", "name every method in --compare"),
        ("--compare", "--set", "settings belong to the variants, as in rudder:loss=prefix"),
        ("--compare", "--from", "a comparison fits its own models"),
        ("--from", "--method", "the method is that of the fitted models"),
    ):
        if given[one] is not None and given[other] is not None:
            raise RciError(f"{one} and {other} cannot be given together: {why}.")
    if compare is None and seeds is not None:
        raise RciError("--seeds is the number of seeds of a comparison; without --compare there is --seed.")
    if compare is not None and (verbose or overwrite):
        raise RciError(
            "--verbose and --overwrite are for single step costs; a comparison has a folder of its own."
        )
    if compare is not None:
        _compare(inputs, compare, out, seeds or 1, seed, where, shown)
    elif source is not None:
        _transfer({**inputs, "costs": source}, settings, out, seed, where, shown)
    else:
        _redistribute(inputs, method or "rudder", settings, out, seed, where, shown)


def _redistribute(
    inputs: dict[str, Path],
    method: str,
    settings: list[str],
    out: Path,
    seed: int,
    engine: Engine,
    shown: Shown,
) -> None:
    """One set of step costs: in this process, or, if it is an ensemble, its members in workers."""
    from rci.engines.cores import prepare_process
    from rci.pipeline.config import stage_flags
    from rci.pipeline.ensemble_jobs import plan_members
    from rci.pipeline.jobs import Job

    options = stage_flags(settings)
    members = options.get("members")
    if isinstance(members, int) and members > 1:
        run_in_workers(plan_members(method, options, seed, inputs, out), engine, shown)
        return
    job = Job("redistribute", "redistribute", {"method": method, **options}, seed, inputs, out)
    if _elsewhere(engine):
        run_in_workers([job], engine, shown)
        return
    prepare_process()  # before anything imports JAX
    from rci.redistribution import parse_options

    parse_options(method, options)
    run_here([job], shown)


def _transfer(
    inputs: dict[str, Path], settings: list[str], out: Path, seed: int, engine: Engine, shown: Shown
) -> None:
    """Step costs by the models that were fitted for others."""
    from rci.data.errors import unknown_name
    from rci.pipeline.config import stage_flags
    from rci.pipeline.jobs import Job

    options = stage_flags(settings)
    for name in options:
        if name != "pessimism":
            raise unknown_name("setting of --from", name, ["pessimism"])
    if seed:
        raise RciError("--seed has no effect with --from: nothing is fitted.")
    job = Job("transfer", "transfer", options, 0, inputs, out)
    if _elsewhere(engine):
        run_in_workers([job], engine, shown)
    else:
        run_here([job], shown)


def _compare(
    inputs: dict[str, Path], compare: str, out: Path, seeds: int, seed: int, engine: Engine, shown: Shown
) -> None:
    """Several redistributors in workers; their table and the path of their page."""
    import shutil

    from rci.engines.progress import show_progress
    from rci.pipeline.commands.comparison import run_comparison

    if seed + seeds - 1 > MAX_SEED:
        raise RciError(f"the last of {seeds} seeds from {seed} on is above {MAX_SEED}.")
    command = shlex.join(["rci", *sys.argv[1:]])
    with show_progress() as report:
        page, rows, results = run_comparison(inputs, compare, out, seeds, seed, engine, report, command)
    if shown.as_json:
        print_json(rows)
        return
    from rci.reporting.comparison.results import text_table

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_text(text_table(results, width))
    typer.echo(page)


def _elsewhere(engine: Engine) -> bool:
    """Whether one piece of work is done by a worker, not in this process."""
    if engine.kind == "local" and engine.workers is not None:
        raise RciError(
            "--workers is for --compare and for ensembles (--set members=5); one fit takes one core."
        )
    return engine.kind != "local" or engine.store is not None
