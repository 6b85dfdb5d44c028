"""Plain logs: CSV, Parquet or JSON lines with one row per step.

A row is an observation, the action taken there, and its reward. The last row of an episode may be an observation alone,
without an action: what was seen at the end. If there is none, and no column of next observations, it is unknown, and
the last observation is repeated, which a note says. Rows must be in order, and the rows of an episode together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.artefacts.episodes import Episodes
from rci.data.record import Array
from rci.formats.cleaning.gaps import Gaps
from rci.formats.cleaning.whole_runs import BEGIN, Tally, complete_runs, taken_in
from rci.formats.importing.imported import Imported, Progress, Source, gather, silent
from rci.formats.tables.episode_rows import Rows, pieces_of_rows
from rci.formats.tables.guessing import key_names, resolve, signals_of
from rci.formats.tables.log_columns import LogRows, priced
from rci.formats.tables.log_rows import LogReader
from rci.formats.tables.mapping import ColumnNames, read_mapping
from rci.formats.tables.parquet import parquet_rate
from rci.formats.tables.readers import blocks_of, check_columns, columns_of, count_rows, files_of

FILE = "file"  # the key that says which of several files an episode is from
LogMapping = Mapping[str, Any] | str | Path | None


def import_logs(path: str | Path, mapping: LogMapping = None, progress: Progress = silent) -> Imported:
    """Everything that a file of logs says, or a folder of them.

    `mapping` is a dict or a TOML file, for example {"obs": ["x", "y"], "action": ["u"], "reward": "r",
    "episode": "run", "step": "t", "stop": "stopped"}; what it does not say is guessed where it is obvious, and listed
    in the notes. Also `next_obs`, `terminated`, `truncated`, `cost`, `severity` (of stops); `choices` if an action is a
    number of so many; `episodes_per_file` if every file counts its episodes anew. An empty name says that there is
    no such column. docs/formats.md has the rest: gaps, times, units, keys, rewards that no column holds.
    """
    with logs_source(path, mapping) as source:
        return gather(source, progress)


def read_logs(path: str | Path, mapping: LogMapping = None, progress: Progress = silent) -> Episodes:
    """The episodes of a file of logs, or a folder of them; `import_logs` gives stops, costs and notes as well."""
    return import_logs(path, mapping, progress).episodes


@contextmanager
def logs_source(path: str | Path, mapping: LogMapping = None) -> Iterator[Source]:
    """The recording in logs."""
    files, others = files_of(Path(path))
    roles = read_mapping(mapping)
    columns = columns_of(files[0])
    names, notes = resolve(roles, columns, files[0])
    signals = signals_of(names, roles.get("units", {}), files[0])
    if signals.rate is None and files[0].suffix.lower() == ".parquet":
        signals = replace(signals, rate=parquet_rate(files[0]))
    keys = tuple(key_names(names))
    if len(files) > 1 and FILE not in keys:
        keys = (FILE, *keys)
    if names.time and BEGIN not in keys:
        keys = (*keys, BEGIN)
    if others:
        notes.append(f"these files are no logs and are not read: {', '.join(others)}")
    if not names.episode:
        notes.append(
            "no column names the episodes: a file is one, or several where a flag is set, an action is missing, or "
            "the steps begin again"
        )
    rows = sum(count_rows(file) for file in files)
    state: dict[str, Any] = {}
    yield Source(
        str(path),
        pieces_of_rows(_rows(files, names, keys, notes, state), notes, state),
        rows,
        notes,
        files=tuple(files),
        settings=repr((names, signals, others)),
        state=state,
        signals=signals,
        keys=keys,
    )


def _rows(
    files: list[Path], names: ColumnNames, keys: tuple[str, ...], notes: list[str], state: dict[str, Any]
) -> Iterator[Rows]:
    begin, row = state.get("file", 0), state.get("row", 0)
    reader, gaps = LogReader.begin(names, state), Gaps(names)
    tally = Tally(**state.get("tally", {}))
    goes_on = row > 0 and not names.whole_runs  # whole runs are read again from their beginning
    if names.episode:  # names of episodes are read once more, the rest is not
        for file in files[:begin]:
            reader.remember(file, blocks_of(file, [names.episode]))
        if row:
            reader.remember(files[begin], blocks_of(files[begin], [names.episode]), row + goes_on)
    for number, file in enumerate(files[begin:], begin):
        check_columns(file, names.read(), files[0])
        blocks = blocks_of(file, names.read(), row)
        waiting: list[LogRows] = []
        for rows, last, final in reader.rows(file, blocks, row, goes_on):
            if names.missing == "error" and (gaps.count(rows, last, file) or gaps.rows):
                continue  # all of them are counted before anything is said
            for taken, consumed in _taken(rows, last, names, waiting, tally, file):
                row += consumed
                at_end = final and not waiting
                state.update(file=number + at_end, row=0 if at_end else row, **reader.state())
                if names.whole_runs:
                    state["tally"] = tally.state()
                yield taken._replace(keys=_with_file(taken, file)) if FILE in keys else taken
        row, goes_on = 0, False
    if gaps.rows:
        raise gaps.refuse()
    notes += tally.notes(names)
    if reader.choices > 1:
        notes.append(
            f"actions are whole numbers up to {reader.choices - 1}, taken as amounts; if they are names of choices, "
            f"say choices = {reader.choices} in the mapping"
        )


def _taken(
    rows: LogRows, last: Array, names: ColumnNames, waiting: list[LogRows], tally: Tally, file: Path
) -> Iterator[tuple[Rows, int]]:
    """Rows as they are taken in, and how many were read for them; whole runs if they have to be."""
    if not names.whole_runs:
        yield priced(rows, names, file).marked(last), len(rows)
        return
    left_out = 0
    for run in complete_runs(rows, last, waiting):
        taken = taken_in(run, names, tally, file)
        if taken is None:
            left_out += len(run)
        else:
            yield taken, left_out + len(run)
            left_out = 0


def _with_file(rows: Rows, file: Path) -> Array:
    """The keys with the name of the file in front."""
    name = np.full((len(rows.reward), 1), file.name, dtype=object)
    return name if rows.keys is None else np.concatenate([name, rows.keys], axis=1)
