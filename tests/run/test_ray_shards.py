"""Shards on a Ray cluster: the same bytes as anywhere else, whatever becomes of the workers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from shard_files import work_on, write_shard

import rci
from rci.data.errors import RciError
from rci.engines.engine import Engine
from rci.engines.run import ATTEMPTS, run_tasks
from rci.shards.run import ShardTask

# Ray prints and warns; and what is defined here is sent to workers by value, as they cannot import a test.
SCRIPT = """
import json, os, signal, sys
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, sys.argv[1])
from shard_files import work_on
from rci.data.errors import RciError
from rci.engines.engine import Engine
from rci.engines.run import run_tasks
from rci.shards.run import ShardTask

def die(share):
    os.kill(os.getpid(), signal.SIGKILL)

@dataclass(frozen=True)
class Deadly:  # kills its worker, once in the middle of the shard, or each time
    work: object
    once: bool
    @property
    def out(self):
        return self.work.out
    def done(self):
        return self.work.done()
    def run(self, progress):
        mark = self.work.out.with_suffix(".died")
        died = mark.exists()
        mark.touch()
        with open(self.work.out.with_suffix(".deaths"), "a") as file:
            file.write("" if died and self.once else ".")
        if not self.once:
            die(0.0)
        self.work.run(progress if died else die)

place = Path(sys.argv[2])
shards = sorted((place / "logs").iterdir())
works = {shard.name: work_on(shard, place / "out" / shard.name, place / "costs") for shard in shards}
broken = replace(works["a.parquet"], shard=place / "none.parquet", out=place / "out" / "none.parquet")
tasks = [ShardTask(name, work) for name, work in works.items()]
first = [
    ShardTask("a.parquet", works["a.parquet"]),
    ShardTask("b.parquet", Deadly(works["b.parquet"], once=True)),
    ShardTask("c.parquet", Deadly(works["c.parquet"], once=False)),
    ShardTask("none.parquet", broken),
]
told = []
def report(task, share, seconds):
    if share == 1.0:
        told.append([task.name, share, seconds is None])

engine = Engine("ray", 2)
failed = ""
try:
    run_tasks(first, engine, report, place / "failed")
except RciError as error:
    failed = str(error)
between = sorted(path.name for path in (place / "out").iterdir() if not path.name.startswith("."))
run_tasks(tasks, engine, report, place / "failed")
print(json.dumps({"told": told, "failed": failed, "between": between}))
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory, point_episodes, point_labels):
    folder = tmp_path_factory.mktemp("ray")
    for name in ("logs", "out", "expected"):
        (folder / name).mkdir()
    costs = rci.redistribute(point_episodes, point_labels, "potential", epochs=1, hidden=8)
    rci.save(costs, folder / "costs")
    for number, name in enumerate("abc"):
        numbers = range(20 * number, 20 * number + 20)
        write_shard(folder / "logs" / f"{name}.parquet", point_episodes, point_labels, numbers)
    return folder


def test_workers_may_die(place):
    pytest.importorskip("ray")
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(Path(__file__).parent), str(place)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    # One worker died in the middle of b, and another did it; c killed three of them; none of it stopped a.
    assert found["between"] == ["a.parquet", "b.deaths", "b.died", "b.parquet", "c.deaths", "c.died"]
    count, lost, why = sorted(found["failed"].splitlines())
    assert count == "2 tasks failed; the others are done and kept."
    assert lost.startswith("c.parquet: the worker that ran it was lost (WorkerCrashedError)")
    assert len((place / "out" / "c.deaths").read_text()) == ATTEMPTS
    assert why.startswith("none.parquet: ")
    assert "none.parquet" in why.partition(": ")[2]
    # Once more, with harmless work: what is done is not done again.
    assert found["told"][-3:] == [
        ["a.parquet", 1.0, True],
        ["b.parquet", 1.0, True],
        ["c.parquet", 1.0, False],
    ]
    for shard in sorted((place / "logs").iterdir()):
        here = place / "expected" / shard.name
        work_on(shard, here, place / "costs").run(lambda share: None)
        assert here.read_bytes() == (place / "out" / shard.name).read_bytes()


def test_without_ray_the_cure_is_told(monkeypatch, tmp_path, place):
    monkeypatch.setitem(sys.modules, "ray", None)
    task = ShardTask("a.parquet", work_on(place / "logs" / "a.parquet", tmp_path / "a", place / "costs"))
    with pytest.raises(RciError, match=r"pip install 'rci\[ray\]'"):
        run_tasks([task], Engine("ray"), lambda *_: None)
