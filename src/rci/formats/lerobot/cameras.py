"""Where the pictures of episodes are in the videos of a LeRobot folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError, unknown_name
from rci.formats.lerobot.info import Info, read_info
from rci.formats.lerobot.recorded import Clip, Recorded, read_recorded
from rci.formats.lerobot.source import EPISODE


class Camera(NamedTuple):
    """One camera: a clip for each episode, and its frames per second."""

    name: str
    rate: float
    clips: list[Clip]
    others: tuple[str, ...]  # cameras that the folder has as well


def read_camera(folder: str | Path, episodes: Episodes, name: str | None = None) -> Camera:
    """A camera of a LeRobot folder, the first one if no name is given, for episodes that were read from there."""
    info = read_info(folder)
    if not info.cameras:
        inside = [key for key, feature in info.features.items() if feature.dtype == "image"]
        kept = f": {', '.join(inside)} are pictures inside of tables, which are not shown" if inside else ""
        raise RciError(f"{info.root} has no videos{kept}.")
    if name is not None and name not in info.cameras:
        raise unknown_name(f"camera of {info.root}", name, info.cameras)
    camera = name or info.cameras[0]
    if not info.video_path:
        raise RciError(
            f"{info.root} has the camera {camera!r}, but does not say where its videos are: no video_path."
        )
    recorded, clips = read_recorded(info, camera)
    clip_of = {str(episode.number): (episode, clip) for episode, clip in zip(recorded, clips)}
    found = [
        _clip(info, clip_of, key, int(n))
        for key, n in zip(_numbers(info, recorded, episodes), episodes.lengths)
    ]
    for clip in found:
        if not clip.path.is_file():
            raise RciError(f"there is no video {clip.path}; copy the whole folder, with its videos.")
    return Camera(camera, info.fps, found, tuple(other for other in info.cameras if other != camera))


def _numbers(info: Info, recorded: list[Recorded], episodes: Episodes) -> Sequence[str]:
    """The number that each episode has in the folder; without keys they are all of it, in its order."""
    if EPISODE in episodes.keys:
        return episodes.keys[EPISODE]
    if len(recorded) != len(episodes):
        raise RciError(
            f"{info.root} has {len(recorded)} episodes, but these are {len(episodes)}, without "
            "their numbers there; import that folder again: rci import."
        )
    return [str(episode.number) for episode in recorded]


def _clip(info: Info, clip_of: dict[str, tuple[Recorded, Clip]], key: str, steps: int) -> Clip:
    if key not in clip_of:
        raise RciError(f"{info.root} has no episode {key}; these episodes were not read from there.")
    episode, clip = clip_of[key]
    if episode.length != steps:
        raise RciError(
            f"{info.root}: episode {key} has {episode.length} frames there, but {steps} steps here; they were not "
            "read from there."
        )
    return clip
