"""What a setting of the learner is worth: policies with and without it, side by side in the simulator.

`ladder`: each rung that makes an update cheaper, taken back alone from the defaults. A rung may be the default if
violation rate and return stay within what seeds differ by.
`budgets`: ways to give the multiplier the expected cost, over a grid of budgets. A budget comes true if it is the
violation rate of the policy that was trained for it.

All policies of a seed are tested on the same episodes. Rows are written as they come, seed after seed, and those in
the file with the same key are not computed again, so a study goes on from the numbers alone.

python -m rci.studies.ladder budgets --task point --rows results/budgets-point.json --out runs/budgets-point
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from rci.data import store
from rci.data.errors import RciError, unknown_name
from rci.data.options import build
from rci.data.store import write_file
from rci.engines.engine import Engine
from rci.engines.progress import show_study
from rci.pipeline.commands.command_line import run_command
from rci.pipeline.config import PAPERS_LEARNER, RunConfig, load_config
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.jobs import Job
from rci.pipeline.plan import check_config, plan, redistributor_settings
from rci.pipeline.results.rows import Row, read_rows
from rci.studies.study import RowsFile, Study, complete, key_from, once
from rci.tasks import get

SHARED = ("demonstrators", "collect", "label")
FIRST_SEED = 70_000  # of tests, far from those of reports


@dataclass(frozen=True)
class Variant:
    """One way to train: settings of the learner and of the behaviour model, and whose step costs."""

    learn: dict[str, Any] = field(default_factory=dict)
    behaviour: dict[str, Any] = field(default_factory=dict)
    costs: str = "rci"


class Question(NamedTuple):
    """What is compared, at which budgets."""

    variants: dict[str, Variant]
    budgets: tuple[float, ...]


STUDIES = {
    "ladder": Question(
        {
            "default": Variant(),
            "five candidates": Variant({"candidates": 5}),
            "decoded in every update": Variant(behaviour={"proposals": 0}),
            "behaviour model alongside": Variant({"alongside": 128}),
            "separate targets": Variant({"shared_targets": False}),
            "four critics": Variant({"critics": 4}),
            "hidden 256, batch 512": Variant({"hidden": 256, "batch_size": 512}),
        },
        (0.1,),
    ),
    "budgets": Question(
        {
            "audited": Variant(),
            "audited, sparse costs": Variant(costs="sparse"),
            "initial": Variant({"estimate": "initial"}),
            "initial, sparse costs": Variant({"estimate": "initial"}, costs="sparse"),
            "batch": Variant({"estimate": "batch"}),
            "initial, discounted": Variant({"estimate": "initial", "cost_discount": 0.97}),
            "initial, four cautious critics": Variant(
                {"estimate": "initial", "critics": 4, "cost_pessimism": 1.0}
            ),
        },
        (0.05, 0.1, 0.2, 0.4),
    ),
}


class Cell(NamedTuple):
    """One policy of a study."""

    study: str
    variant: str
    budget: float
    seed: int

    @property
    def name(self) -> str:
        return f"{self.variant}-{self.budget:g}-seed{self.seed}".replace(" ", "-").replace(",", "")


def cells(study: str, seeds: int, only: Sequence[str] = ()) -> list[Cell]:
    """Every policy, seed after seed: the whole comparison first with one seed, then with two."""
    known = STUDIES[study].variants
    for name in only:
        if name not in known:
            raise unknown_name("variant", name, known)
    return [
        Cell(study, variant, budget, seed)
        for seed in range(seeds)
        for budget in STUDIES[study].budgets
        for variant in (only or known)
    ]


def settings_of(cell: Cell, config: RunConfig) -> dict[str, Any]:
    """Everything that the row of a cell depends on, apart from the code."""
    from rci.learning import parse_options

    variant = STUDIES[cell.study].variants[cell.variant]
    table = config.as_table()
    run = {name: table[name] for name in ("task", "seed", "collect", "ppo", "label", "behaviour", "evaluate")}
    options = {**config.learn, **variant.learn}
    shape, numbers, schedule = parse_options(options.pop("method"), options)
    learn = {**asdict(shape), **numbers._asdict(), "updates": schedule.updates, "budget": cell.budget}
    costs = redistributor_settings(config, variant.costs)
    return {
        **run,
        "study": cell.study,
        "learn": learn,
        "costs": costs,
        "variant": variant.behaviour,
        "policy_seed": cell.seed,
    }


def key_of(cell: Cell, config: RunConfig) -> str:
    """What identifies a row."""
    return key_from(settings_of(cell, config))


def plan_cells(wanted: Sequence[Cell], config: RunConfig, out: Path) -> list[Job]:
    """The logs once, step costs once for each seed, each kind of behaviour model once, and the policies."""
    return once(job for cell in wanted for job in _jobs_of(cell, config, out))


def _jobs_of(cell: Cell, config: RunConfig, out: Path) -> Iterator[Job]:
    logged = {"episodes": out / "episodes", "labels": out / "labels"}
    yield from (job for job in plan(config, out) if job.stage in SHARED)
    variant = STUDIES[cell.study].variants[cell.variant]
    kind = "-".join(f"{name}-{value}" for name, value in variant.behaviour.items()) or "default"
    costs, model = f"costs-{variant.costs}-{cell.seed}", f"behaviour-{kind}"
    behaviour = {**config.behaviour, **variant.behaviour}
    redistributor = redistributor_settings(config, variant.costs)
    yield Job(costs, "redistribute", redistributor, cell.seed, logged, out / costs, ("label",))
    yield Job(model, "behaviour", behaviour, config.seed, logged, out / model, ("label",))
    inputs = {**logged, "costs": out / costs, "behaviour": out / model}
    policy, learn = out / "policies" / cell.name, f"learn-{cell.name}"
    training = {**config.learn, **variant.learn, "budget": str(cell.budget)}
    yield Job(learn, "learn", training, cell.seed, inputs, policy, (costs, model))
    test = {"task": config.task, "episodes": config.evaluate.episodes}
    seed, output = FIRST_SEED + cell.seed, out / "scores" / cell.name
    yield Job(f"evaluate-{cell.name}", "evaluate", test, seed, {"policy": policy}, output, (learn,))


def study_of(asked: Sequence[Cell], config: RunConfig, out: Path) -> Study[Cell]:
    """The policies of these cells."""

    def training(cell: Cell) -> str:
        return f"learn-{cell.name}"

    return Study(
        asked,
        lambda cell: key_of(cell, config),
        lambda missing: plan_cells(missing, config, out),
        training,
        lambda cell: [f"evaluate-{cell.name}"],
        lambda cell, seconds: row_of(cell, config, out, seconds.get(training(cell))),
    )


def row_of(cell: Cell, config: RunConfig, out: Path, seconds: float | None) -> Row:
    """What a finished cell says."""
    scores = store.read(out / "scores" / cell.name, "scores")
    info = store.read(out / "policies" / cell.name, "policy").info
    return {
        **cell._asdict(),
        "task": config.task,
        "key": key_of(cell, config),
        "updates": info["updates"],
        "episodes": len(scores.returns),
        "violation_rate": scores.violation_rate,
        "mean_return": scores.mean_return,
        "mean_return_until_stop": scores.mean_return_until_stop,
        "predicted_cost": info["predicted_cost"],
        "cost_estimate": info["history"][-1]["cost_estimate"],
        "multiplier": info["multiplier"],
        "training_seconds": seconds,
    }


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def study(
    name: Annotated[str, typer.Argument(metavar="STUDY", help="ladder or budgets.")],
    task: Annotated[str, typer.Option(help="Which task, such as point.")],
    rows: Annotated[Path, typer.Option(help="File of rows; those in it are not computed again.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for everything else.")],
    preset: Annotated[str, typer.Option(help="Settings of the logs, shipped under a name.")] = "quick",
    seeds: Annotated[int, typer.Option(min=1, help="Policies of each variant and budget.")] = 5,
    updates: Annotated[int, typer.Option(min=1, help="Length of each training.")] = 5000,
    episodes: Annotated[int, typer.Option(min=1, help="Test episodes of each policy.")] = 500,
    only: Annotated[list[str], typer.Option(help="Only this variant; may be repeated.")] = [],  # noqa: B006
    settings: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="A setting, as for rci run.")
    ] = [],  # noqa: B006 (typer copies it)
    figure: Annotated[
        Path | None, typer.Option(help="PNG file to draw all files of budgets beside ROWS to.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Worker processes [one per core].")] = None,
) -> None:
    """Train and test the policies of a study, and keep their numbers."""
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    if figure is not None and name != "budgets":
        raise RciError("only the study of budgets has a figure.")
    if get(task).channels:
        raise RciError(f"the task {task!r} has several kinds of danger; a study is about one at a time.")
    config = study_config(task, preset, updates, episodes, settings)
    check_config(config)
    policies, file = study_of(cells(name, seeds, only), config, out), RowsFile(rows)
    prepare_folder(out)
    with alone_in(out), show_study() as (report, on_progress):
        complete(policies, file, out, Engine(workers=workers), report, on_progress)
    typer.echo(TABLES[name](file.of(policies)))
    if figure is not None:
        from rci.reporting.figures.lines import budget_picture

        drawn = [row for file in sorted(rows.parent.glob("budgets-*.json")) for row in read_rows(file)]
        write_file(figure, budget_picture(drawn).png)
        typer.echo(figure)
    typer.echo(rows)


def study_config(task: str, preset: str, updates: int, episodes: int, settings: Sequence[str]) -> RunConfig:
    """The logs of a preset, and the learner as it comes; a discount is the task's own."""
    config = load_config(task, preset, flags=[*PAPERS_LEARNER, *settings])
    task_settings = {name: config.learn[name] for name in ("method", "discount") if name in config.learn}
    flags = [flag for flag in settings if flag.startswith(("learn.", "evaluate."))]
    if flags:
        raise RciError(f"the learner of a study has its defaults; {flags[0]!r} cannot be set.")
    table = config.as_table()
    table["learn"] = {**task_settings, "updates": updates}
    table["evaluate"]["episodes"] = episodes
    return build(RunConfig, table, "settings")


