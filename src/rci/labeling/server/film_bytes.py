"""A film on its way to the page: the length of a header, the header as JSON, then the arrays as they are in memory.

The length is a little-endian uint32, the header is padded with spaces so that the numbers begin at a multiple of four
bytes, and the numbers are little-endian float32 in C order, array after array. A page wraps them without copying.
"""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.tasks.film import KINDS, Film

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


def parse_film(data: bytes) -> Film:
    """The film that was sent, its arrays as float32."""
    if len(data) < 4:
        raise RciError(f"a film begins with the length of its header, but there are only {len(data)} bytes.")
    (length,) = struct.unpack_from("<I", data)
    at = 4 + length
    if at > len(data) or length % NUMBER.itemsize:
        raise RciError(
            f"the header of a film cannot be {length} bytes long: there are {len(data)} bytes in all."
        )
    header = _header(data[4:at])
    arrays = {}
    for one in header["arrays"]:
        shape = tuple(one["shape"])
        end = at + NUMBER.itemsize * math.prod(shape)
        if end > len(data):
            raise RciError(f"the film breaks off in {one['name']!r}, which has shape {shape}.")
        arrays[one["name"]] = np.frombuffer(data[at:end], NUMBER).reshape(shape)
        at = end
    if at != len(data):
        raise RciError(f"the film has {len(data) - at} bytes more than its header says.")
    return Film(header["kind"], header["facts"], arrays)


def _header(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
        good = header["kind"] in KINDS and isinstance(header["facts"], dict)
        for one in header["arrays"]:
            sizes = one["shape"]
            good &= isinstance(one["name"], str) and all(type(size) is int and size >= 0 for size in sizes)
    except (ValueError, TypeError, KeyError, RecursionError):
        good = False
    if not good:
        raise RciError(
            "the header of a film must be JSON with a known kind, facts, and the arrays' names and shapes."
        )
    return dict(header)
