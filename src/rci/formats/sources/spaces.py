"""Gymnasium's spaces as Minari writes them down, and how their values become rows of numbers.

A single box stays as it is. A choice becomes one-hot. Dicts and tuples are flattened in the order of the space.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.tables.episode_rows import one_hot

MOST_CHOICES = 4096  # a one-hot vector longer than this helps nobody
SMALLEST_IMAGE = 32  # pixels on a side, from which on Minari compresses pictures


class Leaf(NamedTuple):
    """A part of a space that is one array: where it stands (names in a dict, numbers in a tuple), and what it is."""

    path: tuple[str | int, ...]
    kind: str
    shape: tuple[int, ...] = ()
    choices: tuple[int, ...] = ()
    start: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """For messages."""
        return ".".join(map(str, self.path)) or "the array"


def leaves(text: Any, where: str, jpeg: bool) -> list[Leaf]:
    """The leaves of a space from its JSON text."""
    try:
        space = json.loads(text) if isinstance(text, str) else text
        found = list(_leaves(space, (), where, jpeg))
    except RciError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise RciError(
            f"{where} is not the description of a space ({type(error).__name__}: {error})."
        ) from None
    if not found:
        raise RciError(f"{where} is an empty space.")
    return found


def _leaves(space: Any, path: tuple[str | int, ...], where: str, jpeg: bool) -> Iterator[Leaf]:
    kind = space["type"]
    if kind == "Dict":
        for key, part in space["subspaces"].items():
            yield from _leaves(part, (*path, str(key)), where, jpeg)
    elif kind == "Tuple":
        for index, part in enumerate(space["subspaces"]):
            yield from _leaves(part, (*path, index), where, jpeg)
    elif kind == "Box":
        shape = tuple(int(n) for n in space["shape"])
        large = len(shape) in (2, 3) and min(shape[:2]) >= SMALLEST_IMAGE
        if jpeg and large and space["dtype"] == "uint8":
            raise RciError(f"{where} has pictures that are stored as JPEG; only numbers can be read.")
        yield _sized(Leaf(path, kind, shape), where)
    elif kind == "MultiBinary":
        size = space["n"]
        shape = tuple(map(int, size)) if isinstance(size, list) else (int(size),)
        yield _sized(Leaf(path, kind, shape), where)
    elif kind == "Discrete":
        yield _choice(Leaf(path, kind, (), (int(space["n"]),), (int(space["start"]),)), where)
    elif kind == "MultiDiscrete":
        counts = tuple(int(n) for n in space["nvec"])
        yield _choice(Leaf(path, kind, (len(counts),), counts, tuple(map(int, space["start"]))), where)
    else:
        raise RciError(
            f"{where} has a part of type {kind!r}, which is not made of numbers; only Box, Discrete, MultiBinary, "
            "MultiDiscrete, Dict and Tuple can be read."
        )


def _sized(leaf: Leaf, where: str) -> Leaf:
    if any(size < 0 for size in leaf.shape):
        raise RciError(f"{where}: {leaf.name} cannot have the shape {leaf.shape}.")
    return leaf


def _choice(leaf: Leaf, where: str) -> Leaf:
    if min(leaf.choices) < 1 or sum(leaf.choices) > MOST_CHOICES or len(leaf.start) != len(leaf.choices):
        raise RciError(f"{where}: a choice of {leaf.choices} cannot be made one-hot; at most {MOST_CHOICES}.")
    return leaf


def decode(parts: Sequence[Leaf], read: Callable[[Leaf], Array], where: str) -> Array:
    """The values of a space as rows: [rows, ...] of a single box, [rows, features] of anything else."""
    if len(parts) == 1 and parts[0].kind in ("Box", "MultiBinary"):
        array = _shaped(read(parts[0]), parts[0], where)
        return array[:, None] if array.ndim == 1 else array
    columns = [_columns(read(leaf), leaf, where) for leaf in parts]
    rows = {len(column) for column in columns}
    if len(rows) > 1:
        raise RciError(f"{where}: its parts have different numbers of rows, {sorted(rows)}.")
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)


def described(parts: Sequence[Leaf], what: str) -> str | None:
    """What was done to the values of a space, for a note; None if nothing."""
    if len(parts) == 1 and parts[0].kind in ("Box", "MultiBinary"):
        return None
    if len(parts) == 1:
        return f"{what} is a choice of {' and '.join(map(str, parts[0].choices))}: made one-hot"
    names = ", ".join(leaf.name for leaf in parts)
    return f"{what} has parts: flattened in the order {names}"


def leaf_names(parts: Sequence[Leaf]) -> list[str]:
    """A name for each number, where a space has parts with names; none where it has not."""
    names = []
    for leaf in parts:
        size = sum(leaf.choices) or int(np.prod(leaf.shape, dtype=np.int64))
        if not leaf.path or size > MOST_CHOICES:
            return []
        names += [leaf.name] if size == 1 else [f"{leaf.name} {i}" for i in range(size)]
    return names if len(set(names)) == len(names) else []


def _shaped(array: Array, leaf: Leaf, where: str) -> Array:
    if array.dtype.kind not in "fiub":
        raise RciError(f"{where}: {leaf.name} must be numbers, got {array.dtype}.")
    rows = len(array) if array.ndim else 0
    if array.size != rows * int(np.prod(leaf.shape)):
        raise RciError(
            f"{where}: {leaf.name} must have shape {leaf.shape} in each row, got {array.shape[1:]}."
        )
    return array.reshape(rows, *leaf.shape)


def _columns(array: Array, leaf: Leaf, where: str) -> Array:
    shaped = _shaped(array, leaf, where)
    flat = shaped.reshape(len(shaped), -1) if len(shaped) else shaped.reshape(0, int(np.prod(leaf.shape)))
    if not leaf.choices:
        return flat
    hot = []
    for number, (count, start) in enumerate(zip(leaf.choices, leaf.start)):
        index = flat[:, number] - start
        for row in np.flatnonzero((index < 0) | (index >= count) | (index != np.floor(index)))[:1]:
            raise RciError(
                f"{where}: {leaf.name} must be a whole number from {start} to {start + count - 1}, got "
                f"{flat[row, number]} in row {row}."
            )
        hot.append(one_hot(index.astype(np.int64), count))
    return np.concatenate(hot, axis=1)
