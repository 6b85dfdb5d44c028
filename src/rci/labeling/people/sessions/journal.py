"""A file to which lines are only ever added, and which returns every line that was acknowledged, whatever happened.

A line is JSON and ends with a checksum of the rest. It is on the disk before `append` returns. A writer that is killed
can leave one unfinished line at the end, which was never acknowledged: it is cut off when the journal is next opened.
Anything else that is wrong with a line is damage, and is reported, not repaired.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from rci.data.disk.files import saying, sync_folder, take_lock
from rci.data.errors import RciError

SUM = "sum"  # the name of the checksum in a line
SUM_DIGITS = 12


class NotSavedError(RciError):
    """The disk did not take a line. It may later, so whoever sent it should keep it and try again."""


class Journal:
    """The one writer of a journal. Opening it locks the file, so that a second writer is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        new = not path.exists()
        try:
            self._file = take_lock(path, mode=0o600, flags=os.O_APPEND)
        except BlockingIOError:
            raise RciError(
                f"{path.parent} is in use: another `rci serve` or import writes to it; stop that one first."
            ) from None
        except OSError as error:
            raise RciError(f"cannot write {path}: {error.strerror or error}.") from None
        try:
            self.entries, self._size = _parse(path)
            os.ftruncate(self._file, self._size)
            if new:
                sync_folder(path.parent)
        except BaseException:
            os.close(self._file)
            raise
        self._broken = ""

    def append(self, *entries: dict[str, Any]) -> None:
        """Add lines; they are on the disk when this returns, and none of them is if it raises."""
        if self._broken:
            raise NotSavedError(self._broken)
        data = b"".join(_line(entry) for entry in entries)
        try:
            if os.write(self._file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as error:
            reason = f"cannot write {self.path}: {error.strerror or error}; the last label was not saved."
            try:
                os.ftruncate(self._file, self._size)
                os.fsync(self._file)
            except OSError:
                # Whether the line is there is not known any more: nothing may follow it until it was read again.
                self._broken = f"{reason} Start again when there is room."
            raise NotSavedError(reason) from None
        self._size += len(data)
        self.entries.extend(entries)

    def close(self) -> None:
        """Let others write."""
        os.close(self._file)


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Every line that was acknowledged; for readers, who need no lock."""
    return _parse(path)[0] if path.exists() else []


def _parse(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The entries, and where the last whole line ends."""
    with saying("read", path):
        data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    return [_entry(line, path, number) for number, line in enumerate(data[:end].splitlines(), 1)], end


def _entry(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        entry = json.loads(line)
        checksum = entry.pop(SUM)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        checksum, entry = None, {}
    if checksum is None or checksum != _sum(entry):
        raise RciError(
            f"{path}, line {number} is damaged: its checksum is wrong. Restore the file from a copy, or remove the "
            "line to go on without it."
        )
    return dict(entry)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps({**entry, SUM: _sum(entry)}, allow_nan=False).encode() + b"\n"


def _sum(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()[:SUM_DIGITS]
