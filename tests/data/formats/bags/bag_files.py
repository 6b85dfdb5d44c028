"""Small bags, written by the package `rosbags`: what is read here was written by somebody else's code."""

from __future__ import annotations

from functools import cache

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from rci.formats.bags.bag import files_of_bags

START = 1_700_000_000 * 10**9
MS = 10**6
KINDS = ("mcap", "mcap-zstd", "db3", "bag", "bag-lz4", "bag-bz2")
ODOM, SCAN, TWIST, BOOL, JOY, STRING = (
    "nav_msgs/msg/Odometry", "sensor_msgs/msg/LaserScan", "geometry_msgs/msg/Twist", "std_msgs/msg/Bool",
    "sensor_msgs/msg/Joy", "std_msgs/msg/String",
)  # fmt: skip
SAFETY, MODE = "ur_dashboard_msgs/msg/SafetyMode", "autoware_vehicle_msgs/msg/ControlModeReport"
CUSTOM = {
    SAFETY: "uint8 NORMAL=1\nuint8 mode\n",
    MODE: "builtin_interfaces/Time stamp\nuint8 mode\n",
    "test_msgs/msg/Odd": "bool[3] flags\nstring[] names\nfloat64[2] pair\nint64 big\ntest_msgs/Part[] parts\n"
    "int8 last\n",
    "test_msgs/msg/Part": "string name\nfloat32 x\nuint16[] counts\n",
    "autoware_control_msgs/msg/Control": "builtin_interfaces/Time stamp\nautoware_control_msgs/Lateral lateral\n"
    "autoware_control_msgs/Longitudinal longitudinal\n",
    "autoware_control_msgs/msg/Lateral": "builtin_interfaces/Time stamp\nfloat32 steering_tire_angle\n",
    "autoware_control_msgs/msg/Longitudinal": "builtin_interfaces/Time stamp\nfloat32 velocity\nfloat32 acceleration\n",
    "autoware_vehicle_msgs/msg/SteeringReport": "builtin_interfaces/Time stamp\nfloat32 steering_tire_angle\n",
}


@cache
def store_of(ros1):
    """All types of the tests."""
    store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
    types = {}
    for name, text in CUSTOM.items():
        types |= get_types_from_msg(text, name)
    store.register(types)
    return store


def message(store, kind, /, **values):
    """A message whose other fields are empty; `twist__linear__x=1` goes down into it."""
    fields = {}
    for name, (node, what) in store.fielddefs[kind][1]:
        inner = {key[len(name) + 2 :]: value for key, value in values.items() if key.startswith(f"{name}__")}
        if name in values:
            fields[name] = values[name]
        elif node == Nodetype.NAME:
            fields[name] = message(store, what, **inner)
        elif node == Nodetype.BASE:
            fields[name] = "" if what[0] == "string" else what[0] == "bool" and False
        else:
            (inner_node, inner_kind), count = what
            size = count if node == Nodetype.ARRAY else 0
            if inner_node == Nodetype.NAME:
                fields[name] = [message(store, inner_kind) for _ in range(size)]
            elif inner_kind[0] == "string":
                fields[name] = [""] * size
            else:
                fields[name] = np.zeros(
                    size, {"bool": "bool", "byte": "uint8", "char": "uint8"}.get(*inner_kind[:1] * 2)
                )
    return store.types[kind](**fields)


def write_bag(path, rows, topics, kind="mcap"):
    """rows: time in ms, topic, fields; topics: their types. The path of the bag."""
    ros1 = kind.startswith("bag")
    store = store_of(ros1)
    if ros1:
        writer = Writer1(path := path.with_suffix(".bag"))
        if kind != "bag":
            writer.set_compression(Writer1.CompressionFormat[kind[4:].upper()])
    else:
        plugin = StoragePlugin.SQLITE3 if kind == "db3" else StoragePlugin.MCAP
        writer = Writer2(path, version=9, storage_plugin=plugin)
        if kind == "mcap-zstd":
            writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    write = store.serialize_ros1 if ros1 else store.serialize_cdr
    with writer:
        numbers = {
            topic: writer.add_connection(topic, kind, typestore=store) for topic, kind in topics.items()
        }
        for ms, topic, values in rows:
            values = {k: v for k, v in values.items() if k != "stamp_ms"} | stamp(
                values.get("stamp_ms"), topics[topic]
            )
            data = write(message(store, topics[topic], **values), topics[topic])
            writer.write(numbers[topic], START + round(ms * MS), bytes(data))
    return path


def stamp(ms, kind):
    """The stamp in a header."""
    if ms is None:
        return {}
    time = START + round(ms * MS)
    return {"header__stamp__sec": time // 10**9, "header__stamp__nanosec": time % 10**9}


TOPICS = {"/odom": ODOM, "/scan": SCAN, "/cmd_vel": TWIST, "/estop": BOOL}
MAPPING = {
    "obs": ["/odom.twist.twist.linear.x", "/odom.pose.pose.position.x", "/scan.ranges[0:360:90]"],
    "action": ["/cmd_vel.linear.x", "/cmd_vel.angular.z"],
    "rate": 10,
    "stop": {"field": "/estop.data", "is": True},
}


def drive(seconds=2.0, pressed=1.6, begin=0.0):
    """A drive: odometry at 50 Hz, a scan at 10 Hz, commands 5 ms behind odometry, and somebody who presses a button."""
    rows = []
    for i in range(round(seconds * 50)):
        ms = begin * 1000 + i * 20
        x = i / 10
        rows.append(
            (ms, "/odom", {"stamp_ms": ms, "twist__twist__linear__x": x, "pose__pose__position__x": 10 * x})
        )
        if i % 5 == 0:
            rows.append((ms, "/scan", {"stamp_ms": ms, "ranges": np.arange(360, dtype=np.float32) + i}))
        rows.append((ms + 5, "/cmd_vel", {"linear__x": float(i), "angular__z": i / 2}))
        if i == 0 or round(pressed * 50) == i:
            rows.append((ms + 6, "/estop", {"data": i > 0}))
    return rows


def file_of(bag):
    """The single file of a bag."""
    ((_, [path]),) = files_of_bags(bag)
    return path
