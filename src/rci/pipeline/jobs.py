"""The jobs of a pipeline: each reads artefacts, runs one stage and writes artefacts. They run in worker processes.

A job is a name, plain arguments and paths, so that it can be sent anywhere and its inputs can be hashed.
"""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from rci.data import store
from rci.data.artefacts.models import Policy
from rci.data.code import code_digest
from rci.data.errors import RciError
from rci.data.extras import require_modules
from rci.data.options import build
from rci.data.record import Record
from rci.data.store import Provenance
from rci.engines.engine import Progress
from rci.pipeline.companions import BESIDE, belongs, labels_of, oracle_of, takeovers_of

READ_AT_ONCE = 16  # inputs that a process keeps open, with a file for every array: a sweep has thousands


@dataclass(frozen=True)
class Job:
    """Run `stage` with `settings` and `seed` on the artefacts `inputs`; `output` is current if nothing changed."""

    name: str
    stage: str
    settings: dict[str, Any]
    seed: int
    inputs: dict[str, Path]
    output: Path
    needs: tuple[str, ...] = ()  # names of the jobs that make the inputs
    trail: Path | None = (
        None  # where a training is kept for a longer one to go on from; no part of what is made
    )
    title: str = field(default="", compare=False)  # what to call it to people, if not by its name

    def provenance(self) -> Provenance:
        """What the output is made from: settings, seed, the content of every input, and the code that makes it."""
        parents = {name: input_hash(path) for name, path in self.inputs.items()}
        made_by = [store.versions(simulator_packages(self.settings)), code_digest()]
        text = json.dumps([self.stage, self.settings, self.seed, made_by, parents], sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        return Provenance(self.settings, self.seed, parents, key)

    def outstanding(self) -> Job | None:
        """Itself, unless its output is there already."""
        return None if self.is_current() else self

    def run(self, progress: Progress) -> None:
        """Do the work in this process."""
        run_job(self, progress)

    def land(self) -> None:
        """The output is where it belongs."""

    def is_current(self) -> bool:
        """Whether the output is there and made from just these inputs."""
        if not store.is_current(self.output, self.provenance().key):
            return False
        beside = BESIDE.get(self.stage)
        return beside is None or belongs(beside(self.output), input_hash(self.output))


def simulator_packages(settings: dict[str, Any]) -> tuple[str, ...]:
    """The packages that simulate the task of a job, if it simulates one; no other job depends on them."""
    from rci.tasks import TASKS

    task = TASKS.get(_task_of(settings))
    return () if task is None else task.packages


def require_simulators(jobs: Iterable[Job]) -> None:
    """Refuse to begin jobs that simulate a task whose simulator is not installed."""
    for task, packages in {_task_of(job.settings): simulator_packages(job.settings) for job in jobs}.items():
        require_modules(packages, f"the task {task!r}")


def _task_of(settings: dict[str, Any]) -> str:
    return str(settings.get("task_name") or settings.get("task", ""))


def input_hash(path: Path) -> str:
    """The content hash of an artefact, from its manifest."""
    return str(store.read_manifest(path)["hash"])


def run_job(job: Job, progress: Progress) -> None:
    """Do the work of one job in this process."""
    # Before the work: were an input replaced meanwhile, the output must not pass for one made from it.
    provenance = job.provenance()
    store.check_place(job.output)
    like = job.inputs["policy"] if job.stage == "limit" else None  # networks are stored once
    store.write(job.output, STAGES[job.stage](job, progress), provenance, like)
    if (
        job.stage == "learn" and job.trail is None
    ):  # only now: until then an unfinished training is all there is
        shutil.rmtree(_checkpoint(job), ignore_errors=True)


def _demonstrators(job: Job, progress: Progress) -> Record:
    from rci.collection.demonstrators import train_demonstrators
    from rci.collection.ppo import Config

    options = dict(job.settings)
    task = options.pop("task_name")
    return train_demonstrators(task, job.seed, build(Config, options, "ppo"), progress)


def _informed(job: Job, progress: Progress) -> Record:
    from rci.collection.informed import train_informed
    from rci.collection.ppo import Config

    blind = _read(job, "blind", "informed") if "blind" in job.inputs else None
    options = {name: job.settings[name] for name in ("task_name", "price", "world")}
    config = build(Config, job.settings["ppo"], "ppo")
    return train_informed(seed=job.seed, config=config, blind=blind, progress=progress, **options)


def _drive(job: Job, progress: Progress) -> Record:
    """Test an informed driver, demonstrators as they record, or a script of the task."""
    from functools import partial

    import numpy as np

    from rci.evaluation import score_driver
    from rci.tasks import get

    task, world, episodes = (job.settings[name] for name in ("task_name", "world", "episodes"))
    rng = np.random.default_rng(job.seed)
    if "informed" in job.inputs:
        from rci.collection.informed import drive

        act = drive(_read(job, "informed"))
    elif "demonstrators" in job.inputs:
        from rci.collection.demonstrators import behaviours

        act = partial(list(behaviours(_read(job, "demonstrators")).values())[-1], rng)
    else:
        act = partial(get(task).behaviours[job.settings["behaviour"]], rng)
    return score_driver(act, task, episodes, job.seed, progress, **world)


def _collect(job: Job, progress: Progress) -> Record:
    from rci.collection import collect

    demonstrators = _read(job, "demonstrators") if "demonstrators" in job.inputs else None
    episodes, oracle = collect(seed=job.seed, demonstrators=demonstrators, progress=progress, **job.settings)
    # The oracle first: the job counts as done once the episodes are there.
    made = Provenance(job.settings, job.seed, {"episodes": episodes.hash})
    store.write(oracle_of(job.output), oracle, made)
    return episodes


def _collect_takeovers(job: Job, progress: Progress) -> Record:
    from rci.collection.takeovers import Watch, collect_takeovers

    task, episodes = job.settings["task_name"], job.settings["episodes"]
    watch = build(Watch, job.settings["watch"], "watch")
    drivers = _read(job, "machine", "informed"), _read(job, "person", "informed")
    recorded, takeovers = collect_takeovers(task, *drivers, episodes, job.seed, watch, progress)
    # The takeovers first, as the oracle of `_collect`.
    made = Provenance(job.settings, job.seed, {"episodes": recorded.hash})
    store.write(takeovers_of(job.output), takeovers, made)
    return recorded


def _cut(job: Job, progress: Progress) -> Record:
    """One part of runs with takeovers: what the machine drove, the labels of it, or what a person drove."""
    from rci.data.segments import cut

    part: Record = getattr(cut(_read(job, "episodes"), _read(job, "takeovers")), job.settings["part"])
    return part


def _import(job: Job, progress: Progress) -> Record:
    """Logs as they are; the stops that they know of are labels, which are written beside them."""
    from rci.formats import import_dataset

    mapping = job.settings["mapping"]
    options = {} if mapping is None else {"mapping": mapping}
    imported = import_dataset(job.settings["source"], job.settings["format"], progress, **options)
    labels = imported.labels()
    if labels is None:
        raise RciError(
            f"{job.settings['source']} has no column of stops that is known; name it in the mapping (stop = 'estop'), "
            "or import the logs and label them: rci import, rci serve."
        )
    made = Provenance({"notes": list(imported.notes)}, job.seed, {"episodes": imported.episodes.hash})
    store.write(
        labels_of(job.output), labels, made
    )  # first: the job counts as done once the episodes are there
    return imported.episodes


def _part(job: Job, progress: Progress) -> Record:
    """Some runs of the logs as a dataset of their own, their labels beside them."""
    from rci.pipeline.assessing.parts import runs_of, split_runs, taken

    episodes, labels = _read(job, "episodes"), _read(job, "labels")
    shares = {name: job.settings[name] for name in ("selection", "held_out")}
    chosen = split_runs(runs_of(episodes), labels.stopped, seed=job.seed, **shares)[job.settings["part"]]
    part, part_labels = taken(episodes, labels, chosen)
    store.write(
        labels_of(job.output), part_labels, Provenance(job.settings, job.seed, {"episodes": part.hash})
    )
    return part


def _label(job: Job, progress: Progress) -> Record:
    from rci.labeling import corrupt, label

    episodes = _read(job, "episodes")
    stops = job.settings.get("stops")
    clean = label(episodes, job.settings["rule"] if stops is None else stops)
    return corrupt(episodes, clean, job.settings["noise"], job.seed)


def _behaviour(job: Job, progress: Progress) -> Record:
    from rci.learning.behaviour import fit_behaviour, parse_behaviour

    config, emphasis = parse_behaviour(job.settings)
    logged = _read(job, "episodes"), _read(job, "labels")
    return fit_behaviour(*logged, job.seed, config, progress, _demonstrations_of(job), emphasis)


def _redistribute(job: Job, progress: Progress) -> Record:
    from rci.redistribution import redistribute

    logged = _read(job, "episodes"), _read(job, "labels")
    return redistribute(*logged, seed=job.seed, progress=progress, **job.settings)


def _combine(job: Job, progress: Progress) -> Record:
    """The members of an ensemble as one; the settings are those of the whole ensemble."""
    from rci.redistribution import combine

    members = [_read(job, name, "costs") for name in job.inputs]
    return combine(members, float(job.settings.get("pessimism", 0.0)))


def _transfer(job: Job, progress: Progress) -> Record:
    from rci.redistribution import transfer

    costs, episodes, labels = (_read(job, kind) for kind in ("costs", "episodes", "labels"))
    return transfer(costs, episodes, labels, **job.settings)


def _learn(job: Job, progress: Progress) -> Record:
    from rci.learning import learn

    episodes, labels, costs = (_read(job, kind) for kind in ("episodes", "labels", "costs"))
    behaviour = _read(job, "behaviour") if "behaviour" in job.inputs else None  # not every learner uses one
    return learn(
        episodes,
        labels,
        costs,
        seed=job.seed,
        behaviour=behaviour,
        progress=progress,
        checkpoint=_checkpoint(job) if job.trail is None else job.trail,
        beyond=job.trail is not None,
        demonstrations=_demonstrations_of(job),
        **job.settings,
    )


def _demonstrations_of(job: Job) -> Any:
    """What a person drove, where there is such an input."""
    return _read(job, "human", "episodes") if "human" in job.inputs else None


def _limit(job: Job, progress: Progress) -> Record:
    """A trained policy for another budget, or at one of the thresholds of its ladder."""
    policy: Policy = _read(job, "policy")
    if "rung" in job.settings:
        return policy.at_rung(job.settings["rung"])
    return policy.with_budget(job.settings["budget"])


def _checkpoint(job: Job) -> Path:
    """Where an unfinished training is kept; those of other settings, inputs or code are of no use any more."""
    folder = job.output.resolve()
    place = folder.with_name(f".{folder.name}.checkpoint-{job.provenance().key[:16]}")
    # The second pattern: what a writer that was killed left of them.
    for pattern in (".{}.checkpoint-*", "..{}.checkpoint-*.tmp-*"):
        for stale in folder.parent.glob(pattern.format(glob.escape(folder.name))):
            if place.name not in stale.name:
                shutil.rmtree(stale, ignore_errors=True)
    return place


def _monitor(job: Job, progress: Progress) -> Record:
    """A monitor; its level is chosen on episodes that its model was not fitted to."""
    from rci.pipeline.monitor import fit_monitor

    costs, episodes, labels = (_read(job, kind) for kind in ("costs", "episodes", "labels"))
    return fit_monitor(costs, episodes, labels, **job.settings)


def _estimate(job: Job, progress: Progress) -> Record:
    """What the logs say of several policies, by trials that begin as the runs of a part do."""
    from rci.data.artefacts.policy_estimates import Estimates
    from rci.learning import restore_policy
    from rci.learning.judging.estimate import estimate_all
    from rci.pipeline.assessing.parts import judged_runs

    settings = dict(job.settings)
    part, names = settings.pop("part"), settings.pop("policies")
    shares = {name: settings.pop(name) for name in ("selection", "held_out")}
    logs = judged_runs(_read(job, "episodes"), _read(job, "labels"), part, seed=job.seed, **shares)
    policies = {name: _read(job, f"policy {name}", "policy") for name in names}
    # Budgets that lead to the same threshold are the same policy, and judged once.
    limits = {name: json.dumps(policy.info["threshold"]) for name, policy in policies.items()}
    different = {limit: restore_policy(policies[name]) for name, limit in limits.items()}
    estimates = estimate_all([*different.values()], *logs, seed=job.seed, progress=progress, **settings)
    by_limit = dict(zip(different, estimates))
    return Estimates({name: by_limit[limit] for name, limit in limits.items()}, part)


def _evaluate(job: Job, progress: Progress) -> Record:
    from rci.evaluation import evaluate
    from rci.learning import restore_policy

    policy = restore_policy(_read(job, "policy"))
    return evaluate(policy, seed=job.seed, progress=progress, **job.settings)


def _rollouts(job: Job, progress: Progress) -> Record:
    from rci.evaluation import record_policy
    from rci.learning import restore_policy

    policy = restore_policy(_read(job, "policy"))
    return record_policy(policy, seed=job.seed, **job.settings)


STAGES: dict[str, Callable[[Job, Progress], Record]] = {
    "demonstrators": _demonstrators,
    "informed": _informed,
    "drive": _drive,
    "collect": _collect,
    "collect-takeovers": _collect_takeovers,
    "cut": _cut,
    "import": _import,
    "part": _part,
    "label": _label,
    "behaviour": _behaviour,
    "redistribute": _redistribute,
    "combine": _combine,
    "transfer": _transfer,
    "learn": _learn,
    "limit": _limit,
    "monitor": _monitor,
    "estimate": _estimate,
    "evaluate": _evaluate,
    "rollouts": _rollouts,
}


def _read(job: Job, name: str, kind: str = "") -> Any:
    """Read and verify an input once per process, as long as it does not change. kind: what it holds, if not `name`."""
    path = job.inputs[name]
    return _read_once(path, kind or name, input_hash(path))


@lru_cache(maxsize=READ_AT_ONCE)
def _read_once(path: Path, kind: str, content: str) -> Any:
    return store.read(path, kind)
