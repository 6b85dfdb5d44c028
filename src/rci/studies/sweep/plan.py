"""The jobs of a sweep: those of every point, but what several points ask for is done once.

A job is called by what it makes, its settings, seed and the names of the jobs that make its inputs, and so is its
output. Nothing depends on the place in the grid: points that are added later find what is there.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from rci.data.errors import RciError
from rci.pipeline.jobs import Job
from rci.pipeline.plan import Entry, entries, entry_seed, plan
from rci.studies.sweep.grid import Point, value_text

UNUSED = ("rollouts",)  # what only the report of a single run shows


class Tested(NamedTuple):
    """One policy of one point, to be a row; points may share it."""

    point: int
    entry: Entry
    seed: int
    job: str  # whose output are its scores


@dataclass(frozen=True)
class SweepPlan:
    """All jobs by name, in the order in which they are best done; what each point asks for; the rows to be."""

    points: tuple[Point, ...]
    jobs: dict[str, Job]
    asked: tuple[tuple[str, ...], ...]  # the names of the jobs of each point
    policies: tuple[Tested, ...]
    outputs: tuple[
        dict[Path, str], ...
    ] = ()  # for each point, where its run alone would write what each job makes

    def shared(self) -> set[str]:
        """The jobs that several points ask for."""
        count = Counter(name for names in self.asked for name in names)
        return {name for name, times in count.items() if times > 1}

    def left(self) -> set[str]:
        """The jobs that are not done yet, as far as this folder shows."""
        done = set[str]()
        for name, job in self.jobs.items():  # inputs come before what is made of them
            if done.issuperset(job.needs) and job.is_current():
                done.add(name)
        return set(self.jobs) - done


def plan_points(points: Sequence[Point], out: Path) -> SweepPlan:
    """Everything that a sweep has to do in the folder `out`."""
    jobs, asked, policies = dict[str, Job](), list[tuple[str, ...]](), list[Tested]()
    outputs = list[dict[Path, str]]()
    seen = dict[frozenset[tuple[Entry, str]], Point]()
    for number, point in enumerate(points):
        made = dict[Path, Job]()
        for job in plan(point.config, Path()):
            if job.stage not in UNUSED:
                made[job.output] = named_by_recipe(job, made, out)
        tested = [(entry, made[Path("scores") / entry.name].name) for entry in entries(point.config)]
        if (twin := seen.setdefault(frozenset(tested), point)) is not point:
            raise RciError(
                f"the points {twin.name} and {point.name} are the same: they ask for the very same policies; leave "
                "one of them out."
            )
        policies += [Tested(number, entry, entry_seed(point.config, entry), name) for entry, name in tested]
        for job in made.values():
            jobs.setdefault(job.name, job)
        outputs.append({place: job.name for place, job in made.items()})
        asked.append(tuple(dict.fromkeys(job.name for job in made.values())))
    values = shared_values(points, asked)
    titled = {name: replace(job, title=f"{job.title}{values[name]}") for name, job in jobs.items()}
    return SweepPlan(tuple(points), titled, tuple(asked), tuple(policies), tuple(outputs))


def shared_values(points: Sequence[Point], asked: Sequence[Sequence[str]]) -> dict[str, str]:
    """The values of the grid that all points agree on that ask for a job, in brackets; by the job's name."""
    agreed = dict[str, dict[str, str]]()
    for point, names in zip(points, asked):
        values = {name: value_text(value) for name, value in point.values.items()}
        for name in names:
            others = agreed.setdefault(name, values)
            agreed[name] = {axis: text for axis, text in others.items() if values[axis] == text}
    return {
        name: f" ({', '.join(f'{axis}={text}' for axis, text in values.items())})" if values else ""
        for name, values in agreed.items()
    }


def named_by_recipe(job: Job, made: Mapping[Path, Job], out: Path) -> Job:
    """The same job, called by its recipe. made: the jobs that make its inputs, renamed already, by their old output."""
    parents = {name: made[path] for name, path in job.inputs.items()}
    recipe = [job.stage, job.settings, job.seed, {name: parent.name for name, parent in parents.items()}]
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()
    name = f"{job.stage}-{digest[:16]}"
    return replace(
        job,
        name=name,
        inputs={name: parent.output for name, parent in parents.items()},
        output=out / "artefacts" / name,
        needs=tuple(dict.fromkeys(parent.name for parent in parents.values())),
    )
