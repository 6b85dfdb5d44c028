"""Videos as lists of pictures. All of a video is decoded in order: only so is picture k surely the k-th one shown."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rci.data.errors import RciError

if TYPE_CHECKING:
    from av import VideoFrame

# The container is named rather than guessed, so that no file, whatever is in it, makes FFmpeg open another one.
CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
QUALITY = "2"  # of FFmpeg's JPEG, 1 to 31: finer is not to be seen
TICK = Fraction(1, 25)  # s; an encoder wants a clock, which a single picture does not need


def import_av() -> Any:
    """PyAV, or what to do without it."""
    try:
        import av
    except ImportError:
        raise RciError(
            "videos need the package PyAV: pip install 'rci[video]', or give pictures instead."
        ) from None
    return av


def decode_video(path: Path, suffix: str, most: int) -> list[bytes]:
    """The pictures of a video in the order of showing, as JPEG; no more than `most` + 1, which is too many already."""
    av = import_av()
    if not path.is_file():
        raise RciError(f"there is no file {path}.")
    pictures: list[bytes] = []
    try:
        with av.open(str(path), format=CONTAINERS[suffix.lower()]) as container:
            if not container.streams.video:
                raise RciError(f"{path} has no video in it.")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            for frame in container.decode(stream):
                if frame.is_corrupt:
                    raise RciError(
                        f"{path} is damaged at picture {len(pictures)}; record or convert it again."
                    )
                pictures.append(encode_jpeg(av, frame))
                if len(pictures) > most:
                    return pictures
    except (av.error.FFmpegError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RciError(
            f"{path} cannot be read as a video after {len(pictures)} pictures: {reason}. Record or convert it again."
        ) from None
    return pictures


def encode_jpeg(av: Any, frame: VideoFrame) -> bytes:
    """One picture as JPEG, upright as it is meant to be shown, in the range and the colours that JPEG has."""
    turns = frame.rotation % 360 // 90  # to the left; telephones film sideways and say so
    if turns:
        pixels = np.rot90(frame.to_ndarray(format="rgb24"), turns)
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb24")
    picture = frame.reformat(format="yuvj420p", dst_colorspace="ITU601", dst_color_range="JPEG")
    picture.pts, picture.time_base = 0, TICK
    encoder = av.CodecContext.create("mjpeg", "w")
    encoder.width, encoder.height, encoder.pix_fmt = picture.width, picture.height, "yuvj420p"
    encoder.time_base, encoder.thread_count = TICK, 1  # threads take longer to start than a picture takes
    encoder.options = {"qmin": QUALITY, "qmax": QUALITY}
    return b"".join(bytes(packet) for packet in [*encoder.encode(picture), *encoder.encode(None)])
