"""Recordings that are larger than memory: written piece by piece as an artefact that is read memory-mapped.

Shape comes first in a checksum and is known last, so every array is read once more when it is complete. Memory is that
of one piece. If anything fails, nothing is left; start again.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.formats.imported import Progress, Source, checked, silent, stops_of, usable_severity
from rci.data.labels import Labels
from rci.data.record import Array, content_digest
from rci.data.store import UNKNOWN, Provenance, manifest_text, placing, sync, write_manifest

BLOCK = 1 << 20  # bytes that are hashed at a time


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


class GrowingArray:
    """A .npy file that grows row by row. NumPy leaves room in the header for a longer first axis."""

    def __init__(self, path: Path, like: Array) -> None:
        self.path, self.dtype, self.shape = path, like.dtype, (0, *like.shape[1:])
        self.file = open(path, "w+b")  # noqa: SIM115, closed by `close`
        self.header = self._write_header()

    def append(self, rows: Array) -> None:
        """Put rows of the same shape and type behind the others."""
        self.file.write(np.ascontiguousarray(rows).data)
        self.shape = (self.shape[0] + len(rows), *self.shape[1:])

    def finish(self) -> dict[str, Any]:
        """Write the true shape; what a manifest says of this array."""
        self.file.seek(0)
        if self._write_header() != self.header:
            raise RciError(f"{self.path.name} grew too large for its header.")
        sync(self.file)
        digest = hashlib.sha256(f"{self.dtype.str}{self.shape}".encode())
        while block := self.file.read(BLOCK):
            digest.update(block)
        return {"shape": list(self.shape), "dtype": self.dtype.str, "sha256": digest.hexdigest()}

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()

    def _write_header(self) -> int:
        described = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self.file, described)
        return self.file.tell()


def write_source(
    folder: str | Path,
    source: Source,
    progress: Progress = silent,
    cost_path: str | Path | None = None,
    provenance: Provenance = UNKNOWN,
) -> Converted:
    """Write a recording as an episodes artefact, whole or not at all, without ever holding all of it.

    Recorded costs, which are no part of episodes, go to the .npy file `cost_path` if there is one.
    """
    costs = None if cost_path is None else Path(cost_path)
    if costs is not None and costs.suffix != ".npy":
        raise RciError(f"recorded costs are written to a .npy file, not to {costs.name}.")
    with ExitStack() as stack:
        temporary = stack.enter_context(placing(folder, "episodes"))
        temporary.mkdir(parents=True)
        aside = temporary.with_name(
            f"{temporary.name}-cost"
        )  # a file of its own, so it cannot come with the folder
        stack.callback(aside.unlink, missing_ok=True)
        growing: dict[str, GrowingArray] = {}
        small: dict[str, list[Array]] = {
            name: [] for name in ("lengths", "terminated", "truncated", "stop_index", "severity")
        }
        for piece in checked(source):
            for name, array in piece._asdict().items():
                if array is None or (name == "cost" and costs is None):
                    continue
                if name in small:
                    small[name].append(array)
                    continue
                if name not in growing:
                    growing[name] = GrowingArray(
                        aside if name == "cost" else temporary / f"{name}.npy", array
                    )
                    stack.callback(growing[name].close)
                growing[name].append(array)
            if source.steps:
                progress(min(1.0, growing["reward"].shape[0] / source.steps))
        whole = {name: np.concatenate(arrays) for name, arrays in small.items() if arrays}
        stop_index = whole.pop("stop_index", None)
        severity = usable_severity(stop_index, whole.pop("severity", None), source.notes)
        whole["lengths"] = whole["lengths"].astype(np.int64)
        whole["source"] = np.zeros(len(whole["lengths"]), np.int32)
        for name, array in whole.items():
            growing[name] = GrowingArray(temporary / f"{name}.npy", array)
            stack.callback(growing[name].close)
            growing[name].append(array)
        entries = {name: array.finish() for name, array in growing.items()}
        kept = entries.pop("cost", None)
        meta = {"task": source.task, "sources": []}
        write_manifest(temporary, manifest_text("episodes", entries, meta, provenance))
        digests = {name: str(entry["sha256"]) for name, entry in entries.items()}
        if kept is not None and costs is not None:
            costs.parent.mkdir(parents=True, exist_ok=True)
            aside.replace(costs)
    cost = None if kept is None or costs is None else np.load(costs, mmap_mode="r", allow_pickle=False)
    return Converted(
        Path(folder),
        content_digest("episodes", digests, meta),
        whole["lengths"],
        stop_index,
        cost,
        tuple(source.notes),
        severity,
    )
