"""What an import keeps besides numbers: the names of signals, and the keys that say which run an episode was.

Keys are texts of any length, so the pieces of a recording carry them as lines of JSON, in bytes that grow like every
other array.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from rci.data.artefacts.signals import Signal, Signals
from rci.data.errors import RciError
from rci.data.record import Array, fitting

MOST_NAMES = 4096  # numbers of one observation; pixels have no names


def key_lines(keys: Sequence[Sequence[str]]) -> Array:
    """The keys of some episodes, one list for each, as `Piece.keys` holds them."""
    text = "".join(json.dumps(list(one)) + "\n" for one in keys)
    return np.frombuffer(text.encode(), np.uint8)


def keys_by_name(names: Sequence[str], lines: Array | None) -> dict[str, list[str]]:
    """The keys of all episodes by their names, from the lines of all pieces."""
    if lines is None or not names:
        return {}
    rows = [json.loads(line) for line in lines.tobytes().splitlines()]
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def recorded_signals(table: Any, where: str) -> Signals | None:
    """The names that a file of ours has beside its numbers; None if it has none."""
    if table is None:
        return None
    try:
        parsed = json.loads(table) if isinstance(table, str) else table
    except (ValueError, RecursionError) as error:
        raise RciError(f"{where}: the names of signals are not JSON: {error}.") from None
    with fitting(f"{where}: the names of signals"):
        return Signals.from_table(parsed)


def fitted_signals(
    signals: Signals | None, obs_shape: Sequence[int], action_shape: Sequence[int], notes: list[str]
) -> Signals | None:
    """The names for as many numbers as there are: the numbers of one column of lists are counted."""
    if signals is None:
        return None
    named = {}
    for what, shape in (("obs", obs_shape), ("action", action_shape)):
        columns, size = getattr(signals, what), int(np.prod(shape, dtype=np.int64))
        if len(columns) == 1 < size <= MOST_NAMES:
            name, unit = columns[0]
            columns = tuple(Signal(f"{name} {i}", unit) for i in range(size))
        if len(columns) not in (0, size):
            if len(columns) > 1:
                notes.append(
                    f"{len(columns)} columns of {what} hold {size} numbers, so the numbers have no names"
                )
            columns = ()
        named[what] = columns
    if not any(named.values()) and signals.rate is None:
        return None
    return Signals(named["obs"], named["action"], signals.rate)
