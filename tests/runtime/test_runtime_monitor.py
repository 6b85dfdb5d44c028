"""Monitors say of a running episode what the redistributor says of it afterwards."""

import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ragged
from random_models import random_costs

import rci
from rci import runtime
from rci.data.errors import RciError
from rci.data.types import Labels
from rci.redistribution import score
from rci.redistribution.methods.traces import violation_chance

CASES = [
    ("rudder", {}),
    ("rudder", {"cell": "reduced"}),
    ("traces", {"folds": 2}),
    ("transformer", {"window": 4, "hidden": 12}),
    ("potential", {"hidden": 16}),
]
LENGTHS = [23, 1, 9, 4]


@pytest.fixture(scope="module")
def episodes():
    return ragged(LENGTHS)


@pytest.fixture(scope="module")
def labels(episodes):
    return Labels.for_episodes(episodes, [5, -1, -1, 2])


def two_channels(episodes):
    cost = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    return Labels.for_episodes(episodes, [5, -1, -1, 2], cost, ("near", "fast"))


def watched(monitor, episodes):
    return [monitor.watch(episode.obs, episode.action) for episode in episodes]


@pytest.mark.parametrize(("method", "options"), CASES, ids=str)
def test_scores_are_those_of_the_redistributor(method, options, episodes, labels, tmp_path):
    costs = random_costs(method, labels, (3, 2), **options)
    rci.save(costs, tmp_path / "costs")
    monitor = runtime.load_monitor(tmp_path / "costs")
    expected = score(costs, episodes)
    assert max(np.ptp(own) for own in expected) > 0.05  # there was something to get wrong
    for episode, own in zip(episodes, expected):
        monitor.reset()
        said = [monitor.scores(o, a, n) for o, a, n in zip(episode.obs, episode.action, episode.obs[1:])]
        assert np.abs(np.array(said)[:, 0] - own).max() < 1e-5
    for risk, later in zip(watched(monitor, episodes), runtime.risk_of(method, expected)):
        assert np.abs(risk - later).max() < 1e-5


def test_the_risk_of_traces_is_that_of_its_forecast(episodes, labels):
    costs = random_costs("traces", labels, (3, 2))
    scores = score(costs, episodes)
    for own, risk in zip(scores, runtime.risk_of("traces", scores)):
        assert risk == pytest.approx(violation_chance(own[None])[0])


def test_with_channels_the_highest_risk_counts(episodes, tmp_path):
    costs = random_costs("rudder", two_channels(episodes), (3, 2))
    rci.save(costs, tmp_path / "costs")
    monitor = runtime.load_monitor(tmp_path / "costs")
    assert monitor.channels == ("near", "fast")
    for risk, own in zip(watched(monitor, episodes), score(costs, episodes)):
        assert own.shape == (len(risk), 2)
        assert np.abs(risk - own.max(axis=1)).max() < 1e-5


def test_the_alarm_stays_until_the_next_episode(episodes, labels):
    monitor = runtime.Monitor(random_costs("rudder", labels, (3, 2)).model)
    (risk, *_) = watched(monitor, episodes)
    level = float(np.median(risk[:-1]))
    monitor = runtime.Monitor(random_costs("rudder", labels, (3, 2)).model, level)
    first = int(np.flatnonzero(risk > level)[0])
    for t in range(len(risk)):
        assert monitor.step(episodes[0].obs[t], episodes[0].action[t]) == pytest.approx(risk[t])
        assert monitor.alarm is (t >= first)
    assert monitor.alarm_step == first
    monitor.reset()
    assert monitor.alarm is False
    assert monitor.step(episodes[0].obs[0], episodes[0].action[0]) == pytest.approx(risk[0])


