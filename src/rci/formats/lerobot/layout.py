"""Where the two versions of LeRobot put frames and what is said of episodes: one file for many, or one for each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from rci.data.record import Array
from rci.formats.importing.imported import optional
from rci.formats.lerobot.columns import arrow_table
from rci.formats.lerobot.info import filled
from rci.formats.lerobot.recorded import LAST, LINES
from rci.formats.lerobot.statistics import Statistics, as_columns

CHUNK = 1000  # files in a folder
FILE_MB, VIDEO_MB = 100, 200  # as LeRobot limits its files
STATISTICS, EPISODE_STATISTICS = "meta/stats.json", "meta/episodes_stats.jsonl"
TASKS, TASK_LINES = "meta/tasks.parquet", "meta/tasks.jsonl"
INDEX = "__index_level_0__"  # pandas: what stands before each row


class Row(NamedTuple):
    """What is said of an episode."""

    number: int
    task: str
    begin: int  # its first frame, counted over all episodes
    end: int
    last: list[Any]  # what was seen after the last action
    statistics: dict[str, Statistics]


class Layout(Protocol):
    """Takes the frames of consecutive episodes and their rows; a context that closes its files."""

    data_path: str

    def add(self, columns: dict[str, Array], rows: list[Row]) -> None:
        """Write them."""

    def facts(self, episodes: int) -> dict[str, Any]:
        """What `meta/info.json` says of the files."""

    def __enter__(self) -> Layout: ...

    def __exit__(self, *error: object) -> None: ...


class ManyPerFile:
    """Version v3.0."""

    data_path = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"

    def __init__(self, root: Path) -> None:
        self.root, self.file, self.bytes = root, 0, 0
        self.data: Any = None
        self.listing: Any = None

    def add(self, columns: dict[str, Array], rows: list[Row]) -> None:
        """Frames go to the open file until it is large enough."""
        if self.bytes > FILE_MB << 20:
            self.data.close()
            self.data, self.file, self.bytes = None, self.file + 1, 0
        chunk, file = divmod(self.file, CHUNK)
        table = arrow_table(columns)
        name = filled(self.data_path, {"chunk_index": chunk, "file_index": file}, "data_path")
        self.data = self.data or _open(self.root / name, table.schema)
        self.data.write_table(table)
        self.bytes += table.nbytes
        listed = [self._listed(row, chunk, file) for row in rows]
        arrow = optional("pyarrow", "pyarrow")
        table = arrow.Table.from_pylist(listed, schema=None if self.listing is None else self.listing.schema)
        self.listing = self.listing or _open(
            self.root / "meta/episodes/chunk-000/file-000.parquet", table.schema
        )
        self.listing.write_table(table)

    def facts(self, episodes: int) -> dict[str, Any]:
        """What `meta/info.json` says of the files."""
        return {"chunks_size": CHUNK, "data_files_size_in_mb": FILE_MB, "video_files_size_in_mb": VIDEO_MB}

    def _listed(self, row: Row, chunk: int, file: int) -> dict[str, Any]:
        return {
            "episode_index": row.number,
            "tasks": [row.task],
            "length": row.end - row.begin,
            "data/chunk_index": chunk,
            "data/file_index": file,
            "dataset_from_index": row.begin,
            "dataset_to_index": row.end,
            LAST: row.last,
            **as_columns(row.statistics),
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }

    def __enter__(self) -> ManyPerFile:
        return self

    def __exit__(self, *error: object) -> None:
        for writer in (self.data, self.listing):
            if writer is not None:
                writer.close()


class OnePerFile:
    """Version v2.1."""

    data_path = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lines = open(root / LINES, "w", encoding="utf-8")  # noqa: SIM115, closed by __exit__
        self.statistics = open(root / EPISODE_STATISTICS, "w", encoding="utf-8")  # noqa: SIM115

    def add(self, columns: dict[str, Array], rows: list[Row]) -> None:
        """A file and two lines for each episode."""
        table, first = arrow_table(columns), rows[0].begin
        for row in rows:
            values = {"episode_chunk": row.number // CHUNK, "episode_index": row.number}
            with _open(self.root / filled(self.data_path, values, "data_path"), table.schema) as file:
                file.write_table(table.slice(row.begin - first, row.end - row.begin))
            length = row.end - row.begin
            line = {"episode_index": row.number, "tasks": [row.task], "length": length, LAST: row.last}
            self.lines.write(json.dumps(line, ensure_ascii=False) + "\n")
            self.statistics.write(json.dumps({"episode_index": row.number, "stats": row.statistics}) + "\n")

    def facts(self, episodes: int) -> dict[str, Any]:
        """What `meta/info.json` says of the files."""
        return {"chunks_size": CHUNK, "total_videos": 0, "total_chunks": -(-episodes // CHUNK)}

    def __enter__(self) -> OnePerFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.lines.close()
        self.statistics.close()


LAYOUTS: dict[str, type[ManyPerFile] | type[OnePerFile]] = {"v3.0": ManyPerFile, "v2.1": OnePerFile}


def write_tasks(root: Path, tasks: list[str], version: str) -> None:
    """The texts of the tasks; since v3.0 as the index of a table of pandas, as LeRobot reads it."""
    if version != "v3.0":
        lines = [
            json.dumps({"task_index": i, "task": task}, ensure_ascii=False) for i, task in enumerate(tasks)
        ]
        (root / TASK_LINES).write_text("\n".join(lines) + "\n", encoding="utf-8")
        return
    arrow, parquet = optional("pyarrow", "pyarrow"), optional("pyarrow.parquet", "pyarrow")
    kinds = {"task_index": "int64", INDEX: "unicode"}
    described = {
        "index_columns": [INDEX],
        "column_indexes": [],
        "columns": [
            {
                "name": None if name == INDEX else name,
                "field_name": name,
                "pandas_type": kind,
                "numpy_type": "object" if name == INDEX else kind,
                "metadata": None,
            }
            for name, kind in kinds.items()
        ],
        "pandas_version": "2.0.0",
    }
    table = arrow.table({"task_index": np.arange(len(tasks)), INDEX: arrow.array(tasks, arrow.string())})
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(described)}), root / TASKS)


def write_json(path: Path, table: Any) -> None:
    """As LeRobot writes its descriptions."""
    path.write_text(json.dumps(table, indent=4, ensure_ascii=False), encoding="utf-8")


def _open(path: Path, schema: Any) -> Any:
    path.parent.mkdir(parents=True, exist_ok=True)
    return optional("pyarrow.parquet", "pyarrow").ParquetWriter(path, schema)
