"""Single stages around the learning: `rci collect`, `rci label`, `rci evaluate`; and `rci inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from rci.cli.command_jobs import Shown, run_here, show
from rci.data.errors import RciError
from rci.pipeline.commands.command_line import AsJson, Out, Overwrite, Seed, Settings, Verbose


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
    verbose: Verbose = False,
    overwrite: Overwrite = False,
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
    run_here(jobs, Shown(as_json, verbose, overwrite))


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
    verbose: Verbose = False,
    overwrite: Overwrite = False,
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
    run_here(
        [Job("label", "label", settings, seed, {"episodes": episodes}, out)],
        Shown(as_json, verbose, overwrite),
    )


def evaluate(
    policy: Annotated[Path, typer.Argument(help="A trained policy.")],
    task: Annotated[str, typer.Option(help="Task to test it on.")],
    out: Out,
    episodes: Annotated[int, typer.Option(min=1, help="How many episodes.")] = 1000,
    seed: Seed = 0,
    verbose: Verbose = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Test a policy on fresh episodes of a task, with the true rule.

    Example: rci evaluate runs/demo/policy --task point --out runs/demo/scores
    """
    from rci.pipeline.jobs import Job
    from rci.tasks import get

    get(task)
    settings = {"task": task, "episodes": episodes}
    run_here(
        [Job("evaluate", "evaluate", settings, seed, {"policy": policy}, out)],
        Shown(as_json, verbose, overwrite),
    )


def inspect(
    path: Annotated[Path, typer.Argument(help="Any artefact folder.")], as_json: AsJson = False
) -> None:
    """Say what an artefact is, how it was made, and whether it is intact.

    Example: rci inspect runs/point-quick/episodes
    """
    show(path, as_json, verbose=True, verify=True)
