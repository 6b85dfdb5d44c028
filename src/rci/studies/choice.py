"""Can a policy be chosen from logs alone? Judged numbers beside those of a simulator that the judge never sees.

Policies of two settings, several budgets and several seeds are trained on one dataset. Each is judged from the logs
(by the step costs that it was trained on, and by the sparse ones), scored on selection episodes, by which somebody
with a simulator would choose, and on evaluation episodes, which nobody chooses by. Then:

- how well judged costs and returns rank the policies, beside what the policies' own critics predict;
- for many small sets of candidates, drawn at random from all of them, which one each way of choosing takes for a
  budget: how often the same as the simulator's, and what that costs in violations and return. The rule is one for
  all. The sets overlap, so the figures say nothing of how they would vary with other policies.

What has a row in judgements.json is not done again.

python -m rci.studies.choice --task point --out runs/agreement-point
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from rci.data import store
from rci.data.errors import RciError
from rci.data.record import Array
from rci.engines.cores import prepare_process
from rci.engines.engine import Engine
from rci.engines.progress import show_study
from rci.pipeline.commands.command_line import run_command
from rci.pipeline.config import PAPERS_LEARNER, RunConfig, load_config, parse_flags
from rci.pipeline.folder import alone_in, prepare_folder, write_json
from rci.pipeline.jobs import Job
from rci.pipeline.plan import check_config, plan, redistributor_settings
from rci.pipeline.results.rows import Row
from rci.studies.study import RowsFile, Study, complete, key_from

# Of the learners, over those of the run; another learner is named by its "method".
SETTINGS: dict[str, dict[str, Any]] = {"critic": {"variant": "critic"}, "penalised": {"variant": "penalised"}}
LEARNER = "bcq-lagrangian"
BUDGETS = (0.02, 0.05, 0.1, 0.2, 0.4, math.inf)  # that policies are trained for
ASKED = (0.05, 0.1, 0.2, 0.4)  # that a policy is chosen for
JUDGES = ("rci", "sparse")  # whose step costs a policy is judged by; the first are those of its training
SHARED = ("demonstrators", "collect", "label", "behaviour")
CANDIDATES, DRAWS = 5, 1000  # in a set to choose from, and how many sets


class Candidate(NamedTuple):
    """One policy of the study."""

    setting: str
    budget: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.setting}-{self.budget:g}-seed{self.seed}"


def candidates(budgets: Sequence[float], seeds: int) -> list[Candidate]:
    """Every policy to be trained."""
    return [Candidate(setting, b, seed) for setting in SETTINGS for b in budgets for seed in range(seeds)]


def plan_study(
    config: RunConfig, wanted: Sequence[Candidate], selection: int, evaluation: int, work: Path
) -> list[Job]:
    """Record, label and redistribute once; train every policy and score it on both kinds of episodes."""
    jobs = [job for job in plan(config, work) if job.stage in SHARED]
    logged = {"episodes": work / "episodes", "labels": work / "labels"}
    for method in JUDGES:
        settings, output = redistributor_settings(config, method), work / "costs" / method
        jobs.append(Job(f"costs-{method}", "redistribute", settings, config.seed, logged, output, ("label",)))
    inputs = {**logged, "behaviour": work / "behaviour", "costs": work / "costs" / JUDGES[0]}
    for one in wanted:
        learn, policy = f"learn-{one.name}", work / "policies" / one.name
        settings = {**learner_settings(config, one.setting), "budget": str(one.budget)}
        needs = (f"costs-{JUDGES[0]}", "behaviour")
        jobs.append(Job(learn, "learn", settings, one.seed, inputs, policy, needs))
        for purpose, episodes in (("selection", selection), ("evaluation", evaluation)):
            # One seed for all policies: they meet the same episodes, so that luck favours none of them.
            test = {"task": config.task, "episodes": episodes, "purpose": purpose}
            name, output = f"{purpose}-{one.name}", work / purpose / one.name
            jobs.append(Job(name, "evaluate", test, config.seed, {"policy": policy}, output, (learn,)))
    return jobs


def learner_settings(config: RunConfig, setting: str) -> dict[str, Any]:
    """Those of the run as far as this learner has them, and over them its own."""
    from rci.learning import settings_of

    overrides = {"method": config.learn["method"], **SETTINGS[setting]}
    return {
        **{name: value for name, value in config.learn.items() if name in settings_of(overrides["method"])},
        **overrides,
    }


def judged_row(one: Candidate, work: Path, judging: dict[str, Any], prepared: dict[str, Any]) -> Row:
    """What the logs and the policy's own critics say of one policy."""
    from rci import load
    from rci.learning.judging.fqe import judge_prepared

    policy = load(work / "policies" / one.name)
    row: Row = {**one._asdict(), "budget": str(one.budget), "policy_hash": policy.hash, "judging": judging}
    for method, logs in prepared.items():
        judged = judge_prepared(policy, logs, **judging)
        row |= {
            f"{method}_return": judged.expected_return,
            f"{method}_cost": judged.expected_cost[0],
            f"{method}_return_td_error": judged.return_td_error,
            f"{method}_cost_td_error": judged.cost_td_error[0],
        }
    predicted = policy.info.get("cost_estimate", policy.info.get("predicted_cost"))
    return row | {"own_return": policy.info.get("predicted_return"), "own_cost": predicted}


