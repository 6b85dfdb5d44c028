"""A recording for the viewer of Rerun (https://rerun.io): signals, camera, step costs, stops and risk on one timeline.

Episodes follow each other. `moment` counts observations; `time` is in seconds, where the rate is known. What belongs to
a step stands at the moment before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes, rows_of
from rci.data.artefacts.labels import Labels
from rci.data.artefacts.takeovers import Takeovers
from rci.data.disk.files import replacing
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import optional

MOST_SIGNALS = 1024  # lines that are drawn
Camera = Callable[
    [int, int], tuple[bytes, str]
]  # episode and moment -> a picture as PNG or JPEG, and its media type


def write_rerun(
    path: str | Path,
    episodes: Episodes,
    labels: Labels | None = None,
    costs: StepCosts | None = None,
    takeovers: Takeovers | None = None,
    *,
    risk: Sequence[Array] | None = None,
    level: float | None = None,
    camera: Camera | None = None,
    chosen: Sequence[int] | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a .rrd file of all episodes, or of those whose numbers are `chosen`.

    `risk` has the numbers of a monitor for each of them, `level` is that of its alarm.
    """
    rerun = optional("rerun", "rerun-sdk", "rerun")
    place = Path(path)
    if place.suffix != ".rrd":
        raise RciError(f"a recording for Rerun is a .rrd file, not {place.name}.")
    _check(episodes, labels, costs, takeovers)
    numbers = np.arange(len(episodes)) if chosen is None else np.asarray(chosen)
    with replacing(place, overwrite) as temporary:
        recording = rerun.RecordingStream("rci", recording_id=f"{episodes.hash[:12]}-{len(numbers)}")
        recording.save(str(temporary), default_blueprint=_layout(rerun, costs, risk, camera, episodes))
        lines = Lines(rerun, recording, episodes, numbers)
        lines.signals("obs", lines.obs_rows, lines.moments)
        lines.signals("action", lines.step_rows, lines.step_moments)
        lines.draw("reward/reward", lines.step_moments, episodes.reward[lines.step_rows])
        if costs is not None:
            lines.costs(costs)
        if risk is not None:
            lines.draw("risk/risk", lines.step_moments, np.concatenate(risk))
            if level is not None:
                lines.draw("risk/level", lines.moments[[0, -1]], np.full(2, level))
        lines.events(labels, takeovers)
        if camera is not None:
            lines.pictures(camera)
        recording.flush()
        recording.disconnect()
    return place


