"""The command line. Heavy imports happen inside commands, so that help answers at once."""

from __future__ import annotations

import json
import shlex
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rci import __version__
from rci.data.errors import RciError
from rci.run.bench_cli import bench
from rci.run.command import MAX_SEED, AsJson, Out, Seed, print_json, print_text, run_command
from rci.run.exchange_cli import export, import_dataset, monitor
from rci.run.labels_cli import labels, serve

INTERRUPTED = 130

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

Settings = Annotated[
    list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated.")
]


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
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes [one per core].")] = None,
    as_json: AsJson = False,
) -> None:
    """The whole pipeline: collect, label, redistribute, learn, evaluate, report.

    What is already done and unchanged is not done again; a killed run continues where it was.

    Example: rci run point --preset quick --set compare.budgets=[0.05,0.2]
    """
    from rci.run.config import load_config
    from rci.run.pipeline import run_pipeline
    from rci.run.progress import show_progress
    from rci.tasks import get

    get(task)
    folder = out or Path("runs") / f"{task}-{preset}"
    chosen = load_config(task, preset, config, settings, seed)
    command = shlex.join(["rci", *sys.argv[1:]])
    with show_progress() as report:
        page = run_pipeline(chosen, folder, workers, report, command)
    if as_json:
        print_json({"report": str(page), "results": json.loads((folder / "results.json").read_text())})
    else:
        typer.echo(page)


@app.command()
def paper(
    only: Annotated[list[str], typer.Option(help="Only this experiment; may be repeated.")] = [],  # noqa: B006
    preset: Annotated[str, typer.Option(help="full: overnight on two cores; smoke: ten minutes.")] = "smoke",
    engine: Annotated[str, typer.Option(help="Where jobs run: local processes.")] = "local",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of the study [runs/paper-PRESET].")
    ] = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="File of rows to go on from [full: results/paper.json, smoke: OUT/paper.json]."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes [one per core].")] = None,
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
    from rci.run.paper.command import plan_paper, run_paper

    folder = out or Path("runs") / f"paper-{preset}"
    if plan:
        lines, table = plan_paper(only, preset, folder, rows)
        print_json(lines) if as_json else typer.echo(table)
        return
    command = shlex.join(["rci", *sys.argv[1:]])
    page, found = run_paper(only, preset, engine, folder, rows, workers, command)
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
    from rci.run.config import stage_flags
    from rci.run.engine import prepare_process
    from rci.run.jobs import Job

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
    _run(jobs, as_json)


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
    from rci.run.jobs import Job

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
    _run([Job("label", "label", settings, seed, {"episodes": episodes}, out)], as_json)


