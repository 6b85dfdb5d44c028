"""Bags of ROS 1 and ROS 2 (.bag, .mcap, .db3), read without ROS: a mapping names topics, fields and a rate.

One bag is one run, or several: a new one begins where an observed topic was silent for too long, and where the field
`episode` changes. Only the topics of the mapping are read, only their fields are decoded, and memory is that of the
chunks that overlap in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError
from rci.formats.bags.bag import files_of_bags, open_bag
from rci.formats.bags.grid import Grid
from rci.formats.bags.mapping import BagMapping, BagMappingSource, read_bag_mapping
from rci.formats.bags.timeline import SECOND, Timeline, rates_of
from rci.formats.importing.imported import Imported, Piece, Progress, Source, chunk_rows, gather, silent

Bags = list[tuple[str, list[Path]]]


def import_bags(
    path: str | Path, mapping: BagMappingSource = None, progress: Progress = silent, partial: bool = False
) -> Imported:
    """Everything that a bag says, or a folder of bags.

    `mapping` is a dict, a TOML file, or the name of one that comes with the package ("autoware", "ur"), for example
    {"obs": ["/odom.twist.twist.linear.x", "/scan.ranges[0:360:45]"], "action": ["/cmd_vel.linear.x"], "rate": 10,
    "stop": {"field": "/estop.data", "is": True}}. With `partial`, what can be read of bags that break off.
    """
    with bags_source(path, mapping, partial) as source:
        return gather(source, progress)


def read_bags(
    path: str | Path, mapping: BagMappingSource = None, progress: Progress = silent, partial: bool = False
) -> Episodes:
    """The episodes of a bag, or of a folder of bags; `import_bags` gives stops, takeovers and notes as well."""
    return import_bags(path, mapping, progress, partial).episodes


@contextmanager
def bags_source(
    path: str | Path, mapping: BagMappingSource = None, partial: bool = False
) -> Iterator[Source]:
    """The recordings in bags."""
    bags = files_of_bags(Path(path))
    found = read_bag_mapping(mapping)
    steps = _check_bags(bags, found, partial)
    state: dict[str, Any] = {}
    notes: list[str] = []
    yield Source(
        str(path),
        _pieces(bags, found, partial, notes, state),
        steps,
        notes,
        signals=found.signals(),
        keys=("bag", "start", *(("episode",) if found.episode else ())),
        files=tuple(file for _, files in bags for file in files),
        settings=repr((found, partial)),
        state=state,
    )


def _check_bags(bags: Bags, mapping: BagMapping, partial: bool) -> int:
    """Whatever can be wrong without reading a message, in all bags; about how many steps there are."""
    seconds = 0.0
    for name, files in bags:
        with open_bag(name, files, partial) as bag:
            where = str(files[0] if len(files) == 1 else files[0].parent)
            topics = Timeline(bag, mapping, where, {}).topics
            if not mapping.rate:
                rates = rates_of(bag, list(topics))
                raise RciError(
                    f"the mapping must say rate, steps per second; messages per second in {where}: {rates or 'none'}."
                )
            seconds += max(0, bag.end - bag.start) / SECOND
    return min(int(seconds * mapping.rate), 1 << 40)


def _pieces(
    bags: Bags,
    mapping: BagMapping,
    partial: bool,
    notes: list[str],
    state: dict[str, Any],
) -> Iterator[Piece]:
    """Steps of the bags, a piece at a time; `state` is where they stand after each."""
    saved: dict[str, Any] = deepcopy(state.get("at", {}))
    grid = Grid(mapping, saved.get("grid", {}))
    first = saved.get("bag", 0)
    most = chunk_rows((len(mapping.obs) + len(mapping.action),), 8)
    for number in range(first, len(bags)):
        name, files = bags[number]
        with open_bag(name, files, partial) as bag:
            where = str(files[0] if len(files) == 1 else files[0].parent)
            resumed = number == first and "clock" in saved
            clock = saved["clock"] if resumed else {}
            timeline = Timeline(bag, mapping, where, clock)
            if not resumed:
                grid.begin(name)
            time = -(1 << 62)
            for sample in timeline.samples():
                if sample.time > time and len(grid.rows["action"]) >= most:
                    timeline.stands_before(sample)
                    piece = grid.piece()
                    state["at"] = _position(number, grid, clock)
                    yield piece
                time = sample.time
                grid.take(sample)
            grid.end()
            notes += [
                f"{file.path} {file.broken}: what can be read of it is taken"
                for file in bag.containers
                if file.broken
            ]
    piece = grid.piece()
    state["at"] = _position(len(bags), grid, None)
    if len(piece.obs):
        yield piece
    if not grid.about["runs"]:
        raise RciError(
            f"no run came out of {bags[0][1][0].parent}: a run begins when every topic of obs, action and reward has "
            f"spoken, and lasts at least one step. {' '.join(_whole(note) for note in grid.notes())}".rstrip()
        )
    notes += grid.notes()


def _position(number: int, grid: Grid, clock: dict[str, Any] | None) -> dict[str, Any]:
    """Where reading stands; it must not change with what is read next."""
    position = {"bag": number, "grid": grid.state(), **({} if clock is None else {"clock": clock})}
    return deepcopy(position)


def _whole(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."
