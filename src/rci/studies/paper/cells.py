"""The policies of an experiment, one by one: what makes and identifies each of them, and the jobs that train it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rci.data.code import code_digest
from rci.pipeline.jobs import Job
from rci.studies.paper.experiments import (
    DISCOUNT,
    METHODS,
    OURS,
    REWARD_ONLY,
    UNTRAINED,
    Experiment,
    Logs,
    Scale,
)
from rci.studies.study import key_from

VERSION = 3  # of the study; to be raised when something outside of the list changes what its policies are
DRAWN_EPISODES = 20  # of each policy that is drawn
POLICIES = 10  # of each configuration, at most, so that two seeds never share one


class Cell(NamedTuple):
    """One policy."""

    logs: Logs
    method: str
    learner: str
    budget: str  # of `feasible`: a rung of its ladder of thresholds, T0 to T8, or inf
    seed: int  # of the recording, and of all that follows
    policy: int  # which of those that were trained alike, for one to be selected
    updates: int
    tests: int  # episodes

    @property
    def training(self) -> Cell:
        """The policy that is trained, where several share one training."""
        if self.learner != OURS:
            return self
        # Without a budget, labels as they are make the same policy whatever it is called.
        return self._replace(
            budget="inf", method="sparse" if self.method == REWARD_ONLY else self.method, tests=0
        )

    @property
    def name(self) -> str:
        return f"{self.method}-{self.learner}-{self.budget}-{self.policy}-{self.updates}-{self.tests}"


def cells(experiment: Experiment, scale: Scale) -> list[Cell]:
    """Every policy, seed after seed: the whole comparison first with one seed, then with two."""
    alike = {
        logs._replace(share=logs.episodes(scale)): logs for logs in experiment.logs
    }  # few episodes are few
    updates, tests = scale.updates[experiment.learner], scale.test_episodes[experiment.seeds]
    return [
        Cell(logs, method, experiment.learner, budget, seed, policy, round(length * updates), tests)
        for seed in range(1 if experiment.drawn else scale.seeds[experiment.seeds])
        for logs in alike.values()
        for method in experiment.methods
        for length in experiment.lengths
        for budget in scale.chosen_budgets(experiment, logs, method)
        for policy in range(scale.policies if experiment.policies else 1)
    ]


def settings_of(cell: Cell, scale: Scale) -> dict[str, Any]:
    """Everything that the list of experiments says about a policy; not the defaults of learners and redistributors."""
    return {
        "version": VERSION,
        "logs": {**cell.logs._asdict(), "share": cell.logs.episodes(scale)},
        "ppo": family_settings(scale.ppo, cell.logs.task),
        "behaviour": family_settings(scale.behaviour[cell.learner], cell.logs.task),
        "redistribute": redistribute_settings(cell, scale),
        "method": cell.method,
        "learn": learn_settings(cell, scale),
        "budget": cell.budget,
        "seed": cell.seed,
        "policy": cell.policy,
        "episodes": [cell.tests, scale.selection_episodes],
    }


def check_settings(wanted: Iterable[Cell], scale: Scale) -> None:
    """Find mistakes in the settings of the list before any work is done."""
    from rci.learning import parse_options
    from rci.redistribution import parse_options as parse_redistributor

    for cell in {cell._replace(budget="", seed=0, policy=0) for cell in wanted}:
        for parse, settings in (
            (parse_options, learn_settings(cell, scale)),
            (parse_redistributor, redistribute_settings(cell, scale)),
        ):
            parse(settings.pop("method"), settings)


def key_of(cell: Cell, scale: Scale) -> str:
    """What identifies the row of a policy."""
    return key_from(settings_of(cell, scale))


def learn_settings(cell: Cell, scale: Scale) -> dict[str, Any]:
    """The settings of the learner for this task, and what the method changes in them."""
    settings = dict(family_settings(scale.learn[cell.learner], cell.logs.task))
    settings |= METHODS[cell.method].changes(cell.learner)
    if cell.budget.startswith("P"):  # of discounted costs: what is compared with it must be discounted alike
        settings["cost_discount"] = settings.get("discount", DISCOUNT)
    return {"method": cell.learner, **settings, "updates": cell.updates}


def redistribute_settings(cell: Cell, scale: Scale) -> dict[str, Any]:
    """The settings of the method's redistributor; those of the scale only where something is trained."""
    settings = METHODS[cell.method].redistribute
    return {**({} if settings["method"] in UNTRAINED else scale.redistribute), **settings}


