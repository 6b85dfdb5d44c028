"""Runs at one rate: every row goes to the step whose time it is nearest to.

A step shows the last row up to then: its observation, its action. Columns named under `linear` lie on the line between
rows, which looks ahead as no robot can. Rewards and costs of the rows of a step are added up, and its flags are set
where those of one of its rows are.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.tables.block import place
from rci.formats.tables.log_columns import LogRows
from rci.formats.tables.mapping import ColumnNames
from rci.formats.tables.times import SECOND

LONGEST_GAP, GAP_STEPS = 1.0, 5  # a run ends at gaps of more seconds and more steps, if nothing is said
MOST_STEPS = 1_000_000  # that a run becomes from fewer rows


def gap_of(names: ColumnNames) -> float | None:
    """After how many seconds without a row a run is another one; None if nobody wants to know."""
    if names.max_gap is not None or names.rate is None:
        return names.max_gap
    return max(LONGEST_GAP, GAP_STEPS / names.rate)


def split(run: LogRows, names: ColumnNames, path: Path) -> list[LogRows]:
    """The parts of a run between gaps that are too long. Its times must not go back."""
    time = np.asarray(run.time)
    passed = np.diff(time)
    for row in np.flatnonzero(passed < 0)[:1]:
        of = "" if run.episode is None else f" of run {run.episode[row]!r}"
        raise RciError(
            f"{place(path, run.line[row + 1])}, column {names.time!r}: time goes back by {-passed[row] / SECOND:.6g} s "
            f"in the middle{of}; sort its rows by time, or, if two runs have one name, give each its own."
        )
    longest = gap_of(names)
    if longest is None:
        return [run]
    cuts = np.flatnonzero(passed > longest * SECOND) + 1
    borders = [0, *cuts.tolist(), len(run)]
    return [run.take(slice(begin, end)) for begin, end in pairwise(borders)]


def resampled(run: LogRows, names: ColumnNames, rate: float, path: Path) -> LogRows:
    """A run with one row per step. Only its last row may be bare."""
    time = np.asarray(run.time)
    step = np.floor((time - time[0]) * (rate / SECOND) + 0.5)
    if step[-1] > max(MOST_STEPS, len(run)):
        raise RciError(
            f"{place(path, run.line[0])}: the run of {len(run)} rows that begins here would become {step[-1]:.0f} "
            "steps; say a lower rate, or a smaller max_gap, in the mapping."
        )
    at = step.astype(np.int64)
    if run.bare[-1] and len(run) > 1:
        at[-1] = max(at[-1], at[-2] + 1)  # what was seen at the end follows the last action
    count = int(at[-1]) + 1
    latest = np.searchsorted(at, np.arange(count), side="right") - 1
    steps = run.take(latest)
    sums = {
        name: np.bincount(at, getattr(run, name), count)
        for name in ("reward", "cost")
        if getattr(run, name) is not None
    }
    flags = {
        name: np.bincount(at, getattr(run, name), count) > 0
        for name in ("stopped", "terminated", "truncated")
        if getattr(run, name) is not None
    }
    grid = time[0] + np.round(np.arange(count) * (SECOND / rate)).astype(np.int64)
    found: dict[str, Array] = {**sums, **flags, "obs": _lines(run, steps.obs, names, grid), "time": grid}
    if run.severity is not None:
        found["severity"] = _severities(run, at, count)
    return replace(steps, **found)


def _severities(run: LogRows, at: Array, count: int) -> Array:
    """What a stop costs, of the first stop in each step."""
    severity = np.ones(count)
    rows = np.flatnonzero(np.asarray(run.stopped))[::-1] if run.stopped is not None else np.zeros(0, int)
    severity[at[rows]] = np.asarray(run.severity)[rows]
    return severity


def _lines(run: LogRows, obs: Array, names: ColumnNames, grid: Array) -> Array:
    """Observations with some columns on the lines between rows."""
    if not names.linear:
        return obs
    if run.obs.shape[1:] != (len(names.obs),):
        raise RciError("linear names columns of single numbers, but some columns of obs hold lists.")
    time = np.asarray(run.time)
    drawn = obs.astype(np.result_type(obs.dtype, np.float32))
    for name in names.linear:
        column = names.obs.index(name)
        # counted from the beginning: nanoseconds since 1970 have more digits than float64
        drawn[:, column] = np.interp(grid - time[0], time - time[0], run.obs[:, column])
    return drawn
