"""`rci run`: the whole pipeline as jobs, from recorded episodes to the report."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.errors import RciError, unknown_name
from rci.run.config import RunConfig
from rci.run.engine import Report, run_jobs
from rci.run.jobs import EVALUATION_SEEDS, ROLLOUT_SEEDS, SEED_STRIDE, Job


class Entry(NamedTuple):
    """One policy of the comparison."""

    method: str
    budget: float | str
    seed: int

    @property
    def name(self) -> str:
        return f"{self.method}-{self.budget}-seed{self.seed}"


def check_config(config: RunConfig) -> None:
    """Find mistakes in the settings before any work is done."""
    from rci.data.options import build
    from rci.labeling import NOISES
    from rci.learning import behaviour, parse_options
    from rci.learning.budget import parse_budget
    from rci.redistribution import parse_options as parse_redistributor
    from rci.tasks import get

    task = get(config.task)
    if config.collect.recipe not in task.recipes:
        raise unknown_name(f"recipe of {config.task}", config.collect.recipe, task.recipes)
    if config.label.noise not in (*NOISES, "clean"):
        raise unknown_name("label noise", config.label.noise, [*NOISES, "clean"])
    for method in config.compare.methods:
        options = redistributor_settings(config, method)
        parse_redistributor(options.pop("method"), options)
    learner = dict(config.learn)
    parse_options(learner.pop("method"), learner)
    build(behaviour.Config, config.behaviour, "behaviour")
    for budget in config.compare.budgets:
        parse_budget(budget)
    for section, name in (("collect", "episodes"), ("evaluate", "episodes"), ("evaluate", "rollouts")):
        if getattr(getattr(config, section), name) < 1:
            raise RciError(f"{section}.{name} must be at least 1.")
    limit = EVALUATION_SEEDS
    if max(config.collect.episodes, config.evaluate.episodes) > limit:
        raise RciError(f"at most {limit} episodes can be collected or evaluated without sharing a seed.")


def redistributor_settings(config: RunConfig, method: str) -> dict[str, Any]:
    """The settings of the redistributor behind a method of the comparison."""
    if method == "rci":
        return dict(config.redistribute)
    return {"method": "sparse" if method == "reward-only" else method}


def entries(config: RunConfig) -> list[Entry]:
    """Every policy to be trained. Reward-only has one budget, infinity."""
    return [
        Entry(method, budget, seed)
        for method in config.compare.methods
        for budget in ((math.inf,) if method == "reward-only" else config.compare.budgets)
        for seed in range(config.compare.seeds)
    ]


def plan(config: RunConfig, out: Path) -> list[Job]:
    """All jobs of a run, the slow ones that others wait for first."""
    base = config.seed * SEED_STRIDE
    episodes, labels, behaviour = out / "episodes", out / "labels", out / "behaviour"
    logged = {"episodes": episodes, "labels": labels}
    jobs = [
        Job(
            "collect",
            "collect",
            {
                "task_name": config.task,
                "episodes": config.collect.episodes,
                "recipe": config.collect.recipe,
            },
            base,
            {},
            episodes,
        ),
        Job(
            "label",
            "label",
            {"rule": config.task, "noise": config.label.noise},
            config.seed,
            {"episodes": episodes},
            labels,
            ("collect",),
        ),
        Job("behaviour", "behaviour", config.behaviour, config.seed, logged, behaviour, ("label",)),
    ]
    costs: dict[tuple[str, int], Job] = {}
    for entry in entries(config):
        settings = redistributor_settings(config, entry.method)
        made = settings["method"], entry.seed
        if made not in costs:
            name = f"costs-{made[0]}-seed{entry.seed}"
            costs[made] = Job(
                name,
                "redistribute",
                settings,
                config.seed + entry.seed,
                logged,
                out / "costs" / name[6:],
                ("label",),
            )
            jobs.append(costs[made])
    for entry in entries(config):
        cost = costs[redistributor_settings(config, entry.method)["method"], entry.seed]
        budget = str(entry.budget)
        learn = Job(
            f"learn-{entry.name}",
            "learn",
            {**config.learn, "budget": budget},
            config.seed + entry.seed,
            {**logged, "costs": cost.output, "behaviour": behaviour},
            out / "policies" / entry.name,
            (cost.name, "behaviour"),
        )
        policy = {"policy": learn.output}
        jobs += [
            learn,
            Job(
                f"evaluate-{entry.name}",
                "evaluate",
                {"task": config.task, "episodes": config.evaluate.episodes},
                base + EVALUATION_SEEDS,
                policy,
                out / "scores" / entry.name,
                (learn.name,),
            ),
        ]
        if entry.seed == 0:
            jobs.append(
                Job(
                    f"rollouts-{entry.name}",
                    "rollouts",
                    {"task": config.task, "episodes": config.evaluate.rollouts},
                    base + ROLLOUT_SEEDS,
                    policy,
                    out / "rollouts" / entry.name,
                    (learn.name,),
                )
            )
    return jobs


def run_pipeline(
    config: RunConfig, out: Path, workers: int | None, report: Report, command: str = ""
) -> Path:
    """Run what is not yet done and write the report; the path of its page."""
    from rci.run.summary import write_summary

    check_config(config)
    prepare_folder(out)
    write_json(out / "config.json", {"command": command, "settings": config.as_table()})
    timings = read_timings(out)

    def note(job: Job, share: float, seconds: float | None) -> None:
        if share == 1.0 and seconds is not None:
            timings[job.name] = round(seconds, 3)
            write_json(out / "timings.json", timings)
        report(job, share, seconds)

    run_jobs(plan(config, out), workers, note)
    page = Job(
        "report", "report", {}, config.seed, {}, out / "report"
    )  # not an artefact: written anew each time
    report(page, 0.0, 0.0)
    started = time.monotonic()
    path = write_summary(config, out, command)
    report(page, 1.0, time.monotonic() - started)
    return path


def prepare_folder(out: Path) -> None:
    """Make the run's folder, or say why it cannot be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise RciError(f"cannot write to {out}: {error.strerror or error}.") from None


def read_timings(out: Path) -> dict[str, float]:
    """Seconds that each job took when it was last run."""
    path = out / "timings.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def write_json(path: Path, value: Any) -> None:
    """Write a small file whole or not at all."""
    temporary = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    temporary.write_text(json.dumps(value, indent=1, sort_keys=True, default=str) + "\n", encoding="utf-8")
    os.replace(temporary, path)
