"""Minari datasets, read directly from their HDF5, Arrow or Parquet storage, one episode at a time.

Costs are `infos["cost"]`, stops `infos["stopped"]`; both may have a row for the reset in front, so the last T count.
Minari marks a stopped last step as truncated; that flag is the stop's unless `infos["truncated"]` says otherwise.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.signals import Signal, Signals
from rci.data.disk.files import own_file
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.identity import recorded_signals
from rci.formats.importing.imported import Imported, Piece, Progress, Source, gather, silent
from rci.formats.sources.minari_storage import STORAGES, EpisodeReader
from rci.formats.sources.spaces import Leaf, decode, described, leaf_names, leaves
from rci.formats.tables.episode_rows import flags, require_finite


class Dataset(NamedTuple):
    """What the metadata of a dataset says."""

    folder: Path
    data_format: str
    episodes: int
    steps: int
    obs: list[Leaf]
    action: list[Leaf]
    signals: Signals | None


def import_minari(id_or_folder: str | Path, progress: Progress = silent) -> Imported:
    """Everything that a Minari dataset says: episodes, recorded costs, and stops if there are some.

    It is the id of a local dataset, or a folder that has `data/metadata.json` or `metadata.json` in it.
    """
    with minari_source(id_or_folder) as source:
        return gather(source, progress)


def read_minari(id_or_folder: str | Path, progress: Progress = silent) -> Episodes:
    """The episodes of a Minari dataset; `import_minari` gives costs, stops and notes as well."""
    return import_minari(id_or_folder, progress).episodes


@contextmanager
def minari_source(id_or_folder: str | Path) -> Iterator[Source]:
    """The recording in a Minari dataset, open while it is read."""
    dataset = read_metadata(find_dataset(id_or_folder))
    notes = [
        note
        for note in (described(dataset.obs, "the observation"), described(dataset.action, "the action"))
        if note
    ]
    state: dict[str, Any] = {}
    files = tuple(sorted(path for path in dataset.folder.rglob("*") if path.is_file()))
    with STORAGES[dataset.data_format](dataset.folder, dataset.episodes) as episode:
        pieces = _pieces(dataset, episode, notes, state)
        source = Source(str(dataset.folder), pieces, dataset.steps, notes, files=files, state=state)
        yield replace(source, signals=dataset.signals)


def datasets_root() -> Path:
    """Where Minari keeps local datasets."""
    home = Path(os.path.expanduser("~")) / ".minari" / "datasets"
    return Path(os.environ.get("MINARI_DATASETS_PATH") or home)


def find_dataset(id_or_folder: str | Path) -> Path:
    """The folder with the metadata of a local dataset."""
    given, root = Path(id_or_folder), datasets_root()
    for folder in (given, given / "data", root / given / "data"):
        if (folder / "metadata.json").is_file():
            return folder
    local = sorted(str(path.parents[1].relative_to(root)) for path in root.glob("**/data/metadata.json"))
    raise RciError(
        f"there is no Minari dataset {str(id_or_folder)!r}, neither as a folder nor in {root}; local ones: "
        f"{', '.join(local) or 'none'}. `minari download {id_or_folder}` fetches a public one."
    )


def read_metadata(folder: Path) -> Dataset:
    """The metadata, checked."""
    path = own_file(folder, "metadata.json")
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(metadata, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError, RecursionError) as error:
        raise RciError(f"{path} cannot be read: {error}.") from None
    counts = []
    for key in ("total_episodes", "total_steps"):
        value = metadata.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 48:
            raise RciError(f"{path}: {key} must be a whole number from 0 on, got {value!r}.")
        counts.append(value)
    data_format = metadata.get("data_format", "hdf5")  # the only one there was at first
    if data_format not in STORAGES:
        raise RciError(
            f"{path}: data_format must be one of {', '.join(sorted(STORAGES))}, got {data_format!r}."
        )
    jpeg = bool(metadata.get("jpeg_encoding", True))
    spaces = []
    for key in ("observation_space", "action_space"):
        if key not in metadata:
            raise RciError(
                f"{path} has no {key}; it was written by an old version: let Minari write it again."
            )
        spaces.append(leaves(metadata[key], f"{path}: {key}", jpeg))
    ours = metadata.get("rci")
    signals = recorded_signals(ours.get("signals") if isinstance(ours, dict) else None, str(path))
    obs, action = (tuple(Signal(name) for name in leaf_names(space)) for space in spaces)
    return Dataset(
        folder, data_format, counts[0], counts[1], spaces[0], spaces[1], signals or Signals(obs, action)
    )


def _pieces(
    dataset: Dataset, episode: Callable[[int], EpisodeReader], notes: list[str], state: dict[str, Any]
) -> Iterator[Piece]:
    early, stopped_flags = state.get("early", 0), state.get("stopped_flags", 0)
    for number in range(state.get("episode", 0), dataset.episodes):
        piece, ignored, by_stop = _piece(dataset, episode(number))
        early, stopped_flags = early + ignored, stopped_flags + by_stop
        state.update(episode=number + 1, early=early, stopped_flags=stopped_flags)
        yield piece
    if early:
        notes.append(f"in {early} episodes flags are set before the end: only those of the last step count")
    if stopped_flags:
        notes.append(
            f"{stopped_flags} stopped episodes are marked as truncated: the stop ended them, not the time"
        )


def _piece(dataset: Dataset, reader: EpisodeReader) -> tuple[Piece, bool, bool]:
    """One episode; whether it has flags before its end, and whether a stop explains its last flag."""
    where = reader.where
    reward = _finite_column(reader.column("rewards"), f"{where}: rewards")
    steps = len(reward)
    obs = decode(dataset.obs, lambda leaf: reader.leaf("observations", leaf), f"{where}: observations")
    action = decode(dataset.action, lambda leaf: reader.leaf("actions", leaf), f"{where}: actions")
    terminated = flags(_one_column(reader.column("terminations"), where), f"{where}: terminations", 0)
    truncated = flags(_one_column(reader.column("truncations"), where), f"{where}: truncations", 0)
    if (len(obs), len(action), len(terminated), len(truncated)) != (steps + 1, steps, steps, steps):
        raise RciError(
            f"{where}: {steps} rewards need {steps + 1} observations, {steps} actions and {steps} flags of each kind, "
            f"got {len(obs)}, {len(action)}, {len(terminated)} and {len(truncated)}."
        )
    if steps == 0:
        raise RciError(f"{where} has no steps.")
    stopped, recorded = _info(reader, "stopped", steps), _info(reader, "truncated", steps)
    stop = -1
    cut = bool(truncated[-1])
    by_stop = False
    if stopped is not None:
        at = np.flatnonzero(flags(stopped, f"{where}: infos['stopped']", 0))
        stop = int(at[0]) if len(at) else -1
        if recorded is not None:
            cut = bool(flags(recorded, f"{where}: infos['truncated']", 0)[-1])
        elif stop == steps - 1 and cut:
            cut, by_stop = False, True
    cost, sparse = _info(reader, "cost", steps), _info(reader, "cost_sparse", steps)
    severity = None
    if stopped is not None and sparse is not None:
        grade = _finite_column(sparse, f"{where}: infos['cost_sparse']")[stop]
        severity = np.array([grade if stop >= 0 else 0.0], np.float64)
    piece = Piece(
        obs=require_finite(obs, f"{where}: observations", 0),
        action=require_finite(action, f"{where}: actions", 0),
        reward=reward,
        cost=None if cost is None else _finite_column(cost, f"{where}: infos['cost']"),
        lengths=np.array([steps]),
        terminated=terminated[-1:],
        truncated=np.array([cut]),
        stop_index=None if stopped is None else np.array([stop]),
        severity=severity,
    )
    return piece, bool((terminated | truncated)[:-1].any()), by_stop


def _info(reader: EpisodeReader, name: str, steps: int) -> Array | None:
    """An info of each step: of T or, with one of the reset in front, T + 1 rows."""
    array = reader.info(name)
    if array is None:
        return None
    array = _one_column(array, f"{reader.where}: infos[{name!r}]")
    if len(array) not in (steps, steps + 1):
        raise RciError(
            f"{reader.where}: infos[{name!r}] must have {steps} or {steps + 1} rows, got {len(array)}."
        )
    return array[len(array) - steps :]


def _one_column(array: Array, where: str) -> Array:
    if array.ndim == 0 or array.size != len(array):
        raise RciError(f"{where} must have one number per step, got shape {array.shape}.")
    return array.reshape(-1)


def _finite_column(array: Array, where: str) -> Array:
    column = _one_column(array, where)
    if column.dtype.kind not in "fiub":
        raise RciError(f"{where} must be numbers, got {column.dtype}.")
    return require_finite(column, where, 0)
