"""A study: a list of cells, each of which takes jobs and becomes a row of a file that the study goes on from.

Every study of this package is such a list; what is here is the same for all of them. Jobs that several cells share are
done once, a row is written as soon as its last job is done, and a cell that has a row is not computed again.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from rci.data.errors import RciError
from rci.engines.engine import Engine, Named, Report, Task
from rci.pipeline.folder import read_timings, run_timed, write_json
from rci.pipeline.jobs import Job
from rci.pipeline.results.rows import Row, read_rows

Cell = TypeVar("Cell", bound=Hashable)
OnProgress = Callable[[int, int, float], None]  # cells done, cells in all, seconds left (inf = not known)


def silent(done: int, total: int, seconds_left: float) -> None:
    """Report to nobody how much of a study is done."""


def key_from(settings: Any) -> str:
    """What identifies a row: a digest of everything that it depends on, apart from the code."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def once(jobs: Iterable[Job]) -> list[Job]:
    """The jobs without those whose name came before: what several cells share is done for the first of them."""
    named = dict[str, Job]()
    for job in jobs:
        named.setdefault(job.name, job)
    return list(named.values())


@dataclass(frozen=True)
class Study(Generic[Cell]):
    """Cells, and how each of them becomes a row."""

    cells: Sequence[Cell]  # in the order in which they are best done
    key: Callable[[Cell], Hashable]
    plan: Callable[
        [Sequence[Cell]], Iterable[Job]
    ]  # of the cells without a row; a name that comes again is the same job
    training: Callable[[Cell], str]  # the job that makes what is tested
    tests: Callable[[Cell], Collection[str]]  # the jobs that a row waits for
    row: Callable[[Cell, Mapping[str, float]], Row]  # from the seconds that jobs took, by name
    failure: Callable[[Cell, str], Row] | None = (
        None  # the row of a failed training; None = the run has failed
    )
    optional: Collection[str] = ()  # trainings for pictures alone: where one fails, nothing is drawn


class Rows(Protocol):
    """Where rows are kept."""

    def has(self, key: Any) -> bool:
        """Whether there is a row of this key."""

    def add(self, row: Row) -> None:
        """Keep a row, at once."""


class RowsFile:
    """A file of rows that is written whole after every change. The rows of other studies in it stay."""

    def __init__(
        self,
        file: Path,
        key: Callable[[Row], Any] = itemgetter("key"),
        fields: Sequence[str] = ("key",),
        what: str = "a study",
    ) -> None:
        if not file.parent.is_dir():
            raise RciError(f"there is no folder {file.parent} to write {file.name} to.")
        self.file, self.key = file, key
        rows = read_rows(file)
        if not all(name in row for row in rows for name in fields):
            named = " or no ".join(fields)
            raise RciError(f"{file} holds rows, but not those of {what}: a row has no {named}.")
        self.by_key = {key(row): row for row in rows}

    def has(self, key: Any) -> bool:
        return key in self.by_key

    def add(self, row: Row) -> None:
        self.by_key[self.key(row)] = row
        write_json(self.file, self.rows())

    def rows(self) -> list[Row]:
        """All rows, in the order in which they came."""
        return list(self.by_key.values())

    def of(self, study: Study[Any]) -> list[Row]:
        """The rows of a study that is complete, in the order of its cells."""
        return [self.by_key[study.key(cell)] for cell in study.cells]


class Pace:
    """How long the rest of a study takes, from how long jobs of the same stages took in this run."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.began = time.monotonic()
        self.left = {job.name: job.stage for job in jobs}
        self.seconds = defaultdict[str, list[float]](list)  # of jobs that had to be done, by stage

    def done(self, name: str, seconds: float | None) -> None:
        """A job is done; seconds: None if nothing had to be done."""
        stage = self.left.pop(name, None)
        if stage is not None and seconds is not None:
            self.seconds[stage].append(seconds)

    def seconds_left(self) -> float:
        """Seconds until the last job is done, by the medians of their stages; inf while one of them is not known."""
        if not all(self.seconds[stage] for stage in set(self.left.values())):
            return math.inf
        spent = sum(map(sum, self.seconds.values()))
        side_by_side = max(1.0, spent / max(time.monotonic() - self.began, 1e-9))
        return sum(median(self.seconds[stage]) for stage in self.left.values()) / side_by_side


def complete(
    study: Study[Cell],
    rows: Rows,
    out: Path,
    engine: Engine,
    report: Report,
    on_progress: OnProgress = silent,
    seconds_left: Callable[[Collection[Cell]], float] | None = None,
) -> None:
    """Run the jobs of every cell that has no row, in the folder `out`, and add the rows as they come.

    seconds_left: an estimate for cells that are not done yet; by default, from how long jobs of their stages took.
    """
    waiting = {cell: set(study.tests(cell)) for cell in study.cells if not rows.has(study.key(cell))}
    cells_of, trained = defaultdict[str, list[Cell]](list), defaultdict[str, list[Cell]](list)
    for cell, tests in waiting.items():
        trained[study.training(cell)].append(cell)
        for name in tests:
            cells_of[name].append(cell)
    jobs = once(study.plan(list(waiting)))
    names, pace = {job.name for job in jobs}, Pace(jobs)
    timings = {name: seconds for name, seconds in read_timings(out).items() if name in names}

    def log() -> None:
        left = pace.seconds_left() if seconds_left is None else seconds_left(waiting)
        on_progress(len(study.cells) - len(waiting), len(study.cells), left if waiting else 0.0)

    def add(cell: Cell, row: Row) -> None:
        rows.add(row)
        del waiting[cell]
        log()

    def note(job: Named, share: float, seconds: float | None) -> None:
        report(job, share, seconds)
        if share == 1.0:
            pace.done(job.name, seconds)
        for cell in cells_of.get(job.name, ()) if share == 1.0 else ():
            waiting[cell].discard(job.name)
            if not waiting[cell]:
                add(cell, study.row(cell, timings))

    def accept(job: Task, why: str) -> bool:
        if study.failure is None:
            return False
        for name in and_longer(job.name, jobs):
            for cell in trained.get(name, ()):
                add(cell, study.failure(cell, why))
        return job.name in trained or job.name in study.optional

    log()
    if jobs:
        run_timed(jobs, out, engine, note, timings, accept)


def and_longer(training: str, jobs: Sequence[Job]) -> list[str]:
    """A training and those that go on from it, one after the other: where it fails, so do they."""
    chain = [training]
    for name in chain:
        chain += [job.name for job in jobs if job.stage == "learn" and name in job.needs]
    return chain
