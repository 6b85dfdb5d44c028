"""`rci view`: what the command does, on paths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.data.store import read
from rci.formats.writers.rerun import Camera, write_rerun


def view_episodes(
    episodes: Path,
    costs: Path | None,
    labels: Path | None,
    takeovers: Path | None,
    monitor: Path | None,
    frames: Path | None,
    chosen: list[int],
    out: Path,
    overwrite: bool,
) -> dict[str, Any]:
    """Write a recording of episodes, with everything that is given about them."""
    recorded = read(episodes, "episodes")
    for number in chosen:
        if not 0 <= number < len(recorded):
            raise RciError(f"there is no episode {number}: they are numbered 0 to {len(recorded) - 1}.")
    numbers = sorted(set(chosen)) or list(range(len(recorded)))
    risk, level = None, None
    if monitor is not None:
        from rci.deploy.monitor import load_monitor

        watching = load_monitor(monitor)
        level = watching.level
        risk = [watching.watch(recorded[i].obs, recorded[i].action) for i in numbers]
    camera: Camera | None = None
    if frames is not None:
        from rci.labeling.server.pictures import open_pictures

        camera = open_pictures(frames, recorded.lengths).picture
    place = write_rerun(
        out,
        recorded,
        labels=None if labels is None else read(labels, "labels"),
        costs=None if costs is None else read(costs, "costs"),
        takeovers=None if takeovers is None else read(takeovers, "takeovers"),
        risk=risk,
        level=level,
        camera=camera,
        chosen=numbers,
        overwrite=overwrite,
    )
    steps = int(recorded.lengths[numbers].sum())
    return {"out": str(place), "episodes": len(numbers), "steps": steps, "bytes": place.stat().st_size}
