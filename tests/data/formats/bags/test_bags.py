"""Bags of ROS 1 and ROS 2: the same drive from every container, and what a mapping makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from bag_files import (
    BOOL,
    JOY,
    KINDS,
    MAPPING,
    MODE,
    MS,
    ODOM,
    SAFETY,
    START,
    STRING,
    TOPICS,
    TWIST,
    drive,
    file_of,
    message,
    store_of,
    write_bag,
)  # fmt: skip
from rosbags.highlevel import AnyReader

import rci
from rci.formats import guess_format
from rci.formats.bags.bag import open_bag
from rci.formats.bags.mapping import read_bag_mapping, shipped
from rci.formats.bags.timeline import Timeline


@pytest.mark.parametrize("kind", KINDS)
def test_a_drive_becomes_steps(tmp_path, kind):
    bag = write_bag(tmp_path / "drive", drive(), TOPICS, kind)
    assert guess_format(bag) == "bags"
    found = rci.import_bags(bag, MAPPING)
    episodes = found.episodes
    # The last topic speaks 5 ms after the start, so ticks are at 5, 105, ... and 1905 ms: 19 steps.
    assert episodes.lengths.tolist() == [19]
    ticks = np.arange(20)
    assert episodes.obs[:, 0] == pytest.approx(ticks * 0.5)  # odometry of 0, 100, ... ms
    assert episodes.obs[:, 1] == pytest.approx(ticks * 5.0)
    assert episodes.obs[:, 2:].tolist() == [[5 * k, 90 + 5 * k, 180 + 5 * k, 270 + 5 * k] for k in ticks]
    # The command of step k is the last one up to tick k + 1, which answers the odometry of that time.
    assert episodes.action.tolist() == [[5.0 * (k + 1), 2.5 * (k + 1)] for k in range(19)]
    assert found.stop_index.tolist() == [16]  # 1606 ms is behind the tick at 1605 ms
    assert not episodes.reward.any()
    assert not episodes.terminated.any()
    assert not episodes.truncated.any()
    assert episodes.keys == {"bag": [bag.name], "start": ["2023-11-14T22:13:20.005Z"]}
    assert episodes.signals.rate == 10
    assert episodes.labels_of("obs")[2] == "/scan.ranges[0]"
    assert found.notes == ()


@pytest.mark.parametrize("kind", KINDS)
def test_every_message_is_read_as_rosbags_reads_it(tmp_path, kind):
    bag = write_bag(tmp_path / "drive", drive(), TOPICS, kind)
    with AnyReader([bag]) as reader:
        expected = [
            (time, connection.topic, float(reader.deserialize(data, connection.msgtype).twist.twist.linear.x))
            for connection, time, data in reader.messages()
            if connection.topic == "/odom"
        ]
    mapping = read_bag_mapping({**MAPPING, "obs": ["/odom.twist.twist.linear.x"]})
    with open_bag("drive", [file_of(bag)], False) as opened:
        samples = list(Timeline(opened, mapping, "drive", {}).samples())
    assert [(s.time, s.topic, s.columns[0][1]) for s in samples if s.topic == "/odom"] == expected
    times = [s.time for s in samples]
    assert times == sorted(times)


@pytest.mark.parametrize("kind", ["mcap", "bag"])
def test_fields_behind_texts_and_lists(tmp_path, kind):
    part = store_of(kind == "bag").types["test_msgs/msg/Part"]
    parts = [part("abc", 1.5, np.array([1, 2, 3], np.uint16)), part("", 2.5, np.zeros(0, np.uint16))]
    odd = {
        "flags": np.array([True, False, True]), "names": ["left", "", "right wheel"], "pair": np.array([0.1, -7e300]),
        "big": -(2**62) + 1024, "parts": parts, "last": -3,
    }  # fmt: skip
    rows = [(ms, "/odd", odd) for ms in (0, 100, 200)]
    bag = write_bag(tmp_path / "odd", rows, {"/odd": "test_msgs/msg/Odd"}, kind)
    fields = ["flags[2]", "pair[0:2]", "big", "parts[0].x", "parts[0].counts[1:3]", "parts[1].x", "last"]
    episodes = rci.read_bags(
        bag, {"obs": [f"/odd.{field}" for field in fields], "action": ["/odd.last"], "rate": 10}
    )
    assert episodes.obs.tolist() == [[1.0, 0.1, -7e300, -(2.0**62) + 1024, 1.5, 2.0, 3.0, 2.5, -3.0]] * 3


def test_big_endian_messages(tmp_path):
    from rosbags.rosbag2 import Writer

    store = store_of(False)
    with Writer(tmp_path / "big", version=9) as writer:
        topic = writer.add_connection("/odom", ODOM, typestore=store)
        for i in range(3):
            odom = message(store, ODOM, child_frame_id="abc", twist__twist__angular__z=i + 0.5)
            writer.write(
                topic, START + i * 100 * MS, bytes(store.serialize_cdr(odom, ODOM, little_endian=False))
            )
    mapping = {"obs": ["/odom.twist.twist.angular.z"], "action": ["/odom.twist.twist.linear.x"], "rate": 10}
    assert rci.read_bags(tmp_path / "big", mapping).obs.tolist() == [[0.5], [1.5], [2.5]]


def ramp(times, resample, tail=()):
    """Values of a ramp at ticks of 10 Hz."""
    rows = [(ms, "/a", {"linear__x": float(ms)}) for ms in times]
    rows += [(ms, "/b", {"linear__x": 0.0}) for ms in range(0, 401, 50)]
    return sorted(rows, key=lambda row: row[0]), {
        "obs": [{"field": "/a.linear.x", "name": "a", "unit": "m/s", "resample": resample}],
        "action": ["/b.linear.x"],
        "rate": 10,
    }


@pytest.mark.parametrize(
    ("resample", "expected"),
    [
        ("last", [0, 90, 180, 270, 390]),
        (
            "mean",
            [0, (30 + 60 + 90) / 3, (120 + 150 + 180) / 3, (210 + 240 + 270) / 3, (330 + 360 + 390) / 3],
        ),
        ("linear", [0, 100, 200, 300, 390]),  # there is nothing behind the last message to draw a line to
    ],
)
def test_resampling(tmp_path, resample, expected):
    times = [ms for ms in range(0, 400, 30) if ms != 300]
    rows, mapping = ramp(times, resample)
    bag = write_bag(tmp_path / "ramp", rows, {"/a": TWIST, "/b": TWIST})
    episodes = rci.read_bags(bag, mapping)
    assert episodes.obs[:, 0] == pytest.approx(expected)
    assert episodes.labels_of("obs") == ["a [m/s]"]
    assert episodes.labels_of("action") == ["/b.linear.x"]


def test_the_reward_is_a_field_of_the_step(tmp_path):
    rows, mapping = ramp(range(0, 401, 50), "last")
    bag = write_bag(tmp_path / "r", rows, {"/a": TWIST, "/b": TWIST})
    episodes = rci.read_bags(bag, {**mapping, "reward": "/a.linear.x"})
    assert episodes.reward.tolist() == [100.0, 200.0, 300.0, 400.0]
    mean = rci.read_bags(bag, {**mapping, "reward": {"field": "/a.linear.x", "resample": "mean"}})
    assert mean.reward.tolist() == [75.0, 175.0, 275.0, 375.0]


def modes(tmp_path, changes, kind=MODE, seconds=2):
    rows = [(ms, "/b", {"linear__x": 1.0}) for ms in range(0, seconds * 1000 + 1, 50)]
    rows += [(ms, "/mode", values) for ms, values in changes]
    rows.sort(key=lambda row: row[0])
    return write_bag(tmp_path / "modes", rows, {"/b": TWIST, "/mode": kind})


BASE = {"obs": ["/b.linear.x"], "action": ["/b.linear.y"], "rate": 10}


def test_a_mode_that_changes_is_a_takeover(tmp_path):
    bag = modes(
        tmp_path,
        [
            (-10, {"mode": 1}),
            (530, {"mode": 4}),
            (910, {"mode": 5}),
            (1250, {"mode": 1}),
            (1990, {"mode": 4}),
        ],
    )
    found = rci.import_bags(bag, {**BASE, "takeover": {"field": "/mode.mode", "is": [4, 5]}})
    takeovers = found.takeovers()
    # From within step 5 to within step 12; the last one begins in step 19.
    assert takeovers.begin.tolist() == [5, 19]
    assert takeovers.end.tolist() == [13, 20]
    assert found.stop_index is None
    assert found.labels() is None


def test_a_button_and_a_text_stop(tmp_path):
    bag = modes(
        tmp_path,
        [(0, {"buttons": np.zeros(3, np.int32)}), (700, {"buttons": np.array([0, 0, 1], np.int32)})],
        JOY,
    )
    found = rci.import_bags(bag, {**BASE, "stop": {"field": "/mode.buttons[2]", "is": 1}})
    assert found.stop_index.tolist() == [6]  # pressed in step 6, from behind 600 up to 700 ms
    (tmp_path / "texts").mkdir()
    bag = modes(tmp_path / "texts", [(0, {"data": "AUTO"}), (701, {"data": "HALT"})], STRING)
    assert rci.import_bags(
        bag, {**BASE, "stop": {"field": "/mode.data", "is": "HALT"}}
    ).stop_index.tolist() == [7]


def test_a_stop_that_holds_already_does_not_count_until_it_is_given_again(tmp_path):
    bag = modes(tmp_path, [(-5, {"data": True}), (320, {"data": False}), (1100, {"data": True})], BOOL)
    found = rci.import_bags(bag, {**BASE, "stop": {"field": "/mode.data", "is": True}})
    assert found.stop_index.tolist() == [10]
    assert found.notes == ("1 runs begin while a stop holds: it does not count until it is given again",)


def test_a_stop_after_the_last_tick_is_in_the_last_step(tmp_path):
    rows = [(ms, "/b", {}) for ms in range(0, 1041, 10)] + [(1045, "/mode", {"data": True})]
    bag = write_bag(tmp_path / "end", rows, {"/b": TWIST, "/mode": BOOL})
    found = rci.import_bags(bag, {**BASE, "stop": {"field": "/mode.data", "is": True}})
    assert found.episodes.lengths.tolist() == [10]
    assert found.stop_index.tolist() == [9]


def test_a_field_says_which_episode_it_is(tmp_path):
    changes = [(-5, {"data": "a"}), (600, {"data": "a"}), (1000, {"data": "b"}), (1600, {"data": "a"})]
    bag = modes(tmp_path, changes, STRING)
    episodes = rci.read_bags(bag, {**BASE, "episode": "/mode.data"})
    assert episodes.lengths.tolist() == [10, 6, 4]
    assert episodes.keys["episode"] == ["a", "b", "a"]
    only = rci.read_bags(bag, {**BASE, "episode": {"field": "/mode.data", "is": "b"}})
    assert only.lengths.tolist() == [6]
    assert only.keys["start"] == ["2023-11-14T22:13:21.000Z"]


def test_silence_ends_a_run(tmp_path):
    rows = drive(2.0) + drive(1.0, begin=30.0, pressed=0.5)
    bag = write_bag(tmp_path / "two", rows, TOPICS)
    found = rci.import_bags(bag, MAPPING)
    # The first run goes on for max_gap = 5 s behind the last word of the topic that is silent first, the scan.
    assert found.episodes.lengths.tolist() == [68, 9]
    assert found.stop_index.tolist() == [16, 5]
    short = rci.import_bags(bag, {**MAPPING, "max_gap": 0.5})
    assert short.episodes.lengths.tolist() == [23, 9]
    assert any("silent for more than max_gap = 0.5 s" in note for note in short.notes)
    assert rci.read_bags(bag, {**MAPPING, "max_gap": 0}).lengths.tolist() == [309]


def test_a_topic_that_is_slower_than_the_rate_is_said(tmp_path):
    bag = write_bag(tmp_path / "slow", drive(), TOPICS)
    (note,) = rci.import_bags(bag, {**MAPPING, "rate": 25}).notes
    assert "/scan comes about 10 times a second, less often than rate = 25" in note


def test_a_folder_of_bags(tmp_path):
    for number in (10, 2):
        write_bag(tmp_path / f"drive_{number}", drive(1.0), TOPICS, "bag" if number == 2 else "mcap")
    found = rci.import_bags(tmp_path, MAPPING)
    assert sorted(found.episodes.keys["bag"]) == ["drive_10", "drive_2.bag"]
    assert found.episodes.lengths.tolist() == [9, 9]
    assert guess_format(tmp_path) == "bags"


def test_numbers_that_are_not_finite_need_a_word(tmp_path):
    ranges = np.full(4, np.inf, np.float32)
    rows = [(ms, "/scan", {"ranges": ranges}) for ms in range(0, 500, 50)]
    bag = write_bag(tmp_path / "inf", rows, {"/scan": TOPICS["/scan"]})
    mapping = {
        "obs": [{"field": "/scan.ranges[0:4]", "nonfinite": 30.0}],
        "action": ["/scan.angle_min"],
        "rate": 10,
    }
    assert rci.read_bags(bag, mapping).obs.tolist() == [[30.0] * 4] * 5
    with pytest.raises(rci.RciError, match=r"/scan\.ranges\[0\] is inf at 2023-.*nonfinite = 30\.0"):
        rci.read_bags(bag, {**mapping, "obs": ["/scan.ranges[0:4]"]})


def test_clocks_of_stamps(tmp_path):
    """Messages are logged late, and their stamps say when they were true."""
    rows = []
    for ms in range(0, 1001, 50):
        rows.append((ms + 180, "/odom", {"stamp_ms": ms, "twist__twist__linear__x": ms / 1000}))
        rows.append((ms + 20, "/scan", {"stamp_ms": ms, "angle_min": ms / 1000}))
    rows.sort(key=lambda row: row[0])
    bag = write_bag(tmp_path / "late", rows, {"/odom": ODOM, "/scan": TOPICS["/scan"]})
    mapping = {
        "obs": ["/odom.twist.twist.linear.x", "/scan.angle_min"],
        "action": ["/odom.twist.twist.linear.y"],
        "rate": 10,
    }
    stamped = rci.read_bags(bag, {**mapping, "clock": "header"}).obs
    assert stamped[:, 0] == pytest.approx(stamped[:, 1])
    assert stamped[:, 0] == pytest.approx(np.arange(11) / 10)
    logged = rci.read_bags(bag, mapping).obs
    assert logged[1:-2, 1] - logged[1:-2, 0] == pytest.approx(0.15, rel=1e-4)


def test_mappings_that_come_with_the_package(tmp_path):
    assert shipped() == ["autoware", "ur"]
    rows = []
    for ms in range(0, 1001, 50):
        joints = {"position": np.arange(6.0), "velocity": np.ones(6), "name": list("abcdef")}
        rows.append((ms, "/joint_states", joints))
        rows.append((ms, "/forward_velocity_controller/commands", {"data": np.full(6, ms / 1000)}))
    rows += [
        (-3, "/io_and_status_controller/safety_mode", {"mode": 1}),
        (620, "/io_and_status_controller/safety_mode", {"mode": 3}),
    ]
    rows.sort(key=lambda row: row[0])
    topics = {
        "/joint_states": "sensor_msgs/msg/JointState", "/io_and_status_controller/safety_mode": SAFETY,
        "/forward_velocity_controller/commands": "std_msgs/msg/Float64MultiArray",
    }  # fmt: skip
    arm = rci.import_bags(write_bag(tmp_path / "arm", rows, topics), "ur")
    assert arm.episodes.obs.shape == (21, 12)
    assert arm.episodes.signals.obs[7].label == "/joint_states.velocity[1] [rad/s]"
    assert arm.stop_index.tolist() == [12]

    topics = {
        "/localization/kinematic_state": ODOM, "/vehicle/status/control_mode": MODE,
        "/vehicle/status/steering_status": "autoware_vehicle_msgs/msg/SteeringReport",
        "/control/command/control_cmd": "autoware_control_msgs/msg/Control",
    }  # fmt: skip
    rows = [
        (ms, topic, values)
        for ms in range(0, 1001, 50)
        for topic, values in (
            ("/localization/kinematic_state", {"twist__twist__linear__x": 8.0}),
            ("/vehicle/status/steering_status", {"steering_tire_angle": 0.25}),
            (
                "/control/command/control_cmd",
                {"lateral__steering_tire_angle": 0.5, "longitudinal__acceleration": -1.0},
            ),
            ("/vehicle/status/control_mode", {"mode": 1 if ms < 600 else 4}),
        )
    ]
    car = rci.import_bags(write_bag(tmp_path / "car", rows, topics), {"base": "autoware", "rate": 20})
    assert car.episodes.obs[0].tolist() == [0, 0, 0, 0, 8.0, 0, 0.25]
    assert car.episodes.action[0].tolist() == [0.5, -1.0]
    assert car.takeovers().begin.tolist() == [11]
    assert car.episodes.signals.rate == 20
