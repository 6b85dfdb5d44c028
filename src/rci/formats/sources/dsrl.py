"""Flat HDF5 files as DSRL has them, and D4RL too.

Root datasets `observations`, `actions`, `rewards`, `terminals`, `timeouts`, of DSRL also `next_observations` and
`costs`; one row per transition. An episode ends where `terminals` or `timeouts` is set. A tail without a flag is an
episode of its own. Without `next_observations`, what was seen after the last step of an episode is unknown, and
its last observation is repeated: no step, reward or stop is lost, and notes say how often it was done.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.labels import Labels
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.identity import recorded_signals
from rci.formats.importing.imported import Imported, Progress, Source, gather, optional, silent
from rci.formats.sources.flat import Layout, Mismatch, flat_source
from rci.formats.sources.hdf5 import open_hdf5, reading, root_columns
from rci.formats.writers.export import KeptSteps, kept_steps, replacing_pair, sidecar

SIGNALS = "rci.signals"  # the attribute of files that RCI wrote
LAYOUT = Layout(
    obs="observations",
    action="actions",
    reward="rewards",
    next_obs="next_observations",
    cost="costs",
    terminated="terminals",
    truncated="timeouts",
    own_terminated="terminated",
    own_truncated="truncated",
)


@contextmanager
def dsrl_source(path: str | Path, mismatch: Mismatch = "error") -> Iterator[Source]:
    """The recording in a DSRL or D4RL file, open while it is read."""
    with open_hdf5(path) as file:
        columns = root_columns(file, path)
        if not columns:
            with reading(path):
                _refuse_groups(path, sorted(file))
        with reading(path):
            table = file.attrs.get(SIGNALS)
        signals = recorded_signals(table, str(path))
        yield replace(flat_source(str(path), columns, LAYOUT, mismatch), signals=signals)


def _refuse_groups(path: str | Path, names: list[str]) -> None:
    """Say what a file is whose root has no arrays, only groups."""
    if "episode_0" in names:
        raise RciError(
            f"{path} has an 'episode_0', so it is the file of a Minari dataset: read the folder that it is in, "
            "which has a metadata.json."
        )
    if names:
        raise RciError(
            f"{path} has only groups at its root, {', '.join(names[:5])}; DSRL and D4RL files have arrays there: "
            "observations, actions, rewards, ..."
        )


def import_dsrl(path: str | Path, mismatch: Mismatch = "error", progress: Progress = silent) -> Imported:
    """Everything that a DSRL file says: episodes, recorded costs, and stops if it has `stopped`.

    Within an episode each next observation must be the observation of the following row. Where it is not,
    mismatch="error" refuses the file, and mismatch="border" begins a new episode.
    """
    with dsrl_source(path, mismatch) as source:
        return gather(source, progress)


def read_dsrl(path: str | Path, mismatch: Mismatch = "error", progress: Progress = silent) -> Episodes:
    """The episodes of a DSRL file; `import_dsrl` gives costs, stops and notes as well."""
    return import_dsrl(path, mismatch, progress).episodes


def import_d4rl(path: str | Path, mismatch: Mismatch = "error", progress: Progress = silent) -> Imported:
    """Everything that a D4RL file says. It is read as a DSRL file that has no costs."""
    return import_dsrl(path, mismatch, progress)


def read_d4rl(path: str | Path, mismatch: Mismatch = "error", progress: Progress = silent) -> Episodes:
    """The episodes of a D4RL file; `import_d4rl` gives notes as well."""
    return import_dsrl(path, mismatch, progress).episodes


def write_dsrl(
    path: str | Path,
    episodes: Episodes,
    labels: Labels,
    costs: StepCosts,
    true_cost: ArrayLike | None = None,
    overwrite: bool = False,
) -> Path:
    """Write what remains after the stops as a DSRL file, with the inferred costs as `costs`.

    Beside what DSRL knows there are `costs_sparse` (the episodic cost at the stop), `costs_true` (if `true_cost` has
    one for each recorded step), `stopped`, `episode_id`, and `terminated` and `truncated` as recorded. The last row of
    every episode has a flag, as other programs drop a tail without one: a stop sets `terminals`, a recording that broke
    off `timeouts`. DSRL's own columns are float32; where that is not the type of the data, `<key>_exact` has all of it.
    """
    h5py = optional("h5py", "h5py")
    kept = kept_steps(episodes, labels, costs, true_cost)
    ends = {
        "terminals": kept.terminated | kept.stopped,
        "timeouts": (kept.truncated | kept.last & ~kept.terminated) & ~kept.stopped,
    }
    numbers = _numbers(kept)
    extras = {
        "costs_sparse": kept.sparse,
        **({} if kept.true_cost is None else {"costs_true": kept.true_cost}),
        **({} if kept.by_channel is None else {"costs_by_channel": kept.by_channel}),
        "stopped": kept.stopped,
        "episode_id": kept.episode,
        "terminated": kept.terminated,
        "truncated": kept.truncated,
    }
    facts = sidecar(episodes, labels, costs)
    # First in memory: on a disk that is full, the library loses more than the file.
    in_memory = {"driver": "core", "backing_store": False, "block_size": 1 << 22}
    with replacing_pair(path, facts, overwrite) as temporary, h5py.File(temporary, "w", **in_memory) as file:
        if episodes.signals is not None:
            file.attrs[SIGNALS] = json.dumps(episodes.signals.as_table())
        for key, array in numbers.items():
            flat = array if array.ndim == 1 else array.reshape(len(array), -1)
            stored = file.create_dataset(key, data=flat.astype(np.float32), compression="gzip")
            exact = [stored]
            if array.dtype != np.float32:
                exact.append(file.create_dataset(f"{key}_exact", data=flat, compression="gzip"))
            if array.ndim > 2:
                for dataset in exact:
                    dataset.attrs["shape"] = array.shape[1:]
        for key, array in {**ends, **extras}.items():
            file.create_dataset(key, data=array, compression="gzip")
        file.flush()
        temporary.write_bytes(file.id.get_file_image())
    return Path(path)


def _numbers(kept: KeptSteps) -> dict[str, Array]:
    """The columns that DSRL has as float32; what float32 cannot hold at all is refused, as others would read inf."""
    columns = {
        "observations": kept.obs,
        "next_observations": kept.next_obs,
        "actions": kept.action,
        "rewards": kept.reward,
        "costs": kept.cost,
    }
    most = np.finfo(np.float32).max
    for key, array in columns.items():
        too_large = (array.reshape(len(array), -1) > most) | (array.reshape(len(array), -1) < -most)
        for row in np.flatnonzero(too_large.any(axis=1))[:1]:
            raise RciError(
                f"{key} of step {row} has a number that float32, as DSRL has it, cannot hold: {array[row].tolist()}; "
                "write Parquet or Minari instead."
            )
    return columns
