"""Writing Parquet: one row per step and, per episode, one without an action for what was seen last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes, rows_of
from rci.data.artefacts.labels import Labels
from rci.data.record import Array
from rci.formats.importing.imported import Progress, optional, silent
from rci.formats.tables.mapping import KEY_PREFIX
from rci.formats.tables.parquet import RATE
from rci.formats.writers.export import KeptSteps, kept_steps, replacing_pair, sidecar

GROUP_ROWS = 1 << 16


def write_parquet(
    path: str | Path,
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    true_cost: ArrayLike | None = None,
    overwrite: bool = False,
    progress: Progress = silent,
) -> Path:
    """Write what remains after the stops as a table that `read_logs` understands without a mapping.

    Columns: `episode`, `step`, `obs` and `action` (lists), `reward`, `cost` (inferred), `cost_sparse`, `cost_true` if
    `true_cost` has one for each recorded step, `cost_channel_0` and so on where costs have channels, `stopped`,
    `terminated`, `truncated`. Signals that have names are columns by themselves, such as `obs.lidar_3 [m]`; keys are
    columns such as `key.run`.
    """
    arrow, parquet = optional("pyarrow", "pyarrow"), optional("pyarrow.parquet", "pyarrow")
    kept = kept_steps(episodes, labels, costs, true_cost)
    with replacing_pair(path, sidecar(episodes, labels, costs), overwrite) as temporary:
        writer: Any = None
        try:
            for first, end in groups_of(kept.lengths):
                table = _table(arrow, kept, episodes, first, end)
                writer = writer or parquet.ParquetWriter(temporary, table.schema)
                writer.write_table(table)
                progress(end / len(kept.lengths))
        finally:
            if writer is not None:
                writer.close()
    return Path(path)


def groups_of(lengths: Array) -> Iterator[tuple[int, int]]:
    """Ranges of episodes of about as many rows as a group should have."""
    begin, rows = 0, 0
    for number, length in enumerate(lengths):
        rows += int(length) + 1
        if rows >= GROUP_ROWS or number == len(lengths) - 1:
            yield begin, number + 1
            begin, rows = number + 1, 0


def _table(arrow: Any, kept: KeptSteps, episodes: Episodes, first: int, end: int) -> Any:
    lengths = kept.lengths[first:end]
    offset = int(kept.lengths[:first].sum())
    rows = slice(offset, offset + int(lengths.sum()))
    at = rows_of(np.cumsum(lengths + 1) - lengths - 1, lengths)  # where the steps stand among the rows
    count = int(lengths.sum()) + len(lengths)
    bare = np.ones(count, bool)
    bare[at] = False

    def spread(column: Array) -> Array:
        out = np.zeros((count, *column.shape[1:]), column.dtype)
        out[at] = column[rows]
        return out

    channels: list[Array] = [] if kept.by_channel is None else list(kept.by_channel.T)
    obs = episodes.obs[rows_of(episodes.obs_offset[first:end], lengths + 1)]
    keys = {
        f"{KEY_PREFIX}{name}": (np.repeat(np.array(values[first:end], object), lengths + 1), None)
        for name, values in episodes.keys.items()
    }
    columns = {
        "episode": (np.repeat(np.arange(first, end), lengths + 1), None),
        "step": (np.arange(count) - np.repeat(np.cumsum(lengths + 1) - lengths - 1, lengths + 1), None),
        **keys,
        **_by_signal(episodes, "obs", obs, None),
        **_by_signal(episodes, "action", spread(kept.action), bare),
        "reward": (spread(kept.reward), bare),
        "cost": (spread(kept.cost), bare),
        "cost_sparse": (spread(kept.sparse), bare),
        **({} if kept.true_cost is None else {"cost_true": (spread(kept.true_cost), bare)}),
        **{f"cost_channel_{k}": (spread(column), bare) for k, column in enumerate(channels)},
        "stopped": (spread(kept.stopped), None),
        "terminated": (spread(kept.terminated), None),
        "truncated": (spread(kept.truncated), None),
    }
    arrays = {name: _array(arrow, values, mask) for name, (values, mask) in columns.items()}
    shapes = {name: values.shape[1:] for name, (values, _) in columns.items()}
    schema = [
        arrow.field(
            name,
            array.type,
            metadata={"shape": ",".join(map(str, shapes[name]))} if len(shapes[name]) > 1 else None,
        )
        for name, array in arrays.items()
    ]
    rate = None if episodes.signals is None else episodes.signals.rate
    metadata = None if rate is None else {RATE: repr(rate)}
    return arrow.Table.from_arrays(list(arrays.values()), schema=arrow.schema(schema, metadata))


def _by_signal(
    episodes: Episodes, what: Literal["obs", "action"], values: Array, missing: Array | None
) -> dict[str, tuple[Array, Array | None]]:
    """One column for each signal that has a name, or one column of lists."""
    named = () if episodes.signals is None else getattr(episodes.signals, what)
    if not named or values.ndim != 2:
        return {what: (values, missing)}
    return {f"{what}.{signal.label}": (values[:, i], missing) for i, signal in enumerate(named)}


def _array(arrow: Any, values: Array, missing: Array | None) -> Any:
    if values.ndim == 1 and values.dtype == object:
        return arrow.array(values.tolist(), arrow.string())
    if values.ndim == 1:
        return arrow.array(values, mask=missing)
    flat = values.reshape(len(values), -1)
    inner = arrow.array(flat.reshape(-1))
    mask = None if missing is None else arrow.array(missing)
    return arrow.FixedSizeListArray.from_arrays(inner, flat.shape[1], mask=mask)
