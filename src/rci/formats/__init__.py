"""Datasets of other people: reading them into episodes, and writing episodes, labels and costs back.

`read_*` gives episodes; `import_*` also what the file says of stops and costs, and notes on what was decided where it
is silent; `convert_dataset` writes an episodes artefact without ever holding all of it; `write_*` is the way out.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from rci.data.errors import RciError, unknown_name
from rci.data.store import UNKNOWN, Provenance
from rci.formats.bags.bag import has_bags
from rci.formats.bags.source import bags_source, import_bags, read_bags
from rci.formats.importing.imported import Imported, Progress, Source, gather, silent
from rci.formats.importing.stream import Continuing, Converted, unheard, write_source
from rci.formats.lerobot.info import is_lerobot
from rci.formats.lerobot.source import import_lerobot, lerobot_source, read_lerobot
from rci.formats.lerobot.writer import write_lerobot
from rci.formats.sources.dsrl import dsrl_source, import_d4rl, import_dsrl, read_d4rl, read_dsrl, write_dsrl
from rci.formats.sources.logs import import_logs, logs_source, read_logs
from rci.formats.sources.minari import import_minari, minari_source, read_minari
from rci.formats.sources.omnisafe import import_omnisafe, omnisafe_source, read_omnisafe
from rci.formats.tables.readers import BLOCKS, has_tables
from rci.formats.writers.minari import write_minari
from rci.formats.writers.parquet import write_parquet
from rci.formats.writers.step_costs import write_costs

__all__ = [
    "SOURCES",
    "WRITERS",
    "Converted",
    "Imported",
    "convert_dataset",
    "guess_format",
    "import_bags",
    "import_d4rl",
    "import_dataset",
    "import_dsrl",
    "import_lerobot",
    "import_logs",
    "import_minari",
    "import_omnisafe",
    "read_bags",
    "read_d4rl",
    "read_dsrl",
    "read_lerobot",
    "read_logs",
    "read_minari",
    "read_omnisafe",
    "write_costs",
    "write_dsrl",
    "write_lerobot",
    "write_minari",
    "write_parquet",
]

SOURCES: dict[str, Callable[..., AbstractContextManager[Source]]] = {
    "bags": bags_source,
    "d4rl": dsrl_source,
    "dsrl": dsrl_source,
    "lerobot": lerobot_source,
    "logs": logs_source,
    "minari": minari_source,
    "omnisafe": omnisafe_source,
}
WRITERS: dict[str, Callable[..., Path]] = {
    "costs": write_costs,
    "dsrl": write_dsrl,
    "lerobot": write_lerobot,
    "lerobot-v2.1": partial(write_lerobot, version="v2.1"),
    "minari": write_minari,
    "parquet": write_parquet,
}


def guess_format(path: str | Path) -> str:
    """The format of a file by its ending, of a folder by what is in it; what is neither is the id of a dataset."""
    given = Path(path)
    ending = given.suffix.lower()
    if ending in (".hdf5", ".h5"):
        return "dsrl"
    if ending == ".npz":
        return "omnisafe"
    if ending in BLOCKS:
        return "logs"
    if is_lerobot(given):
        return "lerobot"
    if has_bags(given):
        return "bags"
    if (given / "data" / "metadata.json").is_file():
        return "minari"
    if given.is_dir() and not has_tables(given):
        if (given / "metadata.json").is_file():
            return "minari"
        if (given / "manifest.json").is_file():
            raise RciError(f"{given} is an artefact already; there is nothing to import.")
    if given.is_dir():
        return "logs"
    if given.is_file():
        raise RciError(f"the format of {given} is not known by its name; say which: {', '.join(SOURCES)}.")
    return "minari"


def open_dataset(
    path: str | Path, data_format: str | None = None, **options: Any
) -> AbstractContextManager[Source]:
    """A dataset of any format, open while it is read. Options are those of the reader."""
    name = guess_format(path) if data_format is None else data_format
    if name not in SOURCES:
        raise unknown_name("format", name, SOURCES)
    return SOURCES[name](path, **options)


def import_dataset(
    path: str | Path, data_format: str | None = None, progress: Progress = silent, **options: Any
) -> Imported:
    """Everything that a dataset says, in memory. Without a format it is guessed from the name."""
    with open_dataset(path, data_format, **options) as source:
        return gather(source, progress)


def convert_dataset(
    path: str | Path,
    folder: str | Path,
    data_format: str | None = None,
    progress: Progress = silent,
    cost_path: str | Path | None = None,
    provenance: Provenance = UNKNOWN,
    continuing: Continuing = unheard,
    **options: Any,
) -> Converted:
    """Write a dataset as an episodes artefact, piece by piece, so that it may be larger than memory.

    Recorded costs go to the .npy file `cost_path`, if there is one. Wrong data leave nothing behind. If it is
    interrupted, the same call goes on from where it was, and reports to `continuing` how many steps are written; the
    result is the same in every byte.
    """
    with open_dataset(path, data_format, **options) as source:
        return write_source(folder, source, progress, cost_path, provenance, continuing)
