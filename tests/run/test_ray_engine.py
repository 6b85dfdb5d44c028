"""Faults on a real Ray cluster of several nodes: nothing is lost, nothing done twice that need not be, same bits."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("ray")

from rci.data.errors import RciError
from rci.engines import ray_engine
from rci.engines.engine import LOCAL, Engine
from rci.pipeline.run_jobs import run_jobs

sys.path.insert(0, str(Path(__file__).parent))
from ray_driver import jobs

HERE = Path(__file__).parent
EPISODES = 60
PATIENCE = 120.0  # seconds; the machine may be busy


class Nodes:
    """The cluster, in a process of its own."""

    def __init__(self, cache: Path) -> None:
        environment = {**os.environ, "RCI_CACHE": str(cache)}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "ray_nodes.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.address = self._hear()["address"]

    def ask(self, line: str) -> dict:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._hear()

    def _hear(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise AssertionError("the cluster is gone")

    def add(self, cpus: int = 1) -> str:
        return self.ask(f"add {cpus}")["node"]

    def kill(self, node: str) -> None:
        self.ask(f"kill {node}")

    def close(self) -> None:
        self.process.communicate(timeout=60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, object_server):
    nodes = Nodes(tmp_path_factory.mktemp("cache"))
    nodes.first = nodes.add()
    yield nodes
    nodes.close()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    out = tmp_path_factory.mktemp("undisturbed")
    run_jobs(jobs(out, EPISODES), LOCAL, lambda task, share, seconds: None)
    return content(out)


def content(out: Path) -> dict[str, bytes]:
    """Every file of every artefact."""
    return {
        str(file.relative_to(out)): file.read_bytes()
        for folder in sorted(out.iterdir())
        if (folder / "manifest.json").is_file()
        for file in sorted(folder.iterdir())
    }


class Drive:
    """One run of the driver, or several in the same folder."""

    def __init__(self, cluster: Nodes, folder: Path, **more: object) -> None:
        self.out, self.notes = folder / "out", folder / "notes"
        self.out.mkdir()
        self.settings = {
            "address": cluster.address,
            "out": str(self.out),
            "notes": str(self.notes),
            "episodes": EPISODES,
            **more,
        }
        self.environment = dict(os.environ)

    def start(self) -> subprocess.Popen:
        command = [sys.executable, str(HERE / "ray_driver.py"), json.dumps(self.settings)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=self.environment)

    def finish(self) -> tuple[int, str]:
        process = self.start()
        _, said = process.communicate(timeout=PATIENCE)
        return process.returncode, said

    def attempts(self) -> list[dict]:
        return [json.loads(note.read_text()) for note in sorted(self.notes.glob("[a-z]*"))]

    def wait_for(self, wanted) -> dict:
        """The first attempt that is as wanted."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for note in self.attempts() if self.notes.exists() else ():
                if wanted(note):
                    return note
            time.sleep(0.02)
        raise AssertionError("nothing of that kind was ever begun")

    def counts(self) -> Counter:
        return Counter(note["task"] for note in self.attempts())


@pytest.mark.slow
def test_a_killed_worker_costs_one_attempt(cluster, undisturbed, tmp_path):
    drive = Drive(cluster, tmp_path, held="collect-2")
    process = drive.start()
    victim = drive.wait_for(lambda note: note["task"] == "collect-2")
    os.kill(victim["pid"], signal.SIGKILL)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert content(drive.out) == undisturbed
    assert drive.counts() == Counter(dict.fromkeys(drive.counts(), 1) | {"collect-2": 2})


def test_a_killed_node_costs_what_it_was_doing(cluster, undisturbed, tmp_path):
    second = cluster.add()
    drive = Drive(cluster, tmp_path, held=second)
    process = drive.start()
    victim = drive.wait_for(lambda note: note["node"] == second)
    cluster.kill(second)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert content(drive.out) == undisturbed
    twice = [name for name, count in drive.counts().items() if count > 1]
    assert twice == [victim["task"]]
    assert drive.counts()[victim["task"]] == 2


