"""Pictures as bytes: PNG written from pixels, PNG and JPEG looked through before they are handed on."""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
from PIL import Image

from rci.data.errors import RciError
from rci.data.record import Array

PNG, JPEG = "image/png", "image/jpeg"
MARKS = {  # what the bytes begin with, and what their end is
    PNG: (b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"),
    JPEG: (b"\xff\xd8\xff", b"\xff\xd9"),
}
COMPRESSION = 3  # of 1 to 9: quick, as every picture is looked at once or twice
MOST_PIXELS = 1 << 26  # of one picture; a small file can unpack to very many


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
    grey = pixels.shape[2:] != (3,)
    buffer = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(pixels.reshape(pixels.shape[:2]) if grey else pixels))
    picture.save(buffer, "PNG", compress_level=COMPRESSION)
    return buffer.getvalue()


def look_at(data: bytes, name: str) -> Look:
    """Which kind of picture it is and how large; anything but a whole PNG or JPEG is refused, by name."""
    media_type = next((kind for kind, (begin, _) in MARKS.items() if data.startswith(begin)), None)
    if media_type is None:
        raise RciError(f"{name} cannot be shown: it is neither PNG nor JPEG.")
    format_name = media_type.removeprefix("image/").upper()
    try:
        with Image.open(io.BytesIO(data), formats=[format_name]) as picture:
            look = Look(media_type, *picture.size)
            if look.width * look.height > MOST_PIXELS:
                raise Image.DecompressionBombError
            # PNG has checksums, which show damage without unpacking anything; JPEG has none.
            picture.verify() if media_type == PNG else picture.load()
        if MARKS[media_type][1] not in data:
            raise EOFError
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise RciError(f"{name} cannot be shown: it has more than {MOST_PIXELS} pixels.") from None
    except Exception:  # Pillow has no common one for what it finds in damaged files
        raise RciError(
            f"{name} cannot be shown: the {format_name} is damaged, breaks off or has no size."
        ) from None
    return look
