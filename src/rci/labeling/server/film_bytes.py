"""A film on its way to the page: the length of a header, the header as JSON, then the arrays as they are in memory.

The length is a little-endian uint32, the header is padded with spaces so that the numbers begin at a multiple of four
bytes, and the numbers are little-endian float32 in C order, array after array. A page wraps them without copying.
"""

from __future__ import annotations

import json
import struct

import numpy as np

from rci.data.errors import RciError
from rci.tasks.film import Film

NUMBER = np.dtype("<f4")


def film_bytes(film: Film) -> bytes:
    """What is sent."""
    described, parts = [], []
    for name, array in film.arrays.items():
        with np.errstate(over="ignore"):  # found below
            numbers = np.ascontiguousarray(array, NUMBER)
        if not np.isfinite(numbers).all():
            raise RciError(f"{name!r} of a film holds numbers that are not finite or too large for 32 bits.")
        described.append({"name": name, "shape": list(np.shape(array))})
        parts.append(numbers.tobytes())
    header = {"kind": film.kind, "facts": film.facts, "arrays": described}
    text = json.dumps(header, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % NUMBER.itemsize)
    return b"".join([struct.pack("<I", len(text)), text, *parts])
