"""LeRobot folders from episodes: written without the `lerobot` package, read by it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.labels import Labels
from rci.data.artefacts.signals import Signals
from rci.data.artefacts.takeovers import Takeovers
from rci.data.disk.files import replacing
from rci.data.errors import RciError, unknown_name
from rci.data.record import Array
from rci.formats.importing.imported import Progress, silent
from rci.formats.lerobot.columns import added_columns, feature
from rci.formats.lerobot.info import INFO
from rci.formats.lerobot.layout import LAYOUTS, STATISTICS, Row, write_json, write_tasks
from rci.formats.lerobot.rewrite import rewrite_folder
from rci.formats.lerobot.source import TASK
from rci.formats.lerobot.statistics import Statistics, joined, statistics
from rci.formats.writers.parquet import groups_of


def write_lerobot(
    folder: str | Path,
    episodes: Episodes,
    labels: Labels | None = None,
    costs: StepCosts | None = None,
    *,
    risk: ArrayLike | None = None,
    takeovers: Takeovers | None = None,
    source: str | Path | None = None,
    version: str = "v3.0",
    rate: float | None = None,
    progress: Progress = silent,
) -> Path:
    """Write all frames as a LeRobot folder, with columns `cost`, `stopped` and `risk` where these are given.

    risk: one number for each step. source: the LeRobot folder that the episodes were read from; it is written again,
    with its videos and all that it has, in its own version. Without, a new one is made, of version v3.0 or v2.1; rate:
    frames per second, if the signals of the episodes do not know it; takeovers: a column `intervention`.
    """
    if Path(folder).exists():
        raise RciError(f"{folder} exists; a LeRobot folder is not overwritten, so choose another place.")
    added = added_columns(episodes, labels, costs, risk)
    if source is not None:
        if takeovers is not None or rate is not None:
            raise RciError(
                "a folder that is written again has takeovers and a rate of its own; leave them out."
            )
        return rewrite_folder(Path(folder), Path(source), episodes, added, progress)
    if version not in LAYOUTS:
        raise unknown_name("version of LeRobot", version, LAYOUTS)
    fps = (episodes.signals or Signals()).rate if rate is None else rate
    if fps is None or not 0 < fps <= 1e6:
        raise RciError(
            "LeRobot needs the frames per second, which these episodes do not know; give a rate: rate=10, --rate 10."
        )
    if takeovers is not None:
        takeovers.check_parent(episodes)
        added = {"intervention": takeovers.flags(), **added}
    with replacing(folder) as temporary:
        (temporary / "meta").mkdir(parents=True)
        _write(temporary, _Frames(episodes, added, fps), version, progress)
    return Path(folder)


@dataclass(frozen=True, eq=False)
class _Frames:
    """Everything that becomes a column."""

    episodes: Episodes
    added: dict[str, Array]
    fps: float

    @cached_property
    def tasks(self) -> list[str]:
        """The task of each episode."""
        return list(self.episodes.keys.get(TASK, ())) or [self.episodes.task or "unknown"] * len(
            self.episodes
        )

    @cached_property
    def task_index(self) -> dict[str, int]:
        """The number of each task, in the order in which they come."""
        return {task: i for i, task in enumerate(dict.fromkeys(self.tasks))}

    def columns(self, first: int, end: int) -> dict[str, Array]:
        """Those of some episodes, one after the other; only the last frame of each has flags."""
        episodes, offset = self.episodes, self.episodes.step_offset
        rows = slice(offset[first], offset[end])
        index = np.arange(offset[first], offset[end])
        episode = np.repeat(np.arange(first, end), episodes.lengths[first:end])
        last = index == offset[episode + 1] - 1
        tasks = np.array([self.task_index[task] for task in self.tasks[first:end]], np.int64)
        return {
            "observation.state": episodes.obs[index + episode],
            "action": episodes.action[rows],
            "next.reward": episodes.reward[rows],
            "next.done": last & episodes.terminated[episode],
            "next.truncated": last & episodes.truncated[episode],
            **{name: values[rows] for name, values in self.added.items()},
            "timestamp": ((index - offset[episode]) / self.fps).astype(np.float32),
            "frame_index": index - offset[episode],
            "episode_index": episode,
            "index": index,
            "task_index": tasks[episode - first],
        }

    def row(self, i: int, columns: dict[str, Array], first: int, quantiles: bool) -> Row:
        """What is said of episode i; `columns` begin with episode `first`."""
        begin, end = (int(n) for n in self.episodes.step_offset[i : i + 2])
        base = int(self.episodes.step_offset[first])
        parts = {
            name: statistics(values[begin - base : end - base], quantiles) for name, values in columns.items()
        }
        seen = self.episodes.obs[end + i]
        last = seen.astype(np.int64) if seen.dtype == np.bool_ else seen
        return Row(i, self.tasks[i], begin, end, last.tolist(), parts)

    def describe(self, version: str, files: dict[str, Any], data_path: str) -> dict[str, Any]:
        """What `meta/info.json` says."""
        signals = self.episodes.signals or Signals()
        named = {"observation.state": signals.obs, "action": signals.action}
        columns = self.columns(0, 1)
        return {
            "codebase_version": version,
            "robot_type": None,
            "total_episodes": len(self.episodes),
            "total_frames": len(self.episodes.reward),
            "total_tasks": len(self.task_index),
            **files,
            "fps": int(self.fps) if float(self.fps).is_integer() else self.fps,
            "splits": {"train": f"0:{len(self.episodes)}"},
            "data_path": data_path,
            "video_path": None,
            "features": {
                name: feature(name, values, named.get(name, ())) for name, values in columns.items()
            },
        }


def _write(root: Path, frames: _Frames, version: str, progress: Progress) -> None:
    """Data and descriptions, group after group of episodes."""
    episodes = frames.episodes
    total: dict[str, Statistics] = {}
    layout = LAYOUTS[version](root)
    described = frames.describe(version, layout.facts(len(episodes)), layout.data_path)
    quantiles = version == "v3.0"
    groups: Iterable[tuple[int, int]] = groups_of(episodes.lengths)
    with layout:
        for first, end in groups:
            columns = frames.columns(first, end)
            rows = [frames.row(i, columns, first, quantiles) for i in range(first, end)]
            layout.add(columns, rows)
            for name in columns:
                before = [total[name]] if total.get(name) else []
                total[name] = joined([*before, *(row.statistics[name] for row in rows)])
            progress(end / len(episodes))
    write_tasks(root, list(frames.task_index), version)
    if quantiles:
        write_json(root / STATISTICS, total)
    write_json(root / INFO, described)
