"""`rci bench import`, on small files: what it measures, and that the limit of the memory is a real one."""

from __future__ import annotations

import sys

import pytest

from rci.benchmarks import importing as bench_import
from rci.data.errors import RciError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")

KINDS = ("hdf5", "parquet", "csv", "lerobot-v3.0", "lerobot-v2.1", "mcap")


@pytest.fixture
def short(monkeypatch, tmp_path):
    """Episodes of 20 steps, and files in a folder that is looked at afterwards."""
    monkeypatch.setattr(bench_import, "LENGTH", 20)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_every_kind_of_file_is_imported_with_a_limited_heap(short):
    rows = list(bench_import.bench_import(0.005))
    assert [row["name"] for row in rows] == [f"import: {kind}" for kind in KINDS]
    assert tuple(bench_import.KINDS) == KINDS
    for row, size in zip(rows, (0.005, *[0.0005] * 4, 0.005)):
        told = row["config"]
        assert told["gigabytes"] == pytest.approx(size, rel=0.2)
        assert told["steps"] % 20 == 0
        assert 50 < told["peak_rss_mb"] < 500
        assert told["heap_limit_mb"] == 512
        assert told["cpu_seconds"] > 0.1
        assert row["value"] == pytest.approx(told["gigabytes"] * 1000 / told["seconds"])
    assert list(short.iterdir()) == []


def test_only_what_is_asked_for_is_measured(short):
    (row,) = bench_import.bench_import(0.002, only=["mcap"])
    assert row["name"] == "import: mcap"
    with pytest.raises(RciError, match="unknown kind of file 'mcpa'. Did you mean 'mcap'"):
        next(bench_import.bench_import(0.002, only=["hdf5", "mcpa"]))


def test_what_does_not_fit_fails(short):
    with pytest.raises(RciError, match=r"the import of logs\.hdf5 failed with a heap of 20 MB"):
        next(bench_import.bench_import(0.001, limit_mb=20))
    assert list(short.iterdir()) == []


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(short):
    with pytest.raises(RciError, match=r"needs 1800000000\.0 GB of free space"):
        next(bench_import.bench_import(1e9))
