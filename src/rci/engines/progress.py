"""Progress of jobs: bars on a terminal, one line per finished job elsewhere. Always on standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

from rci.data.errors import printable
from rci.engines.engine import Named, Report, title_of

Item = TypeVar("Item")


@contextmanager
def show_progress() -> Iterator[Report]:
    """Yields the function that jobs report to."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_lines(console)
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task_ids: dict[str, TaskID] = {}
        lines = _print_lines(progress.console)

        def report(task: Named, share: float, seconds: float | None) -> None:
            if task.name not in task_ids and share < 1.0:
                task_ids[task.name] = progress.add_task(printable(title_of(task)), total=1.0)
            if share < 1.0:
                progress.update(task_ids[task.name], completed=share)
            else:
                if task.name in task_ids:
                    progress.remove_task(task_ids.pop(task.name))
                lines(task, share, seconds)

        yield report


@contextmanager
def show_study(what: str = "policies") -> Iterator[tuple[Report, Callable[[int, int, float], None]]]:
    """Yields the function that jobs report to, and one for how much of a whole study is done and left."""
    console = Console(stderr=True)
    with show_progress() as report:

        def on_progress(done: int, total: int, seconds_left: float) -> None:
            has_estimate = done < total and math.isfinite(seconds_left)
            left = f", about {duration(seconds_left)} left" if has_estimate else ""
            console.print(f"{done} of {total} {what}{left}", highlight=False, markup=False, soft_wrap=True)

        yield report, on_progress


@contextmanager
def show_share(name: str) -> Iterator[Callable[[float], None]]:
    """Yields the function that shows which share of one thing is done."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
    )
    with _bar(*columns) as progress:
        bar = progress.add_task(name, total=1.0)
        yield lambda share: progress.update(bar, completed=share)


def duration(seconds: float) -> str:
    """A time in the largest two units that matter: 3 h 20 min, 12 min, 40 s."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count(items: Iterable[Item], total: int, name: str) -> list[Item]:
    """All items, with a bar while they come."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f}"),
    )
    with _bar(*columns) as progress:
        return list(progress.track(items, total=total, description=name))


def _bar(*columns: ProgressColumn) -> Progress:
    """A bar on a terminal, and nothing elsewhere: without one, it would leave an empty line."""
    console = Console(stderr=True)
    hidden = not console.is_terminal
    return Progress(*columns, TimeElapsedColumn(), console=console, transient=True, disable=hidden)


def _print_lines(console: Console) -> Report:
    def report(task: Named, share: float, seconds: float | None) -> None:
        if share == 1.0:
            done = "unchanged" if seconds is None else f"{seconds:.1f} s"
            console.print(
                f"{printable(title_of(task))}  {done}", highlight=False, markup=False, soft_wrap=True
            )

    return report