def test_a_monitor_is_taken_away_without_what_only_training_needs(episodes, labels, tmp_path):
    costs = random_costs("rudder", labels, (3, 2))
    record = runtime.monitor_record(costs, 0.25, false_alarm_rate=0.1)
    rci.save(record, tmp_path / "monitor")
    again = rci.load(tmp_path / "monitor")
    assert again.info == {"level": 0.25, "costs_hash": costs.hash, "false_alarm_rate": 0.1}
    assert not any("optimiser" in name for name in again.model.arrays)
    monitor, other = runtime.load_monitor(tmp_path / "monitor"), runtime.Monitor(costs.model)
    assert monitor.level == 0.25
    assert runtime.load_monitor(tmp_path / "monitor", level=0.5).level == 0.5
    assert all(np.array_equal(a, b) for a, b in zip(watched(monitor, episodes), watched(other, episodes)))
    place = str(tmp_path / "monitor")
    code = f"import sys, rci.runtime; rci.runtime.load_monitor({place!r}); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("method", ["rudder", "transformer"])
def test_a_late_step_takes_no_longer_than_an_early_one(method, labels):
    monitor = runtime.Monitor(
        random_costs(method, labels, (3, 2), **({"window": 8} if method == "transformer" else {})).model
    )
    obs, action = np.zeros(3), np.zeros(2)
    times = np.zeros(600)
    for t in range(len(times)):
        before = time.perf_counter()
        monitor.step(obs, action)
        times[t] = time.perf_counter() - before
    assert times[400:].min() < 3 * times[20:220].min()
    assert times.min() < 1e-3


def test_what_cannot_watch_is_refused(episodes, labels, tmp_path):
    costs = random_costs("rudder", labels, (3, 2))
    monitor = runtime.Monitor(costs.model)
    with pytest.raises(RciError, match="has no level"):
        _ = monitor.alarm
    with pytest.raises(RciError, match=r"expects 3 numbers as obs, got shape \(4,\)"):
        monitor.step(np.zeros(4), np.zeros(2))
    with pytest.raises(RciError, match="the action has a value that is not finite"):
        monitor.step(np.zeros(3), [0.0, np.nan])
    with pytest.raises(RciError, match="the obs has a value that is not finite"):
        monitor.step(np.full(3, 1e300), np.zeros(2))
    with pytest.raises(RciError, match="the obs must be numbers, got <U4"):
        monitor.step("left", np.zeros(2))
    with pytest.raises(
        RciError, match=r"one observation more than actions, got shapes \(2, 3\) and \(2, 2\)"
    ):
        monitor.watch(np.zeros((2, 3)), np.zeros((2, 2)))
    with pytest.raises(RciError, match="finite number, got inf"):
        runtime.Monitor(costs.model, float("inf"))
    with pytest.raises(RciError, match="finite number, got 'high'"):
        runtime.Monitor(costs.model, "high")
    ahead = runtime.Monitor(random_costs("potential", labels, (3, 2)).model)
    with pytest.raises(RciError, match="give next_obs as well"):
        ahead.step(np.zeros(3), np.zeros(2))
    with pytest.raises(
        RciError, match="'hazard' predicts no episode .* potential, rudder, traces, transformer"
    ):
        runtime.monitor_record(random_costs("hazard", labels, (3, 2)), 0.5)
    with pytest.raises(RciError, match="without a fitted model"):
        runtime.monitor_record(rci.redistribute(episodes, labels, "sparse"), 0.5)
    rci.save(labels, tmp_path / "labels")
    with pytest.raises(RciError, match="'labels'; a monitor is read from"):
        runtime.load_monitor(tmp_path / "labels")
    with pytest.raises(RciError, match="unknown monitor 'ruder'. Did you mean 'rudder'"):
        runtime.risk_of("ruder", [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weight: weight[:-1], "settings and arrays do not fit together"),
        (lambda weight: np.full_like(weight, np.nan), "risk is not finite"),
    ],
)
def test_weights_that_do_not_fit_are_found_when_they_are_loaded(change, message, labels, tmp_path):
    record = runtime.monitor_record(random_costs("rudder", labels, (3, 2)), 0.5)
    arrays = dict(record.model.arrays)
    name = next(name for name in arrays if name.endswith("cell.input_weight"))
    arrays[name] = change(np.asarray(arrays[name]))
    rci.save(type(record)(record.model._replace(arrays=arrays), record.info), tmp_path / "monitor")
    with pytest.raises(RciError, match=message):
        runtime.load_monitor(tmp_path / "monitor")