def scored_row(one: Candidate, work: Path) -> Row:
    """What the simulator says of one policy."""
    row: Row = {}
    for purpose in ("selection", "evaluation"):
        scores = store.read(work / purpose / one.name, "scores")
        row |= {f"{purpose}_return": scores.mean_return, f"{purpose}_cost": scores.violation_rate}
    return row


def choosers(rows: Sequence[Row]) -> list[str]:
    """Who can choose among these policies without a simulator: the judges, and critics if all policies have some."""
    critics = ["own"] if all(row["own_cost"] is not None for row in rows) else []
    return [*JUDGES, *critics]


def correlations(rows: Sequence[Row]) -> list[Row]:
    """How well each chooser's costs and returns rank the policies, against the evaluation episodes."""
    from rci.evaluation.localisation import rank_correlation

    def ranks(who: str, what: str) -> float:
        return rank_correlation(_column(rows, f"{who}_{what}"), _column(rows, f"evaluation_{what}"))

    def bias(who: str) -> float:
        return float(np.mean(_column(rows, f"{who}_cost") - _column(rows, "evaluation_cost")))

    return [
        {
            "chooser": who,
            "policies": len(rows),
            "cost_correlation": ranks(who, "cost"),
            "return_correlation": ranks(who, "return"),
            "cost_bias": bias(who),
        }
        for who in (*choosers(rows), "selection")
    ]


def choices(rows: Sequence[Row], budget: float, sets: Sequence[Array]) -> list[Row]:
    """What each way of choosing takes from each set of candidates, on average over the sets.

    sets: indices of rows. The figures are those of the evaluation episodes: the violation rate and return of what was
    chosen, how often its violation rate is over the budget, and how much worse it is than what the simulator takes by
    the selection episodes. `random` is the average over all candidates of a set.
    """
    from rci.learning.judging.selection import choose_best

    cost, earned = _column(rows, "evaluation_cost"), _column(rows, "evaluation_return")

    def taken(who: str, part: Array) -> int:
        estimates = _column(rows, f"{who}_return")[part], _column(rows, f"{who}_cost")[part]
        return int(part[choose_best(estimates[0], estimates[1][:, None], np.array([budget]))])

    right = [taken("selection", part) for part in sets]
    found = []
    for who in (*choosers(rows), "selection", "random"):
        # Each choice as weights over a set, so that choosing at random is one too.
        weights = [
            np.full(len(part), 1 / len(part)) if who == "random" else (part == taken(who, part)).astype(float)
            for part in sets
        ]
        violation, gain, over, same = (
            float(np.mean([w @ numbers for w, numbers in zip(weights, of_sets)]))
            for of_sets in (
                [cost[part] for part in sets],
                [earned[part] for part in sets],
                [(cost[part] > budget).astype(float) for part in sets],
                [(part == best).astype(float) for part, best in zip(sets, right)],
            )
        )
        found.append(
            {
                "chooser": who,
                "budget": budget,
                "candidates": len(sets[0]),
                "sets": len(sets),
                "same_choice": same,
                "violation_rate": violation,
                "return": gain,
                "over_budget": over,
                "violation_regret": violation - float(np.mean(cost[right])),
                "return_regret": float(np.mean(earned[right])) - gain,
            }
        )
    return found


def draw_sets(count: int, size: int, draws: int, seed: int = 0) -> list[Array]:
    """Sets of different candidates, the same for every budget; all of them once where these are too few."""
    if size >= count:
        return [np.arange(count)]
    rng = np.random.default_rng(seed)
    return [np.sort(rng.choice(count, size, replace=False)) for _ in range(draws)]


