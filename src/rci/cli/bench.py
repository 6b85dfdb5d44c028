"""The commands `rci bench ...`. Heavy imports happen inside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from rci.pipeline.commands.command_line import AsJson, Seed, Settings, Workers, print_json, print_text

bench = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Measure speeds against the reference, in the same run.\n\nExample: rci bench sim",
)


@bench.command()
def sim(
    parity: Annotated[
        bool, typer.Option("--parity", help="Compare whole episodes with the originals instead of speeds.")
    ] = False,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of each configuration, with --parity.")] = 10,
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of one measurement.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """The batched simulators against highway-env and gymnasium-robotics: steps per second, or how equal they are.

    Needs both (extras 'highway' and 'fetch'). --parity ends with exit code 1 if a bit differs; as highway-env is
    installed, outside the strict numeric mode, if more than rounding does.

    Example: rci bench sim --json
    """
    from rci.benchmarks.simulators import SIM_ROWS, bench_parity, bench_sim, bench_table, parity_failures
    from rci.engines.progress import count
    from rci.tasks.fetch_reach.parity import CASES as ARM_CASES
    from rci.tasks.highway.parity import CASES

    rows = (
        count(bench_parity(episodes), 2 * len(CASES) + len(ARM_CASES), "parity")
        if parity
        else count(bench_sim(seconds), SIM_ROWS, "speed")
    )
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))
    failures = parity_failures(rows) if parity else []
    for failure in failures:
        typer.echo(f"rci: {failure}", err=True)
    if failures:
        raise typer.Exit(1)


@bench.command(name="redistribute")
def bench_redistributors(
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of one measurement.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Sequences that every redistributor trains on and scores in a second, against a bare LSTM and the limit.

    Example: rci bench redistribute --json
    """
    from rci.engines.cores import prepare_process
    from rci.engines.progress import count

    prepare_process()  # one core, before anything imports JAX
    from rci.benchmarks.redistribution import bench_redistribute, learned_methods
    from rci.benchmarks.simulators import bench_table

    rows = count(bench_redistribute(seconds), 2 + 2 * len(learned_methods()), "speed")
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))


