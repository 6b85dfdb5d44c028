"""The arrays of an .npz file, read in blocks of rows: nothing is unpacked to disk, and none is held as a whole.

An .npz file is a zip archive of .npy files. Their names are keys and never paths. Rows of a packed array come one after
the other; to go back, or on after an interruption, is to unpack from its beginning and drop what is not wanted.
"""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import damaged

PACKED = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}  # how many bytes one byte can become at most
SLACK = 4096  # bytes; small members have no meaningful ratio
DROP = 1 << 20  # bytes that are dropped at a time


class NpzColumn:
    """One array of an archive, sliced by rows. It is quick as long as each slice begins where the last one ended,
    or one row before.
    """

    def __init__(self, path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        self.path, self.archive, self.member = path, archive, member
        self.stream, self.shape, self.by_columns, self.dtype = self._open()
        self.row_shape = self.shape[1:]
        self.row = 0  # the one that is read next
        self.previous: Array | None = None  # the row before it

    def __getitem__(self, rows: slice) -> Array:
        with reading(self.path):
            if self.by_columns:
                raise ValueError(
                    f"the rows of {self.member.filename} are not stored one after the other; write it again with "
                    "np.ascontiguousarray"
                )
            start, stop, _ = rows.indices(self.shape[0])
            if self.previous is not None and start == self.row - 1 < stop:
                return np.concatenate([self.previous, self._read(stop - self.row)])
            if start < self.row:
                self.close()
                self.stream, *_ = self._open()
                self.row, self.previous = 0, None
            if start > self.row:
                self._drop((start - self.row) * self._row_bytes())
                self.row, self.previous = start, None
            return self._read(stop - start)

    def close(self) -> None:
        """Let go of the archive."""
        self.stream.close()

    def _read(self, count: int) -> Array:
        wanted = count * self._row_bytes()
        content = self.stream.read(wanted)
        if len(content) != wanted:
            raise ValueError(f"{self.member.filename} ends early")
        self.row += count
        if self.row == self.shape[0] and self.stream.read(1):  # reading on also checks the checksum
            raise ValueError(f"{self.member.filename} is longer than its header says")
        array = np.frombuffer(content, self.dtype).reshape(count, *self.row_shape)
        if count:
            self.previous = array[-1:].copy()
        return array

    def _drop(self, count: int) -> None:
        while count > 0:
            dropped = len(self.stream.read(min(DROP, count)))
            if dropped == 0:
                raise ValueError(f"{self.member.filename} ends early")
            count -= dropped

    def _row_bytes(self) -> int:
        return int(self.dtype.itemsize * np.prod(self.row_shape, dtype=np.int64))

    def _open(self) -> tuple[IO[bytes], tuple[int, ...], bool, Any]:
        """The stream behind its header, and what the header says."""
        stream = self.archive.open(self.member)
        try:
            return stream, *_read_header(stream, self.member)
        except BaseException:
            stream.close()
            raise


def _read_header(stream: IO[bytes], member: zipfile.ZipInfo) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, whether it is stored by columns, and type; they must account for every byte."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{member.filename} has version {version} of NumPy's format")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError(f"Object arrays cannot be read: {member.filename} holds pickles")
    size = int(dtype.itemsize * np.prod(shape, dtype=object))
    if min(shape, default=0) < 0 or stream.tell() + size != member.file_size:
        raise ValueError(f"{member.filename} claims to have shape {shape}, but has {member.file_size} bytes")
    return shape, fortran and len(shape) > 1, dtype


@contextmanager
def open_npz(path: Path) -> Iterator[dict[str, NpzColumn]]:
    """The arrays of an .npz file by their keys, open while they are read."""
    if not path.is_file():
        raise RciError(f"there is no file {path}.")
    with reading(path):
        archive = zipfile.ZipFile(path)
    with archive:
        columns: dict[str, NpzColumn] = {}
        try:
            with reading(path):
                _check_members(archive, path.stat().st_size)
                for member in archive.infolist():
                    if member.filename.endswith(".npy"):
                        columns[member.filename.removesuffix(".npy")] = NpzColumn(path, archive, member)
            yield columns
        finally:
            for column in columns.values():
                column.close()


def _check_members(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse names other than keys, and archives that claim to unpack to more than they can."""
    members = archive.infolist()
    often = Counter(member.filename for member in members)
    for member in members:
        if not member.filename.replace("_", "").replace(".", "").replace("-", "").isalnum():
            raise ValueError(f"{member.filename!r} is not the name of an array")
        if often[member.filename] > 1:
            raise ValueError(f"there are two arrays {member.filename!r}")
        if member.flag_bits & 1:
            raise ValueError(f"{member.filename} is encrypted")
        if member.compress_type not in PACKED:
            raise ValueError(f"{member.filename} is packed in a way that NumPy does not use")
        if member.file_size > PACKED[member.compress_type] * member.compress_size + SLACK:
            raise ValueError(
                f"{member.filename} claims to unpack to {member.file_size} bytes from {member.compress_size}"
            )
    if sum(member.compress_size for member in members) > size:
        raise ValueError("its arrays are larger than the file, so they overlap")


def reading(path: Path) -> AbstractContextManager[None]:
    """Whatever is wrong with the archive becomes one sentence that names the file."""
    errors = (EOFError, SyntaxError, OverflowError, RuntimeError, zlib.error, zipfile.BadZipFile)
    return damaged(f"{path} cannot be read as an .npz file", *errors)
