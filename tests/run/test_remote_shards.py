"""Shards in an object store: the same bytes as on a disk, for workers that share nothing but the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from shard_files import write_shard

import rci
from rci.data.errors import RciError
from rci.engines.engine import Engine
from rci.shards.remote_file import (
    RemoteFile,
    below,
    file_state,
    names_in,
    read_small,
    reading,
    write_small,
    writing,
)
from rci.shards.run import redistribute_shards

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("s3fs")

RCI = [sys.executable, "-W", "ignore", "-c", "from rci.cli.main import main; main()"]
LOGS = "s3://rci-tests/logs"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, point_episodes, point_labels, object_server):
    """Two shards on the disk and in the store, models, and what comes of them on the disk."""
    place = tmp_path_factory.mktemp("remote")
    (place / "logs").mkdir()
    costs = rci.redistribute(point_episodes, point_labels, "potential", epochs=1, hidden=8)
    rci.save(costs, place / "costs")
    for number, name in enumerate("ab"):
        shard = place / "logs" / f"{name}.parquet"
        write_shard(shard, point_episodes, point_labels, range(20 * number, 20 * number + 20))
        write_small(RemoteFile(f"{LOGS}/{shard.name}"), shard.read_bytes())
    redistribute_shards(place / "logs", place / "here", place / "costs", engine=Engine(workers=1))
    return place


def run(fleet, *words: object) -> dict:
    done = subprocess.run(
        [*RCI, "redistribute-shards", *map(str, words), "--from", str(fleet / "costs"), "--json"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=fleet,
        env={**os.environ, "RCI_CACHE": str(fleet / "cache")},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def same(fleet, out: str) -> bool:
    here = fleet / "here" / "shards"
    names = sorted(path.name for path in here.iterdir())
    return names_in(f"{out}/shards") == names and all(
        read_small(below(f"{out}/shards", name)) == (here / name).read_bytes() for name in names
    )


def test_from_store_to_store(fleet):
    out = "s3://rci-tests/fleet"
    first = run(fleet, LOGS, "--out", out, "--workers", 1)
    assert (first["shards"], first["unchanged"], first["episodes"]) == (2, 0, 40)
    assert first["out"] == f"{out}/shards"
    assert same(fleet, out)
    state = file_state(RemoteFile(f"{out}/shards/a.parquet"))
    again = run(fleet, f"{LOGS}/", "--out", f"{out}/", "--workers", 1)
    assert again["unchanged"] == 2
    assert file_state(RemoteFile(f"{out}/shards/a.parquet")) == state
    # Only what changed is done again.
    write_small(RemoteFile(f"{LOGS}/b.parquet"), (fleet / "logs" / "b.parquet").read_bytes())
    write_small(RemoteFile(f"{out}/shards/a.parquet"), b"torn")
    assert run(fleet, LOGS, "--out", out, "--workers", 1)["unchanged"] == 1
    assert same(fleet, out)


def test_on_ray(fleet):
    pytest.importorskip("ray")
    out = "s3://rci-tests/by-ray"
    told = run(fleet, LOGS, "--out", out, "--engine", "ray", "--workers", 2)
    assert (told["shards"], told["unchanged"]) == (2, 0)
    assert same(fleet, out)


def test_from_disk_to_store_and_back(fleet, tmp_path):
    engine = Engine(workers=1)
    redistribute_shards(fleet / "logs", "s3://rci-tests/up", fleet / "costs", engine=engine)
    assert same(fleet, "s3://rci-tests/up")
    told = redistribute_shards(LOGS, tmp_path / "down", fleet / "costs", engine=engine)
    assert told["out"] == str(tmp_path / "down" / "shards")
    assert same(fleet, str(tmp_path / "down"))


def test_mistakes_are_told_of_the_address(fleet, tmp_path):
    with pytest.raises(RciError, match=r"there are no \.parquet files in s3://rci-tests/nothing"):
        redistribute_shards("s3://rci-tests/nothing", tmp_path, fleet / "costs")
    with pytest.raises(RciError, match=r"s3://rci-tests/logs/* holds the shards that are read"):
        redistribute_shards(LOGS, f"{LOGS}/", fleet / "costs")
    with pytest.raises(RciError, match=r"'nowhere://logs' is not an address"):
        redistribute_shards("nowhere://logs", tmp_path, fleet / "costs")
    with pytest.raises(RciError, match="an address must not have a password in it"):
        redistribute_shards("ftp://me:secret@there/logs", tmp_path, fleet / "costs")
    write_small(RemoteFile("s3://rci-tests/odd/a.parquet"), (fleet / "logs" / "a.parquet").read_bytes())
    write_small(RemoteFile("s3://rci-tests/odd/z.parquet"), b"no Parquet at all")
    with pytest.raises(RciError) as failed:
        redistribute_shards("s3://rci-tests/odd", tmp_path / "odd", fleet / "costs", engine=Engine(workers=1))
    assert "s3://rci-tests/odd/z.parquet is damaged or no Parquet file" in str(failed.value)
    assert "rci-copy" not in str(failed.value)
    assert [path.name for path in (tmp_path / "odd" / "shards").iterdir()] == ["a.parquet"]


def test_files_at_an_address(tmp_path):
    file = below("memory://box", "one.json")
    assert (file.name, file.parent, str(file.absolute())) == (
        "one.json",
        "memory://box",
        "memory://box/one.json",
    )
    assert names_in("memory://box") == []
    with pytest.raises(RciError, match="cannot read memory://box/one.json"):
        file_state(file)
    write_small(file, b"1")
    before = file_state(file)
    assert (names_in("memory://box"), read_small(file), before[0]) == (["one.json"], b"1", 1)
    assert file_state(file) == before
    write_small(file, b"2")
    assert file_state(file) != before  # though it is as long
    with pytest.raises(RciError, match=r"^memory://box/one\.json has a flaw"), reading(file) as copy:
        raise RciError(f"{copy} has a flaw.")
    assert not copy.exists()
    with pytest.raises(FileNotFoundError), writing(file) as copy:
        copy.with_name("nothing").rename(copy)
    assert read_small(file) == b"2"
    with file.open_bytes() as opened:
        assert opened.read() == b"2"


def test_the_same_with_files_of_this_machine(tmp_path):
    file = below(tmp_path, "one.json")
    assert file == tmp_path / "one.json"
    write_small(file, b"1")
    assert (read_small(file), file_state(file)[0], names_in(tmp_path)) == (b"1", 1, ["one.json"])
    with reading(file) as copy:
        assert copy == file
    with writing(file) as temporary:
        temporary.write_bytes(b"22")
    assert (file.read_bytes(), names_in(tmp_path)) == (b"22", ["one.json"])
