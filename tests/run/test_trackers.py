"""Trackers of experiments: what they are given, what comes of it in MLflow and TensorBoard, and when they fail."""

from __future__ import annotations

import struct
import sys
from types import ModuleType, SimpleNamespace

import pytest
from tiny_run import TINY

from rci.data.errors import RciError
from rci.pipeline.config import load_config
from rci.pipeline.plan import plan
from rci.pipeline.results.tracking import SweepLog, experiment, log_figures, logging_jobs
from rci.reporting.trackers.tracker import TRACKERS, UNTRACKED, open_tracker
from rci.reporting.trackers.wandb_tracker import WandbTracker

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class Recorder:
    """A tracker that keeps what it is given."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, verb):
        return lambda *values, **named: self.calls.append((verb, *values, *named.values()))

    def of(self, verb):
        return [call[1:] for call in self.calls if call[0] == verb]


def silent(*news):
    """Nobody listens."""


def fill(tracker):
    """An experiment with one of everything."""
    with experiment(
        tracker, "mine", {"learn": {"method": "bc", "rate": 0.1}, "budgets": (0.05, "P30")}, "all"
    ):
        for step in (500, 1000):
            tracker.curves("policy, 5%", step, {"loss": 1 / step, "multiplier road": 2.0})
        tracker.figure("budgets", PNG)
        tracker.artefact("policies/a", "/logs/policies/a", "0123abcd")


# --- what is logged ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tiny_run):
    config = load_config("point", "quick", flags=TINY)
    return tiny_run[0], config, plan(config, tiny_run[0])


def test_a_run_logs_curves_results_figures_and_addresses(finished):
    out, config, jobs = finished
    tracker, heard = Recorder(), []
    note = logging_jobs(tracker, jobs, out, lambda *news: heard.append(news))
    with experiment(tracker, out.name, config.as_table()):
        for job in jobs:
            note(job, 0.5, 0.1)
            note(job, 1.0, None)
        log_figures(tracker, out / "report")
    assert len(heard) == 2 * len(jobs)
    ((name, settings),) = [call[:2] for call in tracker.of("begin")]
    assert (name, settings["learn"]["method"]) == ("run", "bcq-lagrangian")
    curves = {(place, step): numbers for place, step, numbers in tracker.of("curves")}
    assert set(curves["rci-0.1-seed1", 20]) >= {"reward_loss", "cost_loss", "multiplier", "cost_estimate"}
    assert 0 <= curves["test/rci-0.1-seed1", 0]["violation_rate"] <= 1
    assert set(curves["expected/rci-0.1-seed1", 20]) == {"predicted_return", "predicted_cost"}
    addresses = {place: (address, content) for place, address, content in tracker.of("artefact")}
    assert addresses["policies/rci-P30-seed0"][0] == str(out.absolute() / "policies" / "rci-P30-seed0")
    assert len(addresses["episodes"][1]) == 64
    assert set(addresses) == {job.output.relative_to(out).as_posix() for job in jobs}
    names = [figure for figure, _ in tracker.of("figure")]
    assert "vector-fields" in names
    assert all(content.startswith(b"\x89PNG") for _, content in tracker.of("figure"))
    assert tracker.calls[-1] == ("end",)


def test_without_a_tracker_nothing_is_read():
    assert logging_jobs(UNTRACKED, [], None, silent) is silent


def test_a_sweep_is_an_experiment_for_each_point_when_its_last_job_is_done(finished):
    out, _, jobs = finished
    by_place = {job.output.relative_to(out): job for job in jobs}
    first = {place: job for place, job in by_place.items() if place.name in ("episodes", "labels")}
    second = {place: job for place, job in by_place.items() if place.name == "episodes"}
    never = {place: job for place, job in by_place.items() if place.parts[0] == "scores"}
    tracker = Recorder()
    log = SweepLog(tracker, "grid", [("a", {"x": 1}, first), ("b", {"x": 2}, second), ("c", {}, never)])
    log.done("collect")
    assert [call[0] for call in tracker.of("begin")] == ["b"]
    log.done("label")
    assert tracker.of("begin")[1] == ("a", {"x": 1}, "grid")
    assert [place for place, *_ in tracker.of("artefact")] == ["episodes", "episodes", "labels"]
    assert tracker.of("end") == [(), ()]
    log.close(out / "report" / "index.html")
    assert [call[0] for call in tracker.of("begin")] == ["b", "a", "c", "all points"]
    assert tracker.of("end") == [(), (), (True,), ()]  # c never came to its end
    assert tracker.of("figure")


def test_an_experiment_that_fails_is_called_failed():
    tracker = Recorder()
    with pytest.raises(RciError), experiment(tracker, "x", {}):
        raise RciError("training diverged.")
    assert tracker.of("end") == [(True,)]


# --- when something is wrong ---------------------------------------------------------------------------------------


def test_unknown_trackers_and_missing_packages_are_one_sentence(tmp_path, monkeypatch):
    with pytest.raises(RciError, match="unknown tracker 'mlfow'. Did you mean 'mlflow'?"):
        open_tracker("mlfow", tmp_path, silent)
    monkeypatch.setattr("rci.data.extras.find_spec", lambda name: None)
    for name in TRACKERS:
        with pytest.raises(RciError, match=rf"--log {name} needs \w+, which is not installed: pip install"):
            open_tracker(name, tmp_path, silent)
    assert open_tracker(None, tmp_path, silent) is UNTRACKED


def test_a_tracker_that_fails_is_one_warning_and_the_work_goes_on(tmp_path, monkeypatch):
    warned = []
    tracker = open_tracker("tensorboard", tmp_path, warned.append)
    monkeypatch.setitem(sys.modules, "tensorboardX", ModuleType("tensorboardX"))  # in which nothing is
    fill(tracker)
    fill(tracker)
    (sentence,) = warned
    assert sentence.startswith("the tracker tensorboard failed (cannot import name 'SummaryWriter'")
    assert sentence.endswith("nothing more is logged to it, and the run goes on.")


def test_a_full_disk_in_the_middle_is_the_same(tmp_path, monkeypatch):
    warned = []
    tracker = open_tracker("tensorboard", tmp_path, warned.append)
    tracker.begin("mine", {})

    def full(*values):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tracker.opened.writer, "add_scalar", full)
    tracker.curves("policy", 1, {"loss": 1.0})
    tracker.end()
    assert warned == [
        "the tracker tensorboard failed ([Errno 28] No space left on device); nothing more is logged to it, and the "
        "run goes on."
    ]
    tracker.opened.writer.close()


# --- the trackers themselves ---------------------------------------------------------------------------------------


def test_mlflow_keeps_it_in_its_file_store(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    warned = []
    tracker = open_tracker("mlflow", tmp_path / "out", warned.append)
    fill(tracker)
    fill(tracker)
    tracker.begin("broken", {})
    tracker.end(failed=True)
    assert warned == []
    assert not (tmp_path / "out").exists()  # it keeps everything in mlruns

    from mlflow import MlflowClient

    client = MlflowClient((tmp_path / "mlruns").as_uri())
    number = client.get_experiment_by_name("rci").experiment_id
    broken, _, first = client.search_runs([number], order_by=["attributes.start_time DESC"])
    assert (broken.info.status, first.info.status) == ("FAILED", "FINISHED")
    assert first.info.run_name == "mine"
    assert first.data.params == {"learn.method": "bc", "learn.rate": "0.1", "budgets": "(0.05, 'P30')"}
    assert first.data.tags["group"] == "all"
    assert first.data.tags["artefact/policies/a"] == "/logs/policies/a 0123abcd"
    history = client.get_metric_history(first.info.run_id, "policy_ 5_/loss")
    assert [(point.step, point.value) for point in history] == [(500, 0.002), (1000, 0.001)]
    (file,) = (tmp_path / "mlruns").glob(f"{number}/{first.info.run_id}/artifacts/figures/budgets.png")
    assert file.read_bytes() == PNG


def test_tensorboard_keeps_it_in_event_files(tmp_path):
    pytest.importorskip("tensorboardX")
    warned = []
    fill(open_tracker("tensorboard", tmp_path, warned.append))
    assert warned == []
    (file,) = (tmp_path / "tensorboard" / "all" / "mine").iterdir()
    values = [(event.step, value) for event in events(file) for value in event.summary.value]
    scalars = {
        (step, value.tag): value.simple_value for step, value in values if value.HasField("simple_value")
    }
    assert scalars == {
        (500, "policy__5_/loss"): pytest.approx(0.002),
        (1000, "policy__5_/loss"): pytest.approx(0.001),
        (500, "policy__5_/multiplier_road"): 2.0,
        (1000, "policy__5_/multiplier_road"): 2.0,
    }
    texts = {
        value.tag: value.tensor.string_val[0].decode() for _, value in values if value.HasField("tensor")
    }
    assert '"method": "bc"' in texts["settings/text_summary"]
    assert texts["artefacts/policies/a/text_summary"] == "/logs/policies/a 0123abcd"
    (picture,) = [value for _, value in values if value.HasField("image")]
    assert (picture.tag, picture.image.width, picture.image.height) == ("figures/budgets", 1, 1)


def events(file):
    """The events of a file: records of a length, a checksum of it, the event, and a checksum of that."""
    from tensorboardX.proto.event_pb2 import Event

    content, place = file.read_bytes(), 0
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        yield Event.FromString(content[place + 12 : place + 12 + length])
        place += length + 16


def test_wandb_stays_offline_and_gets_curves_over_their_own_updates(tmp_path, monkeypatch):
    """Against the interface of the package, which is too large to be installed for a test."""
    begun, run = [], Recorder()
    run.summary = {}
    fake = SimpleNamespace(
        init=lambda **given: begun.append(given) or run, Image=lambda picture: picture.size
    )
    monkeypatch.setitem(sys.modules, "wandb", fake)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    fill(WandbTracker(tmp_path))
    (given,) = begun
    assert (given["mode"], given["project"], given["name"], given["group"]) == (
        "offline",
        "rci",
        "mine",
        "all",
    )
    assert given["config"]["learn"] == {"method": "bc", "rate": 0.1}
    assert run.of("define_metric") == [("policy, 5%/*", "policy, 5%/update")]
    logged = [call[0] for call in run.of("log")]
    assert logged[1] == {
        "policy, 5%/loss": 0.001,
        "policy, 5%/multiplier road": 2.0,
        "policy, 5%/update": 1000,
    }
    assert logged[2] == {"figures/budgets": (1, 1)}
    assert run.summary == {"artefacts/policies/a": "/logs/policies/a 0123abcd"}
    assert run.of("finish") == [(0,)]
