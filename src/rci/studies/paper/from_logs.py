"""What `rci select` would take: the policies of a recording, judged from its logs alone, and what the choice then does.

For every recording of the main comparisons one policy of each configuration of the paper's system, and those of the
default learner, are estimated and judged by the logs that they were trained on. A row is kept for each; what the choice
does in the simulator is read from the rows of the study. Policies that are not in the folder any more are trained anew.

python -m rci.studies.paper.from_logs --out runs/paper-full
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from rci.data import store
from rci.data.errors import RciError
from rci.engines.cores import prepare_process
from rci.engines.engine import LOCAL, Report, reporting
from rci.engines.progress import show_study
from rci.pipeline.commands.command_line import run_command
from rci.pipeline.folder import alone_in, prepare_folder, read_timings, run_timed
from rci.pipeline.results.rows import RESULTS, Row
from rci.reporting.markdown import table
from rci.reporting.numbers import number, percent
from rci.studies.paper.cells import Cell, StudyPaths, cells, key_of, plan
from rci.studies.paper.experiments import EXPERIMENTS, OURS, REWARD_ONLY, Scale
from rci.studies.paper.scales import scale_called
from rci.studies.study import OnProgress, RowsFile, silent

COMPARED = {"highway": ("highway", "best-learner"), "fetch-reach": ("fetch-reach", "best-learner-arm")}
BUDGETS = (0.05, 0.1, 0.2)
SEEDS = 5
HEADS = (
    "task",
    "budget",
    "recordings",
    "none chosen",
    "chosen from logs",
    "violations",
    "return",
    "with a simulator: violations",
    "return",
)


def candidates(task: str, seed: int, scale: Scale) -> list[Cell]:
    """The policies to choose from: one of each configuration of the paper's system, and the default learner's."""
    if task not in COMPARED:
        raise RciError(f"policies are chosen on {' and '.join(COMPARED)}, not on {task!r}.")
    both = [cell for name in COMPARED[task] for cell in cells(EXPERIMENTS[name], scale)]
    return [
        cell
        for cell in both
        if (cell.seed, cell.policy) == (seed, 0)
        and (cell.learner != OURS or cell.method in ("sparse", REWARD_ONLY))
    ]


def run_study(
    tasks: Sequence[str],
    seeds: Sequence[int],
    scale: Scale,
    out: Path,
    rows: Path,
    report: Report = lambda job, share, seconds: None,
    on_progress: OnProgress = silent,
) -> list[Row]:
    """The rows of all candidates; those that have none yet are judged, recording after recording."""
    file = RowsFile(rows, what="choices from logs")
    asked = {(task, seed): candidates(task, seed, scale) for task in tasks for seed in seeds}
    every = [cell for own in asked.values() for cell in own]
    prepare_folder(out)
    with alone_in(out):
        for own in asked.values():
            missing = [cell for cell in own if not file.has(key_of(cell, scale))]
            if missing:
                for row in _judged(own, missing, scale, out, report):
                    file.add(row)
            on_progress(sum(file.has(key_of(cell, scale)) for cell in every), len(every), float("inf"))
    return [file.by_key[key_of(cell, scale)] for cell in every]


def _judged(
    own: Sequence[Cell], missing: Sequence[Cell], scale: Scale, out: Path, report: Report
) -> list[Row]:
    """The rows of the candidates of one recording that have none."""
    from rci import load
    from rci.learning.judging.estimate import estimate_all
    from rci.learning.judging.fqe import judge_prepared, prepare

    paths, first = StudyPaths(out), own[0]
    gone = [cell for cell in missing if not paths.policy(cell, scale).is_dir()]
    jobs = [job for job in plan(gone, scale, paths, own) if job.stage != "evaluate"]
    run_timed(jobs, out, LOCAL, report, read_timings(out))
    folder = paths.of(first, scale)
    episodes = store.read(paths.logs(first, scale) / "episodes", "episodes")
    labels, costs = store.read(folder / "labels", "labels"), store.read(folder / "costs" / "sparse", "costs")
    policies = [load(paths.policy(cell, scale)) for cell in missing]
    where = f"{first.logs.task}, recording {first.seed}"
    with reporting(report, f"estimate {where}") as progress:
        estimates = estimate_all(policies, episodes, labels, seed=first.seed, progress=progress)
    prepared, judged = prepare(episodes, labels, costs, first.seed), []
    with reporting(report, f"judge {where}") as progress:
        for count, policy in enumerate(policies):
            judged.append(judge_prepared(policy, prepared, first.seed))
            progress((count + 1) / len(policies))
    return [
        {
            "key": key_of(cell, scale),
            "task": cell.logs.task,
            "seed": cell.seed,
            "learner": cell.learner,
            "method": cell.method,
            "budget": cell.budget,
            "stop": [float(x) for x in estimate.stop],
            "verdicts": [estimate.verdict(budget).word for budget in BUDGETS],
            "judged_return": float(judgement.expected_return),
        }
        for cell, estimate, judgement in zip(missing, estimates, judged)
    ]


def choice_table(rows: Sequence[Row], measured: Mapping[str, Row]) -> str:
    """Markdown: a line for each task and budget. measured: rows of the study by key; empty without rows of both."""
    lines = []
    for task in dict.fromkeys(row["task"] for row in rows):
        known = [row for row in rows if row["task"] == task and row["key"] in measured]
        seeds = sorted({row["seed"] for row in known})
        for budget in BUDGETS if seeds else ():
            by_seed = [[row for row in known if row["seed"] == seed] for seed in seeds]
            blind = [best for own in by_seed if (best := from_logs(own, budget)) is not None]
            seen = [best for own in by_seed if (best := by_simulator(own, measured, budget)) is not None]
            names = [f"{row['method']} {row['budget']} ({row['learner']})" for row in blind]
            counted = "; ".join(f"{name} x{names.count(name)}" for name in dict.fromkeys(names))
            lines.append(
                (
                    task,
                    percent(budget),
                    str(len(seeds)),
                    str(len(seeds) - len(blind)),
                    counted or "–",
                    *_means(blind, measured),
                    *_means(seen, measured),
                )
            )
    return table(HEADS, lines) if lines else ""


def from_logs(rows: Sequence[Row], budget: float) -> Row | None:
    """What `rci select` takes: the highest judged return of those whose estimate is within the budget, if any is."""
    fit = [row for row in rows if row["stop"][0] <= budget]
    return max(fit, key=lambda row: row["judged_return"], default=None)


def by_simulator(rows: Sequence[Row], measured: Mapping[str, Row], budget: float) -> Row | None:
    """The same rule with the numbers of selection episodes in the simulator."""
    fit = [row for row in rows if measured[row["key"]]["selection_violation_rate"] <= budget]
    return max(fit, key=lambda row: measured[row["key"]]["selection_return"], default=None)


def _means(chosen: Sequence[Row], measured: Mapping[str, Row]) -> tuple[str, str]:
    """What the chosen policies do on evaluation episodes: violation rate, with the worst recording's, and return."""
    if not chosen:
        return "–", "–"
    rates = [measured[row["key"]]["violation_rate"] for row in chosen]
    gains = [measured[row["key"]]["mean_return"] for row in chosen]
    return (
        f"{percent(sum(rates) / len(rates))} (at most {percent(max(rates))})",
        number(sum(gains) / len(gains)),
    )


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def choose(
    out: Annotated[Path, typer.Option(help="Folder of the study, or where its policies are to be made.")],
    task: Annotated[list[str] | None, typer.Option(help="Only this task; may be repeated.")] = None,
    seed: Annotated[list[int] | None, typer.Option(help="Only this recording; may be repeated.")] = None,
    rows: Annotated[Path, typer.Option(help="File of rows to go on from.")] = RESULTS / "from-logs.json",
    preset: Annotated[str, typer.Option(help="As of rci paper.")] = "full",
) -> None:
    """Judge the policies of the main comparisons from their logs alone."""
    prepare_process()
    with show_study() as (report, on_progress):
        run_study(
            task or list(COMPARED), seed or range(SEEDS), scale_called(preset), out, rows, report, on_progress
        )
    typer.echo(rows)


def main() -> None:
    """Run the study: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "from-logs")


if __name__ == "__main__":
    main()