def summarise(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Everything that the rows say: from small sets, and from all policies at once."""
    small, whole = draw_sets(len(rows), CANDIDATES, DRAWS), [np.arange(len(rows))]
    return {
        "correlations": correlations(rows),
        "choices": [row for budget in ASKED for row in choices(rows, budget, small)],
        "choices_of_all": [row for budget in ASKED for row in choices(rows, budget, whole)],
    }


def agreement_table(summary: dict[str, list[Row]]) -> str:
    """The summary as Markdown tables."""
    return "\n\n".join(_table(summary[name]) for name in ("correlations", "choices"))


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def study(
    task: Annotated[str, typer.Option(help="Which task, such as point.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder of the study; rows are in agreement.json.")
    ],
    preset: Annotated[str, typer.Option(help="Settings shipped under a name.")] = "quick",
    seeds: Annotated[int, typer.Option(min=1, help="Policies of each setting and budget.")] = 3,
    selection: Annotated[int, typer.Option(min=1, help="Episodes to choose by.")] = 200,
    evaluation: Annotated[int, typer.Option(min=1, help="Episodes to report.")] = 1000,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting, as for rci run.")
    ] = [],  # noqa: B006 (typer copies it)
    judge: Annotated[
        list[str], typer.Option("--judge", metavar="KEY=VALUE", help="A setting of the judgement.")
    ] = [],  # noqa: B006
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes [one per core].")] = None,
) -> None:
    """Train policies, judge them from logs, and see what a simulator makes of the choice."""
    from rci.learning.judging.fqe import parse_options
    from rci.tasks import get

    if get(task).channels:
        raise RciError(f"the task {task!r} has several kinds of danger; the study is about one at a time.")
    config, judging = load_config(task, preset, flags=[*PAPERS_LEARNER, *settings]), parse_flags(judge)
    check_config(config)
    parse_options(judging)
    if config.learn["method"] != LEARNER:
        raise RciError(
            f"the study compares variants of {LEARNER!r}; {config.learn['method']!r} has none of them."
        )
    prepare_folder(out)
    policies = study_of(config, candidates(BUDGETS, seeds), selection, evaluation, out, judging)
    file = RowsFile(out / "judgements.json")
    with alone_in(out), show_study() as (report, on_progress):
        complete(policies, file, out, Engine(workers=workers), report, on_progress)
    rows = file.of(policies)
    summary = summarise(rows)
    write_json(out / "agreement.json", {"task": task, "rows": rows, **summary})
    typer.echo(agreement_table(summary))
    typer.echo(out / "agreement.json")


def study_of(
    config: RunConfig,
    wanted: Sequence[Candidate],
    selection: int,
    evaluation: int,
    work: Path,
    judging: dict[str, Any],
) -> Study[Candidate]:
    """Every policy: trained, scored on both kinds of episodes, and judged here."""
    logs = cache(lambda: prepare_judges(work, judging))

    def key(one: Candidate) -> str:
        settings = {**config.as_table(), "learn": learner_settings(config, one.setting)}
        return key_from([settings, one._asdict(), selection, evaluation, judging])

    def row(one: Candidate, seconds: Mapping[str, float]) -> Row:
        prepare_process()  # judgements come from one core, as everything does
        return {**judged_row(one, work, judging, logs()), **scored_row(one, work), "key": key(one)}

    return Study(
        wanted,
        key,
        lambda missing: plan_study(config, missing, selection, evaluation, work) if missing else (),
        lambda one: f"learn-{one.name}",
        lambda one: [
            *(f"costs-{method}" for method in JUDGES),
            f"selection-{one.name}",
            f"evaluation-{one.name}",
        ],
        row,
    )


def prepare_judges(work: Path, judging: dict[str, Any]) -> dict[str, Any]:
    """The logs with the step costs of each judge."""
    from rci.learning.judging.fqe import prepare

    episodes, labels = (store.read(work / kind, kind) for kind in ("episodes", "labels"))
    prepared = {}
    for method in JUDGES:
        costs = store.read(work / "costs" / method, "costs")
        if costs.unit != "cost":
            raise RciError("the study compares costs with violation rates; these have another unit.")
        prepared[method] = prepare(episodes, labels, costs, **judging)
    return prepared


def _column(rows: Sequence[Row], name: str) -> Array:
    return np.array([row[name] for row in rows], np.float64)


def _table(rows: Sequence[Row]) -> str:
    from rci.reporting.markdown import table

    cells = [
        [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in row.values()] for row in rows
    ]
    return table([name.replace("_", " ") for name in rows[0]], cells).rstrip()


def main() -> None:
    """Run the study: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "agreement")


if __name__ == "__main__":
    main()
