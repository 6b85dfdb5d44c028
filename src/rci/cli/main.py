"""The command line. Heavy imports happen inside commands, so that help answers at once."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rci import __version__
from rci.cli.bench import bench
from rci.cli.command_jobs import run_here, show
from rci.cli.conversion import export, import_dataset, monitor
from rci.cli.labels import labels, serve
from rci.cli.redistribute import redistribute
from rci.cli.reference import reference
from rci.cli.shards import redistribute_shards
from rci.cli.sweep import sweep
from rci.cli.view import view
from rci.data.errors import RciError
from rci.engines.signals import end_politely
from rci.pipeline.command_line import (
    Address,
    AsJson,
    EngineName,
    Out,
    Seed,
    Settings,
    Store,
    Workers,
    print_json,
    print_text,
    run_command,
)

ENDED = tuple(128 + number for number in (signal.SIGINT, signal.SIGTERM))  # exit codes

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Safe policies from logs in which somebody only ever pressed STOP.\n\nExample: rci run point --preset quick",
)

app.add_typer(bench, name="bench")
app.add_typer(labels, name="labels")
app.command()(serve)
app.command(name="import")(import_dataset)
app.command()(export)
app.command()(monitor)
app.command()(redistribute)
app.command()(redistribute_shards)
app.command()(reference)
app.command()(sweep)
app.command()(view)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Options that stand before any command."""
    if version:
        typer.echo(f"rci {__version__}")
        raise typer.Exit


@app.command()
def run(
    task: Annotated[str, typer.Argument(help="Which task, such as point.")],
    preset: Annotated[str, typer.Option(help="Settings shipped under a name.")] = "quick",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the run [runs/TASK-PRESET].")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings, over the preset.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result, bit for bit.")] = None,
    settings: Settings = [],  # noqa: B006 (typer copies it)
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """The whole pipeline: collect, label, redistribute, learn, evaluate, report.

    What is already done and unchanged is not done again; a killed run continues where it was.

    Example: rci run point --preset quick --set compare.budgets=[0.05,0.2]
    """
    from rci.engines.engine import Engine
    from rci.engines.progress import show_progress
    from rci.pipeline.config import load_config
    from rci.pipeline.run import run_pipeline
    from rci.tasks import get

    get(task)
    where = Engine(engine, workers, address, store)
    folder = out or Path("runs") / f"{task}-{preset}"
    chosen = load_config(task, preset, config, settings, seed)
    command = shlex.join(["rci", *sys.argv[1:]])
    with show_progress() as report:
        page = run_pipeline(chosen, folder, where, report, command)
    if as_json:
        print_json({"report": str(page), "results": json.loads((folder / "results.json").read_text())})
    else:
        typer.echo(page)


@app.command()
def paper(
    only: Annotated[list[str], typer.Option(help="Only this experiment; may be repeated.")] = [],  # noqa: B006
    preset: Annotated[str, typer.Option(help="full: overnight on two cores; smoke: ten minutes.")] = "smoke",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the study [runs/paper-PRESET].")
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="File of rows to go on from [full: results/paper.json, smoke: OUT/paper.json]."),
    ] = None,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    store: Store = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only list the experiments and what is left of them.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Every experiment of the paper, and ours: policies, figures, tables and one page.

    Rows that are there already are not computed again, and a killed study goes on where it was. --out keeps what is
    large: datasets, policies, the page. The rows are all that is needed to go on elsewhere.

    Example: rci paper --preset smoke --only highway --only composition
    """
    from rci.engines.engine import Engine
    from rci.studies.paper.command import plan_paper, run_paper

    folder = out or Path("runs") / f"paper-{preset}"
    if plan:
        lines, table = plan_paper(only, preset, folder, rows)
        print_json(lines) if as_json else typer.echo(table)
        return
    command = shlex.join(["rci", *sys.argv[1:]])
    page, found = run_paper(only, preset, Engine(engine, workers, address, store), folder, rows, command)
    if as_json:
        print_json({"page": str(page), "rows": found})
    else:
        typer.echo(page)


@app.command()
def collect(
    task: Annotated[str, typer.Argument(help="Which task to record.")],
    out: Out,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 1000,
    recipe: Annotated[str, typer.Option(help="Which behaviours, in which shares.")] = "mixed",
    demonstrators: Annotated[
        Path | None, typer.Option(help="Trained demonstrators [OUT-demonstrators].")
    ] = None,
    settings: Settings = [],  # noqa: B006
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Record episodes; the truth about them is kept apart, in OUT-oracle.

    If the recipe has a share of PPO, demonstrators are trained first, unless they are there; settings are theirs.

    Example: rci collect point --recipe ppo --set total_steps=200000 --out runs/demo/episodes
    """
    from rci.engines.cores import prepare_process
    from rci.pipeline.config import stage_flags
    from rci.pipeline.jobs import Job

    prepare_process()  # before anything imports JAX
    from rci.collection.recipe import check_demonstrators, needs_demonstrators
    from rci.data.options import build
    from rci.data.store import check_place, read

    check_place(out)  # before demonstrators are trained for nothing
    options, trained = stage_flags(settings), needs_demonstrators(task, recipe)
    place = demonstrators or out.with_name(f"{out.name}-demonstrators")
    if demonstrators is not None:
        if options:
            raise RciError("demonstrators that are given cannot be given settings as well.")
        check_demonstrators(read(demonstrators, "demonstrators"), task, recipe)
    elif options and not trained:
        raise RciError(f"the recipe {recipe!r} needs no demonstrators, so there is nothing to set.")
    inputs = {"demonstrators": place} if trained else {}
    record = {"task_name": task, "episodes": episodes, "recipe": recipe}
    jobs = [Job("collect", "collect", record, seed, inputs, out)]
    if trained and demonstrators is None:
        from rci.collection.ppo import Config

        build(Config, options, "ppo")
        jobs.insert(0, Job("demonstrators", "demonstrators", {"task_name": task, **options}, seed, {}, place))
    run_here(jobs, as_json)


