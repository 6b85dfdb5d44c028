"""What every reader gives: episodes, and what the file says of stops and costs.

A reader hands out its recording in pieces. Each field of a piece continues the same field of the piece before it, so
a recording is read into memory, or written to disk piece by piece, by appending.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from rci.data.artefacts.episodes import Episodes, first_true
from rci.data.artefacts.labels import Labels
from rci.data.artefacts.signals import Signals
from rci.data.artefacts.takeovers import Takeovers
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.identity import fitted_signals, keys_by_name

Progress = Callable[[float], None]
BESIDE = ("cost", "stop_index", "severity", "human", "keys")  # of a piece, but no part of episodes
CHUNK_BYTES = 1 << 23  # of observations that are held at a time


def silent(share: float) -> None:
    """The progress of somebody who does not want to know."""


class Piece(NamedTuple):
    """A stretch of a recording. `lengths` and the fields below it are of the episodes that end in this piece."""

    obs: Array  # with the last observation of each of these episodes
    action: Array
    reward: Array
    cost: Array | None  # [steps], as recorded
    lengths: Array
    terminated: Array
    truncated: Array
    stop_index: Array | None  # -1 = not stopped
    severity: Array | None  # what a stop costs, 0 without one; in (0, 1] if it is to count
    row: Array | None = None  # [steps], where each stands in the table that it came from, from 0 on
    keys: Array | None = None  # of these episodes, as `key_lines` writes them
    human: Array | None = None  # [steps], whether a person drove


@dataclass(frozen=True)
class Source:
    """A recording that can be read once. `notes` are complete when the last piece is out.

    `state` says after each piece how far reading has come, in values that JSON can hold. Put one of an earlier time
    in before the first piece is taken, and the pieces begin with the one that came after it.
    """

    path: str  # for messages
    pieces: Iterator[Piece]
    steps: int  # about how many there will be; 0 if nobody knows
    notes: list[str] = field(default_factory=list)
    task: str = ""
    files: tuple[Path, ...] = ()  # everything that is read; () if a change of it cannot be seen
    settings: str = ""  # what else the pieces depend on
    state: dict[str, Any] = field(default_factory=dict)
    signals: Signals | None = None  # names; the numbers of a single column of lists are counted
    keys: tuple[str, ...] = ()  # what the keys of the pieces are called


@dataclass(frozen=True, eq=False)
class Imported:
    """A dataset of somebody else. `notes` say in plain words what was decided where the file is silent."""

    episodes: Episodes
    stop_index: Array | None  # [N], -1 = never stopped; None if the file knows nothing of stops
    cost: Array | None  # [steps], recorded costs; None if the file has none
    notes: tuple[str, ...]
    severity: Array | None = (
        None  # [N], episodic cost of the stops, 0 without one; None if every stop counts as 1
    )
    human: Array | None = None  # [steps], whether a person drove; None if the file knows nothing of takeovers

    def __repr__(self) -> str:
        stops = "" if self.stop_index is None else f", {int((self.stop_index >= 0).sum())} stopped"
        costs = "" if self.cost is None else ", costs recorded"
        return "\n".join([f"Imported({self.episodes}{stops}{costs})", *(f"  {note}" for note in self.notes)])

    def labels(self, cost_above: float | None = None) -> Labels | None:
        """The recorded stops; with `cost_above`, a stop at the first step that cost more. None if there are none."""
        stops = stops_of(self.stop_index, self.cost, self.episodes.lengths, cost_above)
        if stops is None:
            return None
        return Labels.for_episodes(self.episodes, stops, self.severity if cost_above is None else None)

    def takeovers(self) -> Takeovers | None:
        """Where a person drove. None if the file does not say."""
        return None if self.human is None else Takeovers.from_flags(self.episodes, self.human)


def stops_of(
    stop_index: Array | None, cost: Array | None, lengths: Array, cost_above: float | None
) -> Array | None:
    """Stop indices as recorded, or where the recorded cost first exceeds `cost_above`."""
    if cost_above is None:
        return stop_index
    if not np.isfinite(cost_above):
        raise RciError(f"cost_above must be a finite number, got {cost_above}.")
    if cost is None:
        raise RciError(
            "the file has no costs to stop at; label the episodes instead: rci label, or rci serve."
        )
    return first_true(cost > cost_above, lengths)


def checked(source: Source, before: Piece | None = None, episodes: int = 0) -> Iterator[Piece]:
    """The pieces, all of one shape and type, and no episode without a step.

    If reading goes on from an earlier time: `before` is like any piece until then, which had so many `episodes`.
    """
    first = before
    for piece in source.pieces:
        first = first or piece
        for name in ("obs", "action", "reward", "cost"):
            was, now = getattr(first, name), getattr(piece, name)
            if was is None or now is None:
                continue
            if (was.shape[1:], was.dtype) != (now.shape[1:], now.dtype):
                raise RciError(
                    f"{source.path}: {name} changes from {was.dtype} {was.shape[1:]} to {now.dtype} {now.shape[1:]} "
                    f"at about episode {episodes}; all episodes of a dataset must have the same shape and type."
                )
        for name in ("cost", "stop_index", "severity", "row", "keys", "human"):
            if (getattr(first, name) is None) != (getattr(piece, name) is None):
                raise RciError(
                    f"{source.path}: only some episodes have a {name.replace('_', ' ')}: it changes at "
                    f"about episode {episodes}."
                )
        for i in np.flatnonzero(piece.lengths < 1)[:1]:
            raise RciError(
                f"{source.path}: episode {episodes + i} has no step; one observation alone is no episode: remove it."
            )
        episodes += len(piece.lengths)
        yield piece
    if episodes == 0:
        raise RciError(f"{source.path} has no episodes: at least one is needed.")


def gather(source: Source, progress: Progress = silent) -> Imported:
    """The whole recording, in memory."""
    columns: dict[str, list[Array]] = {name: [] for name in Piece._fields}
    steps = 0
    for piece in checked(source):
        for name, array in piece._asdict().items():
            if array is not None:
                columns[name].append(array)
        steps += len(piece.reward)
        if source.steps:
            progress(min(1.0, steps / source.steps))
    whole = {name: np.concatenate(arrays) if arrays else None for name, arrays in columns.items()}
    cost, stop_index, severity, human, lines = (whole.pop(name) for name in BESIDE)
    severity = usable_severity(stop_index, severity, source.notes)
    keys = keys_by_name(source.keys, lines)
    obs, action = np.asarray(whole["obs"]), np.asarray(whole["action"])
    signals = fitted_signals(source.signals, obs.shape[1:], action.shape[1:], source.notes)
    episodes = Episodes(**whole, task=source.task, signals=signals, keys=keys)  # type: ignore[arg-type]
    return Imported(episodes, stop_index, cost, tuple(source.notes), severity, human)


def usable_severity(stop_index: Array | None, severity: Array | None, notes: list[str]) -> Array | None:
    """What stops cost, if it is in (0, 1] for each of them; otherwise None, with a note."""
    if stop_index is None or severity is None:
        return None
    grades = severity[stop_index >= 0]
    if ((grades > 0) & (grades <= 1)).all():
        return np.where(stop_index >= 0, severity, 0.0)
    notes.append("the costs of stops are not all above 0 and at most 1: every stop counts as 1")
    return None


def chunk_rows(shape: tuple[int, ...], itemsize: int) -> int:
    """How many rows of this shape to hold at a time."""
    return max(256, CHUNK_BYTES // max(1, itemsize * int(np.prod(shape, dtype=np.int64))))


def first_line(error: BaseException) -> str:
    """What a library says of damaged data, short enough for one sentence."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


@contextmanager
def damaged(sentence: str, *errors: type[Exception]) -> Iterator[None]:
    """What a library raises for data that are damaged becomes one sentence, which names the file."""
    kinds: tuple[type[Exception], ...] = (OSError, LookupError, ValueError, TypeError, MemoryError, *errors)
    try:
        yield
    except RciError:
        raise
    except kinds as error:
        raise RciError(f"{sentence}: {first_line(error)}.") from None


def optional(module: str, package: str, extra: str = "formats") -> ModuleType:
    """A module of a package that not everybody installs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RciError(
            f"this format needs the package {package}: pip install 'rci[{extra}]' ({error})."
        ) from None
