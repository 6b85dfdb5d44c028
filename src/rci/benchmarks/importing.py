"""`rci bench import`: datasets that are larger than the memory that the import may have.

The import is a process of its own whose heap the system limits (RLIMIT_DATA: everything that it allocates, but not the
page cache, which the system takes back when it needs it). If it held the dataset, it would fail. The peak is VmHWM, the
most that was resident at a time, with all libraries. The file is not in the page cache when the import begins.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.benchmarks.simulators import Row
from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError, unknown_name
from rci.data.record import Array
from rci.formats.importing.imported import optional
from rci.formats.lerobot.writer import write_lerobot

WIDTH, ACTIONS, LENGTH = 72, 2, 1000  # observations as of a car with lidar, and a thousand steps per episode
AT_A_TIME = 20  # episodes that are made up at a time
LIMIT_MB = 512  # heap of the import
BAG = {
    "/odom": "nav_msgs/msg/Odometry",
    "/cmd_vel": "geometry_msgs/msg/Twist",
    "/scan": "sensor_msgs/msg/LaserScan",
    "/camera": "sensor_msgs/msg/CompressedImage",
}
MAPPING = """
obs = ["/odom.twist.twist.linear.x", "/odom.twist.twist.angular.z", "/scan.ranges[0:720:90]"]
action = ["/cmd_vel.linear.x", "/cmd_vel.angular.z"]
rate = 10
"""
LIMITED = """
import json, resource, sys
limit, *words = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_DATA, (int(limit), int(limit)))
sys.argv = ["rci", *words]
from rci.cli.main import main
try:
    main()
finally:
    status = open("/proc/self/status").read()
    print("VmHWM", status.split("VmHWM:")[1].split()[0])
"""


class Kind(NamedTuple):
    """How files of a kind are made up."""

    write: Callable[[Path, int], None]  # so many episodes
    share: float  # of the gigabytes that are asked for
    trial: int = AT_A_TIME  # episodes that tell how large a step is


def bench_import(
    gigabytes: float = 10.0, limit_mb: int = LIMIT_MB, only: Sequence[str] = ()
) -> Iterator[Row]:
    """Rows of `rci bench import`: HDF5 and MCAP of so many gigabytes, Parquet, CSV and LeRobot of a tenth."""
    if sys.platform != "linux":
        raise RciError("memory is limited and measured as Linux does it; run this benchmark there.")
    for name in only:
        if name not in KINDS:
            raise unknown_name("kind of file", name, KINDS)
    for name in only or KINDS:
        kind = KINDS[name]
        size = kind.share * gigabytes
        with tempfile.TemporaryDirectory(prefix="rci-bench-") as folder:
            place = Path(folder)
            if shutil.disk_usage(place).free < 1.8e9 * size:
                raise RciError(
                    f"{place} needs {1.8 * size:.1f} GB of free space; set TMPDIR to another place."
                )
            step = _bytes_per_step(kind, place / f"trial-{name}")
            path = place / f"logs.{name}"
            kind.write(path, max(1, round(size * 1e9 / step / LENGTH)))
            for file in _files(path):
                _drop_from_cache(file)
            mapping = path / "topics.toml"
            options = ["--mapping", str(mapping)] if mapping.is_file() else []
            yield measure(path, place / "out", limit_mb, options)


def measure(path: Path, out: Path, limit_mb: int, options: Sequence[str] = ()) -> Row:
    """Import a file with a limited heap."""
    words = ["import", str(path), "--out", str(out), "--json", *options]
    began, before = time.perf_counter(), _cpu_seconds()
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(limit_mb << 20), *words], capture_output=True, text=True
    )
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - before
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        raise RciError(f"the import of {path.name} failed with a heap of {limit_mb} MB; it said: {said}")
    printed, _, peak = done.stdout.rpartition("VmHWM")
    size = _size(path)
    return {
        "name": f"import: {path.name.partition('.')[2]}",
        "config": {
            "gigabytes": size / 1e9,
            "steps": json.loads(printed)["steps"],
            "heap_limit_mb": limit_mb,
            "peak_rss_mb": int(peak) * 1024 / 1e6,
            "cpu_seconds": cpu_seconds,
            "seconds": seconds,
        },
        "value": size / 1e6 / seconds,
        "unit": "MB/s",
    }


def _cpu_seconds() -> float:
    """Of all processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _files(path: Path) -> list[Path]:
    """The file, or all of a folder."""
    return [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in _files(path))


def _bytes_per_step(kind: Kind, trial: Path) -> float:
    """How large a step is in a file: some written for a try."""
    kind.write(trial, kind.trial)
    size = _size(trial)
    shutil.rmtree(trial) if trial.is_dir() else trial.unlink()
    return size / (kind.trial * LENGTH)


def _drop_from_cache(path: Path) -> None:
    """As if the file had been written another day."""
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _stretches(episodes: int) -> Iterator[tuple[int, int, dict[str, Array]]]:
    """Made-up recordings: number of the first episode, how many there are, and their columns."""
    rng = np.random.default_rng(0)
    for first in range(0, episodes, AT_A_TIME):
        count = min(AT_A_TIME, episodes - first)
        seen = rng.random((count, LENGTH + 1, WIDTH), np.float32)
        yield (
            first,
            count,
            {
                "observations": seen[:, :-1].reshape(-1, WIDTH),
                "next_observations": seen[:, 1:].reshape(-1, WIDTH),
                "actions": rng.random((count * LENGTH, ACTIONS), np.float32),
                "rewards": rng.random(count * LENGTH, np.float32),
                "costs": (rng.random(count * LENGTH) < 0.01).astype(np.float32),
                "terminals": np.zeros(count * LENGTH, bool),
                "timeouts": np.tile(np.arange(LENGTH) == LENGTH - 1, count),
            },
        )


