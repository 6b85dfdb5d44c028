"""The rows of `rci bench scaling`, small."""

import pytest

from rci.benchmarks import scaling as bench_scaling
from rci.data.errors import RciError
from rci.engines.cores import available_cores
from rci.shards.run import Fit


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


def test_shards_are_measured(monkeypatch, tmp_path):
    for name, value in (("SHARDS", 2), ("SHARD_EPISODES", 30), ("SHARD_STEPS", 5)):
        monkeypatch.setattr(bench_scaling, name, value)
    monkeypatch.setattr(bench_scaling, "Fit", lambda *_, **__: Fit(20, options={"epochs": 1, "hidden": 4}))
    row = bench_scaling.sharded(tmp_path)
    assert row["value"] > 0
    assert row["config"]["episodes"] == 60