class Lines:
    """Where the chosen episodes stand on the timeline, and what is drawn there."""

    def __init__(self, rerun: Any, recording: Any, episodes: Episodes, numbers: Array) -> None:
        self.rerun, self.recording, self.episodes, self.numbers = rerun, recording, episodes, numbers
        lengths = episodes.lengths[numbers]
        self.begins = np.concatenate([[0], np.cumsum(lengths + 1)])[:-1]  # first moment of each episode
        self.obs_rows = rows_of(episodes.obs_offset[numbers], lengths + 1)
        self.moments = np.arange(len(self.obs_rows))
        self.step_rows = rows_of(episodes.step_offset[numbers], lengths)
        self.step_moments = rows_of(self.begins, lengths)
        self.rate = None if episodes.signals is None else episodes.signals.rate

    def times(self, moments: Array) -> list[Any]:
        """The columns of time of these moments."""
        columns = [self.rerun.TimeColumn("moment", sequence=moments)]
        if self.rate is not None:
            columns.append(self.rerun.TimeColumn("time", duration=moments / self.rate))
        return columns

    def draw(self, place: str | list[str], moments: Array, values: Array, label: str = "") -> None:
        """A line."""
        path = place if isinstance(place, str) else "/".join(map(self.rerun.escape_entity_path_part, place))
        numbers = np.asarray(values, np.float64)
        self.recording.send_columns(path, self.times(moments), self.rerun.Scalars.columns(scalars=numbers))
        name = label or path.rpartition("/")[2]
        self.recording.log(path, self.rerun.SeriesLines(names=name), static=True)

    def signals(self, what: str, rows: Array, moments: Array) -> None:
        """The numbers of observations or actions; observations that are pictures as a camera."""
        values = getattr(self.episodes, what)
        if what == "obs" and values.dtype == np.uint8 and values.ndim in (3, 4):
            for row, moment in zip(rows, moments):
                self.stand_at(int(moment))
                self.recording.log(
                    "camera/obs", self.rerun.Image(np.asarray(values[row]).squeeze()).compress()
                )
            return
        labels = self.episodes.labels_of("obs" if what == "obs" else "action")
        if len(labels) > MOST_SIGNALS:
            raise RciError(f"{what} has {len(labels)} numbers; at most {MOST_SIGNALS} are drawn as lines.")
        flat = values[rows].reshape(len(rows), -1)
        for column, label in enumerate(labels):
            self.draw([what, label], moments, flat[:, column], label)

    def costs(self, costs: StepCosts) -> None:
        """Step costs, up to the stop."""
        lengths = costs.lengths[self.numbers]
        offset = np.concatenate([[0], np.cumsum(costs.lengths)])
        rows, moments = rows_of(offset[self.numbers], lengths), rows_of(self.begins, lengths)
        columns = costs.cost.reshape(len(costs.cost), -1)
        for column, name in enumerate(costs.channels or ("cost",)):
            self.draw(["cost", name], moments, columns[rows, column])

    def events(self, labels: Labels | None, takeovers: Takeovers | None) -> None:
        """Where episodes begin, where they were stopped, and who drove."""
        found: list[tuple[int, str, str]] = []
        first = dict(zip(self.numbers.tolist(), self.begins.tolist()))
        for number, begin in first.items():
            keys = ", ".join(f"{name} {values[number]}" for name, values in self.episodes.keys.items())
            found.append((begin, f"episode {number}" + (f": {keys}" if keys else ""), "INFO"))
            if labels is not None and labels.stop_index[number] >= 0:
                stop = int(labels.stop_index[number])
                reasons = [n for n, cost in zip(labels.channels, labels.channel_cost[number]) if cost > 0]
                why = f": {', '.join(reasons)}" if reasons else ""
                found.append((begin + stop, f"STOP at step {stop} of episode {number}{why}", "ERROR"))
        for episode, begin, end in (
            () if takeovers is None else zip(takeovers.episode, takeovers.begin, takeovers.end)
        ):
            if int(episode) in first:
                found.append(
                    (first[int(episode)] + int(begin), f"a person takes over in episode {episode}", "WARN")
                )
                if end < self.episodes.lengths[episode]:
                    found.append(
                        (
                            first[int(episode)] + int(end),
                            f"the machine drives again in episode {episode}",
                            "INFO",
                        )
                    )
        found.sort()
        moments = np.array([moment for moment, _, _ in found])
        texts, grades = ([row[k] for row in found] for k in (1, 2))
        self.recording.send_columns(
            "events", self.times(moments), self.rerun.TextLog.columns(text=texts, level=grades)
        )
        if labels is not None:
            flags = np.zeros(len(self.episodes.reward))
            stopped = labels.stop_index >= 0
            flags[(self.episodes.step_offset[:-1] + labels.stop_index)[stopped]] = 1.0
            self.draw("flags/stop", self.step_moments, flags[self.step_rows])
        if takeovers is not None:
            self.draw("flags/a person drives", self.step_moments, takeovers.flags()[self.step_rows])

    def pictures(self, camera: Camera) -> None:
        """What the camera saw, one by one."""
        for number, begin in zip(self.numbers.tolist(), self.begins.tolist()):
            for step in range(int(self.episodes.lengths[number])):
                content, media_type = camera(number, step)
                self.stand_at(begin + step)
                self.recording.log(
                    "camera/frames", self.rerun.EncodedImage(contents=content, media_type=media_type)
                )

    def stand_at(self, moment: int) -> None:
        """What is logged next is of this moment."""
        self.recording.set_time("moment", sequence=moment)
        if self.rate is not None:
            self.recording.set_time("time", duration=moment / self.rate)


def _layout(rerun: Any, costs: StepCosts | None, risk: Any, camera: Camera | None, episodes: Episodes) -> Any:
    """Views above each other: camera, signals, costs and risk, events."""
    views = optional("rerun.blueprint", "rerun-sdk", "rerun")
    shown = [
        "obs",
        "action",
        *(["cost"] if costs is not None else []),
        *(["risk"] if risk is not None else []),
        "flags",
    ]
    plots = [views.TimeSeriesView(origin=f"/{name}", name=name) for name in shown]
    side = [views.TextLogView(origin="/events", name="events")]
    if camera is not None or episodes.obs.dtype == np.uint8:
        side.insert(0, views.Spatial2DView(origin="/camera", name="camera"))
    return views.Blueprint(
        views.Horizontal(views.Vertical(*plots), views.Vertical(*side), column_shares=[3, 2]),
        collapse_panels=True,
    )


def _check(
    episodes: Episodes, labels: Labels | None, costs: StepCosts | None, takeovers: Takeovers | None
) -> None:
    """Refuse what belongs to other episodes."""
    for record in (labels, takeovers):
        if record is not None:
            record.check_parent(episodes)
    if costs is None:
        return
    if labels is not None:
        costs.check_parent(labels)
    elif len(costs.lengths) != len(episodes) or (costs.lengths > episodes.lengths).any():
        raise RciError(
            f"these step costs belong to another dataset: they are of {len(costs.lengths)} episodes, with "
            f"{int(costs.lengths.sum())} steps up to their stops, but these are {len(episodes)} with "
            f"{int(episodes.lengths.sum())} steps."
        )
