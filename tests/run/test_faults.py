"""Kills, full disks, runs side by side, damaged stores: nothing is lost, and nothing half-done is believed."""

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

from rci.benchmarks import faults as bench_faults
from rci.benchmarks.faults import (
    DRIVER,
    EVERYBODY,
    Outcome,
    Run,
    content_of,
    disturbed,
    failures,
    kill_and_resume,
    log_of,
    rows_of,
    small_command,
    state_of,
    undisturbed,
)
from rci.data.errors import RciError
from rci.data.store import read, read_manifest
from rci.engines.local import LocalPool
from rci.engines.object_store import LONGEST_WRITE, TEMPORARY, ObjectStore, is_sound
from rci.engines.temporary_folders import CLUSTER, own_folder, remove_stale_folders, work_folder
from rci.pipeline.config import load_config
from rci.pipeline.folder import alone_in
from rci.pipeline.jobs import Job
from rci.pipeline.stored_job import KEPT, StoredJob, _one_by_one, tidy_cache
from rci.studies.sweep.runner import plan_sweep

# The first jobs of a pipeline, with the driver, the workers, the lock and the exit codes of `rci run`: quick enough to
# be run again and again. `rci bench faults` does the same with the whole.
PROGRAM = """
from pathlib import Path
import typer
from rci.pipeline.commands.command_line import run_command
from rci.engines.engine import Engine
from rci.pipeline.jobs import Job
from rci.pipeline.folder import alone_in, prepare_folder, run_timed

app = typer.Typer(pretty_exceptions_enable=False)

@app.command()
def main(out: Path = typer.Option(), store: str = typer.Option(None)) -> None:
    record = {"task_name": "point", "episodes": 60, "recipe": "mixed"}
    rule = {"rule": "point", "noise": "clean"}
    logged = {"episodes": out / "episodes"}
    jobs = [Job("collect", "collect", record, 0, {}, out / "episodes")]
    for seed in range(4):
        jobs.append(Job(f"label-{seed}", "label", rule, seed, logged, out / f"labels-{seed}", ("collect",)))
    prepare_folder(out)
    with alone_in(out):
        run_timed(jobs, out, Engine(store=store), lambda job, share, seconds: None, {})

run_command(app, "rci")
"""
ALL_THERE = 6  # artefacts: episodes, the truth about them, four labels


def program(tmp_path, *words):
    return Run(words, tmp_path / "cache", PROGRAM)


# --- kills -------------------------------------------------------------------------------------------------------


def test_killed_runs_continue_to_the_same_bytes_and_do_nothing_twice(tmp_path):
    outcomes = list(kill_and_resume(program(tmp_path), tmp_path, 2, np.random.default_rng(0)))
    rows = rows_of("pipeline", outcomes, 1.0)
    assert failures(rows) == [], log_of(tmp_path / "killed-0").read_text()
    assert sum(row["config"]["kills"] for row in rows) == 2
    assert len(list((tmp_path / "reference").rglob("manifest.json"))) == ALL_THERE


