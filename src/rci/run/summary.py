"""Gather the artefacts of a finished run into its table of results and its report."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from rci.data import store
from rci.data.errors import RciError
from rci.data.options import build
from rci.data.types import Scores, StepCosts, kept_rows
from rci.run.config import RunConfig
from rci.run.jobs import oracle_of
from rci.run.pipeline import Entry, entries, read_timings, redistributor_settings, write_json


def write_summary(config: RunConfig, out: Path, command: str) -> Path:
    """Write results.json and report/index.html of a run whose jobs are all done."""
    from rci.evaluation.stats import clopper_pearson
    from rci.reporting.contents import MethodResult, ReportInput
    from rci.reporting.page import write_report
    from rci.tasks import get

    scores = {entry: store.read(out / "scores" / entry.name, "scores") for entry in entries(config)}
    write_json(out / "results.json", result_rows(config, scores))
    results = []
    for (method, budget), group in groupby(entries(config), key=lambda entry: (entry.method, entry.budget)):
        members = list(group)
        mine = tuple(scores[entry] for entry in members)
        violations, episodes = sum(int(s.violated.sum()) for s in mine), sum(len(s) for s in mine)
        policies = [store.read_manifest(out / "policies" / entry.name)["meta"]["info"] for entry in members]
        results.append(
            MethodResult(
                method=method,
                budget=budget,
                scores=mine,
                violation_interval=clopper_pearson(violations, episodes),
                rollouts=store.read(out / "rollouts" / members[0].name, "episodes"),
                multipliers=tuple(float(info["multiplier"]) for info in policies),
            )
        )
    episodes, labels = store.read(out / "episodes", "episodes"), store.read(out / "labels", "labels")
    risk = get(config.task).risk
    return write_report(
        ReportInput(
            task=config.task,
            title=f"RCI on {config.task}",
            settings=config.as_table(),
            command=command,
            versions=store.read_manifest(out / "labels")["provenance"]["versions"],
            timings=stage_seconds(read_timings(out)),
            episodes=episodes,
            oracle=store.read(oracle_of(out / "episodes"), "oracle"),
            labels=labels,
            costs=read_costs(config, out),
            risk=None if risk is None else risk(episodes)[kept_rows(episodes, labels)],
            results=tuple(results),
        ),
        out / "report",
    )


def rebuild_report(out: Path) -> Path:
    """Write the report of a finished run again."""
    path = out / "config.json"
    if not path.is_file():
        raise RciError(f"{out} is not the folder of a run: it has no config.json.")
    saved = json.loads(path.read_text())
    return write_summary(build(RunConfig, saved["settings"], str(path)), out, saved["command"])


def read_costs(config: RunConfig, out: Path) -> dict[str, StepCosts]:
    """The step costs of the first seed, by method of the comparison."""
    methods = [method for method in config.compare.methods if method != "reward-only"]
    return {
        method: store.read(
            out / "costs" / f"{redistributor_settings(config, method)['method']}-seed0", "costs"
        )
        for method in methods
    }


def result_rows(config: RunConfig, scores: dict[Entry, Scores]) -> list[dict[str, Any]]:
    """One row of plain numbers per evaluated policy."""
    from rci.evaluation.stats import normalised_returns

    normalised = normalised_returns(np.array([s.mean_return for s in scores.values()]))
    return [
        {
            "experiment": "run",
            "task": config.task,
            "dataset": config.collect.recipe,
            "noise": config.label.noise,
            "method": entry.method,
            "learner": config.learn["method"],
            "budget": str(entry.budget),
            "seed": entry.seed,
            "selected": True,
            "episodes": len(score),
            "violation_rate": score.violation_rate,
            "mean_return": score.mean_return,
            "mean_return_until_stop": score.mean_return_until_stop,
            "return_norm": float(norm),
        }
        for (entry, score), norm in zip(scores.items(), normalised)
    ]


def stage_seconds(timings: dict[str, float]) -> dict[str, float]:
    """Seconds per stage, summed over its jobs."""
    total: dict[str, float] = {}
    for name, seconds in timings.items():
        stage = {"costs": "redistribute"}.get(name.split("-")[0], name.split("-")[0])
        total[stage] = total.get(stage, 0.0) + seconds
    return total
