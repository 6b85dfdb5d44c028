"""Names, units, keys and row numbers of logs, from the file to the artefact and back."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from foreign_files import assert_same, flat_columns, judged, write_hdf5

import rci
from rci.data.errors import RciError
from rci.formats.sources.spaces import leaf_names, leaves
from rci.formats.tables import text as text_tables

LOG = """run,robot,t,pose x,pose y,speed [m/s],lidar_3,turn,reward,stopped
a,r1,0,0,1,0.5,9,0.1,1,0
a,r1,1,2,3,0.5,8,0.2,2,1
a,r1,2,4,5,0.5,7,,,
b,r2,0,6,7,0.25,6,0.3,3,0
b,r2,1,8,9,0.25,5,0.4,4,0
"""
MAPPING = {
    "obs": ["pose *", "speed*", "lidar_*"],
    "action": "turn",
    "keys": ["robot"],
    "units": {"pose *": "m", "lidar_3": "m"},
    "rate": 10,
}
LABELS = ["pose x [m]", "pose y [m]", "speed [m/s]", "lidar_3 [m]"]


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    return path


def check(episodes):
    assert episodes.labels_of("obs") == LABELS
    assert episodes.labels_of("action") == ["turn"]
    assert episodes.signals.rate == 10
    assert episodes.keys == {"run": ["a", "b"], "robot": ["r1", "r2"]}
    assert episodes.row.tolist() == [0, 1, 3, 4]


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_names_units_and_keys_are_read(log, rows, monkeypatch):
    monkeypatch.setattr(text_tables, "BLOCK_ROWS", rows)
    check(rci.read_logs(log, MAPPING))


@pytest.mark.parametrize("rows", [2, 100])
def test_they_survive_streaming_the_store_and_a_choice(log, tmp_path, rows, monkeypatch):
    monkeypatch.setattr(text_tables, "BLOCK_ROWS", rows)
    done = rci.convert_dataset(log, tmp_path / "episodes", mapping=MAPPING)
    episodes = rci.load(tmp_path / "episodes")
    check(episodes)
    assert episodes.hash == done.episodes_hash == rci.read_logs(log, MAPPING).hash
    second = episodes.take([1])
    assert second.keys == {"run": ["b"], "robot": ["r2"]}
    assert second.row.tolist() == [3, 4]
    assert second.labels_of("obs") == LABELS
    again = rci.Episodes.joined([episodes.take([0]), second])
    check(again)
    assert_same(again, episodes)
    with pytest.raises(RciError, match=r"different signals or keys cannot be joined: pose x \[m\]"):
        rci.Episodes.joined([second, rci.read_logs(log, {**MAPPING, "units": {}})])


def test_files_of_a_folder_are_keys(tmp_path):
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text(LOG)
    found = rci.read_logs(tmp_path, {**MAPPING, "episodes_per_file": True})
    assert found.keys["file"] == ["1.csv", "1.csv", "2.csv", "2.csv"]
    assert found.row.tolist() == [0, 1, 3, 4] * 2


def test_columns_of_lists_are_numbered(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"scan": [1, 2], "gear": 2, "reward": 0}\n{"scan": [3, 4], "gear": 0, "reward": 0}\n')
    found = rci.read_logs(path, {"obs": "scan", "action": "gear", "choices": 3, "units": {"scan": "m"}})
    assert found.labels_of("obs") == ["scan 0 [m]", "scan 1 [m]"]
    assert found.labels_of("action") == ["gear 0", "gear 1", "gear 2"]
    path.write_text('{"obs": {"x": 1, "y": 2}, "action": 2, "reward": 0}\n')
    assert rci.read_logs(path).labels_of("obs") == ["x", "y"]
    path.write_text('{"scan": [1, 2], "x": 1, "action": 2, "reward": 0}\n')
    mixed = rci.import_logs(path, {"obs": ["scan", "x"]})
    assert mixed.episodes.labels_of("obs") == ["obs 0", "obs 1", "obs 2"]
    assert "2 columns of obs hold 3 numbers, so the numbers have no names" in mixed.notes


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"obs": ["pose *", "pose x"]}, "obs: column 'pose x' is named twice, the second time by 'pose x'"),
        ({"obs": ["pose x", "*x"]}, r"obs: column 'pose x' is named twice, the second time by '\*x'"),
        ({"obs": ["sonar_*"]}, r"obs: no column matches 'sonar_\*'\. The columns are: run, robot"),
        ({"obs": ["*"]}, "column '(turn|run|reward|t|stopped)' is named as obs and as"),
        (
            {"units": {"lidar_9": "m"}},
            "unknown column of obs or action in the units of .* 'lidar_9'. Did you mean",
        ),
        ({"units": "m"}, "units must be a table such as"),
        ({"keys": ["t"]}, "line 3, column 't' changes within an episode, from '0' to '1'"),
        ({"keys": ["robbot"]}, "unknown column in .* 'robbot'. Did you mean 'robot'"),
        ({"rate": -1}, "rate must be a positive number of steps per second, got -1"),
    ],
)
def test_wrong_names_are_refused(log, mapping, message):
    with pytest.raises(RciError, match=message):
        rci.read_logs(log, {**MAPPING, **mapping})


def test_names_that_are_hardly_names(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("obs.,obs.1,obs [m],action,reward,key.site,site\n1,2,3,4,5,a,b\n")
    found = rci.read_logs(path)
    assert found.labels_of("obs") == ["obs.", "obs.1", "obs [m]"]
    assert found.keys == {"site": ["a"]}
    with pytest.raises(RciError, match=r"two columns of keys are called the same: key\.site, site"):
        rci.read_logs(path, {"keys": ["key.site", "site"]})


def test_an_episode_of_a_million_names_of_pixels_has_none(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"obs": {[0] * 5000}, "action": 2, "reward": 0}}\n')
    assert rci.read_logs(path).signals.obs == ()


def test_labels_belong_to_named_episodes(log, tmp_path):
    found = rci.import_logs(log, MAPPING)
    labels, costs = judged(found.episodes, found.stop_index.tolist())
    labels.check_parent(found.episodes)
    costs.check_parent(labels)
    assert np.array_equal(labels.stop_index, [1, -1])


def test_step_costs_join_the_rows_that_they_came_from(log, tmp_path):
    pandas = pytest.importorskip("pandas")
    found = rci.import_logs(log, MAPPING)
    labels, costs = judged(found.episodes, [0, -1], grade=0.3)
    recorded = pandas.read_csv(log)
    for name in ("costs.csv", "costs.parquet"):
        place = rci.write_costs(tmp_path / name, found.episodes, labels, costs)
        table = pandas.read_csv(place) if place.suffix == ".csv" else pandas.read_parquet(place)
        assert list(table) == ["run", "robot", "episode", "step", "row", "cost", "stopped"]
        joined = recorded.join(table.set_index("row")["cost"])
        assert joined.cost[[0, 3, 4]].tolist() == costs.cost.tolist()
        assert joined.cost[[1, 2]].isna().all()  # behind the stop, and what was seen last
        assert joined["t"][table.row].tolist() == [0, 0, 1]
        assert table.stopped.astype(int).tolist() == [1, 0, 0]
        merged = recorded.merge(table, left_on=["run", "t"], right_on=["run", "step"])
        assert merged.cost.tolist() == costs.cost.tolist()
        assert (merged.robot_x == merged.robot_y).all()
    with pytest.raises(RciError, match=r"to a \.csv or \.parquet file, not to costs\.txt"):
        rci.write_costs(tmp_path / "costs.txt", found.episodes, labels, costs)
    with pytest.raises(RciError, match=r"costs\.csv exists"):
        rci.write_costs(tmp_path / "costs.csv", found.episodes, labels, costs)


def test_step_costs_at_another_rate_know_their_times_and_last_rows(tmp_path):
    rows = [f"a,2026-05-05T16:53:{20 + t / 10:04.1f}Z,{t},{t}" for t in range(10)]
    (tmp_path / "log.csv").write_text("\n".join(["run,stamp,x,u", *rows]) + "\n")
    mapping = {"obs": "x", "action": "u", "reward": 0, "time": "stamp", "rate": 5}
    found = rci.read_logs(tmp_path / "log.csv", mapping)
    labels, costs = judged(found, [-1])
    rci.write_costs(tmp_path / "costs.csv", found, labels, costs)
    lines = (tmp_path / "costs.csv").read_text().splitlines()
    assert lines[0] == "run,episode,step,row,time,cost,stopped"
    assert lines[1] == "a,0,0,0,2026-05-05T16:53:20.000000Z,0.0,0"
    assert lines[2] == "a,0,1,2,2026-05-05T16:53:20.200000Z,0.0,0"
    assert found.obs[:-1, 0].tolist() == [int(line.split(",")[3]) for line in lines[1:]]


def test_named_episodes_are_written_by_name_and_come_back(log, tmp_path):
    found = rci.import_logs(log, MAPPING)
    labels, costs = judged(found.episodes, found.stop_index.tolist())
    rci.write_parquet(tmp_path / "a.parquet", found.episodes, labels, costs)
    again = rci.read_logs(tmp_path / "a.parquet")
    assert again.labels_of("obs") == LABELS
    assert again.signals == found.episodes.signals
    assert again.keys == found.episodes.keys
    assert_same(again, found.episodes)


def test_names_survive_the_formats_of_others(log, tmp_path):
    found = rci.import_logs(log, MAPPING)
    labels, costs = judged(found.episodes, found.stop_index.tolist())
    rci.write_dsrl(tmp_path / "a.hdf5", found.episodes, labels, costs)
    rci.write_minari(tmp_path / "a-v0", found.episodes, labels, costs)
    assert rci.read_dsrl(tmp_path / "a.hdf5").signals == found.episodes.signals
    assert rci.read_minari(tmp_path / "a-v0").signals == found.episodes.signals


def test_names_of_others_that_are_damaged(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", flat_columns())
    for table in (
        "[",
        "[]",
        '{"obs": [[1]], "action": [], "rate": null}',
        '{"obs": 3, "action": [], "rate": "x"}',
    ):
        with h5py.File(path, "a") as file:
            file.attrs["rci.signals"] = table
        with pytest.raises(RciError, match="names of signals|needs a name"):
            rci.read_dsrl(path)


def test_parts_of_spaces_are_names():
    box = {"type": "Box", "shape": [2], "dtype": "float32"}
    single = {"type": "Box", "shape": [], "dtype": "float32"}
    gear = {"type": "Discrete", "n": 3, "start": 0}
    parts = leaves({"type": "Dict", "subspaces": {"pose": box, "v": single, "gear": gear}}, "a space", False)
    assert leaf_names(parts) == ["pose 0", "pose 1", "v", "gear 0", "gear 1", "gear 2"]
    assert leaf_names(leaves(box, "a space", False)) == []


def test_an_episode_is_drawn_with_its_names(log, tmp_path):
    episodes = rci.read_logs(log, MAPPING)
    figure = episodes.plot(0)
    assert sorted(axes.get_ylabel() for axes in figure.axes) == sorted([*LABELS, "turn"])
    assert [axes.get_xlabel() for axes in figure.axes].count("seconds") == 2
    assert figure.get_suptitle() == "episode 0: run a, robot r1"
    figure.savefig(tmp_path / "episode.png")
    with pytest.raises(IndexError):
        episodes.plot(2)
