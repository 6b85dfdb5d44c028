"""What large runs cost on many machines, worked out from measured figures: `python -m rci.run.scaling`.

Tasks know nothing of each other, so work is divided by the cores, at the measured efficiency; what does not divide is
the time in which one driver starts tasks, and the start of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, NamedTuple

import typer

from rci.data.errors import RciError
from rci.reporting.markdown import table
from rci.run.command import run_command
from rci.run.progress import duration
from rci.run.rows import Row, read_rows

EMPTY, EFFICIENCY, SHARDS = "ray: empty tasks", "ray: efficiency of two cores", "local: shards, one core"
MACHINES = (1, 2, 10, 100)
CORES = 2  # of a machine, as those that were measured
EPISODES, STEPS, PER_SHARD = 1_000_000, 100, 1000
POLICIES = 1000


class Figures(NamedTuple):
    """What was measured."""

    start: float  # seconds until a cluster does its first task
    per_task: float  # seconds in which a driver starts a task and hears of its end
    efficiency: float  # of the cores of a machine
    steps: float  # for which a core infers costs in a second
    policies: dict[str, float]  # seconds of a core for a policy of a task, trained and evaluated


class Load(NamedTuple):
    """Work that can be divided."""

    name: str
    tasks: int
    core_seconds: float


def read_figures(bench: Sequence[Row], study: Sequence[Row]) -> Figures:
    """The figures in the rows of `rci bench scaling` and of `rci paper`."""
    rows = {row.get("name"): row for row in bench}
    missing = {EMPTY, EFFICIENCY, SHARDS} - set(rows)
    if missing:
        raise RciError(
            f"there is no row {min(missing)!r}; `rci bench scaling --json` gives it, with both engines."
        )
    empty = rows[EMPTY]
    tasks = sorted({row["task"] for row in study})
    return Figures(
        start=empty["config"]["start_s"],
        per_task=empty["value"] / 1000,
        efficiency=min(1.0, rows[EFFICIENCY]["value"] / 100),
        steps=rows[SHARDS]["value"],
        policies={name: median(row["seconds"] for row in study if row["task"] == name) for name in tasks},
    )


def loads(figures: Figures) -> list[Load]:
    """A million episodes, and a thousand policies of each task."""
    episodes = Load(
        f"{EPISODES:,} episodes of {STEPS} steps", EPISODES // PER_SHARD, EPISODES * STEPS / figures.steps
    )
    policies = [
        Load(f"{POLICIES:,} policies, {name}", POLICIES, POLICIES * seconds)
        for name, seconds in figures.policies.items()
    ]
    return [episodes, *policies]


def seconds_on(machines: int, load: Load, figures: Figures) -> float:
    """How long a load takes: the cores side by side, or the driver that serves them, whichever is slower."""
    divided = load.core_seconds / (machines * CORES * figures.efficiency)
    longest = load.core_seconds / load.tasks  # no task is divided
    return figures.start + max(divided, longest, load.tasks * figures.per_task)


def scaling_table(figures: Figures) -> str:
    """The table of the docs."""
    header = ("", "core hours", *(f"{n} machine{'s' * (n > 1)}" for n in MACHINES))
    lines = [
        [
            load.name,
            f"{load.core_seconds / 3600:.1f}",
            *(duration(seconds_on(n, load, figures)) for n in MACHINES),
        ]
        for load in loads(figures)
    ]
    return table(header, lines)


def command(
    bench: Annotated[Path, typer.Argument(help="Rows of `rci bench scaling --json`.")] = Path(
        "results/bench-scaling.json"
    ),
    study: Annotated[Path, typer.Argument(help="Rows of `rci paper`.")] = Path("results/paper.json"),
) -> None:
    """Print what a million episodes and a thousand policies cost on many machines."""
    measured = read_rows(bench)
    if not measured:
        raise RciError(f"{bench} is not there, or has no rows.")
    typer.echo(scaling_table(read_figures(measured, read_rows(study))))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    run_command(app, "rci.run.scaling")
