"""Bags piece by piece: interrupted anywhere, and larger than the memory that the import may have."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from bag_files import MAPPING, MODE, ODOM, SCAN, START, TOPICS, TWIST, drive, message, store_of, write_bag
from typer.testing import CliRunner

import rci
from rci.benchmarks.importing import measure
from rci.cli.main import app
from rci.formats.bags import source
from rci.formats.importing import unfinished

CLOCKS = ("log", "header")


def contents(folder):
    """Every file of a folder, by its name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def recordings(tmp_path):
    """Two bags of several runs, with takeovers; stamps lag behind, and differently."""
    topics = {**TOPICS, "/mode": MODE}
    root = tmp_path / "bags"
    root.mkdir()
    for number, kind in enumerate(("mcap", "bag", "db3")):
        rows = drive(3.0, pressed=2.4) + drive(2.0, begin=20.0, pressed=5.0)
        rows += [(ms, "/mode", {"mode": mode}) for ms, mode in ((-5, 1), (731, 4), (1400, 1), (20_500, 5))]
        late = {"/odom": 30 + number, "/scan": 3}
        rows = [(ms + late.get(topic, 0), topic, values) for ms, topic, values in rows]
        write_bag(root / f"drive_{number}", sorted(rows, key=lambda row: row[0]), topics, kind)
    (root / "drive_1.bag").rename(root / "drive_1.5.bag")
    return root


@pytest.mark.parametrize("clock", CLOCKS)
def test_an_import_goes_on_where_it_was_interrupted(recordings, tmp_path, monkeypatch, clock):
    mapping = {
        **MAPPING,
        "obs": [
            {"field": "/odom.twist.twist.linear.x", "resample": "linear"},
            {"field": "/odom.pose.pose.position.x", "resample": "mean"},
            "/scan.ranges[0:360:90]",
        ],
        "takeover": {"field": "/mode.mode", "is": [4, 5]},
        "clock": clock,
        "max_gap": 1.0,
    }
    monkeypatch.setattr(unfinished, "COMMIT_BYTES", 1)
    monkeypatch.setattr(source, "chunk_rows", lambda shape, itemsize: 5)
    whole = rci.convert_dataset(recordings, tmp_path / "whole", mapping=mapping)
    assert len(whole.lengths) == 6
    assert whole.human.sum() > 10
    again = rci.load(tmp_path / "whole")
    assert again.hash == whole.episodes_hash
    at_once = rci.import_bags(recordings, mapping)
    assert at_once.episodes.hash == whole.episodes_hash
    assert np.array_equal(at_once.human, whole.human)
    assert at_once.notes == whole.notes

    append = unfinished.Unfinished.append
    out = tmp_path / "again"
    for pieces in (1, 2, 4, 3, 7, 5):  # each time it is interrupted after some more

        def interrupted(self, piece, state, without=(), left=[pieces]):  # noqa: B006
            append(self, piece, state, without)
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(unfinished.Unfinished, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            rci.convert_dataset(recordings, out, mapping=mapping)
    monkeypatch.setattr(unfinished.Unfinished, "append", append)
    steps = []
    done = rci.convert_dataset(recordings, out, mapping=mapping, continuing=steps.append)
    assert steps[0] > 100
    assert contents(out) == contents(tmp_path / "whole")
    assert (done.notes, done.stop_index.tolist()) == (whole.notes, whole.stop_index.tolist())
    assert np.array_equal(done.human, whole.human)


def test_the_command_writes_labels_and_takeovers_beside(recordings, tmp_path):
    mapping = tmp_path / "topics.toml"
    mapping.write_text(
        'obs = ["/odom.twist.twist.linear.x"]\naction = ["/cmd_vel.linear.x"]\nrate = 10\n'
        'stop = {field = "/estop.data", is = true}\ntakeover = {field = "/mode.mode", is = [4, 5]}\n'
    )
    words = ["import", str(recordings), "--mapping", str(mapping), "--out", str(tmp_path / "e"), "--json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    told = json.loads(done.stdout)
    assert told["format"] == "bags"
    assert told["takeovers"] == 6
    episodes, labels, takeovers = (rci.load(place) for place in told["out"])
    labels.check_parent(episodes)
    takeovers.check_parent(episodes)
    assert labels.stopped.sum() == 3
    assert episodes.signals.rate == 10
    assert len(set(episodes.keys["bag"])) == 3


def large(path, kind, gigabytes):
    """A long drive with a camera: most of it is pictures, which no mapping names."""
    store = store_of(kind == "bag")
    picture = np.random.default_rng(0).integers(0, 256, 640 * 480 * 3, np.uint8)
    write = store.serialize_ros1 if kind == "bag" else store.serialize_cdr
    image = bytes(
        write(
            message(store, "sensor_msgs/msg/Image", data=picture, width=640, height=480),
            "sensor_msgs/msg/Image",
        )
    )
    seconds = gigabytes * 1e9 / len(image) / 10
    from rosbags.rosbag1 import Writer as Writer1
    from rosbags.rosbag2 import StoragePlugin, Writer

    plugin = StoragePlugin.SQLITE3 if kind == "db3" else StoragePlugin.MCAP
    writer = Writer1(path) if kind == "bag" else Writer(path, version=9, storage_plugin=plugin)
    topics = {"/odom": ODOM, "/scan": SCAN, "/cmd_vel": TWIST, "/camera": "sensor_msgs/msg/Image"}
    with writer:
        numbers = {
            name: writer.add_connection(name, type_, typestore=store) for name, type_ in topics.items()
        }
        for i in range(round(seconds * 50)):
            time = START + i * 20_000_000
            odom = message(store, ODOM, twist__twist__linear__x=i / 50)
            writer.write(numbers["/odom"], time, bytes(write(odom, ODOM)))
            command = message(store, TWIST, linear__x=i / 100)
            writer.write(numbers["/cmd_vel"], time + 5, bytes(write(command, TWIST)))
            if i % 5 == 0:
                scan = message(store, SCAN, ranges=np.full(360, i, np.float32))
                writer.write(numbers["/scan"], time + 6, bytes(write(scan, SCAN)))
                writer.write(numbers["/camera"], time + 7, image)
    return path


LARGE = 'obs = ["/odom.twist.twist.linear.x", "/scan.ranges[0:360:45]"]\naction = ["/cmd_vel.linear.x"]\nrate = 10\n'


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
@pytest.mark.parametrize("kind", ["mcap", "bag", "db3"])
def test_bags_larger_than_the_memory(tmp_path, kind):
    bag = large(tmp_path / ("large.bag" if kind == "bag" else "large"), kind, 1.0)
    (tmp_path / "topics.toml").write_text(LARGE)
    row = measure(bag, tmp_path / "out", 512, ["--mapping", str(tmp_path / "topics.toml")])
    assert row["config"]["peak_rss_mb"] < 450
    assert row["config"]["steps"] > 1000
