"""The jobs of a pipeline: each reads artefacts, runs one stage and writes artefacts. They run in worker processes.

A job is a name, plain arguments and paths, so that it can be sent anywhere and its inputs can be hashed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rci import __version__
from rci.data import store
from rci.data.store import Provenance

Progress = Callable[[float], None]

# Resets of collection, evaluation and rollouts are seeded from separate ranges, so no episode is ever shared.
SEED_STRIDE = 10_000_000
EVALUATION_SEEDS = 4_000_000
ROLLOUT_SEEDS = 8_000_000


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

    def key(self) -> str:
        """What the output depends on: stage, settings, seed, version of rci and the content of every input."""
        parents = {name: input_hash(path) for name, path in self.inputs.items()}
        text = json.dumps([self.stage, self.settings, self.seed, __version__, parents], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def is_current(self) -> bool:
        """Whether the output is there and made from just these inputs."""
        return store.is_current(self.output, self.key())

    def provenance(self) -> Provenance:
        """What the manifest says of how the output was made."""
        parents = {name: input_hash(path) for name, path in self.inputs.items()}
        return Provenance(self.settings, self.seed, parents, self.key())


def input_hash(path: Path) -> str:
    """The content hash of an artefact, from its manifest."""
    return str(store.read_manifest(path)["hash"])


def run_job(job: Job, progress: Progress) -> None:
    """Do the work of one job in this process."""
    STAGES[job.stage](job, progress)


def _collect(job: Job, progress: Progress) -> None:
    from rci.collection import collect

    episodes, oracle = collect(seed=job.seed, progress=progress, **job.settings)
    # The oracle first: the job counts as done once its main output, the episodes, is there.
    store.write(oracle_of(job.output), oracle, Provenance(parents={"episodes": episodes.hash}))
    store.write(job.output, episodes, job.provenance())


def _label(job: Job, progress: Progress) -> None:
    from rci.labeling import corrupt, label

    episodes = _read(job.inputs["episodes"], "episodes")
    clean = label(episodes, job.settings["rule"])
    store.write(job.output, corrupt(episodes, clean, job.settings["noise"], job.seed), job.provenance())


def _behaviour(job: Job, progress: Progress) -> None:
    from rci.learning.behaviour import Config, fit_behaviour

    episodes, labels = _read(job.inputs["episodes"], "episodes"), _read(job.inputs["labels"], "labels")
    fitted = fit_behaviour(episodes, labels, job.seed, Config(**job.settings), progress)
    store.write(job.output, fitted, job.provenance())


def _redistribute(job: Job, progress: Progress) -> None:
    from rci.redistribution import redistribute

    episodes, labels = _read(job.inputs["episodes"], "episodes"), _read(job.inputs["labels"], "labels")
    costs = redistribute(episodes, labels, seed=job.seed, progress=progress, **job.settings)
    store.write(job.output, costs, job.provenance())


def _learn(job: Job, progress: Progress) -> None:
    from rci.learning import learn

    kinds = ("episodes", "labels", "costs", "behaviour")
    episodes, labels, costs, behaviour = (_read(job.inputs[kind], kind) for kind in kinds)
    settings = dict(job.settings)
    policy = learn(
        episodes,
        labels,
        costs,
        budget=settings.pop("budget"),
        seed=job.seed,
        behaviour=behaviour,
        progress=progress,
        **settings,
    )
    store.write(job.output, policy, job.provenance())


def _evaluate(job: Job, progress: Progress) -> None:
    from rci.evaluation import evaluate
    from rci.learning import restore_policy

    policy = restore_policy(_read(job.inputs["policy"], "policy"))
    scores = evaluate(policy, job.settings["task"], job.settings["episodes"], job.seed, progress)
    store.write(job.output, scores, job.provenance())


def _rollouts(job: Job, progress: Progress) -> None:
    from rci.evaluation import record_policy
    from rci.learning import restore_policy

    policy = restore_policy(_read(job.inputs["policy"], "policy"))
    recorded = record_policy(policy, job.settings["task"], job.settings["episodes"], job.seed)
    store.write(job.output, recorded, job.provenance())


STAGES: dict[str, Callable[[Job, Progress], None]] = {
    "collect": _collect,
    "label": _label,
    "behaviour": _behaviour,
    "redistribute": _redistribute,
    "learn": _learn,
    "evaluate": _evaluate,
    "rollouts": _rollouts,
}


def oracle_of(episodes: Path) -> Path:
    """Where the truth about collected episodes is kept: beside them."""
    return episodes.with_name(f"{episodes.name}-oracle")


def _read(path: Path, kind: str) -> Any:
    """Read and verify an artefact once per process, as long as it does not change."""
    return _read_once(path, kind, input_hash(path))


@cache
def _read_once(path: Path, kind: str, content: str) -> Any:
    return store.read(path, kind)
