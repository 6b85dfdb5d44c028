"""Estimates against the truth: the simulators of the benchmark, its rows, and what they come to."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

from rci.benchmarks.trust import rover, tank
from rci.benchmarks.trust.simulator import record, record_logs
from rci.benchmarks.trust.study import cells, estimate_of, key_of, truth_in
from rci.benchmarks.trust.verdicts import figures_of, ranks_agree, sentences, trust_table
from rci.benchmarks.trust.worlds import TASKS, logs_of
from rci.data.errors import RciError

SIMULATORS = [rover.SIMULATOR, tank.SIMULATOR]


@pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda s: s.name)
def test_logs_have_both_sides_and_the_truth_is_kept_apart(simulator):
    truth = record_logs(simulator, 200, 0)
    assert len(truth.episodes) == 200
    assert 0.1 < (truth.first >= 0).mean() < 0.9
    assert truth.unsafe.shape == truth.episodes.reward.shape
    again = record_logs(simulator, 200, 0)
    assert again.episodes.hash == truth.episodes.hash
    assert record_logs(simulator, 200, 1).episodes.hash != truth.episodes.hash


@pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda s: s.name)
def test_worlds_do_not_know_of_each_other(simulator):
    # Without noise, the first of three worlds goes as it would alone.
    class Quiet:
        def normal(self, *arguments, size=None):
            return np.zeros(size if size is not None else arguments[-1])

    begun = simulator.begin(np.random.default_rng(0), 3)
    alone = type(begun)(*(array[:1] for array in begun))
    action = np.array([[0.5, 0.2], [1.0, -1.0], [-1.0, 1.0]])
    for _ in range(5):
        begun = simulator.advance(Quiet(), begun, action)
        alone = simulator.advance(Quiet(), alone, action[:1])
    assert simulator.observe(begun)[0] == pytest.approx(simulator.observe(alone)[0])


def test_a_rover_sees_what_it_drives_at():
    obstacle = np.array([[[2.0, 4.0, 0.5]]])
    here = rover.Rover(np.array([[1.0, 4.0]]), np.zeros(1), np.zeros(1), np.zeros(1), obstacle)
    assert rover.lidar(here)[0, 0] == pytest.approx(0.5)  # ahead: a metre, less the radius
    assert rover.lidar(here)[0, 4] == pytest.approx(1.0)  # behind: the wall
    assert rover.clearance(here) == pytest.approx([0.5 - rover.RADIUS])
    assert not rover.unsafe(here)[0]
    there = here._replace(place=np.array([[1.2, 4.0]]))
    assert rover.unsafe(there)[0]
    assert rover.reward(here, there) == pytest.approx([0.2])


def test_a_tank_that_is_heated_without_end_runs_away():
    hot = record(tank.SIMULATOR, np.random.default_rng(0), 20, lambda step, obs: np.ones((20, 2)))
    cold = record(tank.SIMULATOR, np.random.default_rng(0), 20, lambda step, obs: -np.ones((20, 2)))
    assert (hot.first >= 0).all()
    assert (cold.first < 0).all()


def test_logs_of_a_rover_as_a_robot_writes_them(tmp_path):
    truth = rover.write_logs(tmp_path / "logs.csv", runs=6, seed=0, gaps=3)
    with (tmp_path / "logs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len({row["run"] for row in rows}) == 6
    assert {row["robot"] for row in rows} == {"R1", "R2", "R3"}
    assert sum(row[name] == "" for row in rows for name in row) == 3
    kept = np.where(truth.first >= 0, truth.first + 2, rover.STEPS + 1)
    assert len(rows) == kept.sum() - 3
    fired = {row["run"] for row in rows if row["e_stop"] == "1"}
    assert fired == {f"run{i:04d}" for i in np.flatnonzero(truth.first >= 0)}
    assert rows[0]["time"] == "2026-03-02T08:00:00.000+00:00"
    assert "reward" not in rows[0]


def test_a_task_that_nobody_has():
    with pytest.raises(RciError, match="Did you mean 'rover'"):
        logs_of("rovr", 2, 0)


def test_every_policy_of_the_study_has_a_key_of_its_own():
    asked = cells()
    assert len({key_of(cell) for cell in asked}) == len(asked) >= 200
    assert {cell.task for cell in asked} == set(TASKS)
    assert {key_of(cell) for cell in cells(0)}.isdisjoint(key_of(cell) for cell in asked)


def row(stopped, angle, error=0.01, outside=0.1, task="tank"):
    """A row by hand: one method, 100 tests."""
    return {
        "task": task,
        "episodes": 300,
        "opinions": {"models": [angle, error]},
        "support": [outside, 0.0, outside, 0.0],
        "estimated_return": [1.0, 0.5, 1.5],
        "logged_return": [1.0, 0.9, 1.1],
        "logged_stops": 150,
        "bias": {},
        "stopped": stopped,
        "tests": 100,
    }


def test_figures_by_hand():
    safe, wrong, bold, lost = row(0, 0.0), row(60, 0.0), row(90, 1.2), row(0, 0.0, outside=0.9)
    found = figures_of([safe, wrong, bold, lost])
    assert truth_in(bold) == 0.9
    held = [
        estimate_of(each).stop.low <= truth_in(each) <= estimate_of(each).stop.high
        for each in (safe, wrong, bold, lost)
    ]
    assert held == [True, False, True, True]
    assert found.policies == 4
    assert found.covered == 0.75
    words = [estimate_of(safe).verdict(budget).word for budget in (0.05, 0.1, 0.2)]
    deployed = words.count("deploy under a monitor")
    assert deployed >= 1
    assert (found.deployed, found.wrongly_deployed) == (2 * deployed, deployed)
    assert (found.refused, found.wrongly_refused) == (3, 0)
    assert found.unsure == pytest.approx((12 - 2 * deployed - 3) / 12)
    text = "\n".join(sentences([safe, wrong, bold, lost]))
    assert "75.0% of 4 intervals" in text
    assert f"broke its budget in {deployed} of {2 * deployed} (50.0%)" in text
    table = trust_table([safe, row(0, 0.0, task="rover")])
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["tank", "rover", "all"]


def test_ranks():
    assert ranks_agree([0.1, 0.2, 0.3], [1, 5, 9]) == pytest.approx(1.0)
    assert ranks_agree([0.3, 0.2, 0.1], [1, 5, 9]) == pytest.approx(-1.0)
    assert math.isnan(ranks_agree([0.3, 0.3], [1, 5]))


def test_rows_are_json_and_come_back():
    made = json.loads(json.dumps(row(3, 0.2)))
    assert estimate_of(made) == estimate_of(row(3, 0.2))
