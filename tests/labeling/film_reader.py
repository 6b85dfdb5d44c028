"""A film as a page reads it, from the bytes that are sent."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.labeling.server.film_bytes import NUMBER
from rci.tasks.film import KINDS, Film


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
