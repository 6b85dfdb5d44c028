"""The .npz files of OmniSafe's collector: obs, action, reward, cost, next_obs, done; one row per transition.

`done` means terminated or truncated, it does not say which. OmniSafe's learners take it for terminated, and so does
this reader unless told otherwise. The collector changes from one agent to the next without a flag, so a next
observation that is not the following row's ends an episode here.
"""

from __future__ import annotations

import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np

from rci.data.episodes import Episodes
from rci.data.errors import RciError
from rci.data.formats.flat import Layout, Mismatch, flat_source
from rci.data.formats.imported import Imported, Progress, Source, gather, silent
from rci.data.record import NPY_ERRORS, Array

Done = Literal["terminated", "truncated"]


@contextmanager
def omnisafe_source(
    path: str | Path, done: Done = "terminated", mismatch: Mismatch = "border"
) -> Iterator[Source]:
    """The recording in an .npz file, which is read into memory as a whole."""
    if done not in ("terminated", "truncated"):
        raise RciError(f"done must be 'terminated' or 'truncated', got {done!r}.")
    ends = {"terminated": "", "truncated": "", done: "done"}
    layout = Layout("obs", "action", "reward", "next_obs", "cost", ends["terminated"], ends["truncated"])
    source = flat_source(str(path), _read_npz(Path(path)), layout, mismatch)
    source.notes.append(f"`done` does not say what ended an episode: taken as {done}")
    yield source


def import_omnisafe(
    path: str | Path,
    done: Done = "terminated",
    mismatch: Mismatch = "border",
    progress: Progress = silent,
) -> Imported:
    """Everything that an OmniSafe file says: episodes and recorded costs."""
    with omnisafe_source(path, done, mismatch) as source:
        return gather(source, progress)


def read_omnisafe(
    path: str | Path,
    done: Done = "terminated",
    mismatch: Mismatch = "border",
    progress: Progress = silent,
) -> Episodes:
    """The episodes of an OmniSafe file; `import_omnisafe` gives costs and notes as well."""
    return import_omnisafe(path, done, mismatch, progress).episodes


def _read_npz(path: Path) -> dict[str, Array]:
    if not path.is_file():
        raise RciError(f"there is no file {path}.")
    try:
        with open(path, "rb") as file:
            if not zipfile.is_zipfile(file):  # np.load would also take other kinds of files
                raise ValueError("it is no zip archive")
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                _refuse_bomb(path, archive.zip.infolist())
                return {key: archive[key] for key in archive.files}
    except RciError:
        raise
    except (*NPY_ERRORS, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise RciError(f"{path} cannot be read as an .npz file: {error}.") from None


def _refuse_bomb(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Members are unpacked into memory, and a few bytes can stand for very many; never more than they declare."""
    size, most = sum(member.file_size for member in members), memory_bytes()
    if size > most:
        raise RciError(
            f"{path} unpacks to {size:,} bytes, which is more than the memory of this machine ({most:,} bytes); "
            "convert it to HDF5, which is read piece by piece."
        )


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
