"""Step costs as a table that joins the rows which they came from: CSV or Parquet, with the keys of each run.

costs = pd.read_csv("costs.csv")
logs.join(costs.set_index("row")[["cost", "stopped"]])
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.labels import Labels
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import kept_rows
from rci.formats.cleaning.whole_runs import BEGIN
from rci.formats.importing.imported import Progress, optional, silent
from rci.formats.writers.export import kept_steps, replacing_pair, sidecar

GROUP_STEPS = 1 << 16


def write_costs(
    path: str | Path,
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    true_cost: ArrayLike | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Path:
    """Write one row per step that remains after the stops, to a .csv or .parquet file.

    Columns: the keys of the episodes (such as `file`, `run`, `robot`), `episode` (its number here), `step` (from 0 on
    in each episode), `row` (where the step stood in its file, from 0 on, as pandas numbers rows), `time` (when it
    began, where times and a rate are known), `cost` (inferred), `cost_channel_0` and so on, `cost_true` if `true_cost`
    has one for each recorded step, `stopped`.
    """
    ending = Path(path).suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise RciError(f"step costs are written to a .csv or .parquet file, not to {Path(path).name}.")
    groups = _groups(episodes, labels, costs, true_cost, progress)
    with replacing_pair(path, sidecar(episodes, labels, costs), overwrite) as temporary:
        _write_csv(temporary, groups) if ending == ".csv" else _write_parquet(temporary, groups)
    return Path(path)


def _groups(
    episodes: Episodes, labels: Labels, costs: StepCosts, true_cost: ArrayLike | None, progress: Progress
) -> Iterator[dict[str, Array]]:
    """The columns, so many steps at a time."""
    kept = kept_steps(episodes, labels, costs, true_cost)
    steps = len(kept.cost)
    number = np.arange(steps) - np.repeat(np.cumsum(kept.lengths) - kept.lengths, kept.lengths)
    row = None if episodes.row is None else np.asarray(episodes.row)[kept_rows(episodes, labels)]
    keys = {name: np.array(values, object) for name, values in episodes.keys.items() if name != BEGIN}
    channels = [] if kept.by_channel is None else list(kept.by_channel.T)
    taken = {"episode", "step", "row", "time", "cost", "stopped"}
    for begin in range(0, steps, GROUP_STEPS):
        part = slice(begin, min(begin + GROUP_STEPS, steps))
        episode = kept.episode[part]
        yield {
            # a key that is called as one of the columns below
            **{(f"key.{name}" if name in taken else name): values[episode] for name, values in keys.items()},
            "episode": episode,
            "step": number[part],
            **({} if row is None else {"row": row[part]}),
            **_times(episodes, episode, number[part]),
            "cost": kept.cost[part],
            **{f"cost_channel_{k}": column[part] for k, column in enumerate(channels)},
            **({} if kept.true_cost is None else {"cost_true": kept.true_cost[part]}),
            "stopped": kept.stopped[part],
        }
        progress(part.stop / steps)


def _times(episodes: Episodes, episode: Array, step: Array) -> dict[str, Array]:
    """When each step began, where the beginning of its episode and the rate are known: ISO 8601, or seconds."""
    rate = None if episodes.signals is None else episodes.signals.rate
    if BEGIN not in episodes.keys or rate is None:
        return {}
    passed = np.round(step * (1e9 / rate)).astype(np.int64)
    try:
        if all(text.endswith("Z") for text in episodes.keys[BEGIN]):
            begin = np.array([text[:-1] for text in episodes.keys[BEGIN]], "datetime64[ns]")
            texts = np.datetime_as_string(begin[episode] + passed.astype("timedelta64[ns]"), unit="us")
            return {BEGIN: np.array([f"{text}Z" for text in texts], object)}
        return {BEGIN: np.array(episodes.keys[BEGIN], np.float64)[episode] + passed / 1e9}
    except ValueError:
        return {BEGIN: np.array(episodes.keys[BEGIN], object)[episode]}


def _write_csv(path: Path, groups: Iterator[dict[str, Array]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        for number, columns in enumerate(groups):
            if number == 0:
                table.writerow(columns)
            table.writerows(zip(*(_plain(column) for column in columns.values())))


def _plain(column: Array) -> list[Any]:
    """Flags as 0 and 1; numbers with all their digits."""
    return (column.astype(np.int64) if column.dtype == np.bool_ else column).tolist()


def _write_parquet(path: Path, groups: Iterator[dict[str, Array]]) -> None:
    arrow, parquet = optional("pyarrow", "pyarrow"), optional("pyarrow.parquet", "pyarrow")
    writer: Any = None
    try:
        for columns in groups:
            table = arrow.table(
                {
                    name: arrow.array(column.tolist(), arrow.string()) if column.dtype == object else column
                    for name, column in columns.items()
                }
            )
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
