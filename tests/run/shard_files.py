"""Small shards for tests, and what is done with them without any engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from rci.data import store
from rci.data.types import Episodes, Labels
from rci.shards.listing import made_by, resolve_columns, survey
from rci.shards.work import ShardWork


def write_shard(
    path: Path,
    episodes: Episodes,
    labels: Labels,
    numbers: Sequence[int],
    bare: bool = True,
    cut: bool = False,
    **more: Any,
) -> None:
    """Episodes as logs: with or without a last observation, with or without what came after the stop."""
    rows: list[dict[str, Any]] = []
    for i in numbers:
        episode, stop = episodes[i], int(labels.stop_index[i])
        steps = stop + 1 if cut and stop >= 0 else len(episode.action)
        for t in range(steps + bare):
            last = t == steps
            rows.append(
                {
                    "run": f"drive-{i}",
                    "t": t,
                    "vehicle": f"car {i % 3}",
                    "obs": episode.obs[t].tolist(),
                    "action": None if last else episode.action[t].tolist(),
                    "reward": None if last else float(episode.reward[t]),
                    "estop": t == stop,
                    **{name: values[i] for name, values in more.items()},
                }
            )
    schema = pa.schema(
        [
            ("run", pa.string()),
            ("t", pa.int32()),
            ("vehicle", pa.dictionary(pa.int32(), pa.string())),
            ("obs", pa.list_(pa.float32())),
            ("action", pa.list_(pa.float32())),
            ("reward", pa.float32()),
            ("estop", pa.bool_()),
            *((name, pa.float64()) for name in more),
        ],
        metadata={"fleet": "north"},
    )
    parquet.write_table(pa.Table.from_pylist(rows, schema), path, row_group_size=200)


def work_on(shard: Path, out: Path, models: Path, mapping: Path | None = None, **changes: Any) -> ShardWork:
    """The work that a run would do for one shard."""
    names, _ = resolve_columns([shard], mapping, changes.get("prefix", ""))
    known = survey(shard, names)
    fields: dict[str, Any] = {
        "models_hash": store.read_manifest(models)["hash"],
        "pessimism": 0.0,
        "prefix": "",
        "content": known.content,
        "state": (known.size, known.time),
        "made_by": made_by(),
    }
    return ShardWork(shard, out, names, models, **{**fields, **changes})


def per_row(path: Path, *columns: str) -> list[np.ndarray]:
    """Columns of an output shard, NaN where they are empty."""
    table = parquet.read_table(path)
    return [np.array(table[name].to_pylist(), float) for name in columns]
