"""The study of one training for every budget: is what was asked for kept, and what is left of the return?

For every seed logs are recorded anew (demonstrators, episodes) and labelled, and one policy is trained on the labels
alone, or on step costs that a redistributor makes of them. Then it is given budget after budget, and each is tested on
episodes that had no part in anything before. A row is written as soon as a test is done; rows that are there are not
computed again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rci.data import store
from rci.data.errors import RciError
from rci.engines.engine import LOCAL, Engine, Report
from rci.pipeline.commands.comparison import Variant, parse_variants
from rci.pipeline.config import RunConfig, config_of
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.jobs import Job
from rci.pipeline.results.rows import RESULTS, Row
from rci.studies.study import OnProgress, RowsFile, Study, complete, key_from, silent

VERSION = 4  # to be raised when something outside of the settings changes what policies are
BUDGETS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, math.inf)
SEEDS, EPISODES = 5, 1000
# Where a preset is for a first look, here is what the study records and trains.
SCALE: dict[str, dict[str, Any]] = {
    "highway": {"collect": {"episodes": 5000}},
    "fetch-reach": {"collect": {"episodes": 3000}},
    "point": {"collect": {"episodes": 2000}},
}
LEARN = {"method": "feasible", "updates": 20_000}
BEHAVIOUR = {"updates": 10_000, "proposals": 0}


class Cell(NamedTuple):
    """One policy."""

    seed: int
    budget: float


SPARSE = Variant("sparse", "sparse", {})  # the labels as they are


def suffix_of(costs: Variant) -> str:
    """Of the names of what depends on the step costs."""
    return "" if costs == SPARSE else f"-{costs.folder}"


def study_config(task: str, options: Mapping[str, Any] | None = None) -> RunConfig:
    """What is recorded and trained; options: settings of the learner."""
    from rci.learning import parse_options
    from rci.tasks import get

    known = get(task)
    family = known.variant_of or task
    base = config_of(task, "quick", [SCALE.get(family, {})])
    task_settings = {name: base.learn[name] for name in ("cost_expectile",) if name in base.learn}
    learn = {**LEARN, **task_settings, **(options or {})}
    parse_options(learn["method"], {k: v for k, v in learn.items() if k != "method"})
    layers = {"behaviour": BEHAVIOUR, "learn": learn}
    return RunConfig(**{**vars(base), **layers})


def parse_costs(text: str) -> Variant:
    """Step costs to train on, such as rudder or rudder:loss=prefix."""
    variants = parse_variants(text, risk_known=False)
    if len(variants) != 1:
        raise RciError(f"--costs takes one redistributor, such as rudder:loss=prefix; got {text!r}.")
    return variants[0]


def key_of(cell: Cell, config: RunConfig, episodes: int, costs: Variant = SPARSE) -> str:
    """What identifies the row of a policy."""
    table = config.as_table()
    parts = {name: table[name] for name in ("task", "collect", "ppo", "label", "behaviour", "learn")}
    identity = [VERSION, parts, cell.seed, str(cell.budget), episodes]
    if costs != SPARSE:
        identity.append({"method": costs.method, **costs.options})
    return key_from(identity)


def jobs_of(
    seed: int, cells: Sequence[Cell], config: RunConfig, episodes: int, out: Path, costs: Variant = SPARSE
) -> list[Job]:
    """Everything from the demonstrators to the tests of one seed."""
    from rci.collection.recipe import needs_demonstrators

    at, suffix = out / f"seed{seed}", suffix_of(costs)

    def job(name: str, stage: str, settings: dict[str, Any], **inputs: str) -> Job:
        paths = {kind: at / place for kind, place in inputs.items()}
        needs = tuple(f"{place}-seed{seed}" for place in inputs.values())
        return Job(f"{name}-seed{seed}", stage, settings, seed, paths, at / name, needs)

    logged = {"episodes": "episodes", "labels": "labels"}
    recipe = config.collect.recipe
    recording = {"task_name": config.task, "episodes": config.collect.episodes, "recipe": recipe}
    jobs, demonstrators = list[Job](), dict[str, str]()
    if needs_demonstrators(config.task, recipe):
        jobs.append(job("demonstrators", "demonstrators", {"task_name": config.task, **config.ppo}))
        demonstrators = {"demonstrators": "demonstrators"}
    jobs += [
        job("episodes", "collect", recording, **demonstrators),
        job("labels", "label", {"rule": config.task, "noise": config.label.noise}, episodes="episodes"),
        job("behaviour", "behaviour", dict(config.behaviour), **logged),
        job(f"costs{suffix}", "redistribute", {"method": costs.method, **costs.options}, **logged),
        job(
            f"policy{suffix}",
            "learn",
            {**config.learn, "budget": "inf"},
            **logged,
            costs=f"costs{suffix}",
            behaviour="behaviour",
        ),
    ]
    for cell in cells:
        policy, scores = f"policy-{cell.budget:g}{suffix}", f"scores-{cell.budget:g}{suffix}"
        jobs.append(job(policy, "limit", {"budget": str(cell.budget)}, policy=f"policy{suffix}"))
        test = {"task": config.task, "episodes": episodes}
        jobs.append(job(scores, "evaluate", test, policy=policy))
    return jobs


def study_of(
    asked: Sequence[Cell], config: RunConfig, episodes: int, folder: Path, costs: Variant = SPARSE
) -> Study[Cell]:
    """The policies of these cells, seed after seed."""
    suffix = suffix_of(costs)

    def plan(missing: Sequence[Cell]) -> Iterator[Job]:
        for seed in sorted({cell.seed for cell in missing}):
            yield from jobs_of(
                seed, [cell for cell in missing if cell.seed == seed], config, episodes, folder, costs
            )

    def training(cell: Cell) -> str:
        return f"policy{suffix}-seed{cell.seed}"

    return Study(
        asked,
        lambda cell: key_of(cell, config, episodes, costs),
        plan,
        training,
        lambda cell: [f"scores-{cell.budget:g}{suffix}-seed{cell.seed}"],
        lambda cell, seconds: row_of(
            cell, config, folder / f"seed{cell.seed}", episodes, seconds.get(training(cell)), costs
        ),
    )


def run_study(
    task: str,
    seeds: int = SEEDS,
    episodes: int = EPISODES,
    budgets: Sequence[float] = BUDGETS,
    out: Path | None = None,
    rows: Path | None = None,
    options: Mapping[str, Any] | None = None,
    engine: Engine = LOCAL,
    report: Report = lambda job, share, seconds: None,
    on_progress: OnProgress = silent,
    first_seed: int = 0,
    costs: str = SPARSE.text,
) -> list[Row]:
    """Rows of all policies that were asked for; those that have none yet are trained and tested."""
    folder = out or Path("runs") / f"one-training-{task}"
    asked = [Cell(seed, budget) for seed in range(first_seed, first_seed + seeds) for budget in budgets]
    study = study_of(asked, study_config(task, options), episodes, folder, parse_costs(costs))
    file = RowsFile(rows or rows_file(task))
    prepare_folder(folder)
    with alone_in(folder):
        complete(study, file, folder, engine, report, on_progress)
    return file.of(study)


def rows_file(task: str) -> Path:
    """Where the rows of a task are kept, seen from the folder that one works in."""
    return RESULTS / f"one-training-{task}.json"


def row_of(
    cell: Cell, config: RunConfig, at: Path, episodes: int, seconds: float | None, costs: Variant
) -> Row:
    """What the test of a policy says, and what was expected of it."""
    from rci.evaluation.stats import clopper_pearson

    scores = store.read(at / f"scores-{cell.budget:g}{suffix_of(costs)}", "scores")
    info = store.read_manifest(at / f"policy-{cell.budget:g}{suffix_of(costs)}")["meta"]["info"]
    labels = store.read(at / "labels", "labels")
    violations = int(scores.violated.sum())
    low, high = clopper_pearson(violations, len(scores))
    return {
        "key": key_of(cell, config, episodes, costs),
        "task": config.task,
        "costs": costs.text,
        "seed": cell.seed,
        "budget": str(cell.budget),
        "threshold": info["threshold"],
        "kept": info["kept"],
        "expected_violation": info["expected_violation"],
        "violation_bound": info["violation_bound"],
        "episodes": len(scores),
        "violations": violations,
        "violation_rate": scores.violation_rate,
        "violation_low": low,
        "violation_high": high,
        "mean_return": scores.mean_return,
        "mean_return_until_stop": scores.mean_return_until_stop,
        "logged_stop_rate": float(labels.stopped.mean()),
        "training_seconds": None if seconds is None else round(seconds, 1),
    }


def budget_table(rows: Sequence[Row]) -> str:
    """One line for each budget, over its seeds: what was asked, what was expected, what came."""
    from rci.reporting.markdown import table

    heads = (
        "budget",
        "violations",
        "seeds from to",
        "expected",
        "return",
        "until the first violation",
        "kept",
    )
    lines = []
    for budget in dict.fromkeys(row["budget"] for row in rows):
        group = [row for row in rows if row["budget"] == budget]
        rates = [row["violation_rate"] for row in group]
        within = sum(rate <= float(budget) for rate in rates)
        lines.append(
            (
                budget,
                f"{_mean(group, 'violation_rate'):.1%}",
                f"{min(rates):.1%} to {max(rates):.1%}",
                f"{_mean(group, 'expected_violation'):.1%}",
                f"{_mean(group, 'mean_return'):.4g}",
                f"{_mean(group, 'mean_return_until_stop'):.4g}",
                "" if budget == "inf" else f"{within} of {len(group)}",
            )
        )
    return table(heads, lines)


def floor_of(task: str) -> float:
    """The return that counts as nothing: 0, or where rewards are negative that of random actions (`rci reference`)."""
    from rci.tasks import get

    return {"fetch-reach": -11.1}.get(get(task).variant_of or task, 0.0)


def verdicts(rows: Sequence[Row], floor: float) -> list[str]:
    """What the rows say of the promises, one sentence each; a budget is one for all seeds.

    floor: the return that counts as nothing (0, or that of random actions where rewards are negative).
    """
    from rci.evaluation.stats import welch_t_test

    budgets = {
        budget: [r for r in rows if r["budget"] == budget]
        for budget in dict.fromkeys(r["budget"] for r in rows)
    }
    free = budgets.pop("inf", [])
    if not free or not budgets:
        return []
    blind, without = _mean(free, "mean_return"), _mean(free, "violation_rate")
    sentences = []
    for share in (0.95, 0.8):
        keeping = [
            b
            for b, group in budgets.items()
            if _mean(group, "mean_return") >= floor + share * (blind - floor)
        ]
        if not keeping:
            sentences.append(f"no budget keeps {share:.0%} of the return without one.")
            continue
        best = min(keeping, key=lambda b: _mean(budgets[b], "violation_rate"))
        group = budgets[best]
        kept, rate = (_mean(group, "mean_return") - floor) / (blind - floor), _mean(group, "violation_rate")
        fold = f"{without / rate:.1f} times fewer" if rate > 0 else "none at all"
        sentences.append(
            f"at {share:.0%} or more of the return: a budget of {best} keeps {kept:.1%} of it and violates in "
            f"{rate:.1%} (seeds up to {max(r['violation_rate'] for r in group):.1%}), where it is {without:.1%} "
            f"without: {fold}."
        )
        if len(group) > 1 and len(free) > 1:
            until = [[float(r["mean_return_until_stop"]) for r in each] for each in (group, free)]
            p_value = welch_t_test(*until)[2]
            sentences.append(
                f"until the first violation that earns {_mean(group, 'mean_return_until_stop'):.4g}, against "
                f"{_mean(free, 'mean_return_until_stop'):.4g} without (Welch, p = {p_value:.2g})."
            )
    asked = [row for row in rows if row["budget"] in ("0.05", "0.1", "0.2")]
    if asked:
        kept_budgets = sum(row["violation_rate"] <= float(row["budget"]) for row in asked)
        used = sum(row["violation_rate"] / float(row["budget"]) for row in asked) / len(asked)
        sentences.append(
            f"budgets of 5%, 10% and 20%: kept in {kept_budgets} of {len(asked)}; on average {used:.0%} of them "
            "used."
        )
    return sentences


def _mean(rows: Sequence[Row], name: str) -> float:
    return sum(float(row[name]) for row in rows) / len(rows)