@app.command()
def label(
    episodes: Annotated[Path, typer.Argument(help="Episodes to label.")],
    out: Out,
    rule: Annotated[
        str | None, typer.Option(help="Task whose rule stops episodes [the episodes' own].")
    ] = None,
    stops: Annotated[
        Path | None, typer.Option(help="CSV or JSONL file: episode, stop_index, perhaps severity.")
    ] = None,
    noise: Annotated[str, typer.Option(help="Imperfect supervisor: noisy, adversarial, human.")] = "clean",
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Say where each episode was stopped, by a task's rule or from a file.

    Example: rci label runs/demo/episodes --rule point --out runs/demo/labels
    """
    from rci.data.store import read_manifest
    from rci.labeling.rules import read_stops
    from rci.pipeline.jobs import Job

    if stops is not None and rule is not None:
        raise RciError("labels come from a rule or from a file of stops, not from both.")
    manifest = read_manifest(episodes)
    if manifest["kind"] != "episodes":
        raise RciError(f"{episodes} holds {manifest['kind']!r}, but 'episodes' is needed here.")
    task = rule or manifest["meta"]["task"]
    if stops is None and not task:
        raise RciError("these episodes are of no known task; name a --rule or a file of --stops.")
    settings: dict[str, Any] = {"rule": task, "noise": noise}
    if stops is not None:
        recorded = manifest["arrays"]["lengths"]["shape"][0]
        settings = {"stops": read_stops(stops, recorded), "noise": noise}
    run_here([Job("label", "label", settings, seed, {"episodes": episodes}, out)], as_json)


@app.command()
def learn(
    episodes: Annotated[Path, typer.Argument(help="Recorded episodes.")],
    labels: Annotated[Path, typer.Argument(help="Their labels.")],
    costs: Annotated[Path, typer.Argument(help="Their step costs.")],
    out: Out,
    budget: Annotated[
        str,
        typer.Option(
            help="Allowed violation probability, inf, or P0 to P100; by channel: proximity=0.05,road=0.01; several: "
            "0.01,0.05."
        ),
    ] = "0.05",
    method: Annotated[str, typer.Option(help="Which learner.")] = "feasible",
    behaviour: Annotated[Path | None, typer.Option(help="Fitted behaviour model [LABELS-behaviour].")] = None,
    settings: Settings = [],  # noqa: B006
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a policy that stays within the budget, from logs alone.

    Several budgets are several policies, OUT/0.01 and so on; one training serves all where the learner allows it. Exit
    code 3: no threshold is expected to keep a budget; the policy is written all the same, and marked.

    The behaviour model is fitted first, unless it is there: one beside the labels serves every budget and seed.
    Its settings are those that begin with "behaviour.". Learners that need none fit none.

    Example: rci learn runs/demo/episodes runs/demo/labels runs/demo/costs --budget 0.1 --out runs/demo/policy
    """
    from rci.engines.cores import prepare_process
    from rci.pipeline.config import stage_flags
    from rci.pipeline.jobs import Job

    prepare_process()  # before anything imports JAX
    from rci.data.budgets import limits, refuse_percentiles, split_budgets
    from rci.data.options import build
    from rci.data.store import read
    from rci.learning import LEARNERS, parse_options
    from rci.learning.behaviour import Config as BehaviourConfig
    from rci.pipeline.trainings import all_kept, training_jobs, training_remarks

    options = stage_flags(settings)
    model_options = options.pop("behaviour", {})
    if behaviour is not None and model_options:
        raise RciError("a behaviour model that is given cannot be given settings as well.")
    parse_options(method, options)
    build(BehaviourConfig, model_options, "behaviour")
    proposes = LEARNERS[method].proposes
    if not proposes and (behaviour is not None or model_options):
        raise RciError(
            f"{method!r} uses no behaviour model, so leave out --behaviour and behaviour.* settings."
        )
    budgets = split_budgets(budget)
    model = behaviour or labels.with_name(f"{labels.name}-behaviour")
    given = read(costs, "costs")  # checked before the behaviour model is fitted for nothing
    given.check_parent(read(labels, "labels"))
    for each in budgets:
        own = limits(each, given.channels)
        if LEARNERS[method].settle is not None:
            refuse_percentiles(repr(method), own)
    logged = {"episodes": episodes, "labels": labels}
    inputs = {**logged, "costs": costs, **({"behaviour": model} if proposes else {})}
    jobs = (
        [Job("behaviour", "behaviour", model_options, 0, logged, model)] if proposes and not behaviour else []
    )
    trainings = training_jobs({"method": method, **options}, budgets, seed, inputs, out)
    places = [out] if len(budgets) == 1 else [out / each for each in budgets]
    run_here([*jobs, *trainings.values()], as_json, places)
    for remark in training_remarks(places, model if proposes else None):
        typer.echo(f"rci: {remark}", err=True)
    if not all_kept(places):
        raise typer.Exit(3)


@app.command()
def select(
    episodes: Annotated[Path, typer.Argument(help="Recorded episodes.")],
    labels: Annotated[Path, typer.Argument(help="Their labels.")],
    costs: Annotated[Path, typer.Argument(help="Their step costs.")],
    policies: Annotated[list[Path], typer.Argument(metavar="POLICY...", help="Trained policies.")],
    budget: Annotated[
        str | None, typer.Option(help="As for learn, with the rule best [0.05].", show_default=False)
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            help="best: the highest return within the budget; safest: the lowest cost with --share."
        ),
    ] = "best",
    share: Annotated[
        float | None,
        typer.Option(help="How much of the range of returns to keep, with the rule safest [0.9]."),
    ] = None,
    settings: Settings = [],  # noqa: B006
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Choose among trained policies from logs alone: each is judged by fitted-Q evaluation.

    Example: rci select runs/demo/episodes runs/demo/labels runs/demo/costs runs/demo/policy runs/demo/other
    --budget 0.1
    """
    from rci.engines.cores import prepare_process
    from rci.pipeline.config import stage_flags

    prepare_process()  # before anything imports JAX
    from rci.pipeline.selection import select_policies, selection_table

    inputs = {"episodes": episodes, "labels": labels, "costs": costs}
    found = select_policies(inputs, policies, budget, rule, share, stage_flags(settings), seed)
    if as_json:
        print_json(found)
    else:
        print_text(selection_table(found))
        typer.echo(found["chosen"])


@app.command()
def evaluate(
    policy: Annotated[Path, typer.Argument(help="A trained policy.")],
    task: Annotated[str, typer.Option(help="Task to test it on.")],
    out: Out,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 1000,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Test a policy on fresh episodes, with the true rule.

    Example: rci evaluate runs/demo/policy --task point --out runs/demo/scores
    """
    from rci.pipeline.jobs import Job
    from rci.tasks import get

    get(task)
    settings = {"task": task, "episodes": episodes}
    run_here([Job("evaluate", "evaluate", settings, seed, {"policy": policy}, out)], as_json)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    as_json: AsJson = False,
) -> None:
    """Write the report of a finished run again.

    Example: rci report runs/point-quick
    """
    from rci.engines.engine import reporting
    from rci.engines.progress import show_progress
    from rci.pipeline.summary import rebuild_report

    with show_progress() as report, reporting(report, "report"):
        page = rebuild_report(folder)
    print_json({"report": str(page)}) if as_json else typer.echo(page)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="Any artefact folder.")],
    as_json: AsJson = False,
) -> None:
    """Say what an artefact is, how it was made, and whether it is intact.

    Example: rci inspect runs/point-quick/episodes
    """
    show(path, as_json, verify=True)


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
