"""Pictures of episodes, from a folder: for episode 3 either a folder 3/ with one file a picture, or a video 3.mp4.

Or from clips of longer videos, one for each episode, whose picture k is what was seen before step k.
There is a picture for every moment (steps + 1 of them) or one for every step. At the start only names are looked at;
an episode's pictures are counted when it is first watched. Nothing but pictures from inside the folder is given out.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from threading import Lock

from rci.data.errors import RciError
from rci.data.record import Array
from rci.labeling.server.image_files import Look, look_at
from rci.labeling.server.video import CONTAINERS, Clip, decode_clip, decode_video, import_av

SUFFIXES = (".png", ".jpg", ".jpeg")
MOST_BYTES = 64 * 2**20  # of one picture
CACHE_BYTES = 512 * 2**20  # of decoded videos
ENTRY_BYTES = 300  # that a name in the cache takes, roughly
NAMED = 3  # episodes that a message names

Reel = Sequence[Path | bytes]  # the pictures of an episode: where they are, or, from a video, what they are


@dataclass(eq=False)
class Pictures:
    """The pictures of all episodes, by number; made by `open_pictures`. Threads may share it."""

    folder: Path  # without symbolic links in it
    lengths: Array  # steps of each episode
    sources: Sequence[Path | Clip]  # of each episode: its folder, its video, or where it is in one
    cache_bytes: int = CACHE_BYTES
    _reels: OrderedDict[int, tuple[Reel, int]] = field(
        default_factory=OrderedDict
    )  # and bytes; used last is last
    _lock: Lock = field(default_factory=Lock)
    _opening: dict[int, Lock] = field(default_factory=dict)

    def count(self, episode: int) -> int:
        """How many pictures an episode has: its steps + 1, or as many as its steps."""
        return len(self._reel(episode))

    def picture(self, episode: int, index: int) -> tuple[bytes, str]:
        """One picture and its media type."""
        data, look = self._seen(episode, index)
        return data, look.media_type

    def size(self, episode: int) -> tuple[int, int]:
        """Width and height of an episode's first picture."""
        look = self._seen(episode, 0)[1]
        return look.width, look.height

    def _seen(self, episode: int, index: int) -> tuple[bytes, Look]:
        reel = self._reel(episode)
        if not 0 <= index < len(reel):
            raise RciError(f"episode {episode} has the pictures 0 to {len(reel) - 1}, got {index}.")
        entry = reel[index]
        if isinstance(entry, bytes):
            source = self.sources[episode]
            path = source.path if isinstance(source, Clip) else source
            return entry, look_at(entry, f"picture {index} of {path}")
        data = _read(inside(self.folder, entry))
        return data, look_at(data, str(entry))

    def _reel(self, episode: int) -> Reel:
        """The pictures of an episode; whoever asks while another thread opens them waits for that one."""
        with self._lock:
            opening = self._opening.setdefault(episode, Lock())
        with opening:
            with self._lock:
                if episode in self._reels:
                    self._reels.move_to_end(episode)
                    return self._reels[episode][0]
            reel = self._open(episode)
            with self._lock:
                self._reels[episode] = reel, _weight(reel)
                self._forget()
            return reel

    def _open(self, episode: int) -> Reel:
        source, steps = self.sources[episode], int(self.lengths[episode])
        if isinstance(source, Clip):
            return self._open_clip(source, episode, steps)
        place = inside(self.folder, source)
        reel: Reel = decode_video(place, source.suffix, steps + 1) if source.suffix else list_pictures(place)
        if len(reel) not in (steps, steps + 1):
            more = "at least " if source.suffix and len(reel) > steps else ""  # decoding ended there
            raise RciError(
                f"episode {episode} has {steps} steps, so {source} must hold {steps + 1} pictures, one for every "
                f"moment, or {steps}, one for every step; it holds {more}{len(reel)}."
            )
        return reel

    def _open_clip(self, clip: Clip, episode: int, steps: int) -> Reel:
        """A picture for every step, and the last one again: as the last observation, nobody saw another."""
        pictures = decode_clip(clip, inside(self.folder, clip.path), steps)
        if len(pictures) < steps:
            raise RciError(
                f"the camera is shorter than its signals: episode {episode} has {steps} steps, but {clip.path} has "
                f"{len(pictures)} pictures of it."
            )
        return [*pictures, pictures[-1]]

    def _forget(self) -> None:
        """Let go of what was not used for longest, but never of the last one."""
        total = sum(weight for _, weight in self._reels.values())
        while total > self.cache_bytes and len(self._reels) > 1:
            total -= self._reels.popitem(last=False)[1][1]