@app.command()
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
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes, with --compare or members [one per core].")
    ] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Turn one bit per episode into a cost per step that sums exactly to it.

    The members of an ensemble (--set members=5) are fitted side by side, in OUT-members, and joined. With --compare,
    OUT is a folder with a table, a page and the step costs of every variant; variants are separated by commas.

    Example: rci redistribute runs/demo/episodes runs/demo/labels --set loss=prefix --out runs/demo/costs

    Example: rci redistribute runs/demo/episodes runs/demo/labels --compare rudder,rudder:loss=prefix,uniform
    --seeds 3 --out runs/demo/comparison
    """
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
    if compare is not None:
        _compare(inputs, compare, out, seeds or 1, seed, workers, as_json)
    elif source is not None:
        _transfer({**inputs, "costs": source}, settings, out, seed, workers, as_json)
    else:
        _redistribute(inputs, method or "rudder", settings, out, seed, workers, as_json)


def _redistribute(
    inputs: dict[str, Path],
    method: str,
    settings: list[str],
    out: Path,
    seed: int,
    workers: int | None,
    as_json: bool,
) -> None:
    """One set of step costs: in this process, or, if it is an ensemble, its members in workers."""
    from rci.data.store import check_place
    from rci.run.config import stage_flags
    from rci.run.engine import prepare_process, run_jobs
    from rci.run.jobs import Job
    from rci.run.members import plan_members
    from rci.run.progress import show_progress

    options = stage_flags(settings)
    members = options.get("members")
    if isinstance(members, int) and members > 1:
        jobs = plan_members(method, options, seed, inputs, out)
        check_place(out)  # before members are fitted for nothing
        with show_progress() as report:
            run_jobs(jobs, workers, report)
        _describe(out, as_json)
        return
    _refuse_workers(workers)
    prepare_process()  # before anything imports JAX
    from rci.redistribution import parse_options

    parse_options(method, options)
    _run([Job("redistribute", "redistribute", {"method": method, **options}, seed, inputs, out)], as_json)


def _transfer(
    inputs: dict[str, Path], settings: list[str], out: Path, seed: int, workers: int | None, as_json: bool
) -> None:
    """Step costs by the models that were fitted for others."""
    from rci.data.errors import unknown_name
    from rci.run.config import stage_flags
    from rci.run.jobs import Job

    options = stage_flags(settings)
    for name in options:
        if name != "pessimism":
            raise unknown_name("setting of --from", name, ["pessimism"])
    if seed:
        raise RciError("--seed has no effect with --from: nothing is fitted.")
    _refuse_workers(workers)
    _run([Job("transfer", "transfer", options, 0, inputs, out)], as_json)


def _compare(
    inputs: dict[str, Path],
    compare: str,
    out: Path,
    seeds: int,
    seed: int,
    workers: int | None,
    as_json: bool,
) -> None:
    """Several redistributors in workers; their table and the path of their page."""
    import shutil

    from rci.run.comparison import run_comparison
    from rci.run.progress import show_progress

    if seed + seeds - 1 > MAX_SEED:
        raise RciError(f"the last of {seeds} seeds from {seed} on is above {MAX_SEED}.")
    command = shlex.join(["rci", *sys.argv[1:]])
    with show_progress() as report:
        page, rows, results = run_comparison(inputs, compare, out, seeds, seed, workers, report, command)
    if as_json:
        print_json(rows)
        return
    from rci.reporting.comparison import text_table

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print_text(text_table(results, width))
    typer.echo(page)


def _refuse_workers(workers: int | None) -> None:
    if workers is not None:
        raise RciError(
            "--workers is for --compare and for ensembles (--set members=5); one fit takes one core."
        )


@app.command()
def learn(
    episodes: Annotated[Path, typer.Argument(help="Recorded episodes.")],
    labels: Annotated[Path, typer.Argument(help="Their labels.")],
    costs: Annotated[Path, typer.Argument(help="Their step costs.")],
    out: Out,
    budget: Annotated[
        str,
        typer.Option(
            help="Allowed violation probability, inf, or P0 to P100; by channel: proximity=0.05,road=0.01."
        ),
    ] = "0.05",
    method: Annotated[str, typer.Option(help="Which learner.")] = "bcq-lagrangian",
    behaviour: Annotated[Path | None, typer.Option(help="Fitted behaviour model [LABELS-behaviour].")] = None,
    settings: Settings = [],  # noqa: B006
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Train a policy that stays within the budget, from logs alone.

    The behaviour model is fitted first, unless it is there: one beside the labels serves every budget and seed.
    Its settings are those that begin with "behaviour.". Learners that need none fit none.

    Example: rci learn runs/demo/episodes runs/demo/labels runs/demo/costs --budget 0.1 --out runs/demo/policy
    """
    from rci.run.config import stage_flags
    from rci.run.engine import prepare_process
    from rci.run.jobs import Job

    prepare_process()  # before anything imports JAX
    from rci.data.options import build
    from rci.data.store import read
    from rci.learning import LEARNERS, BehaviourConfig, parse_options
    from rci.learning.budget import limits, parse_budget

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
    parse_budget(budget)
    model = behaviour or labels.with_name(f"{labels.name}-behaviour")
    given = read(costs, "costs")  # checked before the behaviour model is fitted for nothing
    given.check_parent(read(labels, "labels"))
    limits(budget, given.channels)
    logged = {"episodes": episodes, "labels": labels}
    inputs = {**logged, "costs": costs, **({"behaviour": model} if proposes else {})}
    fit = Job("behaviour", "behaviour", model_options, 0, logged, model)
    train = Job("learn", "learn", {"method": method, **options, "budget": budget}, seed, inputs, out)
    _run([fit, train] if proposes and behaviour is None else [train], as_json)


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
    from rci.run.config import stage_flags
    from rci.run.engine import prepare_process

    prepare_process()  # before anything imports JAX
    from rci.run.select import select_policies, selection_table

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
    from rci.run.jobs import Job
    from rci.tasks import get

    get(task)
    settings = {"task": task, "episodes": episodes}
    _run([Job("evaluate", "evaluate", settings, seed, {"policy": policy}, out)], as_json)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    as_json: AsJson = False,
) -> None:
    """Write the report of a finished run again.

    Example: rci report runs/point-quick
    """
    from rci.run.jobs import Job
    from rci.run.progress import show_progress
    from rci.run.summary import rebuild_report

    job = Job("report", "report", {}, 0, {}, folder / "report")
    with show_progress() as show:
        show(job, 0.0, 0.0)
        started = time.monotonic()
        page = rebuild_report(folder)
        show(job, 1.0, time.monotonic() - started)
    print_json({"report": str(page)}) if as_json else typer.echo(page)


@app.command()
def inspect(
    path: Annotated[Path, typer.Argument(help="Any artefact folder.")],
    as_json: AsJson = False,
) -> None:
    """Say what an artefact is, how it was made, and whether it is intact.

    Example: rci inspect runs/point-quick/episodes
    """
    _describe(path, as_json, verify=True)


def _run(jobs: list[Any], as_json: bool) -> None:
    """Run jobs in this process, on one core like every worker, so that the result is the same."""
    from rci.run.engine import prepare_process
    from rci.run.jobs import run_job
    from rci.run.progress import show_progress

    prepare_process()
    with show_progress() as report:
        for job in jobs:
            if job.is_current():
                report(job, 1.0, None)
                continue
            started = time.monotonic()
            report(job, 0.0, 0.0)
            run_job(job, partial(_pass_on, report, job))
            report(job, 1.0, time.monotonic() - started)
    _describe(jobs[-1].output, as_json)


def _pass_on(report: Any, job: Any, share: float) -> None:
    report(job, min(share, 0.999), 0.0)


def _describe(path: Path, as_json: bool, verify: bool = False) -> None:
    from rci.run.describe import describe, describe_lines

    description = describe(path, verify)
    if as_json:
        print_json(description)
    else:
        print_text("\n".join(describe_lines(path, description)))


def main() -> None:
    """Run the command line: exit code 2 and one sentence for a user's mistake, 130 after Ctrl-C."""
    try:
        run_command(app, "rci")
    except SystemExit as end:
        if end.code == INTERRUPTED:
            typer.echo(
                "rci: stopped; finished artefacts are kept, and the same command continues from them.",
                err=True,
            )
        raise
