"""The rows of `rci bench scaling`, small."""

import pytest

from rci.data.errors import RciError
from rci.run import bench_scaling
from rci.run.cores import available_cores
from rci.run.scaling import Figures, Load, command, loads, read_figures, scaling_table, seconds_on
from rci.run.shard_run import Fit


@pytest.mark.skipif(len(available_cores()) < 2, reason="needs two cores")
def test_rows_of_the_local_engine(monkeypatch):
    monkeypatch.setattr(bench_scaling, "NAP", 0.2)
    monkeypatch.setattr(bench_scaling, "NAPS", 1)
    empty = bench_scaling.empty_tasks("local", 200, 2)
    assert empty["name"] == "local: empty tasks"
    assert 0 < empty["value"] < 50  # milliseconds
    naps = bench_scaling.sleeping_tasks("local", 2)
    assert -1 < naps["value"] < 300  # percent of 0.2 s
    assert naps["config"]["tasks"] == 2


def test_one_core_is_not_enough(monkeypatch):
    monkeypatch.setattr(bench_scaling, "available_cores", lambda: [0])
    with pytest.raises(RciError, match="second core"):
        list(bench_scaling.bench_scaling(10, 10, ["local"]))


BENCH = [
    {"name": "ray: empty tasks", "config": {"start_s": 5.0}, "value": 2.0},
    {"name": "ray: efficiency of two cores", "config": {}, "value": 95.0},
    {"name": "local: shards, one core", "config": {}, "value": 100_000.0},
]
STUDY = [{"task": "highway", "seconds": s} for s in (10.0, 30.0, 20.0)]


def test_costs_are_worked_out_from_the_figures():
    figures = read_figures(BENCH, STUDY)
    assert figures == Figures(5.0, 0.002, 0.95, 100_000.0, {"highway": 20.0})
    episodes, policies = loads(figures)
    assert episodes.core_seconds == 1000.0
    assert policies.core_seconds == 20_000.0
    assert seconds_on(1, policies, figures) == pytest.approx(5 + 20_000 / 1.9)
    assert seconds_on(10, policies, figures) == pytest.approx(5 + 20_000 / 19)
    assert seconds_on(10**6, policies, figures) == 5 + 20  # no policy is divided
    assert seconds_on(10**6, Load("tiny", 10**6, 1.0), figures) == 5 + 2000  # the driver is what takes time
    assert "| 1,000 policies, highway | 5.6 | 2 h 56 min |" in scaling_table(figures)


def test_figures_that_are_not_there(tmp_path):
    with pytest.raises(RciError, match=r"no row 'local: shards, one core'; `rci bench scaling --json`"):
        read_figures(BENCH[:2], STUDY)
    with pytest.raises(RciError, match=r"none.json is not there"):
        command(tmp_path / "none.json", tmp_path / "none.json")


def test_shards_are_measured(monkeypatch, tmp_path):
    for name, value in (("SHARDS", 2), ("SHARD_EPISODES", 30), ("SHARD_STEPS", 5)):
        monkeypatch.setattr(bench_scaling, name, value)
    monkeypatch.setattr(bench_scaling, "Fit", lambda *_, **__: Fit(20, options={"epochs": 1, "hidden": 4}))
    row = bench_scaling.sharded(tmp_path)
    assert row["value"] > 0
    assert row["config"]["episodes"] == 60
