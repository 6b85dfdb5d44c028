"""LeRobot folders that RCI writes. How the real package loads them is in docs/lerobot.md."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ragged
from foreign_files import judged, sample
from lerobot_frames import LENGTHS, STOPS
from test_lerobot_read import SAMPLES, VERSIONS, change_table, data_file

import rci
from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.signals import Signal, Signals
from rci.data.artefacts.takeovers import Takeovers
from rci.data.errors import RciError
from rci.formats.lerobot import layout
from rci.formats.lerobot.statistics import joined, statistics
from rci.formats.writers import parquet

RISK = np.linspace(0, 1, sum(LENGTHS)).astype(np.float32)


def equal(one, other):
    """Whether two recordings are the same in every bit, with names, units and rate."""
    for name in other.stored:
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype, name
        assert np.array_equal(a, b), name
    assert one.signals == other.signals
    assert one.keys["task"] == other.keys["task"]
    return True


def made(dtype=np.float32, obs_size=3, units=("", "N", "")):
    """Episodes with names, units, tasks, both flags, and a real last observation."""
    rng = np.random.default_rng(3)
    lengths = np.array([3, 1, 5, 2])
    return Episodes(
        obs=rng.normal(size=(15, obs_size)).astype(dtype) * 100,
        action=rng.normal(size=(11, 1)),
        reward=rng.normal(size=11).astype(np.float32),
        lengths=lengths,
        terminated=np.array([True, False, False, False]),
        truncated=np.array([False, True, False, False]),
        signals=Signals(tuple(Signal(f"s{i}", units[i]) for i in range(obs_size)), (Signal("push"),), 12.5),
        keys={"task": ["a", "bé", "a", "a\nb"]},
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.bool_])
def test_there_and_back(tmp_path, version, dtype):
    episodes = made(dtype)
    takeovers = Takeovers([0, 2, 2], [1, 0, 4], [3, 2, 5], episodes.lengths, episodes.hash)
    labels, costs = judged(episodes, [1, -1, 4, -1])
    folder = rci.write_lerobot(tmp_path / "a", episodes, labels, costs, takeovers=takeovers, version=version)
    found = rci.import_dataset(folder)
    assert equal(found.episodes, episodes)
    assert found.labels().stop_index.tolist() == [1, -1, 4, -1]
    assert np.array_equal(found.takeovers().flags(), takeovers.flags())
    assert np.allclose(found.cost[:2], costs.cost[:2])
    assert found.cost[2] == 0  # behind the stop
    assert found.notes == ()
    bare = rci.write_lerobot(tmp_path / "b", episodes, version=version)
    assert equal(rci.read_lerobot(bare), episodes)
    assert rci.import_lerobot(bare).labels() is None


@pytest.mark.parametrize("written", VERSIONS)
@pytest.mark.parametrize("read", VERSIONS)
def test_what_the_real_package_wrote_comes_back(tmp_path, read, written):
    found = rci.import_lerobot(SAMPLES / read)
    folder = rci.write_lerobot(
        tmp_path / "a", found.episodes, found.labels(), takeovers=found.takeovers(), version=written
    )
    again = rci.import_lerobot(folder)
    assert equal(again.episodes, found.episodes)
    assert again.labels().stop_index.tolist() == list(STOPS)
    assert np.array_equal(again.human, found.human)


def test_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(layout, "FILE_MB", 0)
    monkeypatch.setattr(layout, "CHUNK", 2)
    monkeypatch.setattr(parquet, "GROUP_ROWS", 4)
    episodes = made()
    folder = rci.write_lerobot(tmp_path / "a", episodes)
    names = sorted(str(path.relative_to(folder)) for path in folder.glob("data/*/*"))
    assert names == [f"data/chunk-00{c}/file-00{f}.parquet" for c, f in [(0, 0), (0, 1), (1, 0)]]
    assert equal(rci.read_lerobot(folder), episodes)
    older = rci.write_lerobot(tmp_path / "b", episodes, version="v2.1")
    assert (older / "data/chunk-001/episode_000003.parquet").is_file()
    assert equal(rci.read_lerobot(older), episodes)
    listed = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [row["dataset_from_index"] for row in listed] == [0, 3, 4, 9]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_is_written_again(tmp_path, version):
    source = SAMPLES / version
    found = rci.import_lerobot(source)
    labels, costs = judged(found.episodes, list(STOPS))
    folder = rci.write_lerobot(tmp_path / "a", found.episodes, labels, costs, risk=RISK, source=source)
    again = rci.import_lerobot(folder)
    assert again.episodes.hash == found.episodes.hash
    assert np.array_equal(again.human, found.human)
    for before in sorted(path for path in source.rglob("*") if path.is_file()):
        after = folder / before.relative_to(source)
        if before.relative_to(source).parts[0] == "data":
            tables = pq.read_table(before), pq.read_table(after)
            kept = [name for name in tables[0].column_names if name != "stopped"]
            assert tables[1].select(kept).equals(tables[0].select(kept), check_metadata=False)
            assert tables[1].column_names[-3:] == ["cost", "stopped", "risk"]
            described = json.loads(tables[1].schema.metadata[b"huggingface"])["info"]["features"]
            assert list(described) == [*tables[0].column_names, "cost", "risk"]
        elif before.suffix == ".mp4":
            assert os.path.samefile(before, after) or before.read_bytes() == after.read_bytes()
        elif before.name.startswith("tasks") or before.name == "episodes.jsonl":
            assert before.read_bytes() == after.read_bytes()
    features = json.loads((folder / "meta/info.json").read_text())["features"]
    assert features["cost"] == {"dtype": "float32", "shape": [1], "names": None}
    assert features["stopped"]["dtype"] == "bool"
    tables = [pq.read_table(path) for path in sorted(folder.glob("data/*/*"))]
    table = pa.concat_tables(tables)
    assert np.array_equal(table.column("risk").to_numpy(), RISK)
    at = np.cumsum([0, *LENGTHS])[:-1][[1, 3]] + [9, 2]
    assert np.flatnonzero(table.column("stopped").to_numpy()).tolist() == at.tolist()
    assert table.column("cost").to_numpy()[at[0] + 1 :][:2].tolist() == [0, 0]
    twice = rci.write_lerobot(tmp_path / "b", found.episodes, labels, risk=RISK / 2, source=folder)
    table = pa.concat_tables([pq.read_table(path) for path in sorted(twice.glob("data/*/*"))])
    assert np.array_equal(table.column("risk").to_numpy(), RISK / 2)
    assert table.column_names.count("risk") == table.column_names.count("cost") == 1


def test_statistics_of_added_columns(tmp_path):
    expected = {"min": [0.0], "max": [1.0], "mean": [float(RISK.mean())], "count": [33]}
    for version in VERSIONS:
        episodes = rci.read_lerobot(SAMPLES / version)
        folder = rci.write_lerobot(tmp_path / version, episodes, risk=RISK, source=SAMPLES / version)
        if version == "v3.0":
            total = json.loads((folder / "meta/stats.json").read_text())
            assert set(total) > {"risk", "action", "observation.images.front"}
            table = pq.read_table(folder / "meta/episodes/chunk-000/file-000.parquet")
            assert table.column("stats/risk/count").to_pylist() == [[n] for n in LENGTHS]
            assert table.column("stats/risk/q50").to_pylist()[0] == pytest.approx([RISK[3]])
            for name in expected:
                assert total["risk"][name] == pytest.approx(expected[name])
        else:
            lines = (folder / "meta/episodes_stats.jsonl").read_text().splitlines()
            assert [json.loads(line)["stats"]["risk"]["count"] for line in lines] == [[n] for n in LENGTHS]
            assert "q50" not in json.loads(lines[0])["stats"]["risk"]


def test_statistics_by_hand():
    parts = [statistics(np.array(values), True) for values in ([[1.0, 5.0], [3.0, 5.0]], [[8.0, 2.0]])]
    assert parts[0]["mean"] == [2, 5]
    assert parts[0]["std"] == [1, 0]
    assert parts[0]["q50"] == [2, 5]
    assert parts[1]["count"] == [1]
    whole = joined(parts)
    assert whole["mean"] == [4, 4]
    assert whole["std"] == pytest.approx([np.std([1, 3, 8]), np.std([5, 5, 2])])
    assert (whole["min"], whole["max"], whole["count"]) == ([1, 2], [8, 5], [3])
    assert whole["q50"] == [4, 4]  # (2 * 2 + 8) / 3, as LeRobot joins them
    assert statistics(np.array([True, False]), False)["max"] == [True]


def test_what_cannot_be_written(tmp_path):
    episodes = made()
    _, costs = judged(episodes, [1, -1, 4, -1])
    with pytest.raises(RciError, match="step costs are written with the labels"):
        rci.write_lerobot(tmp_path / "a", episodes, None, costs)
    with pytest.raises(RciError, match="risk must be one finite number for each of 11 steps"):
        rci.write_lerobot(tmp_path / "a", episodes, risk=[1.0])
    with pytest.raises(RciError, match="unknown version of LeRobot 'v4.0'"):
        rci.write_lerobot(tmp_path / "a", episodes, version="v4.0")
    with pytest.raises(RciError, match="needs the frames per second"):
        rci.write_lerobot(tmp_path / "a", ragged([2, 2]))
    with pytest.raises(RciError, match="LeRobot stores rows of numbers"):
        rci.write_lerobot(tmp_path / "a", sample(obs_shape=(4, 4)), rate=10)
    assert list(tmp_path.iterdir()) == []
    rci.write_lerobot(tmp_path / "a", episodes)
    with pytest.raises(RciError, match="a LeRobot folder is not overwritten"):
        rci.write_lerobot(tmp_path / "a", episodes)


def test_only_the_episodes_of_a_folder_are_written_into_it(tmp_path):
    source = SAMPLES / "v3.0"
    episodes = rci.read_lerobot(source)
    some = episodes.take([0, 2, 1])
    for wrong, sentence in {
        "fewer": (some, "has 4 episodes, but 3 are given, without number 3"),
        "others": (made(), "episode 0 has 7 frames there, but 3 steps here"),
    }.values():
        count = len(wrong.reward)
        with pytest.raises(RciError, match=sentence):
            rci.write_lerobot(tmp_path / "a", wrong, risk=np.zeros(count), source=source)
    other = Episodes(
        **{n: getattr(episodes, n) for n in episodes.stored if n != "action"}, action=episodes.action + 1
    )
    with pytest.raises(RciError, match="has other actions than these episodes"):
        rci.write_lerobot(tmp_path / "a", other, risk=RISK, source=source)
    with pytest.raises(RciError, match="there is nothing to add"):
        rci.write_lerobot(tmp_path / "a", episodes, source=source)
    with pytest.raises(RciError, match="takeovers and a rate of its own"):
        rci.write_lerobot(tmp_path / "a", episodes, risk=RISK, source=source, rate=3)
    shuffled = episodes.take([3, 1, 0, 2])
    risk = np.concatenate([np.full(n, n, np.float32) for n in shuffled.lengths])
    folder = rci.write_lerobot(tmp_path / "a", shuffled, risk=risk, source=source)
    table = pq.read_table(next(folder.glob("data/*/*")))
    assert table.column("risk").to_numpy().tolist() == [float(n) for n in LENGTHS for _ in range(n)]


def test_a_damaged_folder_is_not_written_again(tmp_path):
    source = Path(shutil.copytree(SAMPLES / "v2.1", tmp_path / "v2.1"))
    episodes = rci.read_lerobot(source)
    change_table(data_file(source), lambda table: table.slice(0, 5))
    with pytest.raises(RciError, match="has 5 frames, but its episodes have 12"):
        rci.write_lerobot(tmp_path / "a", episodes, risk=RISK, source=source)
    data_file(source).write_bytes(b"PAR1")
    with pytest.raises(RciError, match="is damaged or no Parquet file"):
        rci.write_lerobot(tmp_path / "a", episodes, risk=RISK, source=source)
    (source / "videos/outside").symlink_to("/etc")
    with pytest.raises(RciError, match="is a link that leads out of"):
        rci.write_lerobot(tmp_path / "a", episodes, risk=RISK, source=source)
    with pytest.raises(RciError, match="is inside of"):
        rci.write_lerobot(source / "a", episodes, risk=RISK, source=source)
    assert [path.name for path in tmp_path.iterdir()] == ["v2.1"]
