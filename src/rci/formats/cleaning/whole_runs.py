"""Runs that are taken in as a whole: gaps filled or runs left out, times checked, resampled, rewards computed.

One run is in memory at a time, however large the log is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.cleaning.gaps import filled, gaps_in
from rci.formats.cleaning.resampling import gap_of, resampled, split
from rci.formats.tables.episode_rows import Rows
from rci.formats.tables.guessing import key_names
from rci.formats.tables.log_columns import LogRows, gap_columns, gap_slices, priced
from rci.formats.tables.mapping import ColumnNames
from rci.formats.tables.times import shown

SHOWN = 5  # names of runs in a note
BEGIN = "time"  # the key that says when an episode begins


@dataclass
class Tally:
    """What was done to the runs so far, for the notes; plain values, as the state of a source holds them."""

    runs: int = 0
    filled: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    dropped_names: list[str] = field(default_factory=list)
    split: int = 0
    short: int = 0

    def state(self) -> dict[str, Any]:
        """As JSON values."""
        return {**vars(self), "filled": dict(self.filled), "dropped_names": list(self.dropped_names)}

    def notes(self, names: ColumnNames) -> list[str]:
        """In plain words; with nothing left there is nothing to import."""
        notes = []
        if self.runs and self.dropped == self.runs:
            raise RciError(
                f'all {self.runs} runs have gaps, so none is left; say missing = "forward" in the mapping, or take '
                "the columns that are often missing out of it."
            )
        if self.filled:
            counts = ", ".join(f"{name} in {count}" for name, count in self.filled.items())
            notes.append(f"gaps hold the value before, counted in rows: {counts}")
        if self.dropped:
            more = ", ..." if self.dropped > SHOWN else ""
            names_left_out = f": {', '.join(self.dropped_names)}{more}" if self.dropped_names else ""
            notes.append(f"{self.dropped} of {self.runs} runs have gaps and are left out{names_left_out}")
        if self.split:
            notes.append(
                f"{self.split} runs are split where there is no row for more than {gap_of(names):g} s"
            )
        if self.short:
            notes.append(
                f"{self.short} parts of runs have a single observation and no step: they are left out"
            )
        return notes


def complete_runs(rows: LogRows, last: Array, waiting: list[LogRows]) -> Iterator[LogRows]:
    """The runs that these rows complete; what begins another one stays in `waiting`."""
    begin = 0
    for end in (np.flatnonzero(last) + 1).tolist():
        waiting.append(rows.take(slice(begin, end)))
        run = waiting[0].joined(*waiting[1:]) if len(waiting) > 1 else waiting[0]
        waiting.clear()
        begin = end
        yield run
    if begin < len(rows):
        waiting.append(rows.take(slice(begin, None)))


def taken_in(run: LogRows, names: ColumnNames, tally: Tally, path: Path) -> Rows | None:
    """A run as the mapping wants it, in one part or several; None if it is left out."""
    tally.runs += 1
    last = np.arange(len(run)) == len(run) - 1
    gaps = gaps_in(run, names, last)
    run = replace(run, bare=run.bare & last)
    if gaps.any():
        if names.missing == "drop-run":
            tally.dropped += 1
            if run.episode is not None and len(tally.dropped_names) < SHOWN:
                tally.dropped_names.append(str(run.episode[0]))
            return None
        run = filled(run, names, gaps, path)
        for name, count in zip(gap_columns(names), gaps.sum(axis=0).tolist()):
            if count:
                tally.filled[name] = tally.filled.get(name, 0) + count
    run = priced(_with_inputs_at_the_end(run, names), names, path)
    if not names.time:
        return run.marked(last)
    parts = _parts(run, names, tally, path)
    ends = np.concatenate([np.arange(len(part)) == len(part) - 1 for part in parts])
    return parts[0].joined(*parts[1:]).marked(ends)


def _parts(run: LogRows, names: ColumnNames, tally: Tally, path: Path) -> list[LogRows]:
    """Split where nothing was recorded for too long, at the rate that is wanted, each with its time as a key."""
    parts = split(run, names, path)
    tally.split += len(parts) > 1
    if len(parts) > 1 and parts[-1].bare.all():
        tally.short += 1
        del parts[-1]
    if names.rate is not None:
        parts = [resampled(part, names, names.rate, path) for part in parts]
    return parts if BEGIN in key_names(names) else [_keyed(part) for part in parts]


def _with_inputs_at_the_end(run: LogRows, names: ColumnNames) -> LogRows:
    """What was only seen may lack columns of the reward's expression: there nothing has changed."""
    where = gap_slices(names).get("inputs")
    if where is None or not run.bare[-1] or len(run) == 1:
        return run
    inputs = np.array(run.inputs)
    inputs[-1] = np.where(run.gaps[-1, where], inputs[-2], inputs[-1])
    return replace(run, inputs=inputs)


def _keyed(run: LogRows) -> LogRows:
    """The time of its beginning is the last key of a run."""
    begin = np.full((len(run), 1), shown(int(np.asarray(run.time)[0])), dtype=object)
    return replace(run, keys=begin if run.keys is None else np.concatenate([run.keys, begin], axis=1))
