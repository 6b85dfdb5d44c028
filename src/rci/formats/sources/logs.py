"""Plain logs: CSV, Parquet or JSON lines with one row per step.

A row is an observation, the action taken there, and its reward. The last row of an episode may be an observation alone,
without an action: what was seen at the end. If there is none, and no column of next observations, it is unknown, and
the last observation is repeated, which a note tells. Rows must be in order, and the rows of an episode together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rci.data.episodes import Episodes
from rci.formats.importing.imported import Imported, Progress, Source, gather, silent
from rci.formats.tables.episode_rows import Rows, pieces_of_rows
from rci.formats.tables.log_rows import LogReader
from rci.formats.tables.mapping import ColumnNames, read_mapping, resolve
from rci.formats.tables.readers import blocks_of, check_columns, columns_of, count_rows, files_of

LogMapping = Mapping[str, Any] | str | Path | None


def import_logs(path: str | Path, mapping: LogMapping = None, progress: Progress = silent) -> Imported:
    """Everything that a file of logs says, or a folder of them.

    `mapping` is a dict or a TOML file, for example {"obs": ["x", "y"], "action": ["u"], "reward": "r",
    "episode": "run", "step": "t", "stop": "stopped"}; what it does not say is guessed where it is obvious, and listed
    in the notes. Also `next_obs`, `terminated`, `truncated`, `cost`, `severity` (of stops); `choices` if an action is a
    number of so many; `episodes_per_file` if every file counts its episodes anew. An empty name says that there is
    no such column.
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
    told = read_mapping(mapping)
    names, notes = resolve(told, columns_of(files[0]), files[0])
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
        pieces_of_rows(_rows(files, names, notes, state), notes, state),
        rows,
        notes,
        files=tuple(files),
        settings=repr((names, others)),
        state=state,
    )


def _rows(files: list[Path], names: ColumnNames, notes: list[str], state: dict[str, Any]) -> Iterator[Rows]:
    begin, row = state.get("file", 0), state.get("row", 0)
    reader = LogReader(
        names,
        stride=state.get("stride"),
        choices=state.get("choices", 0),
        shapes=state.get("shapes", {}),
    )
    if names.episode:  # names of episodes are read once more, the rest is not
        for file in files[:begin]:
            reader.remember(file, blocks_of(file, [names.episode]))
        if row:
            reader.remember(files[begin], blocks_of(files[begin], [names.episode]), row + 1)
    for number, file in enumerate(files[begin:], begin):
        check_columns(file, names.used(), files[0])
        for rows, last in reader.rows(file, blocks_of(file, names.used(), row), row > 0):
            row += len(rows.reward)
            state.update(file=number + last, row=0 if last else row, shapes=dict(reader.shapes))
            state.update(stride=reader.stride, choices=reader.choices)
            yield rows
        row = 0
    if reader.choices > 1:
        notes.append(
            f"actions are whole numbers up to {reader.choices - 1}, taken as amounts; if they are names of choices, "
            f"say choices = {reader.choices} in the mapping"
        )
