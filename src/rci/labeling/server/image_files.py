"""Pictures as bytes: PNG written from pixels, PNG and JPEG looked through before they are handed on."""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array

PNG_MARK, JPEG_MARK = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
PNG, JPEG = "image/png", "image/jpeg"
GREY, RGB = 0, 2  # colour types of PNG
COMPRESSION = 3  # of 1 to 9: quick, as every picture is looked at once or twice
ALONE = {0x01, *range(0xD0, 0xD9)}  # markers of JPEG without a length
FRAME_HEADERS = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # markers of JPEG that are followed by the size
SCAN = 0xDA  # the marker of JPEG behind which the pixels come


class Look(NamedTuple):
    """What a picture is, without its pixels."""

    media_type: str
    width: int
    height: int


def is_picture(obs: Array) -> bool:
    """Whether observations [rows, ...] are pictures: bytes as [H, W], [H, W, 1] or [H, W, 3]."""
    shape = obs.shape[1:]
    return (
        obs.dtype == np.uint8 and min(shape, default=0) > 0 and (len(shape) == 2 or shape[2:] in ((1,), (3,)))
    )


def picture_of(pixels: Array) -> bytes:
    """A PNG of one observation: uint8 [H, W] or [H, W, 1] in grey, [H, W, 3] in red, green and blue."""
    pixels = np.asarray(pixels)
    if not is_picture(pixels[None]):
        raise RciError(
            f"a picture is uint8 of shape [H, W], [H, W, 1] or [H, W, 3], got {pixels.dtype} of shape {pixels.shape}."
        )
    height, width = pixels.shape[:2]
    colour = RGB if pixels.shape[2:] == (3,) else GREY
    rows = pixels.reshape(height, -1)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)  # every line says: not filtered
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"".join(
        (
            PNG_MARK,
            _chunk(b"IHDR", header),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), COMPRESSION)),
            _chunk(b"IEND", b""),
        )
    )


def look_at(data: bytes, name: str) -> Look:
    """Which kind of picture it is and how large; anything but a whole PNG or JPEG is refused, by name."""
    if data.startswith(PNG_MARK):
        return _look_at_png(data, name)
    if data.startswith(JPEG_MARK):
        return _look_at_jpeg(data, name)
    raise _refused(name, "it is neither PNG nor JPEG")


def _look_at_png(data: bytes, name: str) -> Look:
    width, height, at, kind = 0, 0, len(PNG_MARK), b""
    while kind != b"IEND":
        if at + 12 > len(data):
            raise _refused(name, "the PNG breaks off")
        length, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            raise _refused(name, "the PNG breaks off")
        if zlib.crc32(data[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise _refused(name, "the PNG is damaged")
        if at == len(PNG_MARK):
            if kind != b"IHDR" or length != 13:
                raise _refused(name, "the PNG is damaged")
            width, height = struct.unpack_from(">II", data, at + 8)
        at = end + 4
    return _checked(name, PNG, width, height)


def _look_at_jpeg(data: bytes, name: str) -> Look:
    at, size = 2, (0, 0)
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            raise _refused(name, "the JPEG is damaged")
        marker = data[at + 1]
        if marker == 0xFF or marker in ALONE:  # padding, or a marker with nothing behind it
            at += 1 if marker == 0xFF else 2
            continue
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker in FRAME_HEADERS and at + 9 <= len(data):
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = (width, height)
        at += 2 + length
        if marker == SCAN:
            if data.find(b"\xff\xd9", at) < 0:  # the mark of the end
                break
            return _checked(name, JPEG, *size)
    raise _refused(name, "the JPEG breaks off")


def _checked(name: str, media_type: str, width: int, height: int) -> Look:
    if not width or not height:
        raise _refused(name, "the picture has no size")
    return Look(media_type, width, height)


def _refused(name: str, reason: str) -> RciError:
    return RciError(f"{name} cannot be shown: {reason}.")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
