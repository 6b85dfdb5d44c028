"""Temporary folders that carry the number of their process, so that what a killed one left can be found and removed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rci.data.disk.files import alive, saying

WORK, CLUSTER = "rci-work", "rci-ray"  # begin the names: of workers' folders, and of clusters on this machine


def own_folder(kind: str, root: str | None = None) -> Path:
    """A new temporary folder of this process."""
    place = root or tempfile.gettempdir()
    with saying("write to", place):
        return Path(tempfile.mkdtemp(prefix=f"{kind}-{os.getpid()}-", dir=place))


def remove_stale_folders(kind: str, root: str | None = None) -> None:
    """Remove the folders of processes that are gone."""
    for folder in Path(root or tempfile.gettempdir()).glob(f"{kind}-*-*"):
        owner = folder.name.removeprefix(f"{kind}-").partition("-")[0]
        if owner.isdigit() and not alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for all temporary files of this process, for as long as it does one piece of work."""
    before, folder = tempfile.tempdir, own_folder(WORK)
    try:
        tempfile.tempdir = str(folder)
        yield folder
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder, ignore_errors=True)
