"""The rows of `rci bench scaling`, small."""

import pytest

from rci.data.errors import RciError
from rci.run import bench_scaling
from rci.run.cores import available_cores


@pytest.mark.skipif(len(available_cores()) < 2, reason="needs two cores")
def test_rows_of_the_local_engine(monkeypatch):
    monkeypatch.setattr(bench_scaling, "NAP", 0.2)
    monkeypatch.setattr(bench_scaling, "NAPS", 1)
    empty = bench_scaling.empty_tasks("local", 200, 2)
    assert empty["name"] == "local: empty tasks"
    assert 0 < empty["value"] < 50  # milliseconds
    naps = bench_scaling.sleeping_tasks("local", 2)
    assert naps["value"] > 0  # naps of 0.2 s are mostly the start of the workers
    assert naps["config"]["ideal_s"] == 0.2


def test_one_core_is_not_enough(monkeypatch):
    monkeypatch.setattr(bench_scaling, "available_cores", lambda: [0])
    with pytest.raises(RciError, match="second core"):
        list(bench_scaling.bench_scaling(10, 10, ["local"]))