def family_settings(by_task: Any, task: str) -> dict[str, Any]:
    """The settings for a task; a variant of another task has that one's."""
    from rci.tasks import get

    return dict(by_task[get(task).variant_of or task])


@dataclass(frozen=True)
class StudyPaths:
    """Where everything of a study is kept."""

    out: Path

    def logs(self, cell: Cell, scale: Scale) -> Path:
        logs = cell.logs
        return self.out / f"{logs.task}-{logs.recipe}-{logs.episodes(scale)}-seed{cell.seed}"

    def of(self, cell: Cell, scale: Scale) -> Path:
        """What depends on the stops: labels, behaviour models, costs, policies and scores."""
        return self.logs(cell, scale) / cell.logs.noise

    def behaviour(self, cell: Cell, scale: Scale) -> Path:
        return self.of(cell, scale) / f"behaviour-{cell.learner}"

    def policy(self, cell: Cell, scale: Scale) -> Path:
        return self.of(cell, scale) / "policies" / cell.name

    def scores(self, cell: Cell, scale: Scale, purpose: str) -> Path:
        return self.of(cell, scale) / purpose / cell.name

    def rollouts(self, cell: Cell, scale: Scale) -> Path:
        return self.of(cell, scale) / "rollouts" / cell.name

    def trail(self, cell: Cell, scale: Scale) -> Path:
        """Of this code: a training that was begun by another cannot go on."""
        return self.of(cell, scale) / "trails" / code_digest()[:12] / cell._replace(updates=0).name

    def costs(self, cell: Cell, scale: Scale) -> Path:
        """Named by what makes them: methods may share step costs and differ in the learner alone."""
        settings = METHODS[cell.method].redistribute
        made_by = "-".join(
            str(part) for name, value in settings.items() for part in (name, value) if part != "method"
        )
        return self.of(cell, scale) / "costs" / made_by


def plan_drawn(drawn: Iterable[Cell], scale: Scale, paths: StudyPaths) -> list[Job]:
    """What drawing policies takes: the policies themselves, and a few of their episodes."""
    jobs = []
    for cell in drawn:
        needed = [job for job in plan([cell], scale, paths) if job.stage != "evaluate"]
        test = {"task": cell.logs.task, "episodes": DRAWN_EPISODES}
        policy, output = needed[-1].output, paths.rollouts(cell, scale)
        name, needs = _name("rollouts", output, paths), (needed[-1].name,)
        jobs += [*needed, Job(name, "rollouts", test, cell.seed, {"policy": policy}, output, needs)]
    return jobs


def plan(missing: Iterable[Cell], scale: Scale, paths: StudyPaths, wanted: Iterable[Cell] = ()) -> list[Job]:
    """All jobs for the policies that are missing; what several of them need is planned once.

    Trainings that differ in their length alone are one training, shown at several times: each leaves a trail for the
    next longer one. wanted: all policies that there will be, those that are there already among them.
    """
    missing = list(missing)
    lengths = Counter(cell._replace(updates=0) for cell in {cell.training for cell in (*wanted, *missing)})
    jobs: dict[str, Job] = {}
    reached: dict[Path, tuple[int, str]] = {}  # the last job on each trail
    for cell in missing:
        training = cell.training
        shared = lengths[training._replace(updates=0)] > 1
        trail = paths.trail(training, scale) if shared else None
        if trail is not None and training.updates < reached.get(trail, (0, ""))[0]:
            trail = None  # it would lead back
        for job in _jobs_of(cell, scale, paths, trail):
            if job.name in jobs:
                continue
            if trail is not None and job.trail == trail:
                before = (reached[trail][1],) if trail in reached else ()
                job = replace(job, needs=(*job.needs, *before))
                reached[trail] = training.updates, job.name
            jobs[job.name] = job
    return list(jobs.values())