@bench.command(name="learn")
def bench_learners(
    seconds: Annotated[float, typer.Option(min=0.01, help="Length of one measurement.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Updates that every learner does in a second, against the matrix products in them, and policies per hour.

    Example: rci bench learn --json
    """
    from rci.engines.cores import available_cores, prepare_process
    from rci.engines.progress import count

    cores = len(available_cores())
    prepare_process()  # one core, before anything imports JAX
    from rci.benchmarks.learning import bench_learn
    from rci.benchmarks.simulators import bench_table
    from rci.learning import LEARNERS

    rows = count(bench_learn(seconds, cores), 2 + 2 * len(LEARNERS), "speed")
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))


@bench.command(name="budgets")
def bench_budgets(
    task: Annotated[str, typer.Argument(help="Which task, such as highway.")],
    seeds: Annotated[int, typer.Option(min=1, help="Logs, each with a training of its own.")] = 5,
    episodes: Annotated[int, typer.Option(min=1, help="Test episodes of every policy.")] = 1000,
    first_seed: Annotated[int, typer.Option(min=0, help="The seed of the first logs.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of logs and policies [runs/one-training-TASK].")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="File of rows to go on from [results/one-training-TASK.json].")
    ] = None,
    costs: Annotated[
        str, typer.Option(help="What is trained on: labels as they are, or a redistributor's step costs.")
    ] = "sparse",
    settings: Settings = [],  # noqa: B006
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Budgets asked against budgets kept: for every seed new logs, one training, several budgets.

    Settings are those of the learner, `method` among them. With --costs rudder:loss=prefix it is trained on such step
    costs instead of the labels. Policies that have a row are not trained again.

    Example: rci bench budgets point --seeds 5
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_study
    from rci.pipeline.config import parse_flags
    from rci.studies.budgets import BUDGETS, budget_table, floor_of, run_study, verdicts

    with show_study() as (report, on_progress):
        found = run_study(
            task,
            seeds,
            episodes,
            BUDGETS,
            out,
            rows,
            parse_flags(settings),
            Engine(workers=workers),
            report,
            on_progress,
            first_seed,
            costs,
        )
    if as_json:
        print_json(found)
        return
    print_text(budget_table(found))
    for line in verdicts(found, floor_of(task)):
        print_text(line)


@bench.command(name="trust")
def bench_estimates(
    policies: Annotated[
        int | None, typer.Option(min=1, help="How many policies, the first ones of the list [all].")
    ] = None,
    first_seed: Annotated[int, typer.Option(min=0, help="The seed of the first logs.")] = 100,
    rows: Annotated[
        Path | None, typer.Option(help="File of rows to go on from [results/trust.json].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimates from logs against the simulator: do the intervals hold the truth, and are the verdicts right?

    On six tasks, for policies good and bad. Policies that have a row are not judged again; all of them take about half
    an hour on one core.

    Example: rci bench trust --policies 17 --json
    """
    from rci.engines.cores import prepare_process
    from rci.engines.progress import show_study

    prepare_process()  # one core, before anything imports JAX
    from rci.benchmarks.trust.study import run_study
    from rci.benchmarks.trust.verdicts import sentences, trust_table

    with show_study() as (report, on_progress):
        found = run_study(policies, first_seed, rows, report, on_progress)
    if as_json:
        print_json(found)
        return
    print_text(trust_table(found))
    for line in sentences(found):
        print_text(line)


@bench.command(name="takeovers")
def bench_takeovers(
    seeds: Annotated[int, typer.Option(min=1, help="Logs, each with drivers of its own.")] = 5,
    episodes: Annotated[int, typer.Option(min=1, help="Test episodes of every policy.")] = 500,
    first_seed: Annotated[int, typer.Option(min=0, help="The seed of the first logs.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of logs and policies [runs/takeovers].")
    ] = None,
    rows: Annotated[
        Path | None, typer.Option(help="File of rows to go on from [results/takeovers.json].")
    ] = None,
    workers: Workers = None,
    as_json: AsJson = False,
) -> None:
    """Policies that learn from what a person drove after taking over, and policies that throw it away, on the highway.

    For every seed a machine and a person are trained, and runs recorded in which the person takes over. Policies that
    have a row are not trained again.

    Example: rci bench takeovers --seeds 5
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_study
    from rci.studies.takeovers import run_study, takeover_table, verdicts

    with show_study() as (report, on_progress):
        found = run_study(
            seeds, episodes, out, rows, Engine(workers=workers), report, on_progress, first_seed
        )
    if as_json:
        print_json(found)
        return
    print_text(takeover_table(found))
    for line in verdicts(found):
        print_text(line)


@bench.command(name="serve")
def bench_labeler(
    labels: Annotated[
        int, typer.Option(min=2, max=10_000, help="Labels by two annotators at once.")
    ] = 10_000,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long frames are counted.")] = 3.0,
    as_json: AsJson = False,
) -> None:
    """The web labeler: time to the first paint with 5,000 episodes, frames per second for 50 cars, labels per second.

    Needs playwright (extra 'dev') and Chromium.

    Example: rci bench serve --json
    """
    from rci.benchmarks.serving import ROWS, bench_serve
    from rci.benchmarks.simulators import bench_table
    from rci.engines.progress import count

    rows = count(bench_serve(labels, seconds), ROWS, "speed")
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))


@bench.command(name="runtime")
def bench_without_jax(
    updates: Annotated[int, typer.Option(min=1, help="Updates of every policy.")] = 1500,
    as_json: AsJson = False,
) -> None:
    """Policies without JAX, as NumPy and as ONNX: time for one action, and how far actions are from those of JAX.

    Needs the extra 'onnx'.

    Example: rci bench runtime --json
    """
    from rci.engines.cores import prepare_process

    prepare_process()  # one core, before anything imports JAX
    from rci.benchmarks.deploy import bench_policies
    from rci.benchmarks.simulators import bench_table
    from rci.engines.progress import count
    from rci.learning import LEARNERS

    rows = count(bench_policies(updates), 2 * (len(LEARNERS) + 1), "speed")
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))


@bench.command(name="faults")
def bench_kills(
    kills: Annotated[int, typer.Option(min=1, help="Kills of each command that hit a running process.")] = 50,
    what: Annotated[str, typer.Option(help="Which command is killed: pipeline, sweep or both.")] = "both",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Kill a small pipeline and a small sweep at random moments, and begin them again: is anything lost or done twice?

    The driver, its workers or all of them are killed; every file must be that of an undisturbed run in the end. Exit
    code 1 if one is not. Linux only.

    Example: rci bench faults --kills 50 --what both --json
    """
    from rci.benchmarks.faults import VICTIMS, WHAT, bench_faults, failures
    from rci.benchmarks.simulators import bench_table
    from rci.engines.progress import count

    chosen = WHAT if what == "both" else (what,)
    rows = count(bench_faults(kills, chosen, seed), len(VICTIMS) * len(chosen), "faults")
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))
    for failure in failures(rows):
        typer.echo(f"rci: {failure}", err=True)
    if failures(rows):
        raise typer.Exit(1)


@bench.command(name="scaling")
def bench_engines(
    tasks: Annotated[int, typer.Option(min=1, help="Tasks with empty bodies.")] = 10_000,
    updates: Annotated[int, typer.Option(min=1, help="Updates of every training.")] = 3000,
    engine: Annotated[list[str], typer.Option(help="Which engine; may be repeated [all].")] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Engines: what they add to a task, and how much of a second core trainings get. Takes about ten minutes.

    Needs the extra 'ray', unless only --engine local is asked for, and a machine with nothing else to do.

    Example: rci bench scaling --json
    """
    from rci.benchmarks.scaling import bench_scaling, rows_of
    from rci.benchmarks.simulators import bench_table
    from rci.data.errors import unknown_name
    from rci.engines.engine import ENGINES
    from rci.engines.progress import count

    for name in engine:
        if name not in ENGINES:
            raise unknown_name("engine", name, ENGINES)
    engines = engine or list(ENGINES)
    rows = count(bench_scaling(tasks, updates, engines), rows_of(engines), "speed")
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))


@bench.command(name="import")
def bench_larger_than_memory(
    gigabytes: Annotated[
        float,
        typer.Option(min=0.001, help="Size of the HDF5 file and of the MCAP file; others have a tenth."),
    ] = 1.0,
    only: Annotated[list[str], typer.Option(help="Which kind of file; may be repeated [all].")] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Imports of files that are larger than the memory they may have: MB per second, and the peak of the memory.

    Needs the extras 'formats' and 'bags', Linux, and room for twice the size in the folder for temporary files.

    Example: rci bench import --gigabytes 10 --json
    """
    from rci.benchmarks.importing import KINDS, bench_import
    from rci.benchmarks.simulators import bench_table
    from rci.engines.progress import count

    rows = count(bench_import(gigabytes, only=only), len(only or KINDS), "import")
    typer.echo(json.dumps(rows, indent=1) if as_json else bench_table(rows))
