"""Recordings that are larger than memory: written piece by piece as an artefact that is read memory-mapped.

Shape comes first in a checksum and is known last, so every array is read once more when it is complete. Memory is that
of one piece. Data that are wrong leave nothing behind; an import that was interrupted goes on when it is called again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.artefacts.episodes import episodes_meta
from rci.data.artefacts.labels import Labels
from rci.data.disk.files import sync_folder
from rci.data.errors import RciError
from rci.data.record import Array, content_digest
from rci.data.store import UNKNOWN, Provenance, manifest_text, placing, write_manifest
from rci.formats.importing.identity import fitted_signals, keys_by_name
from rci.formats.importing.imported import (
    BESIDE,
    Piece,
    Progress,
    Source,
    checked,
    silent,
    stops_of,
    usable_severity,
)
from rci.formats.importing.unfinished import Unfinished, source_key, unfinished

PASSING = (errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM)
Continuing = Callable[[int], None]  # called with how many steps an earlier import has written


@dataclass(frozen=True, eq=False)
class Converted:
    """An episodes artefact that was written, and what the file says of stops and costs, as in `Imported`."""

    folder: Path
    episodes_hash: str
    lengths: Array
    stop_index: Array | None
    cost: Array | None  # memory-mapped, if a place for it was given
    notes: tuple[str, ...]
    severity: Array | None = None
    continued_from: int = 0  # steps that an import that was interrupted had written
    human: Array | None = None  # [steps], whether a person drove

    def labels(self, cost_above: float | None = None) -> Labels | None:
        """The recorded stops; with `cost_above`, a stop at the first step that cost more. None if there are none."""
        stops = stops_of(self.stop_index, self.cost, self.lengths, cost_above)
        if stops is None:
            return None
        cost = (
            (stops >= 0).astype(np.float64)
            if self.severity is None or cost_above is not None
            else self.severity
        )
        return Labels(stops, cost, self.lengths, self.episodes_hash)


def unheard(steps: int) -> None:
    """For somebody who does not want to know that an import goes on."""


def write_source(
    folder: str | Path,
    source: Source,
    progress: Progress = silent,
    cost_path: str | Path | None = None,
    provenance: Provenance = UNKNOWN,
    continuing: Continuing = unheard,
) -> Converted:
    """Write a recording as an episodes artefact, whole or not at all, without ever holding all of it.

    Recorded costs, which episodes do not hold, go to the .npy file `cost_path` if there is one. If an earlier call
    for the same source was interrupted, it goes on from there, and says so to `continuing`.
    """
    costs = None if cost_path is None else Path(cost_path)
    if costs is not None and costs.suffix != ".npy":
        raise RciError(f"recorded costs are written to a .npy file, not to {costs.name}.")
    target, key = Path(folder), source_key(source)
    without = ("cost",) if costs is None else ()
    # Unfinished work goes away last, when the artefact is in its place.
    with ExitStack() as afterwards, placing(target, "episodes") as temporary:
        work = afterwards.enter_context(unfinished(target, f"{key} {without}" if key else ""))
        try:
            before = _write_pieces(work, source, without, progress, continuing)
            if source_key(source) != key:
                work.discard()
                raise RciError(f"{source.path} was changed while it was read; import it again.")
            if costs is not None and "cost" not in work.arrays:
                work.discard()
                raise RciError(
                    f"{source.path} has no costs; label its episodes instead: rci label, or rci serve."
                )
            lengths, stop_index, severity, human = (
                _whole(work, name) for name in ("lengths", "stop_index", "severity", "human")
            )
            digest = _finish(work, source, provenance)
            if costs is not None:
                costs.parent.mkdir(parents=True, exist_ok=True)
                os.replace(work.arrays["cost"].path, costs)
            os.rename(work.artefact, temporary)
        except OSError as error:
            raise RciError(
                f"cannot write {target}: {error.strerror or error}. What has been read is kept in {work.folder}: "
                "the same command goes on from there."
            ) from error
    severity = usable_severity(stop_index, severity, source.notes)
    cost = None if costs is None else np.load(costs, mmap_mode="r", allow_pickle=False)
    return Converted(target, digest, lengths, stop_index, cost, tuple(source.notes), severity, before, human)


def _write_pieces(
    work: Unfinished, source: Source, without: tuple[str, ...], progress: Progress, continuing: Continuing
) -> int:
    """Write what is not yet written; how many steps were there already."""
    before = work.rows("reward")
    if work.first is not None:
        source.state.update(work.state)
        continuing(before)
    for piece in _right_pieces(work, source):
        whole = piece._replace(lengths=piece.lengths.astype(np.int64))
        work.append(whole, source.state, without)
        if source.steps:
            progress(min(1.0, work.rows("reward") / source.steps))
    work.commit()
    return before


def _right_pieces(work: Unfinished, source: Source) -> Iterator[Piece]:
    """The pieces, checked. If the data are wrong nothing is kept, as the same data would be wrong again."""
    try:
        yield from checked(source, work.first, work.rows("lengths"))
    except RciError as error:
        if not _may_pass(error):
            work.discard()
        raise


def _may_pass(error: RciError) -> bool:
    """Whether it is the machine that failed, and not the data: a network disk that was away, too little memory."""
    why = error.__cause__ or error.__context__
    return isinstance(why, MemoryError) or (isinstance(why, OSError) and why.errno in PASSING)


def _finish(work: Unfinished, source: Source, provenance: Provenance) -> str:
    """Complete all files of the artefact; its hash."""
    work.add("source", np.zeros(work.rows("lengths"), np.int32))
    found = {name: array.finish() for name, array in work.arrays.items()}
    entries = {name: entry for name, entry in found.items() if name not in BESIDE}
    obs, action = (work.arrays[name].row_shape for name in ("obs", "action"))
    signals = fitted_signals(source.signals, obs, action, source.notes)
    meta = episodes_meta(source.task, (), signals, keys_by_name(source.keys, _whole(work, "keys")))
    write_manifest(work.artefact, manifest_text("episodes", entries, meta, provenance))
    sync_folder(work.artefact)
    return content_digest("episodes", {name: str(entry["sha256"]) for name, entry in entries.items()}, meta)


def _whole(work: Unfinished, name: str) -> Any:
    """A column of episodes, in memory; None if there is none."""
    return work.arrays[name].read() if name in work.arrays else None
