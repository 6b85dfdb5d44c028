"""A job whose artefacts travel through a store: for machines that share no folder, and for work that others did."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from rci.data import store
from rci.data.cache import cache_folder
from rci.data.errors import RciError
from rci.run.engine import Progress
from rci.run.jobs import Job, oracle_of
from rci.run.object_store import ObjectStore, is_sound

OUTPUT, ORACLE = "output", "oracle"  # an oracle comes with what was collected


@dataclass(frozen=True)
class StoredJob:
    """A job as the engine sees it where the run was begun."""

    job: Job
    store: ObjectStore

    @property
    def name(self) -> str:
        return self.job.name

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
        # The oracle first: the job counts as done once the output is there.
        places = {ORACLE: oracle_of(self.job.output), OUTPUT: self.job.output}
        fetched = all(self.store.get(outputs[name], places[name]) for name in places if name in outputs)
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
        """Bring the inputs, do the work in a folder of its own, and put the output into the store."""
        inputs = {name: self._bring(content) for name, content in self.inputs.items()}
        with tempfile.TemporaryDirectory(prefix="rci-stored-") as folder:
            here = replace(
                self.job, inputs=inputs, output=Path(folder) / "output", trail=_trail(self.job.trail)
            )
            here.run(progress)
            _keep(self.store, here.output, here.provenance().key)

    def _bring(self, content: str) -> Path:
        """An input, from the store unless this machine has it."""
        place = cache_folder() / "objects" / content
        with _one_by_one(place):
            if is_sound(place, content):
                return place
            shutil.rmtree(place, ignore_errors=True)
            if not self.store.get(content, place):
                raise RciError(
                    f"the store {self.store.url} has lost an input, {content[:16]}; run the command again."
                )
        return place


@contextlib.contextmanager
def _one_by_one(place: Path) -> Iterator[None]:
    """Workers of one machine bring the same input one after the other, so that only the first has to."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(place.with_name(f"{place.name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _trail(trail: Path | None) -> Path | None:
    """A training that a longer one goes on from is kept on the machine that did it; elsewhere it begins anew."""
    if trail is None:
        return None
    return cache_folder() / "trails" / hashlib.sha256(str(trail.absolute()).encode()).hexdigest()[:32]


def _keep(target: ObjectStore, output: Path, key: str) -> None:
    """Put an output into the store, and only then say that it is there."""
    outputs = {OUTPUT: target.put(output)}
    if (oracle := oracle_of(output)).exists():
        outputs[ORACLE] = target.put(oracle)
    target.note(key, outputs)