@pytest.mark.slow
def test_a_killed_driver_goes_on_where_it_was(cluster, undisturbed, tmp_path):
    drive = Drive(cluster, tmp_path)
    process = drive.start()
    drive.wait_for(lambda note: note["task"] == "collect-3")
    process.kill()
    process.communicate()
    finished = {folder.name for folder in drive.out.iterdir() if (folder / "manifest.json").is_file()}
    assert {"episodes-0", "episodes-1"} <= finished
    begun = drive.counts()
    code, said = drive.finish()
    assert code == 0, said
    assert content(drive.out) == undisturbed
    # Each recording that was there stays as it is; only what was under way may have been begun again.
    assert drive.counts()["collect-0"] == drive.counts()["collect-1"] == 1
    assert sum(drive.counts().values()) - len(drive.counts()) <= 1
    assert sum(begun.values()) < sum(drive.counts().values())


@pytest.mark.slow
def test_a_task_that_always_fails_is_told_with_its_log_and_the_rest_goes_on(cluster, undisturbed, tmp_path):
    drive = Drive(cluster, tmp_path, broken=True, poison="label-5")
    code, said = drive.finish()
    assert code == 2
    assert "2 tasks failed; the others are done and kept" in said
    assert "broken: unknown recipe" in said or "no such recipe" in said
    assert "1 tasks that need what failed were not run" in said
    assert "label-5: the worker that ran it was lost" in said
    assert drive.counts()["label-5"] == 3
    assert drive.counts()["broken"] == 1
    log = (drive.out / "failed" / "broken.log").read_text()
    assert "some words of the worker" in log
    assert "Traceback" in log
    others = {name: bits for name, bits in undisturbed.items() if not name.startswith("labels-5")}
    assert content(drive.out) == others


@pytest.mark.slow
def test_a_slow_node_gets_less_to_do(cluster, undisturbed, tmp_path):
    slow = cluster.add()
    drive = Drive(cluster, tmp_path, slow=slow)
    code, said = drive.finish()
    cluster.kill(slow)
    assert code == 0, said
    assert content(drive.out) == undisturbed
    nodes = Counter(note["node"] for note in drive.attempts())
    assert 0 < nodes[slow] < nodes[cluster.first]
    assert max(drive.counts().values()) == 1


def test_machines_that_share_only_an_object_store(cluster, undisturbed, tmp_path):
    """The workers know the folder of the run by name only: what they read and write goes through the store."""
    drive = Drive(cluster, tmp_path, store="s3://rci-tests/runs")
    code, said = drive.finish()
    assert code == 0, said
    assert content(drive.out) == undisturbed
    again = tmp_path / "again"
    again.mkdir()
    other = Drive(cluster, again, store="s3://rci-tests/runs")
    code, said = other.finish()
    assert code == 0, said
    assert content(other.out) == undisturbed
    assert not other.counts()  # all of it came from the store


def test_no_cluster_there(tmp_path):
    with pytest.raises(RciError, match=r"there is no Ray cluster to join at '127.0.0.1:9'"):
        run_jobs(jobs(tmp_path, 5), Engine("ray", address="127.0.0.1:9"), lambda *_: None)


@pytest.mark.parametrize("answer", [b"HTTP/1.0 400 Bad request\r\n\r\n", b""])
def test_something_else_there(tmp_path, answer):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def serve():
            line, _ = server.accept()
            with line:
                line.recv(100)
                line.sendall(answer)

        threading.Thread(target=serve).start()
        with pytest.raises(
            RciError, match=rf"no Ray cluster to join at '{address}': something else is there"
        ):
            run_jobs(jobs(tmp_path, 5), Engine("ray", address=address), lambda *_: None)


def test_a_machine_that_differs_refuses_the_work(monkeypatch):
    monkeypatch.setattr(ray_engine, "_prepare_once", lambda: None)
    here = ray_engine.fingerprint()
    there = {**here, "numpy": "1.0", "XLA_FLAGS": "--other"}
    failure = ray_engine._perform(None, "task", there, None)
    assert f"numpy {here['numpy']} instead of 1.0" in failure.error
    assert "XLA_FLAGS" in failure.error
