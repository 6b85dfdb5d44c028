"""The file of rows that a study goes on from, written whole after every change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rci.data.errors import RciError
from rci.pipeline.folder import write_json
from rci.pipeline.results.rows import Row
from rci.studies.paper.rows import judged_together, read_study


class ExperimentRows:
    """All rows of a file. askers: the experiments that ask for each key; a policy may serve several."""

    def __init__(self, file: Path, askers: Mapping[str, Sequence[str]]) -> None:
        self.file, self.askers = file, askers
        self.by_key = dict[tuple[str, str], Row]()
        self._read()
        self._refuse_strangers()
        for row in list(self.by_key.values()):  # an experiment may ask for what another one has already
            self._share(row)
        self._write()  # at once, so that a place that cannot be written to is found before any work

    def has(self, key: str) -> bool:
        """Whether every experiment that asks for a policy has its row."""
        return all((name, key) in self.by_key for name in self.askers[key])

    def add(self, numbers: Row) -> None:
        """Keep the numbers of a policy, as a row of each experiment that asks for it."""
        self._read()  # another study may have written meanwhile
        for name in self.askers[numbers["key"]]:
            self.by_key[name, numbers["key"]] = {**numbers, "experiment": name}
        self._write()

    def rows(self) -> list[Row]:
        """All rows, in order, with what follows from them together."""
        return judged_together(self.by_key.values())

    def _read(self) -> None:
        for row in read_study(self.file):
            self.by_key[row["experiment"], row["key"]] = row

    def _write(self) -> None:
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RciError(f"the rows cannot be kept in {self.file}: {error.strerror or error}.") from None
        write_json(self.file, self.rows())

    def _share(self, row: Row) -> None:
        for name in self.askers.get(row["key"], ()):
            self.by_key.setdefault((name, row["key"]), {**row, "experiment": name})

    def _refuse_strangers(self) -> None:
        """Rows that nobody asks for would be judged together with those that somebody does."""
        asked = {name for names in self.askers.values() for name in names}
        for name in sorted(asked):
            strangers = [
                key
                for experiment, key in self.by_key
                if experiment == name and name not in self.askers.get(key, ())
            ]
            if strangers:
                raise RciError(
                    f"{self.file} holds {len(strangers)} rows of {name!r} that this study does not ask for: of another "
                    "preset, or of another version of the list. Give another --rows, or move the file away."
                )
