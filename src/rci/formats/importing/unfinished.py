"""Imports that were interrupted go on where they were: a folder of growing arrays, and a journal of how far they came.

The folder stands beside the target, `.NAME.import`. A journal lists rows only after they are on the disk, and it is
replaced as a whole, so a killed process, a full disk or a power cut leaves at most rows that no journal lists; they
are cut off. What belongs to another source, to other settings or to another version is thrown away.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.disk.files import beside, placing, sync, sync_folder, take_lock
from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.store import versions
from rci.formats.importing.growing import GrowingArray
from rci.formats.importing.imported import BESIDE, Piece, Source

COMMIT_BYTES = 1 << 26  # that may have to be read again after an interruption
ARTEFACT, JOURNAL, LOCK = "episodes", "journal.json", "lock"


class Unfinished:
    """What has been written of a recording, and where reading stood at that time."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder, self.key = folder, key
        self.arrays: dict[str, GrowingArray] = {}
        self.first: Piece | None = None  # any piece that was written; of an earlier process without its rows
        self.state: dict[str, Any] = {}
        self._uncommitted = 0
        if not (key and self._take_up()):
            self._clear()

    @property
    def artefact(self) -> Path:
        """The folder of the arrays that will be an artefact."""
        return self.folder / ARTEFACT

    def rows(self, name: str) -> int:
        """How many rows an array has."""
        return self.arrays[name].rows if name in self.arrays else 0

    def append(self, piece: Piece, state: dict[str, Any], without: tuple[str, ...] = ()) -> None:
        """Write a piece, but for some of its fields; `state` is that of its source."""
        self.first = self.first or piece
        for name, array in piece._asdict().items():
            if array is not None and name not in without:
                self.add(name, array)
        self.state = state
        if self._uncommitted >= COMMIT_BYTES:
            self.commit()

    def add(self, name: str, rows: Array) -> None:
        """Put rows behind those of one array."""
        if name not in self.arrays:
            self.arrays[name] = GrowingArray(self._path(name), rows.dtype, rows.shape[1:])
        self._uncommitted += self.arrays[name].append(rows)

    def commit(self) -> None:
        """Remember what has been written so far."""
        for array in self.arrays.values():
            sync(array.file)
        sync_folder(self.artefact)
        first = {} if self.first is None else self.first._asdict()
        journal = {
            "key": self.key,
            "state": self.state,
            "first": {n: None if a is None else [a.dtype.str, list(a.shape[1:])] for n, a in first.items()},
            "rows": {name: array.rows for name, array in self.arrays.items()},
        }
        with placing(self.folder / JOURNAL) as temporary:
            temporary.write_text(json.dumps(journal), encoding="utf-8")
        sync_folder(self.folder)
        self._uncommitted = 0

    def close(self) -> None:
        """Let go of all files."""
        for array in self.arrays.values():
            array.close()

    def discard(self) -> None:
        """Leave nothing. It is renamed first, so that nobody finds half of it."""
        self.close()
        gone = beside(self.folder.with_name(self.folder.name[1:].removesuffix(".import")), "tmp")
        os.rename(self.folder, gone)
        shutil.rmtree(gone, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return (self.folder if name in BESIDE else self.artefact) / f"{name}.npy"

    def _take_up(self) -> bool:
        """Go on with what is there; False if that cannot be done."""
        try:
            journal = json.loads((self.folder / JOURNAL).read_text(encoding="utf-8"))
            if journal["key"] != self.key:
                return False
            first: dict[str, Any] = {
                name: None if kind is None else np.zeros((0, *kind[1]), kind[0])
                for name, kind in journal["first"].items()
            }
            self.first = Piece(**first)
            for name, rows in journal["rows"].items():
                like = first[name]
                self.arrays[name] = GrowingArray(self._path(name), like.dtype, like.shape[1:], rows)
            self.state = dict(journal["state"])
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError, RciError):
            return False
        return True

    def _clear(self) -> None:
        self.close()
        self.arrays, self.first, self.state = {}, None, {}
        for path in self.folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != LOCK:
                path.unlink()
        self.artefact.mkdir()


@contextmanager
def unfinished(target: Path, key: str) -> Iterator[Unfinished]:
    """What an earlier import to the same place left, or nothing yet. It goes away with a success, and else stays."""
    folder = target.parent / f".{target.name}.import"
    with _locked(folder, target):
        work = Unfinished(folder, key)
        try:
            yield work
            work.discard()
        finally:
            work.close()


def source_key(source: Source) -> str:
    """Stands for everything that the pieces of a source depend on; "" if that cannot be seen."""
    if not source.files:
        return ""
    try:
        found = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in source.files]
    except OSError as error:
        raise RciError(f"cannot read {error.filename}: {error.strerror}.") from None
    content = json.dumps([found, source.settings, source.task, versions()])
    return hashlib.sha256(content.encode()).hexdigest()


@contextmanager
def _locked(folder: Path, target: Path) -> Iterator[None]:
    """Keep other imports out."""
    file = None
    while file is None:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            file = take_lock(folder / LOCK)
        except FileNotFoundError:  # the one who had it has just finished, and took the folder away
            continue
        except BlockingIOError:
            raise RciError(
                f"another import is writing {target}; wait for it, or choose another place."
            ) from None
    try:
        yield
    finally:
        os.close(file)