def ladder_table(rows: Sequence[Row]) -> str:
    """Every rung beside the defaults, and the differences seed by seed, each with half of its 95% interval.

    Policies of one seed share logs, step costs and test episodes, so the differences are paired.
    """
    from rci.evaluation.stats import t_half_width
    from rci.reporting.markdown import table

    def of(variant: str, name: str) -> dict[int, float]:
        return {row["seed"]: row[name] for row in rows if row["variant"] == variant}

    def mean_text(values: Sequence[float], digits: int, sign: str = "") -> str:
        mean = f"{np.mean(values):{sign}.{digits}f}" if len(values) else ""
        return mean if len(values) < 2 else f"{mean} ± {t_half_width(values):.{digits}f}"

    lines = []
    for variant in _in_order(rows):
        line = [variant, str(len(of(variant, "seed")))]
        for name, scale, digits in (("violation_rate", 100, 1), ("mean_return", 1, 2)):
            by_seed, usual = of(variant, name), of("default", name)
            gaps = [scale * (by_seed[seed] - usual[seed]) for seed in by_seed if seed in usual]
            line += [mean_text([scale * value for value in by_seed.values()], digits)]
            line += ["" if variant == "default" else mean_text(gaps, digits, "+")]
        lines.append(line)
    return table(("variant", "seeds", "violations, %", "difference", "return", "difference"), lines)


