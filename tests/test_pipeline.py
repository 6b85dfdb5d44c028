"""`rci run` from nothing to the report: reproducible, resumable, and it does nothing twice."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from tiny_run import FLAGS, RCI, TINY, finish, start

from rci.data.errors import RciError
from rci.engines.engine import LOCAL, Engine
from rci.engines.run import ATTEMPTS
from rci.pipeline.config import load_config
from rci.pipeline.folder import alone_in
from rci.pipeline.jobs import Job, run_job
from rci.pipeline.plan import plan
from rci.pipeline.run_jobs import run_jobs


def artefacts(out):
    """Every byte of every artefact, by its path."""
    names = ("episodes", "episodes-oracle", "labels", "behaviour", "costs", "policies", "scores", "rollouts")
    files = [file for name in names for file in sorted((out / name).rglob("*")) if file.is_file()]
    return {str(file.relative_to(out)): file.read_bytes() for file in files}


@pytest.fixture(scope="module")
def finished(tiny_run):
    return tiny_run


def test_it_ends_with_the_path_of_the_report(finished):
    out, stdout = finished
    headline, page = stdout.splitlines()
    assert headline.startswith("With a budget of ")
    assert "violated in" in headline
    page = Path(page)
    assert page == out / "report" / "index.html"
    assert "rci" in page.read_text()
    assert "Where the policies push" in page.read_text()
    fields = json.loads((out / "report" / "summary.json").read_text())["fields"]
    assert [(f["method"], f["budget"]) for f in fields] == [
        ("reward-only", "inf"),
        ("rci", "P30"),
        ("rci", "0.1"),
    ]
    assert 0.0 < fields[0]["mean_arrow"] < 1.5  # actions are at most 1 to each side
    assert (out / "report" / "figures" / "vector-fields.svg").is_file()


def test_results_are_rows_of_numbers(finished):
    rows = json.loads((finished[0] / "results.json").read_text())
    assert not any(row["selected"] for row in rows)
    assert [(r["method"], r["budget"], r["seed"]) for r in rows] == [
        ("reward-only", "inf", 0), ("reward-only", "inf", 1),
        ("rci", "0.1", 0), ("rci", "0.1", 1), ("rci", "P30", 0), ("rci", "P30", 1),
    ]  # fmt: skip
    keys = "experiment task dataset noise method learner budget seed selected episodes violation_rate mean_return"
    assert set(keys.split()) | {"mean_return_until_stop", "return_norm"} == set(rows[0])
    norms = [row["return_norm"] for row in rows]
    assert (min(norms), max(norms)) == (0.0, 1.0)


def test_rerunning_skips_everything_and_json_prints_the_rows(finished):
    before = artefacts(finished[0])
    stdout, stderr = finish(finished[0], "--json")
    assert "unchanged" in stderr
    assert [line.split()[0] for line in stderr.splitlines() if "unchanged" not in line] == ["report"]
    assert artefacts(finished[0]) == before
    assert len(json.loads(stdout)["results"]) == 6


def jobs_of(out, *more):
    return plan(load_config("point", "quick", None, [*TINY, *more]), out)


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished[0], tmp_path / "copy"))


def test_one_training_serves_every_budget_of_a_run(tmp_path):
    """Costs times seeds trainings, whatever the number of budgets; the report shows the ladder and the reach."""
    flags = ["learn.method=feasible", "learn.model_updates=5", "compare.budgets=[0.1,0.3]", "compare.seeds=1"]
    out = tmp_path / "run"
    finish(out, *(word for flag in flags for word in ("--set", flag)))
    assert sorted(path.name for path in (out / "trainings").iterdir()) == ["rci-seed0", "sparse-seed0"]
    policies = ["rci-0.1-seed0", "rci-0.3-seed0", "reward-only-inf-seed0"]
    assert sorted(path.name for path in (out / "policies").iterdir()) == policies
    networks = out / "policies" / "rci-0.1-seed0" / "critic.obs_weight.npy"
    assert networks.stat().st_nlink == 3  # with the training and the other budget
    assert (out / "report" / "figures" / "ladder.png").is_file()
    page = (out / "report" / "index.html").read_text()
    assert "What a policy can choose from" in page
    assert "What the logs alone say of one training at every threshold" in page


def test_only_what_depends_on_a_change_is_done_again(copy):
    done = {}
    run_jobs(
        jobs_of(copy, "redistribute.epochs=3"),
        LOCAL,
        lambda job, _, seconds: done.update({job.name: seconds}),
    )
    assert done["collect"] is done["behaviour"] is done["costs-sparse-seed0"] is None
    assert done["learn-reward-only-inf-seed0"] is None
    assert done["costs-rci-seed0"] is not None
    assert done["evaluate-rci-0.1-seed1"] is not None


def test_a_lost_or_foreign_oracle_is_made_again(finished, copy):
    shutil.rmtree(copy / "episodes-oracle")
    (stale,) = [job for job in jobs_of(copy) if not job.is_current()]
    assert stale.name == "collect"
    run_job(stale, lambda share: None)
    assert all(job.is_current() for job in jobs_of(copy))
    assert artefacts(copy) == artefacts(finished[0])


def test_a_damaged_artefact_is_made_again_and_damaged_notes_are_only_notes(finished, copy):
    (copy / "costs" / "rci-seed0" / "cost.npy").unlink()
    damaged = copy / "episodes" / "obs.npy"
    data = bytearray(damaged.read_bytes())
    data[-1] ^= 1
    damaged.write_bytes(data)
    (copy / "timings.json").write_text("")
    _, stderr = finish(copy)
    done = dict(line.split("  ") for line in stderr.splitlines())
    assert [name for name in done if done[name] != "unchanged"] == [
        "record episodes",
        "step costs by rudder, seed 0",
        "report",
    ]
    assert artefacts(copy) == artefacts(finished[0])


def test_damaged_settings_of_a_run(copy):
    (copy / "config.json").write_text("{")
    result = subprocess.run([*RCI, "report", str(copy)], capture_output=True, text=True)
    assert result.returncode == 2
    assert "config.json is damaged" in result.stderr


def test_two_runs_in_one_folder(finished):
    with alone_in(finished[0]):
        result = subprocess.run(
            [*RCI, "run", "point", "--out", str(finished[0]), *FLAGS], capture_output=True, text=True
        )
    assert result.returncode == 2
    assert "another run is at work in" in result.stderr


def test_other_code_is_another_result(tmp_path, monkeypatch):
    job = Job(
        "collect", "collect", {"task_name": "point", "episodes": 3, "recipe": "mixed"}, 0, {}, tmp_path / "e"
    )
    run_job(job, lambda share: None)
    assert job.is_current()
    monkeypatch.setattr("rci.pipeline.jobs.code_digest", lambda: "changed")
    assert not job.is_current()


def test_percentiles_get_no_verdict_and_numbers_are_judged_as_asked(finished):
    page = json.loads((finished[0] / "report" / "summary.json").read_text())
    rows = {(row["method"], row["asked"]): row for row in page["results"]}
    assert rows["rci", "P30"]["budget"] is None
    assert rows["rci", "P30"]["budget_kept"] == ""
    assert rows["rci", "P30"]["threshold"] is not None
    assert rows["rci", "0.1"]["budget"] == 0.1
    assert rows["rci", "0.1"]["budget_kept"] in ("yes", "no", "undecided")


@pytest.mark.slow
def test_one_worker_gives_the_same_bits_as_two(finished, tmp_path):
    finish(tmp_path / "b", "--workers", "1")
    assert artefacts(tmp_path / "b") == artefacts(finished[0])


@pytest.mark.slow
def test_killed_at_random_moments_it_continues_to_the_same_bits(finished, tmp_path):
    out = tmp_path / "b"
    rng = np.random.default_rng(0)
    for _ in range(4):
        process = start(out)
        time.sleep(rng.uniform(2.0, 9.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finish(out)
    assert artefacts(out) == artefacts(finished[0])
    assert list(out.rglob(".*")) == []


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run with another seed, stopped by Ctrl-C once there are labels."""
    out = tmp_path_factory.mktemp("interrupted") / "b"
    process = start(out, "--seed", "1")
    while not (out / "labels").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    return out, process.returncode, stderr


