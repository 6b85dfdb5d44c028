"""A run on a Ray cluster whose every attempt leaves a note, so that a test can see what was done, where and how often.

python ray_driver.py SETTINGS: JSON with address, out, notes, episodes and perhaps slow (a node), held, store, poison.
"""

import json
import os
import signal
import sys
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from rci.data.errors import RciError
from rci.engines.engine import Engine
from rci.engines.object_store import ObjectStore
from rci.engines.run import run_tasks
from rci.pipeline.jobs import Job
from rci.pipeline.stored_job import StoredJob


@dataclass(frozen=True)
class Noted:
    """A task that notes every attempt, and takes its time on a slow node.

    held: a node or a task's name; what runs there, or its first attempt, waits until somebody kills it.
    """

    task: object
    notes: Path
    slow: str = ""
    held: str = ""
    poison: bool = False
    work: object = None

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def needs(self) -> tuple:
        return self.task.needs

    def outstanding(self):
        work = self.task.outstanding()
        return None if work is None else replace(self, work=work)

    def land(self) -> None:
        self.task.land()

    def run(self, progress) -> None:
        import ray

        node = ray.get_runtime_context().get_node_id()
        note = {"task": self.name, "pid": os.getpid(), "node": node}
        temporary = self.notes / f".{uuid.uuid4()}"
        temporary.write_text(json.dumps(note))
        temporary.rename(self.notes / f"{self.name}.{temporary.name[1:]}")
        if self.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        first = len(list(self.notes.glob(f"{self.name}.*"))) == 1
        if self.held == node or (self.held == self.name and first):
            time.sleep(600.0)
        time.sleep(4.0 if node == self.slow else 0.4)
        print("some words of the worker", flush=True)
        self.work.run(progress)


def jobs(out: Path, episodes: int) -> list[Job]:
    """Six recordings, and the labels of each."""
    planned = []
    for seed in range(6):
        recording = {"task_name": "point", "episodes": episodes, "recipe": "mixed"}
        place = out / f"episodes-{seed}"
        planned.append(Job(f"collect-{seed}", "collect", recording, seed, {}, place))
        rule = {"rule": "point", "noise": "clean"}
        labels, name = out / f"labels-{seed}", f"label-{seed}"
        planned.append(Job(name, "label", rule, 0, {"episodes": place}, labels, (f"collect-{seed}",)))
    return planned


def main() -> None:
    told = json.loads(sys.argv[1])
    out, notes = Path(told["out"]), Path(told["notes"])
    notes.mkdir(parents=True, exist_ok=True)
    planned = jobs(out, told["episodes"])
    if told.get("broken"):
        bad = {"task_name": "point", "episodes": 5, "recipe": "no such recipe"}
        planned.append(Job("broken", "collect", bad, 0, {}, out / "broken"))
        planned.append(Job("after", "label", {}, 0, {"episodes": out / "broken"}, out / "after", ("broken",)))
    store = told.get("store")
    tasks = [job if store is None else StoredJob(job, ObjectStore(store)) for job in planned]
    poison = told.get("poison", "")
    noted = [
        Noted(task, notes, told.get("slow", ""), told.get("held", ""), task.name == poison) for task in tasks
    ]
    engine = Engine("ray", address=told["address"])
    try:
        run_tasks(noted, engine, lambda task, share, seconds: None, out / "failed")
    except RciError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