def budget_table(rows: Sequence[Row]) -> str:
    """Asked and realised: violation rates, on average over seeds, for each budget, and how far they are apart."""
    from rci.reporting.markdown import table

    budgets = sorted({row["budget"] for row in rows})
    lines = []
    for variant in _in_order(rows):
        group = [row for row in rows if row["variant"] == variant]
        rates_at = {b: [row["violation_rate"] for row in group if row["budget"] == b] for b in budgets}
        cells = [f"{100 * np.mean(rates):.1f}%" if rates else "" for rates in rates_at.values()]
        gap = np.mean([abs(row["violation_rate"] - row["budget"]) for row in group])
        over = np.mean([max(0.0, row["violation_rate"] - row["budget"]) for row in group])
        seeds = min((len(rates) for rates in rates_at.values() if rates), default=0)
        lines.append([variant, str(seeds), *cells, f"{100 * gap:.1f}", f"{100 * over:.1f}"])
    heads = [f"asked {100 * b:g}%" for b in budgets]
    return table(("variant", "seeds", *heads, "mean gap, points", "mean excess, points"), lines)


def _in_order(rows: Sequence[Row]) -> list[str]:
    """The variants of these rows, as their study lists them; rows come as they are finished."""
    listed = [name for study in STUDIES.values() for name in study.variants]
    there = {row["variant"] for row in rows}
    return [name for name in listed if name in there] + sorted(there - set(listed))


TABLES = {"ladder": ladder_table, "budgets": budget_table}


def main() -> None:
    """Run a study: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "variants")


if __name__ == "__main__":
    main()
