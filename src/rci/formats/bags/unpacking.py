"""Bytes of bags: fields of records, and what is packed."""

from __future__ import annotations

import struct
import zlib
from typing import Any, BinaryIO

from rci.formats.importing.imported import optional

LARGEST = 1 << 28  # of a record that is read, and of a chunk that is unpacked, at once


class CutError(ValueError):
    """A record is shorter than its fields."""


class Fields:
    """The fields of a record, one after the other."""

    def __init__(self, record: memoryview) -> None:
        self.record, self.place = record, 0

    def take(self, kinds: str) -> tuple[Any, ...]:
        """Numbers, little-endian."""
        numbers = struct.unpack_from(f"<{kinds}", self.record, self.place)
        self.place += struct.calcsize(f"<{kinds}")
        return numbers

    def rest(self, kind: str = "I") -> memoryview:
        """Bytes with their number in front."""
        (length,) = self.take(kind)
        if length > len(self.record) - self.place:
            raise CutError(f"a field claims {length} bytes, and {len(self.record) - self.place} are left")
        self.place += length
        return self.record[self.place - length : self.place]

    def text(self) -> str:
        """A text with its length in front."""
        return bytes(self.rest()).decode("utf-8", "replace")


def taken(file: BinaryIO, size: int) -> bytes:
    """So many bytes of a file, unless a damaged length asks for more than may be in memory."""
    if size > LARGEST:
        raise ValueError(f"it claims {size} bytes, more than the {LARGEST} that are read at once")
    return file.read(size)


def unpacked(packing: str, content: memoryview, size: int) -> memoryview:
    """The content of a chunk, of exactly this size."""
    if size > LARGEST:
        raise ValueError(f"it claims {size} bytes, more than the {LARGEST} that are unpacked at once")
    if packing in ("", "none"):
        found = content
    elif packing == "bz2":
        import bz2

        found = _limited(bz2.BZ2Decompressor(), content, size)
    elif packing == "lz4":
        found = _limited(optional("lz4.frame", "lz4", "bags").LZ4FrameDecompressor(), content, size)
    elif packing == "zstd":
        found = _limited(
            optional("backports.zstd", "backports.zstd", "bags").ZstdDecompressor(), content, size
        )
    else:
        raise ValueError(f"it is packed with {packing!r}, which is not known")
    if len(found) != size:
        raise ValueError(f"it should have {size} bytes, and has {len(found)}")
    return found


def _limited(unpacker: Any, content: memoryview, size: int) -> memoryview:
    """Never more than one byte above `size`, whatever is packed."""
    try:
        return memoryview(unpacker.decompress(bytes(content), size + 1))
    except (OSError, EOFError, RuntimeError, ValueError, zlib.error) as error:
        raise ValueError(f"it cannot be unpacked ({type(error).__name__})") from None
    except Exception as error:
        if type(error).__name__ != "ZstdError":
            raise
        raise ValueError("it cannot be unpacked (ZstdError)") from None
