"""The .npz files of OmniSafe's collector: obs, action, reward, cost, next_obs, done; one row per transition.

`done` means terminated or truncated, it does not say which. OmniSafe's learners take it for terminated, and so does
this reader unless set otherwise. The collector changes from one agent to the next without a flag, so a next
observation that is not the following row's ends an episode here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from rci.data.artefacts.episodes import Episodes
from rci.data.errors import RciError
from rci.formats.importing.imported import Imported, Progress, Source, gather, silent
from rci.formats.sources.flat import Layout, Mismatch, flat_source
from rci.formats.sources.npz import open_npz

Done = Literal["terminated", "truncated"]


@contextmanager
def omnisafe_source(
    path: str | Path, done: Done = "terminated", mismatch: Mismatch = "border"
) -> Iterator[Source]:
    """The recording in an .npz file, open while it is read."""
    if done not in ("terminated", "truncated"):
        raise RciError(f"done must be 'terminated' or 'truncated', got {done!r}.")
    ends = {"terminated": "", "truncated": "", done: "done"}
    layout = Layout("obs", "action", "reward", "next_obs", "cost", ends["terminated"], ends["truncated"])
    with open_npz(Path(path)) as columns:
        source = flat_source(str(path), columns, layout, mismatch)
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
