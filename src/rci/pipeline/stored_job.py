"""A job whose artefacts travel through a store: for machines that share no folder, and for work that others did."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rci.data import store
from rci.data.disk.cache import cache_folder
from rci.data.disk.files import lock
from rci.data.errors import RciError
from rci.engines.engine import Progress
from rci.engines.object_store import ObjectStore, is_sound
from rci.pipeline.companions import oracle_of, takeovers_of
from rci.pipeline.jobs import Job

OUTPUT = "output"
COMPANIONS = {"oracle": oracle_of, "takeovers": takeovers_of}  # what comes with what was collected
OBJECTS, UNFINISHED, TRAILS = "objects", "unfinished", "trails"  # folders of this machine's cache
KEPT = 7 * 24 * 3600.0  # seconds for which they keep what nobody uses


@dataclass(frozen=True)
class StoredJob:
    """A job as the engine sees it where the run was begun."""

    job: Job
    store: ObjectStore

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def title(self) -> str:
        return self.job.title

    @property
    def needs(self) -> tuple[str, ...]:
        return self.job.needs

    def outstanding(self) -> StoredWork | None:
        """Nothing, if the output is here or in the store; else what a worker anywhere can do."""
        if self.job.is_current():
            self._share()
            return None
        if self._fetch():
            return None
        inputs = {name: self.store.put(path) for name, path in self.job.inputs.items()}
        return StoredWork(self.job, self.store, inputs)

    def land(self) -> None:
        """Bring the output to where the run was begun."""
        if not self._fetch():
            raise RciError(
                f"its output is not in the store {self.store.url}, though it was made: workers must reach it too."
            )

    def _fetch(self) -> bool:
        """Bring what the store has of this work; whether it is all here now."""
        outputs = self.store.outputs(self.job.provenance().key)
        if outputs is None:
            return False
        store.check_place(self.job.output)
        # Its companions first: the job counts as done once the output is there.
        paths = {name: place(self.job.output) for name, place in COMPANIONS.items()}
        paths[OUTPUT] = self.job.output
        fetched = all(self.store.get(outputs[name], paths[name]) for name in paths if name in outputs)
        return fetched and self.job.is_current()

    def _share(self) -> None:
        """Others may want what is here already."""
        key = self.job.provenance().key
        if self.store.outputs(key) is None:
            _keep(self.store, self.job.output, key)


@dataclass(frozen=True)
class StoredWork:
    """What is sent to a worker: the job, and the hashes by which the store keeps its inputs."""

    job: Job
    store: ObjectStore
    inputs: dict[str, str]

    def run(self, progress: Progress) -> None:
        """Bring the inputs, do the work in a folder of its own, and put the output into the store.

        The folder is called by the work, so that a training whose worker was lost goes on from its checkpoint.
        """
        tidy_cache()
        inputs = {name: Kept(self.store, content).here() for name, content in self.inputs.items()}
        key = replace(self.job, inputs=inputs).provenance().key
        with _one_by_one(cache_folder() / UNFINISHED / key) as place:
            if self.store.holds(key):
                return
            here = replace(self.job, inputs=inputs, output=place / "output", trail=_trail(self.job.trail))
            here.run(progress)
            _keep(self.store, here.output, key)
            shutil.rmtree(place, ignore_errors=True)


@dataclass(frozen=True)
class Kept:
    """An artefact that a store keeps, by its hash there."""

    store: ObjectStore
    content: str

    def here(self) -> Path:
        """The artefact on this machine, verified; from the store unless it was brought before."""
        with _one_by_one(cache_folder() / OBJECTS / self.content) as place:
            if is_sound(place, self.content):
                os.utime(place)  # it is of use
                return place
            shutil.rmtree(place, ignore_errors=True)
            if not self.store.get(self.content, place):
                raise RciError(
                    f"the store {self.store.url} has lost an input, {self.content[:16]}; run the command again."
                )
        return place


def tidy_cache() -> None:
    """Remove from this machine's cache what no run has used for long."""
    for part in (OBJECTS, UNFINISHED, TRAILS):
        for place in (cache_folder() / part).glob("*"):
            if place.is_dir() and _is_old(place):
                # Who is at work there has the lock, and who came first may have used it or cleared it away.
                with contextlib.suppress(BlockingIOError), _one_by_one(place, wait=False):
                    if _is_old(place):
                        shutil.rmtree(place, ignore_errors=True)


def _is_old(place: Path) -> bool:
    try:
        return time.time() - place.stat().st_mtime > KEPT
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _one_by_one(place: Path, wait: bool = True) -> Iterator[Path]:
    """The same place, for one process of this machine at a time: the second need not do what the first has done."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with lock(place.with_name(f"{place.name}.lock"), wait):
        yield place


def keep(target: ObjectStore, folder: Path) -> Kept:
    """Put an artefact into a store, for workers that share no folder with this machine."""
    return Kept(target, target.put(folder))


def _trail(trail: Path | None) -> Path | None:
    """A training that a longer one goes on from is kept on the machine that did it; elsewhere it begins anew."""
    if trail is None:
        return None
    return cache_folder() / TRAILS / hashlib.sha256(str(trail.absolute()).encode()).hexdigest()[:32]


def _keep(target: ObjectStore, output: Path, key: str) -> None:
    """Put an output into the store, and only then say that it is there."""
    outputs = {OUTPUT: target.put(output)}
    for name, place in COMPANIONS.items():
        if place(output).exists():
            outputs[name] = target.put(place(output))
    target.note(key, outputs)
