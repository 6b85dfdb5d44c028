"""Run the experiments: what has no row yet is computed, and every row is kept as it comes."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from rci.data.errors import unknown_name
from rci.run.engine import Report, available_cores, run_jobs
from rci.run.jobs import Job
from rci.run.paper.cells import Cell, Places, cells, evaluate_job_name, key_of, plan, plan_drawn
from rci.run.paper.experiments import EXPERIMENTS, Experiment, Scale
from rci.run.paper.rows import judged_together, numbers_of, read_study
from rci.run.pipeline import alone_in, prepare_folder, write_json
from rci.run.rows import Row

Tell = Callable[[int, int, float], None]  # policies done, policies in all, seconds left
FIRST_GUESS = 60.0  # seconds of a policy on one core, before the first one is done


def chosen(names: Sequence[str]) -> list[Experiment]:
    """The experiments called so, in the order of the list; all of them if none is named."""
    for name in names:
        if name not in EXPERIMENTS:
            raise unknown_name("experiment", name, EXPERIMENTS)
    return [experiment for experiment in EXPERIMENTS.values() if not names or experiment.name in names]


def run_study(
    experiments: Sequence[Experiment],
    scale: Scale,
    out: Path,
    file: Path,
    workers: int | None,
    report: Report,
    tell: Tell = lambda done, total, left: None,
) -> list[Row]:
    """All rows of these experiments; those in `file` with the same key are not computed again.

    `file` also holds rows of other experiments, which stay as they are.
    """
    prepare_folder(out)
    places = Places(out)
    wanted = {experiment.name: cells(experiment, scale) for experiment in experiments if not experiment.drawn}
    keys = {cell: key_of(cell, scale) for own in wanted.values() for cell in own}
    askers = defaultdict[str, list[str]](list)  # key -> experiments that ask for it
    kinds = {experiment.name: experiment.seeds for experiment in experiments}
    ranks: dict[
        str, int
    ] = {}  # key -> how soon: all main comparisons with one seed, then with two, then the others
    for name, own in wanted.items():
        for cell in own:
            askers[keys[cell]].append(name)
            rank = list(scale.seeds).index(kinds[name])
            ranks[keys[cell]] = min(rank, ranks.get(keys[cell], rank))
    with alone_in(out):
        board = _Board(file, askers, scale, places)
        missing = sorted(
            (cell for cell in keys if not board.has(keys[cell])),
            key=lambda cell: (ranks[keys[cell]], cell.seed),
        )
        drawn = [cell for experiment in experiments if experiment.drawn for cell in cells(experiment, scale)]
        clock = _Clock(len(keys), missing, workers or len(available_cores()))
        tell(*clock.told())
        finished = {evaluate_job_name(cell, scale, places): cell for cell in missing}
        took = dict[str, float]()

        def note(job: Job, share: float, seconds: float | None) -> None:
            report(job, share, seconds)
            if share < 1.0:
                return
            took[job.name] = seconds or 0.0
            if job.name in finished:
                cell = finished[job.name]
                spent = _seconds_of(job.name, took)
                board.add(cell, keys[cell], spent)
                clock.done(cell, spent)
                tell(*clock.told())

        jobs = {job.name: job for job in plan(missing, scale, places)}
        for job in plan_drawn(drawn, scale, places):
            jobs.setdefault(job.name, job)
        run_jobs(list(jobs.values()), workers, note)
        for trails in out.glob("*/*/trails"):  # every training has reached its last length
            shutil.rmtree(trails)
    return [row for row in board.rows() if row["experiment"] in wanted and row["key"] in askers]


def _seconds_of(evaluation: str, took: dict[str, float]) -> float:
    """What a policy took: training and both tests. The names of its jobs differ in their stage alone."""
    place = evaluation.removeprefix("evaluation ")
    folder, name = place.rsplit("/evaluation/", 1)
    return sum(
        took.get(job, 0.0)
        for job in (evaluation, f"selection {folder}/selection/{name}", f"learn {folder}/policies/{name}")
    )


class _Board:
    """The file of rows, written whole after every change."""

    def __init__(self, file: Path, askers: dict[str, list[str]], scale: Scale, places: Places) -> None:
        self.file, self.askers, self.scale, self.places = file, askers, scale, places
        self.by_key = dict[tuple[str, str], Row]()
        for row in read_study(file):
            self.by_key[row["experiment"], row["key"]] = row
        for key in askers:  # an experiment may ask for what another one has already
            self._share(key)

    def has(self, key: str) -> bool:
        return all((name, key) in self.by_key for name in self.askers[key])

    def add(self, cell: Cell, key: str, seconds: float) -> None:
        numbers = numbers_of(cell, self.scale, self.places, key, round(seconds, 1))
        for name in self.askers[key]:
            self.by_key[name, key] = {"experiment": name, **numbers}
        write_json(self.file, self.rows())

    def rows(self) -> list[Row]:
        return judged_together(self.by_key.values())

    def _share(self, key: str) -> None:
        for known in [row for (_, other), row in self.by_key.items() if other == key][:1]:
            for name in self.askers[key]:
                self.by_key.setdefault((name, key), {**known, "experiment": name})


class _Clock:
    """How much is left, from what the policies so far have taken per update."""

    def __init__(self, total: int, missing: Sequence[Cell], workers: int) -> None:
        self.total, self.missing, self.workers = total, dict.fromkeys(missing), workers
        self.spent = defaultdict[tuple[str, str], list[float]](list)

    def done(self, cell: Cell, seconds: float) -> None:
        del self.missing[cell]
        self.spent[cell.logs.task, cell.learner].append(seconds / cell.updates)

    def told(self) -> tuple[int, int, float]:
        everything = [rate for rates in self.spent.values() for rate in rates]
        left = 0.0
        for cell in self.missing:
            rates = self.spent.get((cell.logs.task, cell.learner), everything)
            left += cell.updates * sum(rates) / len(rates) if rates else FIRST_GUESS
        return self.total - len(self.missing), self.total, left / self.workers
