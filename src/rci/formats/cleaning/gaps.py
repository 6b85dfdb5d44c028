"""Gaps in logs: all of them counted for one message, or filled with the value before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.tables.block import Block, place
from rci.formats.tables.episode_rows import Rows
from rci.formats.tables.log_columns import LogRows, gap_columns, gap_slices, priced
from rci.formats.tables.log_rows import LogReader
from rci.formats.tables.mapping import ColumnNames

SHOWN_ROWS, SHOWN_COLUMNS = 3, 6  # in a message


def gaps_in(rows: LogRows, names: ColumnNames, last: Array) -> Array:
    """Where numbers are missing that should be there, [rows, columns]. The last row of a run needs no action."""
    alone = rows.bare & last
    needed = {*names.obs, names.time}
    exempt = np.array([name not in needed for name in gap_columns(names)])
    return rows.gaps & ~(alone[:, None] & exempt)


@dataclass
class Gaps:
    """All gaps of a recording, as far as they are counted."""

    names: ColumnNames
    rows: int = 0
    values: int = 0
    columns: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def count(self, rows: LogRows, last: Array, path: Path) -> bool:
        """Add those of some rows; whether there are any."""
        gaps = gaps_in(rows, self.names, last)
        if not gaps.any():
            return False
        self.rows += int(gaps.any(axis=1).sum())
        self.values += int(gaps.sum())
        for name, where in zip(gap_columns(self.names), gaps.T):
            if where.any():
                self.columns[name] = self.columns.get(name, 0) + int(where.sum())
                shown = self.examples.setdefault(name, [])
                shown += [place(path, line) for line in rows.line[where][: SHOWN_ROWS - len(shown)]]
        return True

    def refuse(self) -> RciError:
        """One sentence about all of them, with the cures."""
        parts = []
        for name, count in list(self.columns.items())[:SHOWN_COLUMNS]:
            more = f" and {count - SHOWN_ROWS} more" if count > SHOWN_ROWS else ""
            parts.append(f"{name!r} in {_joined(self.examples[name])}{more}")
        if len(self.columns) > SHOWN_COLUMNS:
            parts.append(f"and {len(self.columns) - SHOWN_COLUMNS} more columns")
        return RciError(
            f"{self.values} value{'s are' if self.values > 1 else ' is'} missing in {self.rows} "
            f"row{'s' * (self.rows > 1)}: {'; '.join(parts)}. Only the last row of an episode may be an observation "
            'alone. Say missing = "forward" in the mapping to repeat the value before, or missing = "drop-run" to '
            "leave out runs with gaps."
        )


def rows_without_gaps(reader: LogReader, path: Path, blocks: Iterator[Block]) -> Iterator[Rows]:
    """The rows of a file by itself; gaps in it are refused, all of them at once."""
    gaps = Gaps(reader.names)
    for rows, last, _ in reader.rows(path, blocks):
        if not (gaps.count(rows, last, path) or gaps.rows):
            yield priced(rows, reader.names, path).marked(last)
    if gaps.rows:
        raise gaps.refuse()


def _joined(locations: list[str]) -> str:
    """Places of one file name it once."""
    heads = {where.rpartition(" ")[0] for where in locations}
    if len(heads) > 1 or len(locations) == 1:
        return ", ".join(locations)
    numbers = [where.rpartition(" ")[2] for where in locations]
    return f"{heads.pop()}s {', '.join(numbers)}"


def filled(run: LogRows, names: ColumnNames, gaps: Array, path: Path) -> LogRows:
    """A run whose gaps hold the value before; the first row has none before it, so there may be none."""
    columns = gap_columns(names)
    for column in np.flatnonzero(gaps[0])[:1]:
        raise RciError(
            f"{place(path, run.line[0])}, column {columns[column]!r} is missing in the first row of a run, so there is "
            'no value before to repeat: remove these rows, or say missing = "drop-run" in the mapping.'
        )
    before = np.maximum.accumulate(np.where(gaps, 0, np.arange(len(run))[:, None]), axis=0)
    found: dict[str, Array] = {}
    for role, where in gap_slices(names).items():
        if role == "time":
            for row in np.flatnonzero(gaps[:, where].any(axis=1))[:1]:
                raise RciError(
                    f"{place(path, run.line[row])}, column {names.time!r} is missing: a time is not repeated; remove "
                    'the row, or say missing = "drop-run" in the mapping.'
                )
            continue
        found[role] = _repeated(getattr(run, role), before[:, where], columns[where.start])
    return replace(run, **found)


def _repeated(values: Array, before: Array, column: str) -> Array:
    """values [rows, ...], each taken from the row that `before` names for its column."""
    if before.shape[1] == 1:  # a list, or a single number
        return np.asarray(values[before[:, 0]])
    if values.shape[1:] != before.shape[1:]:
        raise RciError(
            f'missing = "forward" repeats single numbers; {column!r} and the columns beside it hold lists.'
        )
    return np.asarray(np.take_along_axis(values, before, axis=0))
