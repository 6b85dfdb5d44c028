"""Bags and mappings that are wrong: one clear sentence each, and nothing left behind."""
# ruff: noqa: E501

from __future__ import annotations

import os
import sqlite3
import struct
import time
import tracemalloc

import numpy as np
import pytest
from bag_files import BOOL, KINDS, MAPPING, ODOM, START, TOPICS, TWIST, drive, file_of, write_bag
from rosbags.interfaces import ConnectionExtRosbag2

import rci
from rci.data.errors import RciError


@pytest.fixture(scope="module")
def drives(tmp_path_factory):
    """A drive in every container."""
    root = tmp_path_factory.mktemp("drives")
    return {kind: write_bag(root / kind, drive(), TOPICS, kind) for kind in KINDS}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"obs": ["/odometry.pose.pose.position.x"]}, r"has no topic /odometry\. Its topics are: /cmd_vel \(geometry_msgs/msg/Twist\), /estop"),
        ({"stop": {"field": "/panic.data", "is": True}}, r"no topic /panic\. If it is there only once .* optional = true"),
        ({"obs": ["/odom.twist.twist.linear.w"]}, r"unknown field of .*/odom\.twist\.twist\.linear 'w'.* Known: x, y, z"),
        ({"obs": ["/odom.speed"]}, r"unknown field of .* 'speed'.*Known: child_frame_id, header, pose, twist"),
        ({"obs": ["/odom.twist.twist"]}, r"\.twist\.twist is a whole geometry_msgs/msg/Twist, not a number; name one of its fields: linear, angular"),
        ({"obs": ["/scan.ranges"]}, r"\.ranges is a list; name its numbers: ranges\[0\]"),
        ({"obs": ["/scan.angle_min[0]"]}, r"\.angle_min is one float32: nothing is inside of it"),
        ({"obs": ["/odom.pose.covariance[36]"]}, r"covariance has 36 elements, so there is no \[36\]"),
        ({"obs": ["/scan.ranges[360]"]}, r"a list has 360 elements in this message, so there is no \[360\]"),
        ({"obs": ["/odom.child_frame_id"]}, r"/odom\.child_frame_id is a text, '', not a number"),
        ({"obs": ["odom.x"]}, r"obs: 'odom\.x' is not a field; write the topic, a dot and the field"),
        ({"obs": []}, r"must say obs, such as"),
        ({"obs": ["/odom.twist.twist.linear.x"] * 2}, r"two signals of obs are called"),
        ({"rate": 0}, r"must say rate, steps per second; messages per second in .*/odom about 49\.9"),
        ({"rate": -1}, r"rate \(steps per second\) must be a number from 0"),
        ({"resample": "median"}, r"unknown resample in the mapping 'median'"),
        ({"obs": [{"field": "/odom.twist.twist.linear.x", "smooth": 3}]}, r"unknown key in the mapping: obs 'smooth'"),
        ({"stop": {"field": "/estop.data"}}, r"stop must say at which values it holds"),
        ({"stop": "/estop.data"}, r"stop must be a table such as"),
        ({"reward": ["/odom.twist.twist.linear.x", "/odom.twist.twist.linear.y"]}, r"the reward is one number"),
        ({"base": "car"}, r"unknown base in the mapping 'car'.*Known: autoware, ur"),
        ({"stops": {}}, r"unknown key in the mapping 'stops'. Did you mean 'stop'"),
        ({"definitions": "nowhere"}, r"definitions must be a folder"),
    ],
)  # fmt: skip
def test_mappings_that_do_not_fit(drives, change, expected):
    with pytest.raises(RciError, match=expected) as told:
        rci.import_bags(drives["mcap"], {**MAPPING, **change})
    assert "\n" not in str(told.value)


def test_no_mapping_and_no_bag(drives, tmp_path):
    with pytest.raises(RciError, match=r"a bag needs a mapping .*autoware, ur"):
        rci.import_dataset(drives["mcap"])
    with pytest.raises(RciError, match=r"there is no mapping tractor"):
        rci.import_bags(drives["mcap"], "tractor")
    with pytest.raises(RciError, match="there is no bag"):
        rci.import_bags(tmp_path / "none.mcap", MAPPING)
    with pytest.raises(RciError, match="has no bags in it"):
        rci.import_bags(tmp_path, MAPPING)
    (tmp_path / "a.bag").write_text("hello")
    with pytest.raises(RciError, match="is not a bag: it begins neither like MCAP"):
        rci.import_bags(tmp_path / "a.bag", MAPPING)
    with sqlite3.connect(tmp_path / "b.db3") as base:
        base.execute("CREATE TABLE songs (id INTEGER)")
    base.close()
    with pytest.raises(RciError, match="an SQLite file, but not a bag: it has no table 'topics'"):
        rci.import_bags(tmp_path / "b.db3", MAPPING)