def _write_hdf5(path: Path, episodes: int) -> None:
    h5py = optional("h5py", "h5py")
    with h5py.File(path, "w") as file:
        for first, _, columns in _stretches(episodes):
            for name, array in columns.items():
                if name not in file:
                    file.create_dataset(name, (episodes * LENGTH, *array.shape[1:]), array.dtype)
                file[name][first * LENGTH : first * LENGTH + len(array)] = array


def _tables(episodes: int) -> Iterator[object]:
    """The same as logs: a column for every number, and one for the episode and the step."""
    arrow = optional("pyarrow", "pyarrow")
    for first, count, columns in _stretches(episodes):
        obs, action = columns["observations"].T, columns["actions"].T
        yield arrow.table(
            {
                "episode": np.repeat(np.arange(first, first + count), LENGTH),
                "step": np.tile(np.arange(LENGTH), count),
                **{f"obs_{i}": np.ascontiguousarray(column) for i, column in enumerate(obs)},
                **{f"action_{i}": np.ascontiguousarray(column) for i, column in enumerate(action)},
                "reward": columns["rewards"],
                "cost": columns["costs"],
            }
        )


def _write_parquet(path: Path, episodes: int) -> None:
    parquet = optional("pyarrow.parquet", "pyarrow")
    tables = _tables(episodes)
    table: object = next(tables)
    with parquet.ParquetWriter(path, table.schema) as writer:  # type: ignore[attr-defined]
        while table is not None:
            writer.write_table(table)
            table = next(tables, None)


def _write_csv(path: Path, episodes: int) -> None:
    text = optional("pyarrow.csv", "pyarrow")
    with open(path, "wb") as file:
        for number, table in enumerate(_tables(episodes)):
            text.write_csv(table, file, text.WriteOptions(include_header=number == 0))


def _write_lerobot(path: Path, episodes: int) -> None:
    """A folder of the version that its name ends in."""
    parts = list(_stretches(episodes))
    columns = {name: np.concatenate([part[name] for _, _, part in parts]) for name in parts[0][2]}
    flags = np.zeros(episodes, bool)
    seen = columns["observations"].reshape(episodes, LENGTH, WIDTH)
    made = Episodes(
        obs=np.concatenate([seen, seen[:, -1:]], axis=1).reshape(-1, WIDTH),
        action=columns["actions"],
        reward=columns["rewards"],
        lengths=np.full(episodes, LENGTH),
        terminated=flags,
        truncated=~flags,
    )
    write_lerobot(path, made, version=path.name.rpartition("-")[2], rate=30)


def _write_mcap(path: Path, episodes: int) -> None:
    """The folder of a bag: one drive as long as so many episodes, and a mapping that does not name the pictures.

    Odometry and commands come at 50 Hz, a lidar at 10 Hz and, more than nine tenths of the bytes, a camera at 25 Hz.
    """
    rosbag2, typesys = (optional(f"rosbags.{name}", "rosbags", "bags") for name in ("rosbag2", "typesys"))
    ros = typesys.get_typestore(typesys.Stores.ROS2_HUMBLE)
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, 1 << 20, np.uint8)

    def part(name: str, *fields: object) -> Any:
        return ros.types[f"geometry_msgs/msg/{name}"](*fields)

    with rosbag2.Writer(path, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP) as bag:
        topics = {topic: bag.add_connection(topic, kind, typestore=ros) for topic, kind in BAG.items()}

        def write(topic: str, time: int, *fields: object) -> None:
            message = ros.types[BAG[topic]](*fields)
            bag.write(topics[topic], time, ros.serialize_cdr(message, BAG[topic]))

        for tick in range(5 * episodes * LENGTH + 1):
            now = 1_700_000_000 * 10**9 + tick * 20_000_000
            stamp = ros.types["builtin_interfaces/msg/Time"](now // 10**9, now % 10**9)
            header = ros.types["std_msgs/msg/Header"](stamp, "base")
            speed, turn = part("Vector3", *rng.random(3)), part("Vector3", *rng.random(3))
            pose = part("Pose", part("Point", *rng.random(3)), part("Quaternion", *rng.random(4)))
            seen = part("PoseWithCovariance", pose, np.zeros(36))
            moved = part("TwistWithCovariance", part("Twist", speed, turn), np.zeros(36))
            write("/odom", now, header, "base", seen, moved)
            write("/cmd_vel", now + 4_000_000, speed, turn)
            if tick % 5 == 0:
                ranges = rng.random(720, np.float32)
                write("/scan", now + 6_000_000, header, -3.1, 3.1, 0.009, 0.0, 0.1, 0.1, 30.0, ranges, ranges)
            if tick % 2 == 0:
                size, begin = rng.integers(20_000, 50_000), rng.integers(len(noise) // 2)
                write("/camera", now + 8_000_000, header, "jpeg", noise[begin : begin + size])
    (path / "topics.toml").write_text(MAPPING)


KINDS = {
    "hdf5": Kind(_write_hdf5, 1.0),
    "parquet": Kind(_write_parquet, 0.1),
    "csv": Kind(_write_csv, 0.1),
    "lerobot-v3.0": Kind(_write_lerobot, 0.1),
    "lerobot-v2.1": Kind(_write_lerobot, 0.1),
    "mcap": Kind(_write_mcap, 1.0, trial=1),
}