UNSOUND = """
import os, sys, time
from pathlib import Path
out = Path(sys.argv[-1])
(out / "a").mkdir(parents=True, exist_ok=True)
manifest, new, ready = out / "a" / "manifest.json", out / "new", out / "ready"
first = not ready.exists()
{}
ready.touch()
time.sleep(60 if first else 0)
"""
FLAWS = {
    "finishes": ("if first: manifest.write_text('{}')", Outcome((EVERYBODY,), True, 0, 0, 0)),
    "repeats": ("new.write_text('{}'); os.replace(new, manifest)", Outcome((EVERYBODY,), True, 0, 1, 0)),
    "litters": (
        "if first: manifest.write_text('{}'); (out / '.x.tmp').touch()",
        Outcome((EVERYBODY,), True, 0, 0, 1),
    ),
    "differs": ("if not first: manifest.write_text('!')", Outcome((EVERYBODY,), False, 1, 0, 0)),
    "forgets": (
        "manifest.write_text('{}') if first else manifest.unlink()",
        Outcome((EVERYBODY,), False, 1, 0, 0),
    ),
    "fails": ("manifest.write_text('{}') if first else sys.exit(3)", Outcome((EVERYBODY,), False, 0, 0, 0)),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_the_measurement_sees_what_it_looks_for(tmp_path, monkeypatch, flaw):
    code, expected = FLAWS[flaw]
    out = tmp_path / "out"

    def strike_when_ready(process, victim, seconds):
        while not (out / "ready").exists():
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        return EVERYBODY

    monkeypatch.setattr(bench_faults, "strike", strike_when_ready)
    run = Run((), tmp_path / "cache", UNSOUND.replace("{}", code, 1))
    reference = {"a/manifest.json": hashlib.sha256(b"{}").hexdigest()}
    outcome = disturbed(run, out, reference, 1.0, 1, np.random.default_rng(0))
    assert outcome == expected
    assert bool(failures(rows_of("pipeline", [outcome], 1.0))) == (flaw != "finishes")


def test_rows_tell_kills_by_victim():
    good = Outcome((DRIVER, DRIVER, EVERYBODY), True, 0, 0, 0)
    bad = Outcome((EVERYBODY,), False, 1, 2, 3)
    rows = {row["config"]["killed"]: row for row in rows_of("sweep", [good, bad], 7.0)}
    assert (rows[DRIVER]["value"], rows[DRIVER]["config"]["kills"]) == (2, 2)
    assert (rows[EVERYBODY]["value"], rows[EVERYBODY]["config"]["kills"]) == (1, 2)
    (told,) = failures(list(rows.values()))
    assert "1 of 2 kills recovered, 1 files lost, 2 artefacts made again, 3 temporary files left" in told


def test_the_small_commands_are_what_they_should_be(tmp_path):
    words = small_command("pipeline", tmp_path)
    config = load_config("point", "quick", None, [word for word in words[2:] if word != "--set"])
    assert (config.learn["method"], tuple(config.compare.methods)) == ("bc", ("sparse", "uniform"))
    facts, _ = plan_sweep(small_command("sweep", tmp_path)[1], tmp_path / "out")
    assert (len(facts["points"]), facts["policies"]) == (4, 8)


def test_a_polite_end_leaves_nothing_behind(tmp_path):
    """SIGTERM, as a scheduler sends it."""
    temporary, out = tmp_path / "tmp", tmp_path / "out"
    temporary.mkdir()
    words = ["run", "point", "--set", "collect.episodes=100000", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", "from rci.cli.main import main; main()", *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    while not list(temporary.glob("rci-work-*/core-*.txt")):  # a worker is at work
        assert process.poll() is None
        time.sleep(0.02)
    process.terminate()
    _, said = process.communicate(timeout=30)
    assert process.returncode == 143
    assert said.endswith(
        "rci: stopped; finished artefacts are kept, and the same command continues from them.\n"
    )
    assert "Traceback" not in said
    assert list(temporary.iterdir()) == []
    assert not list(out.rglob(".*"))


def test_folders_of_killed_pools_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    stale, other = tmp_path / f"rci-work-{ended.pid}-x", tmp_path / f"rci-work-{os.getpid()}-x"
    (stale / "rci-stored-y").mkdir(parents=True)
    other.mkdir()
    pool = LocalPool(1)
    assert not stale.exists()
    assert other.exists()
    pool.close()
    assert list(tmp_path.iterdir()) == [other]


def test_every_temporary_folder_says_whose_it_is(tmp_path, monkeypatch):
    """Those of Ray's workers, and of a cluster of this machine: of a killed process somebody else must remove them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen(["true"])
    ended.wait()
    stale = tmp_path / f"{CLUSTER}-{ended.pid}-x"
    (stale / "session").mkdir(parents=True)
    mine = own_folder(CLUSTER)
    with work_folder() as folder, tempfile.TemporaryDirectory() as inner:
        assert folder.name.startswith(f"rci-work-{os.getpid()}-")
        assert Path(inner).parent == folder
    assert not folder.exists()
    remove_stale_folders(CLUSTER)
    assert list(tmp_path.iterdir()) == [mine]
    with pytest.raises(RciError, match="cannot write to /nowhere"):
        own_folder(CLUSTER, "/nowhere")


# --- locks -------------------------------------------------------------------------------------------------------


def test_a_lock_whose_holder_is_gone_keeps_nobody_out(tmp_path):
    (tmp_path / "run.lock").write_text("4711")
    (tmp_path / ".timings.json.tmp-4711").touch()
    with alone_in(tmp_path):
        assert not list(tmp_path.glob(".*"))


def test_a_run_that_is_refused_leaves_the_files_of_the_other_alone(tmp_path):
    with alone_in(tmp_path):
        being_written = tmp_path / ".timings.json.tmp-4711"
        being_written.touch()
        with pytest.raises(RciError, match="another run is at work in"), alone_in(tmp_path):
            pass
        assert being_written.exists()


def test_a_lock_that_cannot_be_opened(tmp_path):
    (tmp_path / "run.lock").mkdir()
    with pytest.raises(RciError, match=r"cannot write .*run\.lock.*: Is a directory"), alone_in(tmp_path):
        pass


# --- full disks --------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """A file system of its own with little room, and a function that changes its options."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(place), "-o"]
    done = subprocess.run([*mount, "size=32k"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield place, lambda options: subprocess.run([*mount, f"remount,{options}"], check=True)
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_full_disk_is_told_in_one_sentence_and_room_is_all_it_takes(tmp_path, disk):
    out, change = disk
    run = program(tmp_path)
    assert run.begin(out).wait() == 2
    said = log_of(out).read_text()
    assert said.startswith(f"rci: collect: no space left to write {out}/episodes"), said
    assert "4 tasks that need what failed were not run." in said
    assert "Traceback" not in said
    assert not list(out.rglob(".*"))
    for whole in out.rglob("manifest.json"):
        read(whole.parent)
    assert state_of(out) == {}
    change("size=20m")
    assert run.begin(out).wait() == 0, log_of(out).read_text()
    undisturbed(run, tmp_path / "reference")
    assert len(content_of(out)) > ALL_THERE
    assert content_of(out) == content_of(tmp_path / "reference")
    assert {path.name for path in out.iterdir() if not path.is_dir()} == {"run.lock", "timings.json"}
    assert not list(out.rglob(".*"))
    change("ro")
    assert run.begin(out).wait() == 2
    assert "run.lock, which keeps other runs away: Read-only file system" in log_of(out).read_text()


# --- stores ------------------------------------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path, monkeypatch):
    """A store."""
    monkeypatch.setenv("RCI_CACHE", str(tmp_path / "cache"))
    return ObjectStore(str(tmp_path / "store"))


def jobs_in(out, seed=0):
    record = {"task_name": "point", "episodes": 5, "recipe": "mixed"}
    collect = Job("collect", "collect", record, 0, {}, out / "episodes")
    rule = {"rule": "point", "noise": "clean"}
    return collect, Job("label", "label", rule, seed, {"episodes": out / "episodes"}, out / "labels")


def do(jobs, shared):
    """Do what is not done; the names of the jobs that had to be."""
    done = []
    for job in jobs:
        task = StoredJob(job, shared)
        work = task.outstanding()
        if work is not None:
            work.run(lambda share: None)
            task.land()
            done.append(job.name)
        assert job.is_current()
    return done


def objects(shared):
    return sorted(Path(shared.url, "objects").iterdir())


def test_two_runs_that_share_a_store_give_the_same_bytes(tmp_path):
    run = program(tmp_path, "--store", str(tmp_path / "store"))
    both = [run.begin(tmp_path / name) for name in "ab"]
    codes = [process.wait() for process in both]
    assert codes == [0, 0], [log_of(tmp_path / name).read_text() for name in "ab"]
    assert len(list((tmp_path / "a").rglob("manifest.json"))) == ALL_THERE
    assert content_of(tmp_path / "a") == content_of(tmp_path / "b")
    shared = ObjectStore(str(tmp_path / "store"))
    assert len(objects(shared)) == ALL_THERE
    assert all(is_sound(place, place.name) for place in objects(shared))
    assert not list((tmp_path / "store" / TEMPORARY).iterdir())


def test_the_same_content_made_in_two_ways_is_no_conflict(tmp_path, shared):
    assert do(jobs_in(tmp_path / "a"), shared) == ["collect", "label"]
    assert do(jobs_in(tmp_path / "b", seed=1), shared) == ["label"]
    one, other = (read_manifest(tmp_path / name / "labels") for name in "ab")
    assert one["hash"] == other["hash"]
    assert one["provenance"]["key"] != other["provenance"]["key"]


def damage_array(place):
    file = place / "stop_index.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"?")


def exchange_manifest(place):
    """A sound one, but not the one of this hash."""
    file = place / "manifest.json"
    file.write_bytes(file.read_bytes() + b"\n")


def tear_keys(place):
    for file in (place.parent.parent / "keys").iterdir():
        file.write_bytes(b"\xff{")


DAMAGES = (damage_array, exchange_manifest, tear_keys)


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_in_a_store_counts_as_missing_and_is_made_again(tmp_path, shared, damage):
    do(jobs_in(tmp_path / "a"), shared)
    (labels,) = (place for place in objects(shared) if read_manifest(place)["kind"] == "labels")
    damage(labels)
    again = do(jobs_in(tmp_path / "b"), shared)
    assert again == (["collect", "label"] if damage is tear_keys else ["label"])
    assert content_of(tmp_path / "b") == content_of(tmp_path / "a")
    assert all(is_sound(place, place.name) for place in objects(shared))
    assert do(jobs_in(tmp_path / "c"), shared) == []


def test_a_damaged_input_in_the_cache_is_brought_again(tmp_path, shared):
    do(jobs_in(tmp_path / "a"), shared)
    (cached,) = (path for path in (tmp_path / "cache" / "objects").iterdir() if path.is_dir())
    (cached / "action.npy").write_bytes(b"torn")
    assert do(jobs_in(tmp_path / "a", seed=1), shared) == ["label"]
    assert is_sound(cached, cached.name)


def test_no_room_here_is_no_damage_there(tmp_path, shared, disk):
    place, change = disk
    do(jobs_in(tmp_path / "a"), shared)
    with pytest.raises(RciError, match="no space left to write"):
        do(jobs_in(place), shared)
    assert all(is_sound(kept, kept.name) for kept in objects(shared))
    change("size=20m")
    assert do(jobs_in(place), shared) == []


def test_what_killed_writers_left_in_a_store_is_removed_after_a_day(tmp_path, shared):
    folder = tmp_path / "store" / TEMPORARY
    folder.mkdir(parents=True)
    stale, fresh = folder / "stale", folder / "fresh"
    for path in (stale, fresh):
        path.touch()
    long_ago = time.time() - LONGEST_WRITE - 60
    os.utime(stale, (long_ago, long_ago))
    shared._tidy()
    assert list(folder.iterdir()) == [fresh]


def test_a_training_with_a_store_goes_on_from_its_checkpoint(tmp_path, shared):
    class LostError(Exception):
        pass

    def lose(share):
        raise LostError

    logged = {name: tmp_path / name for name in ("episodes", "labels", "costs")}
    record = {"task_name": "point", "episodes": 30, "recipe": "mixed"}
    settings = {
        "method": "bc",
        "budget": "inf",
        "updates": 1200,
        "hidden": 4,
        "batch_size": 8,
        "checkpoint_every": 500,
    }
    given = {"episodes": logged["episodes"]}
    both = {**given, "labels": logged["labels"]}
    jobs = [
        Job("collect", "collect", record, 0, {}, logged["episodes"]),
        Job("label", "label", {"rule": "point", "noise": "clean"}, 0, given, logged["labels"]),
        Job("costs", "redistribute", {"method": "sparse"}, 0, both, logged["costs"]),
    ]
    learn = Job("learn", "learn", settings, 0, logged, tmp_path / "policy")
    do(jobs, shared)
    work = StoredJob(learn, shared).outstanding()
    with pytest.raises(LostError):
        work.run(lose)
    heard = []
    work.run(heard.append)
    assert heard == [1000 / 1200, 1.0]  # of 500 updates each; it did not begin anew
    assert not list((tmp_path / "cache" / "unfinished").glob("*/"))
    heard.clear()
    work.run(heard.append)
    assert heard == []  # another run asked for the same, and found it done


def test_a_cache_keeps_what_is_used(tmp_path, shared):
    do(jobs_in(tmp_path / "a"), shared)
    (fetched,) = (place for place in (tmp_path / "cache" / "objects").iterdir() if place.is_dir())
    nearly = time.time() - KEPT + 600
    os.utime(fetched, (nearly, nearly))
    do(jobs_in(tmp_path / "b", seed=1), shared)
    assert fetched.stat().st_mtime > time.time() - 600  # used just now
    long_ago = time.time() - KEPT - 60
    os.utime(fetched, (long_ago, long_ago))
    with _one_by_one(fetched):
        tidy_cache()
    assert fetched.exists()  # somebody was at work there
    tidy_cache()
    assert not fetched.exists()
