import json

import pytest
from typer.testing import CliRunner

from rci.benchmarks import simulators as bench
from rci.cli.main import app
from rci.tasks.fetch_reach import parity as arm_parity
from rci.tasks.highway import parity
from rci.tasks.parity import Parity

SPEED = {
    "name": "highway-v0",
    "config": {"vehicles": 15, "batch": 64},
    "value": 45123.4,
    "unit": "steps/s",
    "reference": 22.5,
    "ratio": 2005.5,
    "parity_max_abs": 3.1e-13,
}
EQUAL = {
    "name": "parity, strict",
    "config": {"case": "a", "episodes": 2, "steps": 9, "crashes": 1},
    "value": 2,
    "unit": "episodes bitwise equal",
    "parity_max_abs": 0.0,
    "first_difference": "",
}


def test_rows_become_a_table_for_each_set_of_columns():
    table = bench.bench_table([SPEED, SPEED, EQUAL])
    assert table.split("\n\n")[0].splitlines() == [
        "|  | vehicles | batch | steps/s | reference | ratio | parity_max_abs |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| highway-v0 | 15 | 64 | 45,123 | 22.5 | 2,006 | 3.1e-13 |",
        "| highway-v0 | 15 | 64 | 45,123 | 22.5 | 2,006 | 3.1e-13 |",
    ]
    assert table.split("\n\n")[1].splitlines()[-1] == "| parity, strict | a | 2 | 9 | 1 | 2 | 0 |"


def test_what_is_not_equal_enough_is_a_failure():
    one_bit = {**EQUAL, "value": 1, "parity_max_abs": 1e-16, "first_difference": "x differs"}
    rounding = {**one_bit, "name": "parity, as installed"}
    arm = {**one_bit, "name": "parity, fetch-reach"}
    too_far = {**rounding, "parity_max_abs": 1e-8}
    assert bench.parity_failures([EQUAL, rounding]) == []
    assert bench.parity_failures([one_bit]) == ["parity, strict: x differs"]
    assert bench.parity_failures([arm]) == ["parity, fetch-reach: x differs"]
    assert bench.parity_failures([too_far]) == ["parity, as installed: x differs"]


def test_speed_counts_steps_and_seconds(monkeypatch):
    now = iter(range(100))  # every look at the clock takes a second
    monkeypatch.setattr(bench.time, "perf_counter", lambda: float(next(now)))
    assert bench.steps_per_second(lambda: 30, seconds=3.0) == pytest.approx(60 / 3)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(bench, "VEHICLES", (2,))
    monkeypatch.setattr(bench, "BATCHES", (1, 3))
    monkeypatch.setattr(bench, "ARMS", ((1, 1), (3, 2)))
    monkeypatch.setattr(bench, "ROUNDS", 1)


def test_the_simulators_are_measured_against_the_originals(small):
    rows = list(bench.bench_sim(seconds=0.02))
    speeds, start, arms = rows[:3], rows[3], rows[4:]
    for row in arms:
        assert row["name"] == "fetch-reach"
        assert row["ratio"] == row["value"] / row["reference"]
        assert row["share_of_limit"] == row["value"] / row["limit"]
        assert row["parity_max_abs"] == 0
    assert [row["config"] for row in arms] == [{"batch": 1, "threads": 1}, {"batch": 3, "threads": 2}]
    assert [(row["config"]["batch"], row["config"]["threads"]) for row in speeds] == [(1, 1), (3, 1), (3, 2)]
    for row in speeds:
        assert row["ratio"] == row["value"] / row["reference"] > 1
        assert row["parity_max_abs"] < 1e-9
    assert start["unit"] == "s"
    assert 0 < start["value"] < 30


def test_the_number_of_rows_is_known():
    settings = len(bench.BATCHES) * 2 - 1  # a batch of one has one thread
    assert len(bench.VEHICLES) * settings + 1 + len(bench.ARMS) == bench.SIM_ROWS


def test_the_command_prints_json_and_fails_where_bits_differ(monkeypatch):
    def differ(names, episodes, first=0, beyond=0):
        yield Parity("a", episodes, 5, 0, episodes - 1, {"x": 1e-17}, "a, seed 0, step 1: x differs")

    monkeypatch.setattr(parity, "run_strictly", differ)
    monkeypatch.setattr(parity, "run_cases", differ)
    monkeypatch.setattr(arm_parity, "run_cases", lambda episodes: differ(None, episodes))
    result = CliRunner().invoke(app, ["bench", "sim", "--parity", "--episodes", "3", "--json"])
    rows = json.loads(result.stdout)
    assert [row["value"] for row in rows] == [2, 2, 2]
    assert result.exit_code == 1
    assert result.stderr.count("x differs") == 2  # on the highway as installed, so little is rounding


@pytest.mark.parametrize("flags", [["--episodes", "0"], ["--seconds", "0"], ["--speed"]])
def test_wrong_options_are_refused(flags):
    assert CliRunner().invoke(app, ["bench", "sim", *flags]).exit_code == 2


def test_redistributors_are_measured_against_a_bare_lstm(monkeypatch):
    from rci.benchmarks import redistribution as measured
    from rci.redistribution import REDISTRIBUTORS

    for name in set(REDISTRIBUTORS) - {"rrd", "sparse"}:
        monkeypatch.delitem(REDISTRIBUTORS, name)
    for name, value in {"STEPS": 3, "BATCH": 4, "BATCHES": 2, "SEQUENCES": 8, "HIDDEN": 4}.items():
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setattr(measured, "ROUNDS", 1)
    assert measured.learned_methods() == [("rrd", {})]
    rows = list(measured.bench_redistribute(seconds=0.01))
    assert [row["name"] for row in rows] == ["sgemm", "bare LSTM gradient", "rrd", "rrd"]
    assert [row["config"]["does"] for row in rows[1:]] == ["train", "train", "score"]
    trained = rows[2]
    assert trained["ratio"] == pytest.approx(trained["value"] / trained["reference"])
    assert trained["share_of_limit"] == pytest.approx(trained["value"] / trained["limit"])
    assert trained["limit"] == pytest.approx(5600 * rows[0]["value"] / 100)
    assert "ratio" not in rows[3]
    json.dumps(rows, allow_nan=False)
    assert "| rrd | train |" in bench.bench_table(rows)
