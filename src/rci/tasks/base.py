"""What a task is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes
from rci.tasks.film import Film

BehaviourPolicy = Callable[[np.random.Generator, Array], Array]  # (rng, obs [n, d]) -> action [n, a]


@dataclass(frozen=True)
class Probe:
    """A grid of states over the world, so that a critic can be drawn as a map."""

    obs: Array  # [rows, columns, *obs_shape]; row r is at y[r], column c at x[c]
    x: Array  # [columns], in metres or whatever the world is measured in
    y: Array  # [rows]
    x_label: str
    y_label: str
    draw: Callable[[Any], None]  # draws the world that the grid lies over on matplotlib axes
    arrow: Callable[[Array], Array] | None = None  # action [..., a] -> [..., 2]: where it pushes, on the map


@dataclass(frozen=True)
class View:
    """A side from which paths through the world are drawn."""

    name: str  # such as "from above"; empty where there is only one side
    position: Callable[[Array], Array]  # obs [..., *obs_shape] -> [..., 2]
    draw: Callable[[Any], None]  # draws the world, seen from this side, on matplotlib axes


@dataclass(frozen=True)
class Task:
    """A simulator with a notion of danger. `unsafe` and `distance` read the observation after a step."""

    name: str
    obs_shape: tuple[int, ...]
    make_vec: Callable[..., VectorEnv]
    make: Callable[..., gymnasium.Env]
    unsafe: Callable[[Array], Array]  # obs [..., d] -> bool [...]
    distance: Callable[[Array], Array]  # obs [..., d] -> distance to the nearest danger [...]
    behaviours: Mapping[str, BehaviourPolicy]
    recipes: Mapping[str, Mapping[str, float]]  # recipe -> share of episodes per behaviour
    packages: tuple[str, ...] = ()  # extras that simulate it
    variant_of: str = ""  # another task whose presets serve this one as well
    step_seconds: float | None = None  # how long a step lasts, where that means something
    danger_distance: float = 0.0  # the distance at which `unsafe` begins
    channels: Mapping[str, Callable[[Array], Array]] = field(
        default_factory=dict
    )  # kinds of danger, if several
    marks: Mapping[str, Callable[[Array], Array]] = field(
        default_factory=dict
    )  # what else is worth counting: obs [..., d] -> bool [...]
    risk: Callable[[Episodes], Array] | None = None  # exact chance of a violation after each step, flat
    views: tuple[View, ...] = ()  # the sides from which paths are drawn, at most two
    space: Callable[[Sequence[Array]], Any] | None = None  # observations of episodes -> a 3-D figure
    scene: Callable[[Any, Array], None] | None = None  # draws what one observation shows on matplotlib axes
    film: Callable[[Array], Film] | None = None  # obs [T+1, *obs_shape] of one episode -> what is watched
    probe: Callable[[], Probe] | None = None  # where a cost critic is asked for the heatmap

    @property
    def rate(self) -> float | None:
        """Steps per second at which episodes are recorded, where that means something."""
        return 1 / self.step_seconds if self.step_seconds else None


def uniform_actions(size: int) -> BehaviourPolicy:
    """Actions drawn evenly from [-1, 1]."""
    return lambda rng, obs: rng.uniform(-1.0, 1.0, (len(obs), size)).astype(np.float32)


def check_observations(task: Task, episodes: Episodes) -> None:
    """Refuse episodes that cannot be of this task."""
    if episodes.obs.shape[1:] != task.obs_shape:
        raise RciError(
            f"observations of {task.name!r} have shape {task.obs_shape}, but these episodes have "
            f"{episodes.obs.shape[1:]}."
        )
