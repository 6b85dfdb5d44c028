"""Runs with takeovers from the command line: cut, learned from, watched; and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rci
from rci.cli.main import app
from rci.data.errors import RciError
from rci.data.segments import cut
from rci.pipeline.jobs import Job, takeovers_of
from rci.pipeline.monitor import fit_monitor


def run(*words: object):
    return CliRunner().invoke(app, [*map(str, words)])


def near(seed):
    """Runs on `point`, as if a person drove wherever the hazard is near."""
    episodes, oracle = rci.collect("point", episodes=40, seed=seed)
    return episodes, rci.Takeovers.from_flags(episodes, oracle.distance < 6.0)


@pytest.fixture(scope="module")
def car(tmp_path_factory):
    place = tmp_path_factory.mktemp("car")
    episodes, takeovers = near(0)
    rci.save(episodes, place / "episodes")
    rci.save(takeovers, place / "takeovers")
    done = run(
        "labels", "takeovers", place / "episodes", place / "takeovers", "--out", place / "labels", "--json"
    )
    assert done.exit_code == 0, done.output
    assert set(json.loads(done.stdout)) == {"labels", "labels-episodes", "labels-human"}
    costs = rci.redistribute(rci.load(place / "labels-episodes"), rci.load(place / "labels"), method="sparse")
    rci.save(costs, place / "costs")
    return place


def learn(car, *more):
    parts = [car / name for name in ("labels-episodes", "labels", "costs")]
    return run("learn", *parts, "--budget", "inf", "--set", "updates=3", "--set", "hidden=8", *more)


def test_the_parts_on_disk_are_those_of_the_function(car):
    found = cut(rci.load(car / "episodes"), rci.load(car / "takeovers"))
    for part, name in (("machine", "labels-episodes"), ("labels", "labels"), ("human", "labels-human")):
        assert rci.load(car / name).hash == getattr(found, part).hash
    rci.load(car / "labels").check_parent(rci.load(car / "labels-episodes"))


def test_learning_with_demonstrations(car):
    human = ("--demonstrations", car / "labels-human")
    cloned = learn(car, "--method", "bc", *human, "--set", "demonstration_weight=3", "--out", car / "bc")
    assert cloned.exit_code == 0, cloned.output
    info = rci.load(car / "bc").info
    assert info["demonstrations_hash"] == rci.load(car / "labels-human").hash
    assert info["emphasis"] == {"demonstration_weight": 3.0, "window": 0, "window_weight": 0.1}
    tiny = ("--set", "behaviour.updates=2", "--set", "behaviour.window=4", "--set", "model_updates=0")
    done = learn(car, *human, *tiny, "--out", car / "feasible")
    assert done.exit_code == 0, done.output
    behaviour = rci.load(car / "labels-behaviour-human")
    assert behaviour.info["emphasis"]["window"] == 4
    assert rci.load(car / "feasible").info["demonstrations_hash"] == info["demonstrations_hash"]


def test_what_is_refused_before_any_work(car, tmp_path):
    def message(done):
        assert isinstance(done.exception, RciError), done.output
        return str(done.exception)

    out = ("--out", tmp_path / "policy")
    human = ("--demonstrations", car / "labels-human")
    assert "learns from no demonstrations" in message(learn(car, "--method", "cpq", *human, *out))
    assert "no demonstrations to weigh" in message(learn(car, "--set", "demonstration_weight=2", *out))
    assert "no demonstrations to weigh" in message(
        learn(car, "--set", "behaviour.demonstration_weight=2", *out)
    )
    assert "holds 'labels'" in message(learn(car, "--demonstrations", car / "labels", *out))
    rci.save(near(1)[1], tmp_path / "foreign")
    words = ("labels", "takeovers", car / "episodes")
    assert "another dataset" in message(run(*words, tmp_path / "foreign", "--out", tmp_path / "labels"))
    assert not (tmp_path / "labels").exists()


def test_a_monitor_of_takeovers(car):
    """It is fitted to the machine's part and warns of takeovers; what a person drove has no part in it."""
    found, held_out = cut(*near(0)), cut(*near(2))
    costs = rci.redistribute(found.machine, found.labels, loss="prefix", epochs=1, hidden=8)
    monitor = fit_monitor(costs, held_out.machine, held_out.labels, 0.2)
    assert monitor.info["safe_episodes"] == int((~held_out.labels.stopped).sum())
    assert monitor.info["labels_hash"] == held_out.labels.hash


def test_a_recording_is_current_with_its_takeovers_only(tmp_path):
    from rci.collection.informed import train_informed
    from rci.collection.ppo import Config

    tiny = Config(
        total_steps=512, num_envs=4, rollout_length=64, epochs=1, minibatches=2, hidden=(8,), checkpoints=1
    )
    driver = train_informed("point", 0.0, 1, tiny)
    rci.save(driver, tmp_path / "driver")
    inputs = {"machine": tmp_path / "driver", "person": tmp_path / "driver"}
    watch = {"alarm": 5.0, "calm": 6.0}
    settings = {"task_name": "point", "episodes": 5, "watch": watch}
    job = Job("runs", "collect-takeovers", settings, 3, inputs, tmp_path / "runs")
    job.run(lambda share: None)
    assert job.is_current()
    takeovers = rci.load(takeovers_of(tmp_path / "runs"))
    takeovers.check_parent(rci.load(tmp_path / "runs"))
    other = rci.collect("point", episodes=3, seed=1)[0]
    flags = np.ones(int(other.lengths.sum()), bool)
    rci.save(rci.Takeovers.from_flags(other, flags), takeovers_of(tmp_path / "runs"))
    assert not job.is_current()
