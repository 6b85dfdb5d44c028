"""Policies from logs alone: `rci learn` and `rci select`. Heavy imports happen inside them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rci.cli.command_jobs import Shown, run_here
from rci.data.errors import RciError
from rci.pipeline.commands.command_line import (
    AsJson,
    Log,
    Out,
    Overwrite,
    Seed,
    Settings,
    Verbose,
    print_json,
    print_text,
    warn,
)


def learn(
    episodes: Annotated[Path, typer.Argument(help="Recorded episodes.")],
    labels: Annotated[Path, typer.Argument(help="Their labels.")],
    costs: Annotated[Path, typer.Argument(help="Their step costs.")],
    out: Out,
    budget: Annotated[
        str,
        typer.Option(
            help="Allowed violation probability such as 0.05 or 5%, inf, or P0 to P100; by channel: "
            "proximity=5%,road=1%; several: 1%,5%."
        ),
    ] = "0.05",
    method: Annotated[str, typer.Option(help="Which learner.")] = "feasible",
    behaviour: Annotated[Path | None, typer.Option(help="Fitted behaviour model [LABELS-behaviour].")] = None,
    demonstrations: Annotated[
        Path | None, typer.Option(help="Episodes that a person drove, from `rci labels takeovers`.")
    ] = None,
    settings: Settings = [],  # noqa: B006
    seed: Seed = 0,
    log: Log = None,
    verbose: Verbose = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Train a policy that stays within the budget, from logs alone.

    Several budgets are several policies, OUT/0.01 and so on; one training serves all where the learner allows it. Exit
    code 3: no threshold is expected to keep a budget; the policy is written all the same, and marked.

    The behaviour model is fitted first, unless it is there: one beside the labels serves every budget and seed.
    Its settings are those that begin with "behaviour.". Learners that need none fit none. With demonstrations it stands
    in LABELS-behaviour-human; how often their steps are drawn is set by demonstration_weight, for each of the two.

    Example: rci learn runs/demo/episodes runs/demo/labels runs/demo/costs --budget 0.1 --out runs/demo/policy
    """
    from rci.engines.cores import prepare_process
    from rci.pipeline.config import stage_flags
    from rci.pipeline.jobs import Job

    prepare_process()  # before anything imports JAX
    from rci.data.risk.budgets import limits, refuse_percentiles, split_budgets
    from rci.data.store import read
    from rci.learning import LEARNERS, parse_options
    from rci.learning.behaviour import parse_behaviour
    from rci.learning.demonstrations import check_demonstrations, refuse_useless
    from rci.learning.learners import refuse_unweighed
    from rci.pipeline.results.tracking import experiment, log_job
    from rci.pipeline.trainings import all_kept, training_jobs, training_remarks
    from rci.reporting.trackers.tracker import open_tracker

    options = stage_flags(settings)
    model_options = options.pop("behaviour", {})
    if behaviour is not None and model_options:
        raise RciError("a behaviour model that is given cannot be given settings as well.")
    parse_options(method, options)
    parse_behaviour(model_options)
    for each in (options, model_options):
        refuse_useless(list(each), demonstrations)
    proposes = LEARNERS[method].proposes
    if not proposes and (behaviour is not None or model_options):
        raise RciError(
            f"{method!r} uses no behaviour model, so leave out --behaviour and behaviour.* settings."
        )
    budgets = split_budgets(budget)
    whose = "" if demonstrations is None else "-human"
    model = behaviour or labels.with_name(f"{labels.name}-behaviour{whose}")
    step_costs = read(costs, "costs")  # checked before the behaviour model is fitted for nothing
    step_costs.check_parent(read(labels, "labels"))
    for each in budgets:
        allowed = limits(each, step_costs.channels)
        if LEARNERS[method].settle is not None:
            refuse_percentiles(repr(method), allowed)
    logged = {"episodes": episodes, "labels": labels}
    if demonstrations is not None:
        refuse_unweighed(method)
        check_demonstrations(read(demonstrations, "episodes"), read(episodes, "episodes"))
        logged["human"] = demonstrations
    inputs = {**logged, "costs": costs, **({"behaviour": model} if proposes else {})}
    jobs = (
        [Job("behaviour", "behaviour", model_options, 0, logged, model)] if proposes and not behaviour else []
    )
    trainings = training_jobs({"method": method, **options}, budgets, seed, inputs, out)
    outputs = [out] if len(budgets) == 1 else [out / each for each in budgets]
    every_job = [*jobs, *trainings.values()]
    config = {"method": method, "budget": budget, "seed": seed, **options, "behaviour": model_options}
    tracker = open_tracker(log, out.parent, warn)
    with experiment(tracker, out.name, config):
        run_here(every_job, Shown(as_json, verbose, overwrite), outputs)
        for job in every_job:
            log_job(tracker, job, Path(job.output.name))
    for remark in training_remarks(outputs, model if proposes else None):
        typer.echo(f"rci: {remark}", err=True)
    if not all_kept(outputs):
        raise typer.Exit(3)


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
    """Choose among trained policies from logs alone, by the estimated chance of a stop and the judged return.

    Where none is within the budget, none is chosen, and the exit code is 3.

    Example: rci select runs/demo/episodes runs/demo/labels runs/demo/costs runs/demo/policy runs/demo/other
    --budget 0.1
    """
    from rci.engines.cores import prepare_process
    from rci.pipeline.config import stage_flags

    prepare_process()  # before anything imports JAX
    from rci.pipeline.commands.selection import select_policies, selection_remarks, selection_table

    inputs = {"episodes": episodes, "labels": labels, "costs": costs}
    chosen = select_policies(inputs, policies, budget, rule, share, stage_flags(settings), seed)
    if as_json:
        print_json(chosen)
    else:
        print_text(selection_table(chosen))
        if chosen["chosen"] is not None:
            typer.echo(chosen["chosen"])
    for remark in selection_remarks(chosen):
        typer.echo(f"rci: {remark}", err=True)
    if chosen["chosen"] is None:
        raise typer.Exit(3)