def test_ctrl_c_stops_cleanly(interrupted):
    _, code, stderr = interrupted
    assert code == 130
    assert "the same command continues" in stderr
    assert "Traceback" not in stderr


def test_another_seed_gives_other_bits(finished, interrupted):
    assert artefacts(interrupted[0])["episodes/obs.npy"] != artefacts(finished[0])["episodes/obs.npy"]


def test_more_workers_than_cores(tmp_path):
    with pytest.raises(RciError, match="1000 workers were asked for, but there are only"):
        run_jobs([], Engine(workers=1000), lambda job, share, seconds: None)


def test_a_failing_job_says_which_and_keeps_the_rest(tmp_path):
    config = load_config("point", "quick", None, [*TINY, "learn.learning_rate=1e30"])
    with pytest.raises(RciError, match=r"learn-reward-only-inf-seed\d: training diverged"):
        run_jobs(plan(config, tmp_path), Engine(workers=2), lambda job, share, seconds: None)
    assert (tmp_path / "labels" / "manifest.json").is_file()
    assert not list((tmp_path / "policies").glob("*")) or not (tmp_path / "policies").exists()


def test_all_safe_data_is_refused_with_a_reason(tmp_path):
    config = load_config("point", "quick", None, [*TINY, "collect.episodes=3", "collect.recipe=random"])
    with pytest.raises(RciError, match="costs-rci-seed0: (none of the 3|.*at least 3 stopped and 3 safe)"):
        run_jobs(plan(config, tmp_path), Engine(workers=1), lambda job, share, seconds: None)


@pytest.mark.parametrize("deaths", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_dead_worker_is_replaced_and_its_job_tried_again_but_not_for_ever(tmp_path, deaths):
    """A worker that the system kills, for want of memory for instance."""
    job = Job(
        "collect",
        "collect",
        {"task_name": "point", "episodes": 100_000, "recipe": "mixed"},
        0,
        {},
        tmp_path / "e",
    )
    killed = []

    def kill_the_worker(job, share, seconds):
        if len(killed) < deaths and 0 < share < 1:
            children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
            workers = [c for c in children if "spawn_main" in Path(f"/proc/{c}/cmdline").read_text()]
            killed.append(workers)
            os.kill(int(workers[-1]), signal.SIGKILL)

    if deaths < ATTEMPTS:
        run_jobs([job], Engine(workers=1), kill_the_worker)
        assert job.is_current()
    else:
        with pytest.raises(RciError, match=r"collect: the worker that ran it died \(exit code -9\)"):
            run_jobs([job], Engine(workers=1), kill_the_worker)
        assert not (tmp_path / "e").exists()
    assert len(killed) == deaths