def own_jobs(cell: Cell, scale: Scale, paths: StudyPaths) -> tuple[str, str, str]:
    """The names of the jobs that a policy rests on: its training and both tests, the last one last."""
    selection, evaluation = (
        _name(purpose, paths.scores(cell, scale, purpose), paths) for purpose in ("selection", "evaluation")
    )
    return _name("learn", paths.policy(cell.training, scale), paths), selection, evaluation


def _name(stage: str, output: Path, paths: StudyPaths) -> str:
    return f"{stage} {output.relative_to(paths.out)}"


def _jobs_of(cell: Cell, scale: Scale, paths: StudyPaths, trail: Path | None) -> Iterator[Job]:
    """From the recording to the tests of one policy."""
    from rci.collection.recipe import needs_demonstrators
    from rci.learning import LEARNERS

    logs, task, seed = cell.logs, cell.logs.task, cell.seed

    def job(stage: str, settings: dict[str, Any], inputs: dict[str, Path], output: Path, **more: Any) -> Job:
        needs = tuple(made[path] for path in inputs.values())
        made[output] = _name(more.pop("called", stage), output, paths)
        own_seed = more.pop("seed", seed)
        return Job(
            made[output], stage, settings, own_seed, inputs, output, needs + more.pop("after", ()), **more
        )

    made: dict[Path, str] = {}
    recording: dict[str, Any] = {"task_name": task, "episodes": logs.episodes(scale), "recipe": logs.recipe}
    drivers = dict[str, Path]()
    if needs_demonstrators(task, logs.recipe):
        drivers = {"demonstrators": paths.out / f"{task}-demonstrators-seed{seed}"}
        training = {"task_name": task, **family_settings(scale.ppo, task)}
        yield job("demonstrators", training, {}, drivers["demonstrators"])
    episodes, labels = paths.logs(cell, scale) / "episodes", paths.of(cell, scale) / "labels"
    yield job("collect", recording, drivers, episodes)
    yield job("label", {"rule": task, "noise": logs.noise}, {"episodes": episodes}, labels)
    logged = {"episodes": episodes, "labels": labels}
    inputs = {**logged, "costs": paths.costs(cell, scale)}
    yield job("redistribute", redistribute_settings(cell, scale), logged, inputs["costs"])
    if LEARNERS[cell.learner].proposes:
        model = family_settings(scale.behaviour[cell.learner], task)
        inputs["behaviour"] = paths.behaviour(cell, scale)
        yield job("behaviour", model, logged, inputs["behaviour"])
    trained, policy = paths.policy(cell.training, scale), paths.policy(cell, scale)
    training = {**learn_settings(cell.training, scale), "budget": cell.training.budget}
    yield job("learn", training, inputs, trained, trail=trail, seed=seed * POLICIES + cell.policy)
    if policy != trained:
        limit = {"budget": "inf"} if cell.budget == "inf" else {"rung": int(cell.budget[1:])}
        yield job("limit", limit, {"policy": trained}, policy)
    before = tuple[str, ...]()
    for purpose, count in (("selection", scale.selection_episodes), ("evaluation", cell.tests)):
        test = {"task": task, "episodes": count, "purpose": purpose}
        output = paths.scores(cell, scale, purpose)
        yield job("evaluate", test, {"policy": policy}, output, called=purpose, after=before)
        before = (made[output],)  # once the last test is done, all of them are
