"""Saving and restoring worlds: everything that the future depends on, by name, and nothing that follows from it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.highway.physics.layout import CAR_FIELDS, TAG_FIELDS
from rci.tasks.highway.physics.worlds import Rules, Worlds, restore_worlds

State = dict[str, Array]
DERIVED = ("cos", "sin", "lane", "order", "rank")  # from places and headings
CARS = tuple(name for name in CAR_FIELDS if name not in DERIVED)
TAGS = tuple(name for name in TAG_FIELDS if name not in DERIVED)


def read_state(worlds: Worlds) -> State:
    """A copy: cars as [worlds, cars], the ego first; streams and clocks."""
    cars = {name: worlds.car[:, CAR_FIELDS.index(name)].copy() for name in CARS}
    tags = {name: worlds.tag[:, TAG_FIELDS.index(name)].copy() for name in TAGS}
    return {**cars, **tags, "stream": worlds.stream.copy(), "clock": worlds.clock.copy()}


def write_state(worlds: Worlds, rules: Rules, state: Mapping[str, Array]) -> None:
    """Continue from a state that was checked."""
    for name in CARS:
        worlds.car[:, CAR_FIELDS.index(name)] = state[name]
    for name in TAGS:
        worlds.tag[:, TAG_FIELDS.index(name)] = state[name]
    worlds.stream[:], worlds.clock[:] = state["stream"], state["clock"]
    restore_worlds(worlds, rules)
    worlds.stream[:] = state["stream"]  # looking anew may have drawn from it, to shuffle rows


def checked_state(given: Mapping[str, Array], like: State, lanes: int) -> State:
    """The given state in the types of `like`; refused if anything is missing, misshapen or impossible."""
    if not isinstance(given, Mapping):
        raise RciError(f"a state is a table of arrays, as state() gives it, got {type(given).__name__}.")
    if set(given) != set(like):
        wrong = sorted(set(given) ^ set(like))
        raise RciError(f"a state has the entries {', '.join(like)}; {wrong[0]!r} is missing or unknown.")
    state = {name: _checked_array(name, np.asarray(given[name]), like[name]) for name in like}
    cars = state["x"].shape[1]
    for name, low, high in (("target_lane", 0, lanes - 1), ("crashed", 0, 1), ("partner", -1, cars - 1)):
        if state[name].min() < low or state[name].max() > high:
            raise RciError(f"state[{name!r}] must be {low} to {high}.")
    return state


def _checked_array(name: str, value: Array, like: Array) -> Array:
    if value.shape != like.shape:
        raise RciError(f"state[{name!r}] must have shape {like.shape}, got {value.shape}.")
    # From flags over whole numbers to floats: a type may be widened, never rounded. Streams need all of their 64 bits.
    wide = {"b": "b", "i": "biu", "u": "u", "f": "biuf"}[like.dtype.kind]
    if value.dtype.kind not in wide or (like.dtype.kind == "u" and value.dtype != like.dtype):
        raise RciError(f"state[{name!r}] must be {like.dtype}, got {value.dtype}.")
    if not np.isfinite(value).all():
        raise RciError(f"state[{name!r}] has a value that is not finite.")
    return value.astype(like.dtype)
