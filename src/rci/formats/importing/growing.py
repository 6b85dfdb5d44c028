"""A .npy file that grows row by row."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.disk.files import sync
from rci.data.errors import RciError
from rci.data.record import Array

BLOCK = 1 << 20  # bytes that are hashed at a time


class GrowingArray:
    """Rows behind rows. NumPy leaves room in the header for a longer first axis, so it is written anew at the end.

    With `rows`, the file is there already: it goes on behind so many, and what follows them is cut off.
    """

    def __init__(self, path: Path, dtype: Any, row_shape: Sequence[int], rows: int | None = None) -> None:
        self.path, self.dtype, self.rows = path, np.dtype(dtype), rows or 0
        self.row_shape = tuple(row_shape)
        self.header = len(self._header())
        size = self.header + self.rows * self.row_bytes
        if rows is not None and path.stat().st_size < size:
            raise RciError(f"{path} is shorter than its journal says.")
        self.file = open(path, "w+b" if rows is None else "r+b")  # noqa: SIM115, closed by `close`
        if rows is None:
            self.file.write(self._header())
        self.file.truncate(size)
        self.file.seek(size)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dtype.itemsize * int(np.prod(self.row_shape, dtype=np.int64))

    def append(self, rows: Array) -> int:
        """Put rows of the same shape and type behind the others; how many bytes that were."""
        written = np.ascontiguousarray(rows, self.dtype)
        self.file.write(written.data)
        self.rows += len(written)
        return written.nbytes

    def read(self) -> Array:
        """All rows, in memory."""
        self.file.flush()
        return np.fromfile(self.path, self.dtype, offset=self.header).reshape(-1, *self.row_shape)

    def finish(self) -> dict[str, Any]:
        """Write the true shape; what a manifest says of this array."""
        header = self._header()
        if len(header) != self.header:
            raise RciError(f"{self.path.name} grew too large for its header.")
        self.file.seek(0)
        self.file.write(header)
        sync(self.file)
        shape = (self.rows, *self.row_shape)
        digest = hashlib.sha256(f"{self.dtype.str}{shape}".encode())
        while block := self.file.read(BLOCK):
            digest.update(block)
        return {"shape": list(shape), "dtype": self.dtype.str, "sha256": digest.hexdigest()}

    def close(self) -> None:
        """Let go of the file. What a full disk does not take now, no journal lists."""
        with suppress(OSError):
            self.file.close()

    def _header(self) -> bytes:
        text = io.BytesIO()
        shape = (self.rows, *self.row_shape)
        np.lib.format.write_array_header_1_0(
            text, {"descr": self.dtype.str, "fortran_order": False, "shape": shape}
        )
        return text.getvalue()
