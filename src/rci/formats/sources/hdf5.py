"""Opening HDF5 files of others: whatever is wrong with one, it is one clear sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import damaged, optional

MOST_COMPRESSION = 2000  # no file holds more than this many times its size; gzip reaches 1032


@dataclass(frozen=True)
class Column:
    """A dataset that is sliced by rows; a chunk that cannot be read is an error that names the file."""

    path: str
    dataset: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """As the file declares it."""
        return tuple(self.dataset.shape)

    @property
    def dtype(self) -> Any:
        """As the file declares it."""
        return self.dataset.dtype

    @property
    def attrs(self) -> Mapping[str, Any]:
        """What is written beside the numbers."""
        with reading(self.path):
            return dict(self.dataset.attrs)

    def __getitem__(self, rows: slice) -> Array:
        with reading(self.path):
            return np.asarray(self.dataset[rows])


@contextmanager
def open_hdf5(path: str | Path) -> Iterator[Any]:
    """The file, open for reading."""
    h5py = optional("h5py", "h5py")
    if not Path(path).is_file():
        raise RciError(f"there is no file {path}.")
    with reading(path):
        file = h5py.File(path, "r")
    with file:
        yield file


def reading(path: str | Path) -> AbstractContextManager[None]:
    """What the library says of damaged data becomes one sentence that names the file."""
    return damaged(f"{path} is damaged or no HDF5 file", RuntimeError, AttributeError)


def root_columns(file: Any, path: str | Path) -> dict[str, Column]:
    """The datasets at the root."""
    h5py = optional("h5py", "h5py")
    found = {}
    with reading(path):
        for key in file:
            item = inside(file, key, path)
            if isinstance(item, h5py.Dataset):
                found[key] = column(item, path)
    return found


def inside(group: Any, name: str, path: str | Path) -> Any:
    """What stands in the group under this name, which may be a path; None if there is nothing.

    Only what is in the file itself: a link could name any other file, and opening it can already do harm.
    """
    h5py = optional("h5py", "h5py")
    item = group
    for part in name.split("/"):
        link = item.get(part, getlink=True) if part and isinstance(item, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise RciError(
                f"{path}: {part} is a link to something else; only what is in the file itself is read. Store the "
                "numbers there instead."
            )
        item = item[part]
    return item


def column(dataset: Any, path: str | Path) -> Column:
    """Refuse a dataset whose numbers are in other files, or that declares more than the file can hold."""
    if dataset.shape is None or dataset.external or dataset.is_virtual:
        raise RciError(f"{path}: {dataset.name} has no data in this file.")
    if dataset.nbytes > MOST_COMPRESSION * Path(path).stat().st_size:
        raise RciError(f"{path} is damaged: {dataset.name} claims to have shape {dataset.shape}.")
    return Column(str(path), dataset)