def open_pictures(folder: str | Path, lengths: Array) -> Pictures:
    """Find the source of every episode's pictures; `lengths` are the steps of each. Only names are looked at."""
    root = Path(folder)
    if not root.is_dir():
        raise RciError(f"there is no folder {root} with pictures.")
    root = root.resolve()
    found: dict[int, list[Path]] = {}
    with os.scandir(root) as entries:
        for entry in entries:
            stem, suffix = os.path.splitext(entry.name)
            readable = suffix.lower() in CONTAINERS if suffix else entry.is_dir()
            if stem.isascii() and stem.isdigit() and readable:
                found.setdefault(int(stem), []).append(root / entry.name)
    episodes = range(len(lengths))
    missing = [i for i in episodes if i not in found]
    if missing:
        raise RciError(
            f"{root} has no pictures of {len(missing)} of {len(lengths)} episodes: {_some(missing)}. Those of episode "
            f"{missing[0]} are files in a folder {missing[0]}/, or a video {missing[0]}.mp4."
        )
    for number, sources in sorted(found.items()):
        if number not in episodes:
            raise RciError(
                f"{sources[0]} belongs to no episode: they are numbered 0 to {len(lengths) - 1}. Are these the "
                "pictures of other episodes?"
            )
        if len(sources) > 1:
            names = " and ".join(sorted(source.name for source in sources))
            raise RciError(f"episode {number} has its pictures in {root} twice: {names}. Keep one of them.")
    chosen = [found[i][0] for i in episodes]
    if any(source.suffix for source in chosen):
        import_av()  # now rather than when the first video is watched
    return Pictures(root, lengths, chosen)


def open_clips(folder: str | Path, lengths: Array, clips: Sequence[Clip]) -> Pictures:
    """Pictures of episodes of these lengths from clips of videos inside of a folder."""
    import_av()  # now rather than when the first video is watched
    return Pictures(Path(folder).resolve(), lengths, list(clips))


def list_pictures(folder: Path) -> list[Path]:
    """The pictures in a folder, in the order of the number in their names, which has no gaps and begins at 0 or 1."""
    try:
        names = [name for name in os.listdir(folder) if not name.startswith(".")]
    except OSError as error:
        raise RciError(f"{folder} cannot be read: {error.strerror}.") from None
    names = [name for name in names if Path(name).suffix.lower() in SUFFIXES]
    numbers = _running_number(folder, names)
    order = sorted(numbers)
    for number, name in order[:1]:
        if number > 1:
            raise RciError(
                f"the pictures in {folder} must begin with number 0 or 1, but the first is {name}."
            )
    for (before, name), (number, other) in pairwise(order):
        if number == before:
            raise RciError(f"{folder} has two pictures with number {number}: {name} and {other}.")
        if number > before + 1:
            raise RciError(f"{folder} has no picture between {name} and {other}; number them without gaps.")
    return [folder / name for _, name in order]


def inside(folder: Path, path: Path) -> Path:
    """The real place of `path`; refused where a symbolic link leads out of the folder."""
    try:
        place = path.resolve()
    except (OSError, RuntimeError):
        raise RciError(f"{path} is a symbolic link that leads nowhere.") from None
    if not place.is_relative_to(folder):
        raise RciError(f"{path} leads out of {folder}; copy what it points to into that folder.")
    return place


def _running_number(folder: Path, names: list[str]) -> list[tuple[int, str]]:
    """The number that tells the names apart; others, such as that of a camera, may stand in all of them alike."""
    numbers = [[int(digits) for digits in re.findall(r"[0-9]+", Path(name).stem)] for name in names]
    for name, found in zip(names, numbers):
        if not found or len(found) != len(numbers[0]):
            raise RciError(
                f"the pictures in {folder} must be numbered in one way, such as frame_0007.png, but there are "
                f"{names[0]} and {name}."
            )
    columns = list(zip(*numbers))
    running = [column for column in columns if len(set(column)) > 1] or columns[-1:]
    if len(running) > 1:
        raise RciError(
            f"one number should tell the pictures in {folder} apart, but {len(running)} of them differ, as in "
            f"{names[0]} and {names[1]}."
        )
    return list(zip(running[0], names)) if running else []


def _read(place: Path) -> bytes:
    if not place.is_file():
        raise RciError(f"there is no file {place} any more.")
    try:
        with place.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise RciError(f"{place} cannot be read: {error.strerror}.") from None
    if len(data) > MOST_BYTES:
        raise RciError(f"{place} is larger than {MOST_BYTES // 2**20} MB, which is too much for one picture.")
    return data


def _weight(reel: Reel) -> int:
    return sum(len(entry) if isinstance(entry, bytes) else ENTRY_BYTES for entry in reel)


def _some(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:NAMED])) + (", ..." if len(numbers) > NAMED else "")
