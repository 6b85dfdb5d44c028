"""An episode as numbers that a page can draw, moment by moment, without a simulator.

A film is only what an onlooker would see: no rule has a say in it. Road and paths are made by the tasks; signals, the
bare columns of numbers, by `signal_film`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array

KINDS = ("road", "paths", "pictures", "signals")


@dataclass(frozen=True)
class Film:
    """`kind` says who draws it; `arrays` have a row for each moment (or step), `facts` is what does not change."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


def circle(centre: Array, radius: float, look: str) -> dict[str, Any]:
    """A shape of a view."""
    return {"shape": "circle", "centre": _numbers(centre), "radius": float(radius), "look": look}


def box(low: Array, high: Array, look: str) -> dict[str, Any]:
    """A shape of a view, between two opposite corners."""
    return {"shape": "box", "low": _numbers(low), "high": _numbers(high), "look": look}


def view(
    name: str, labels: tuple[str, str], low: Array, high: Array, *shapes: dict[str, Any]
) -> dict[str, Any]:
    """A side from which paths are shown: how far one sees, and what stands there, the lowest first."""
    return {
        "name": name,
        "x_label": labels[0],
        "y_label": labels[1],
        "low": _numbers(low),
        "high": _numbers(high),
        "shapes": list(shapes),
    }


def body(name: str, look: str, radius: float = 0.0, trail: bool = False) -> dict[str, Any]:
    """Something that moves; without a radius it is a point."""
    return {"name": name, "look": look, "radius": float(radius), "trail": trail}


def check_film_rows(name: str, obs: Array, shape: tuple[int | None, ...]) -> Array:
    """Observations of one episode as float64, [T+1, *shape]; None stands for any number."""
    obs = np.asarray(obs, np.float64)
    fits = len(obs.shape) == 1 + len(shape) and all(
        want in (None, got) for want, got in zip(shape, obs.shape[1:])
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise RciError(
            f"these episodes cannot be shown as {name!r}: observations of shape ({wanted}) are needed, but these have "
            f"{obs.shape[1:]}."
        )
    return obs


def _numbers(values: Array) -> list[float]:
    return [float(value) for value in values]