def test_tables_that_compute_are_refused(drives, tmp_path):
    path = tmp_path / "view.db3"
    path.write_bytes(file_of(drives["db3"]).read_bytes())
    with sqlite3.connect(path) as base:
        base.execute("ALTER TABLE messages RENAME TO hidden")
        base.execute(
            "CREATE VIEW messages AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
            "SELECT i AS id, 1 AS topic_id, i AS timestamp, x'00' AS data FROM n"
        )
    base.close()
    with pytest.raises(RciError, match="messages is not a plain table"):
        rci.import_bags(path, MAPPING)


@pytest.mark.parametrize(
    ("table", "columns", "row", "expected"),
    [
        ("topics", "id TEXT, name TEXT, type TEXT, serialization_format TEXT", "id, name, type, 'cdr'", r"a topic has '1' as its number"),
        ("messages", "id TEXT, topic_id INTEGER, timestamp INTEGER, data BLOB", "id, topic_id, timestamp, data", r"message '1' is damaged: its time, number"),
        ("messages", "id, topic_id, timestamp, data", "NULL, topic_id, timestamp, data", r"message None is damaged"),
    ],
)  # fmt: skip
def test_numbers_that_are_none(drives, tmp_path, table, columns, row, expected):
    path = tmp_path / "other.db3"
    path.write_bytes(file_of(drives["db3"]).read_bytes())
    with sqlite3.connect(path) as base:
        base.execute(f"ALTER TABLE {table} RENAME TO old")
        base.execute(f"CREATE TABLE {table} ({columns})")
        base.execute(f"INSERT INTO {table} SELECT {row} FROM old")
    base.close()
    with pytest.raises(RciError, match=expected):
        rci.import_bags(path, MAPPING)


def record(data=b"", claimed=None, **fields):
    """A record of a ROS 1 bag."""
    parts = [name.encode() + b"=" + value for name, value in fields.items()]
    header = b"".join(struct.pack("<I", len(part)) + part for part in parts)
    return (
        struct.pack("<I", len(header))
        + header
        + struct.pack("<I", len(data) if claimed is None else claimed)
        + data
    )


