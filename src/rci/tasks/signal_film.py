"""Episodes that nobody knows how to draw, as curves over time and, where two signals are positions, on a map.

What is shown, in which order and to which scale, comes from the whole dataset: an episode's own range, or whether a
signal moves in it, would say what is still to come.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rci.data.artefacts.episodes import Episode, Episodes
from rci.data.artefacts.signals import Signal
from rci.data.record import Array
from rci.tasks.film import Film

MOST_TRACKS = 96  # signals that are sent, to choose from
MOST_SHOWN = 16  # that are drawn until somebody chooses others
PLACES = (
    "position",
    "pos",
    "pose",
    "p",
    "xy",
    "location",
    "loc",
    "odom",
    "gps",
    "map",
    "robot",
    "ego",
    "base",
)
NO_PLACES = frozenset(
    ("v", "vel", "velocity", "speed", "a", "acc", "accel", "acceleration", "linear", "angular", "twist", "cmd",
     "command", "gyro", "imu", "mag", "force", "torque", "current", "orientation", "quaternion", "q", "rot", "rotation",
     "goal", "target", "error", "action", "u")
)  # fmt: skip
PAIRS = (("x", "y"), ("east", "north"), ("easting", "northing"), ("lon", "lat"), ("longitude", "latitude"))


@dataclass(frozen=True)
class SignalPlan:
    """How every episode of a dataset is drawn; `tracks` and `place` are sent to the page as they are."""

    tracks: tuple[Mapping[str, Any], ...]
    place: tuple[int, int] | None  # the tracks that look like positions, across and up
    columns: Mapping[str, Array]  # by array: which of its numbers are sent

    @property
    def facts(self) -> dict[str, Any]:
        """What does not change from episode to episode."""
        place = None if self.place is None else list(self.place)
        return {"tracks": list(self.tracks), "place": place, "shown": min(MOST_SHOWN, len(self.tracks))}

    def arrays(self, episode: Episode) -> dict[str, Array]:
        """The numbers of one episode, in the columns of the tracks."""
        return {
            name: np.asarray(getattr(episode, name)).reshape(len(getattr(episode, name)), -1)[:, columns]
            for name, columns in self.columns.items()
        }


def plan_signals(episodes: Episodes, arrays: Sequence[str] = ("obs", "action")) -> SignalPlan:
    """Observations before actions, and what moves in some episode before what never does."""
    found, names = [], {}
    for array in arrays:
        values = getattr(episodes, array)
        flat = values.reshape(len(values), -1)
        low, high = (np.asarray(edge(axis=0), np.float64) for edge in (flat.min, flat.max))
        names[array] = _signals(episodes, array, values.shape[1:])
        found += [(array, column, low[column], high[column]) for column in range(flat.shape[1])]
    found.sort(key=lambda one: bool(one[2] == one[3]))  # stable: the order above is kept among equals
    found = found[:MOST_TRACKS]
    kept: dict[str, list[int]] = {array: [] for array in arrays}
    tracks = []
    for array, column, low, high in found:
        name, unit = names[array][column]
        track = {"name": name, "unit": unit, "array": array, "column": len(kept[array])}
        tracks.append({**track, "low": float(low), "high": float(high)})
        kept[array].append(column)
    columns = {array: np.array(kept[array], np.int64) for array in arrays}
    return SignalPlan(tuple(tracks), guess_place(tracks), columns)


def signal_film(episode: Episode, plan: SignalPlan) -> Film:
    """An episode as curves; only the columns that may be drawn are sent."""
    return Film("signals", plan.facts, plan.arrays(episode))


def guess_place(tracks: Sequence[Mapping[str, Any]]) -> tuple[int, int] | None:
    """Which two observed signals are positions on a map, judging by their names and units; None where none are."""
    words = [_words(track["name"]) if track["array"] == "obs" else () for track in tracks]
    best: tuple[int, int, int] | None = None
    for i, one in enumerate(words):
        for across, up in PAIRS:
            if across not in one or NO_PLACES & set(one):
                continue
            other = tuple(up if word == across else word for word in one)
            for j in [j for j, word in enumerate(words) if word == other]:
                rest = [word for word in one if word != across]
                strange = sum(word not in PLACES for word in rest)
                if tracks[i]["unit"] == tracks[j]["unit"] and (best is None or strange < best[0]):
                    best = strange, i, j
    return None if best is None else (best[1], best[2])


def _words(name: str) -> tuple[str, ...]:
    """The parts of a name, in small letters: /odom.pose.position.x, PoseX, px and pos_x all have an x."""
    parts = re.findall(r"p(?=[xy](?![a-z]))|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+", name)
    return tuple(part.lower() for part in parts)


def _signals(episodes: Episodes, array: str, shape: tuple[int, ...]) -> list[tuple[str, str]]:
    """Name and unit of each number; where they have none, the place in the array."""
    named: Sequence[Signal] = getattr(episodes.signals, array) if episodes.signals is not None else ()
    if named:
        return [(signal.name, signal.unit) for signal in named]
    return [(f"{array} {','.join(map(str, index))}", "") for index in np.ndindex(*shape)]
