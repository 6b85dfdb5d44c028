"""Run the experiments: what has no row yet is computed, and every row is kept as it comes."""

from __future__ import annotations

import math
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rci.data.errors import unknown_name
from rci.engines.cores import available_cores
from rci.engines.engine import Engine, Report
from rci.pipeline.folder import alone_in, prepare_folder
from rci.pipeline.results.rows import Row
from rci.studies.paper.cells import (
    Cell,
    StudyPaths,
    cells,
    check_settings,
    key_of,
    own_jobs,
    plan,
    plan_drawn,
)
from rci.studies.paper.experiment_rows import ExperimentRows
from rci.studies.paper.experiments import EXPERIMENTS, Experiment, Scale
from rci.studies.paper.rows import failure_of, numbers_of
from rci.studies.study import OnProgress, Study, complete, silent

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
    engine: Engine,
    report: Report,
    on_progress: OnProgress = silent,
) -> list[Row]:
    """All rows of the file, once those of these experiments are complete; what has a row is not computed again."""
    paths = StudyPaths(out)
    wanted, drawn, keys, askers = _asked(experiments, scale)
    prepare_folder(out)
    with alone_in(out):
        kept = ExperimentRows(file, askers)
        rank = _ranks(experiments, wanted, scale)
        ordered = sorted(keys, key=lambda cell: (rank[cell], cell.seed))
        missing = [cell for cell in ordered if not kept.has(keys[cell])]
        clock = _Clock(len(keys), missing, _cores(engine))
        sharing = Counter(own_jobs(cell, scale, paths)[0] for cell in keys)
        failed = {row["key"] for row in kept.rows() if "failed" in row}
        drawn = [cell for cell in drawn if key_of(cell, scale) not in failed]
        jobs = [*plan(missing, scale, paths, keys), *plan_drawn(drawn, scale, paths)]

        def row(cell: Cell, seconds: Mapping[str, float]) -> Row:
            training, *tests = own_jobs(cell, scale, paths)
            spent = seconds.get(training, 0.0) / sharing[training]
            spent += sum(seconds.get(name, 0.0) for name in tests)
            clock.done(cell, spent)
            return numbers_of(cell, scale, paths, keys[cell], round(spent, 1))

        def failure(cell: Cell, why: str) -> Row:
            clock.done(cell, 0.0)
            return failure_of(cell, scale, keys[cell], why)

        policies = Study(
            ordered,
            keys.__getitem__,
            lambda missing: jobs,
            lambda cell: own_jobs(cell, scale, paths)[0],
            lambda cell: own_jobs(cell, scale, paths)[1:],
            row,
            failure,
            optional={own_jobs(cell, scale, paths)[0] for cell in drawn},
        )
        complete(policies, kept, out, engine, report, on_progress, lambda missing: clock.progress()[2])
        for trail in {job.trail for job in jobs if job.trail is not None}:
            shutil.rmtree(trail, ignore_errors=True)  # this training has reached its last length
    return kept.rows()


class _Asked(NamedTuple):
    """What a study is asked for: cells by experiment, those to be drawn, the key of each, and who asks for a key."""

    wanted: dict[str, list[Cell]]
    drawn: list[Cell]
    keys: dict[Cell, str]
    askers: dict[str, list[str]]


def _asked(experiments: Sequence[Experiment], scale: Scale) -> _Asked:
    wanted = {experiment.name: cells(experiment, scale) for experiment in experiments if not experiment.drawn}
    drawn = [cell for experiment in experiments if experiment.drawn for cell in cells(experiment, scale)]
    check_settings([*drawn, *(cell for group in wanted.values() for cell in group)], scale)
    keys = {cell: key_of(cell, scale) for group in wanted.values() for cell in group}
    askers = defaultdict[str, list[str]](list)
    for name, group in wanted.items():
        for cell in group:
            askers[keys[cell]].append(name)
    return _Asked(wanted, drawn, keys, askers)


def _cores(engine: Engine) -> int:
    """How many work at once; 0 = nobody knows: how many machines a cluster has is its own affair, and may change."""
    return engine.workers or (len(available_cores()) if engine.address is None else 0)


def _ranks(
    experiments: Sequence[Experiment], wanted: Mapping[str, Sequence[Cell]], scale: Scale
) -> dict[Cell, int]:
    """How soon a policy is trained: the main comparisons first, with one seed, then with two; the others after them."""
    order = list(scale.seeds)
    ranks: dict[Cell, int] = {}
    for experiment in experiments:
        for cell in wanted.get(experiment.name, ()):
            ranks[cell] = min(order.index(experiment.seeds), ranks.get(cell, len(order)))
    return ranks


Rates = Mapping[tuple[str, str], Sequence[float]]  # seconds of an update, tests included, by task and learner


def seconds_left(missing: Iterable[Cell], rates: Rates) -> float:
    """On one core, from what policies like these have taken per update; those that nobody knows take a first guess."""
    everything = [rate for known in rates.values() for rate in known]
    left = 0.0
    for cell in missing:
        known = rates.get((cell.logs.task, cell.learner), everything)
        left += cell.updates * median(known) if known else FIRST_GUESS  # medians pass over pauses
    return left


class _Clock:
    """How much is left, from what the policies so far have taken per update."""

    def __init__(self, total: int, missing: Sequence[Cell], workers: int) -> None:  # 0 = nobody knows
        self.total, self.missing, self.workers = total, dict.fromkeys(missing), workers
        self.spent = defaultdict[tuple[str, str], list[float]](list)

    def done(self, cell: Cell, seconds: float) -> None:
        del self.missing[cell]
        if seconds:
            self.spent[cell.logs.task, cell.learner].append(seconds / cell.updates)

    def progress(self) -> tuple[int, int, float]:
        left = seconds_left(self.missing, self.spent)
        return self.total - len(self.missing), self.total, left / self.workers if self.workers else math.inf