def test_lengths_that_ask_for_more_than_memory_has(tmp_path):
    """Files with a hole in them are as large as they claim to be."""
    size = (1 << 32) - 1
    number = struct.pack("<I", 0)
    begins = {
        "schema.mcap": b"\x89MCAP0\r\n" + struct.pack("<BQ", 3, size),
        "chunk.mcap": b"\x89MCAP0\r\n" + struct.pack("<BQQQQII", 6, size, 0, 1, 9, 0, 0),
        "connection.bag": b"#ROSBAG V2.0\n" + record(claimed=size, op=b"\7", conn=number, topic=b"/a"),
        "chunk.bag": b"#ROSBAG V2.0\n"
        + record(claimed=size, op=b"\5", compression=b"none", size=b"\xff" * 4),
        "index.bag": b"#ROSBAG V2.0\n"
        + record(op=b"\5", compression=b"none", size=number)
        + record(claimed=size, op=b"\4", conn=number, count=struct.pack("<I", size // 12)),
    }
    for name, begin in begins.items():
        path = tmp_path / name
        path.write_bytes(begin)
        os.truncate(path, len(begin) + size + 100)
        tracemalloc.start()
        for partial in (False, True):
            with pytest.raises(RciError, match=r"claims 4294967295 bytes|breaks off|no topics at all"):
                rci.import_bags(path, MAPPING, partial=partial)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
        tracemalloc.stop()
        path.unlink()


def test_many_connections_in_one_chunk_take_no_time(drives, tmp_path):
    numbers = (struct.pack("<I", 100 + i) for i in range(40_000))
    path = tmp_path / "many.bag"
    path.write_bytes(
        file_of(drives["bag"]).read_bytes()
        + b"".join(record(op=b"\4", conn=number, count=b"\0" * 4) for number in numbers)
    )
    began = time.process_time()
    assert len(rci.import_bags(path, MAPPING).episodes) == 1
    assert time.process_time() - began < 3.0


def test_bags_with_a_key(tmp_path):
    path = tmp_path / "secret.bag"
    head = record(op=b"\3", chunk_count=b"\0" * 4, index_pos=b"\0" * 8, encryptor=b"rosbag/AesCbcEncryptor")
    path.write_bytes(b"#ROSBAG V2.0\n" + head)
    with pytest.raises(RciError, match=r"secret\.bag is encrypted; decrypt it first"):
        rci.import_bags(path, MAPPING)


def test_an_index_that_lies(tmp_path):
    """Chunks are read in the order of the times in front of them."""
    path = file_of(write_bag(tmp_path / "long", long_drive(), TOPICS))
    content = bytearray(path.read_bytes())
    chunks, place = [], 8
    while content[place] != 2:
        chunks += [place + 9] if content[place] == 6 else []
        place += 9 + int.from_bytes(content[place + 1 : place + 9], "little")
    content[chunks[0] : chunks[0] + 8] = content[
        chunks[1] + 8 : chunks[1] + 16
    ]  # begins when the second ends
    path.write_bytes(content)
    linear = {**MAPPING, "resample": "linear"}
    with pytest.raises(RciError, match=r"comes behind others that are .* later: the index of the bag is"):
        rci.import_bags(path, linear)


@pytest.mark.parametrize("kind", KINDS)
def test_bags_that_break_off(drives, tmp_path, kind):
    """What can be read is offered, and said."""
    whole = file_of(drives[kind]).read_bytes()
    path = tmp_path / f"cut{file_of(drives[kind]).suffix}"
    path.write_bytes(whole[:-1])
    with pytest.raises(RciError, match=r"breaks off.*--partial \(partial=True\) imports what can be read"):
        rci.import_bags(path, MAPPING)
    if kind == "db3":  # whole pages are lost, perhaps that of the index
        return
    found = rci.import_bags(path, MAPPING, partial=True)
    assert found.episodes.lengths.tolist() == [19]
    assert any("breaks off" in note and "what can be read of it is taken" in note for note in found.notes)
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(RciError):
        rci.import_bags(path, MAPPING, partial=True)  # the only chunk is lost


def long_drive():
    """Several chunks."""
    rows = drive(20.0)
    for i in range(200):
        rows.append((i * 100 + 50, "/scan", {"stamp_ms": i * 100 + 50, "ranges": np.zeros(5000, np.float32)}))
    return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("kind", ["mcap", "bag"])
def test_most_of_a_long_bag_that_breaks_off(tmp_path, kind):
    bag = write_bag(tmp_path / "long", long_drive(), TOPICS, kind)
    path = tmp_path / f"cut{file_of(bag).suffix}"
    path.write_bytes(file_of(bag).read_bytes()[: file_of(bag).stat().st_size * 3 // 4])
    episodes = rci.import_bags(path, MAPPING, partial=True).episodes
    whole = rci.import_bags(bag, MAPPING).episodes
    assert whole.lengths.tolist() == [199]
    assert 80 < episodes.lengths[0] < 190
    same = int(episodes.lengths[0])
    assert np.array_equal(episodes.obs[:same], whole.obs[:same])


def test_tables_that_break_off(tmp_path):
    """A table is a tree: with its end, the way to its beginning may be lost."""
    bag = write_bag(tmp_path / "long", drive(20.0), TOPICS, "db3")
    path = tmp_path / "cut.db3"
    path.write_bytes(file_of(bag).read_bytes()[: file_of(bag).stat().st_size // 2])
    assert 20 < rci.import_bags(path, MAPPING, partial=True).episodes.lengths[0] < 190
    deep = file_of(write_bag(tmp_path / "deep", long_drive(), TOPICS, "db3"))
    path.write_bytes(deep.read_bytes()[: deep.stat().st_size * 3 // 4])
    with pytest.raises(RciError, match=r"is damaged.*cut\.db3 \.recover"):
        rci.import_bags(path, MAPPING, partial=True)
    path.write_bytes(file_of(bag).read_bytes())
    (tmp_path / "cut.db3-wal").write_bytes(b"1")
    with pytest.raises(RciError, match="was not closed: some of its messages may stand in cut.db3-wal"):
        rci.import_bags(path, MAPPING)
    assert rci.import_bags(path, MAPPING, partial=True).episodes.lengths.tolist() == [199]


def test_a_message_that_cannot_be_read(tmp_path, drives):
    content = bytearray(file_of(drives["db3"]).read_bytes())
    place = content.find(b"\x00\x01\x00\x00" + struct.pack("<I", START // 10**9))
    content[place + 1] = 9
    path = tmp_path / "odd.db3"
    path.write_bytes(content)
    with pytest.raises(
        RciError, match=r"a message of /(odom|scan) cannot be read as .*which is not plain CDR"
    ):
        rci.import_bags(path, MAPPING)


def test_clocks_that_jump(tmp_path):
    rows = [(ms, "/odom", {"stamp_ms": ms - 20 if ms < 600 else ms - 5000}) for ms in range(0, 1000, 20)]
    mapping = {"obs": ["/odom.twist.twist.linear.x"], "action": ["/odom.twist.twist.linear.y"], "rate": 10}
    bag = write_bag(tmp_path / "stamps", rows, {"/odom": ODOM})
    with pytest.raises(
        RciError, match=r"stamps and log times of /odom come apart by 4\.98 s, 0\.6 s after the start"
    ):
        rci.import_bags(bag, mapping)
    assert rci.read_bags(bag, {**mapping, "clock": "log"}).lengths.tolist() == [9]
    with pytest.raises(RciError, match=r'stamps of /odom go back.*say clock = "log"'):
        rci.import_bags(bag, {**mapping, "clock": "header"})


@pytest.mark.parametrize("kind", ["mcap", "bag", "db3"])
def test_log_times_that_go_back(tmp_path, kind):
    times = [*range(0, 1000, 20), *range(500, 1500, 20)]
    rows = [(ms, "/cmd_vel", {"linear__x": 1.0}) for ms in times]
    bag = write_bag(tmp_path / "back", rows, {"/cmd_vel": TWIST}, kind)
    mapping = {"obs": ["/cmd_vel.linear.x"], "action": ["/cmd_vel.linear.y"], "rate": 10}
    with pytest.raises(
        RciError, match=r"the clock goes back by at least 0\.\d+ s at /cmd_vel.*cut the bag there"
    ):
        rci.import_bags(bag, mapping)


def test_topics_may_be_written_one_after_the_other(tmp_path):
    """As scripts do that convert bags: each topic runs forward."""
    bag = write_bag(tmp_path / "sorted", sorted(drive(), key=lambda row: row[1]), TOPICS)
    assert rci.import_bags(bag, MAPPING).episodes.lengths.tolist() == [19]


def test_types_that_nobody_defines(tmp_path):
    bag = write_bag(
        tmp_path / "mode",
        [(ms, "/m", {}) for ms in range(0, 500, 50)],
        {"/m": "ur_dashboard_msgs/msg/SafetyMode"},
        "db3",
    )
    path = file_of(bag)
    mapping = {"obs": ["/m.mode"], "action": ["/m.mode"], "rate": 10}
    assert rci.read_bags(path, mapping).lengths.tolist() == [4]
    with sqlite3.connect(path) as base:
        base.execute("DROP TABLE message_definitions")
    base.close()
    with pytest.raises(
        RciError,
        match=r"the message type ur_dashboard_msgs/msg/SafetyMode of /m is unknown: the bag has no definition",
    ):
        rci.read_bags(path, mapping)
    folder = tmp_path / "definitions" / "ur_dashboard_msgs" / "msg"
    folder.mkdir(parents=True)
    (folder / "SafetyMode.msg").write_text("uint8 mode\n")
    told = {**mapping, "definitions": str(tmp_path / "definitions")}
    assert rci.read_bags(path, told).lengths.tolist() == [4]


def test_standard_types_need_no_definition(tmp_path):
    bag = write_bag(tmp_path / "old", drive(), TOPICS, "db3")
    with sqlite3.connect(file_of(bag)) as base:
        base.execute("DROP TABLE message_definitions")
    base.close()
    assert rci.import_bags(bag, MAPPING).episodes.lengths.tolist() == [19]


def test_other_encodings_are_named(tmp_path):
    from rosbags.rosbag2 import StoragePlugin, Writer

    with Writer(tmp_path / "p", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection(
            "/p", "pkg/msg/P", msgdef="uint8 x\n", rihs01="x", serialization_format="protobuf"
        )
        assert isinstance(topic.ext, ConnectionExtRosbag2)
        writer.write(topic, START, b"1")
    with pytest.raises(RciError, match="messages of /p are written as 'protobuf'; cdr and ros1 are read"):
        rci.import_bags(tmp_path / "p", {"obs": ["/p.x"], "action": ["/p.x"], "rate": 1})


def test_too_short_for_a_step(tmp_path):
    bag = write_bag(tmp_path / "short", drive(0.1), TOPICS)
    with pytest.raises(RciError, match=r"no run came out of .*1 runs are shorter than one step"):
        rci.import_bags(bag, MAPPING)
    bag = write_bag(tmp_path / "mute", [(0, "/estop", {"data": True})], TOPICS)
    with pytest.raises(RciError, match="no run came out of"):
        rci.import_bags(bag, MAPPING)


def test_an_optional_button(tmp_path):
    topics = {name: kind for name, kind in TOPICS.items() if kind != BOOL}
    rows = [row for row in drive() if row[1] != "/estop"]
    bag = write_bag(tmp_path / "calm", rows, topics)
    found = rci.import_bags(bag, {**MAPPING, "stop": {"field": "/estop.data", "is": True, "optional": True}})
    assert found.stop_index.tolist() == [-1]
