"""Videos as lists of pictures. All of a video is decoded in order: only so is picture k surely the k-th one shown.

A clip is a stretch of a video that holds several episodes; it is found by its time, and its pictures by theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rci.data.errors import RciError

if TYPE_CHECKING:
    from av import VideoFrame

# The container is named rather than guessed, so that no file, whatever is in it, makes FFmpeg open another one.
CONTAINERS = {".mp4": "mp4", ".mov": "mov", ".mkv": "matroska", ".webm": "webm"}
QUALITY = "2"  # of FFmpeg's JPEG, 1 to 31: finer is not to be seen
TICK = Fraction(1, 25)  # s; an encoder wants a clock, which a single picture does not need


class Clip(NamedTuple):
    """Where the pictures of an episode are in a video."""

    path: Path
    rate: float  # pictures per second
    begin: float = 0.0  # s
    most: int | None = None  # pictures of it, where that is known: what follows is of another episode


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
    pictures: list[bytes] = []
    with _decoding(path, suffix, pictures) as (container, stream):
        for frame in container.decode(stream):
            pictures.append(_picture(av, path, frame, pictures))
            if len(pictures) > most:
                break
    return pictures


def decode_clip(clip: Clip, place: Path, most: int) -> list[bytes]:
    """The first `most` pictures of a clip as JPEG; fewer where it is shorter. Its file is at `place`."""
    av = import_av()
    pictures: list[bytes] = []
    most = most if clip.most is None else min(most, clip.most)
    with _decoding(place, clip.path.suffix, pictures) as (container, stream):
        first = clip.begin + float((stream.start_time or 0) * stream.time_base)
        if clip.begin > 0:
            container.seek(int(first / stream.time_base), stream=stream)  # to a whole picture at or before it
        for frame in container.decode(stream):
            index = -1 if frame.time is None else round((frame.time - first) * clip.rate)
            if index >= most:
                break
            if index >= 0 and index != len(pictures):
                raise RciError(
                    f"{clip.path} has no picture at {clip.begin + len(pictures) / clip.rate:.3f} s, or two: its clock "
                    f"is not that of {clip.rate:g} pictures per second."
                )
            if index >= 0:
                pictures.append(_picture(av, clip.path, frame, pictures))
    return pictures


@contextmanager
def _decoding(path: Path, suffix: str, pictures: list[bytes]) -> Iterator[tuple[Any, Any]]:
    """The container and the stream of a video; what is wrong with it becomes one sentence."""
    av = import_av()
    if suffix.lower() not in CONTAINERS:
        raise RciError(f"{path} is not a video that can be shown; those are {', '.join(CONTAINERS)}.")
    if not path.is_file():
        raise RciError(f"there is no file {path}.")
    try:
        with av.open(str(path), format=CONTAINERS[suffix.lower()]) as container:
            if not container.streams.video:
                raise RciError(f"{path} has no video in it.")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            yield container, stream
    except (av.error.FFmpegError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RciError(
            f"{path} cannot be read as a video after {len(pictures)} pictures: {reason}. Record or convert it again."
        ) from None


def _picture(av: Any, path: Path, frame: VideoFrame, before: list[bytes]) -> bytes:
    if frame.is_corrupt:
        raise RciError(f"{path} is damaged at picture {len(before)}; record or convert it again.")
    return encode_jpeg(av, frame)


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
