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

import numpy as np

from rci.benchmarks.simulators import Row
from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import optional
from rci.formats.lerobot.writer import write_lerobot

WIDTH, ACTIONS, LENGTH = 72, 2, 1000  # observations as of a car with lidar, and a thousand steps per episode
AT_A_TIME = 20  # episodes that are made up at a time
LIMIT_MB = 512  # heap of the import
ROWS = 5
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


def bench_import(gigabytes: float = 10.0, limit_mb: int = LIMIT_MB) -> Iterator[Row]:
    """Rows of `rci bench import`: HDF5 of so many gigabytes, Parquet, CSV and LeRobot folders of a tenth."""
    if sys.platform != "linux":
        raise RciError("memory is limited and measured as Linux does it; run this benchmark there.")
    makers: dict[str, tuple[Callable[[Path, int], None], float]] = {
        "dsrl.hdf5": (_write_hdf5, gigabytes),
        "logs.parquet": (_write_parquet, gigabytes / 10),
        "logs.csv": (_write_csv, gigabytes / 10),
        "lerobot-v3.0": (_write_lerobot, gigabytes / 10),
        "lerobot-v2.1": (_write_lerobot, gigabytes / 10),
    }
    for name, (write, size) in makers.items():
        with tempfile.TemporaryDirectory(prefix="rci-bench-") as folder:
            place = Path(folder)
            if shutil.disk_usage(place).free < 1.8e9 * size:
                raise RciError(
                    f"{place} needs {1.8 * size:.1f} GB of free space; set TMPDIR to another place."
                )
            episodes = max(1, round(size * 1e9 / _bytes_per_step(write, place, name) / LENGTH))
            write(place / name, episodes)
            for file in _files(place / name):
                _drop_from_cache(file)
            yield measure(place / name, place / "out", limit_mb)


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
        "name": f"import: {path.name if path.is_dir() else path.suffix[1:]}",
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


def _bytes_per_step(write: Callable[[Path, int], None], place: Path, name: str) -> float:
    """How large a step is in a file: some written for a try."""
    trial = place / f"trial-{name}"
    write(trial, AT_A_TIME)
    size = _size(trial)
    shutil.rmtree(trial) if trial.is_dir() else trial.unlink()
    return size / (AT_A_TIME * LENGTH)


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
