"""The two ways in which Minari stores episodes: groups of an HDF5 file, or a folder of Arrow or Parquet files each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data.disk.files import own_file
from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.importing.imported import damaged, optional
from rci.formats.sources.flat import NUMBERS
from rci.formats.sources.hdf5 import column, inside, open_hdf5, reading
from rci.formats.sources.spaces import Leaf


class EpisodeReader(NamedTuple):
    """One episode: a column by its name, a leaf of a space, an info that may not be there."""

    where: str
    column: Callable[[str], Array]
    leaf: Callable[[str, Leaf], Array]
    info: Callable[[str], Array | None]


@contextmanager
def hdf5_episodes(folder: Path, count: int) -> Iterator[Callable[[int], EpisodeReader]]:
    """Episodes of `main_data.hdf5`: groups episode_0, episode_1, ..."""
    path = own_file(folder, "main_data.hdf5")
    with open_hdf5(path) as file:
        with reading(path):
            names = set(file)
        expected = {f"episode_{i}" for i in range(count)} if count <= len(names) else set()
        if len(names) != count or names != expected:
            raise RciError(
                f"{path} is damaged or not complete: the metadata says {count} episodes, the file has {len(names)}."
            )
        yield lambda number: _hdf5_reader(file, path, number)


def _hdf5_reader(file: Any, path: Path, number: int) -> EpisodeReader:
    h5py = optional("h5py", "h5py")
    where = f"{path}, episode {number}"
    with reading(path):
        group = inside(file, f"episode_{number}", path)

    def find(keys: list[str], required: bool = True) -> Array | None:
        with reading(path):
            item = group
            for key in keys:
                group_item, item = item, inside(item, key, path)
                if item is None:
                    if not required:
                        return None
                    present = ", ".join(group_item) if isinstance(group_item, h5py.Group) else "none"
                    raise RciError(f"{where} has no {'/'.join(keys)}; what it has there: {present}.")
            if not isinstance(item, h5py.Dataset):
                raise RciError(f"{where}: {'/'.join(keys)} must be an array, got {type(item).__name__}.")
            if item.dtype.kind not in NUMBERS:  # before it is read: a text may be of any length
                raise RciError(f"{where}: {'/'.join(keys)} must be numbers, got {item.dtype}.")
            return native(np.asarray(column(item, path).dataset[()]))

    def require(keys: list[str]) -> Array:
        found = find(keys)
        return np.zeros(0) if found is None else found

    def leaf(name: str, part: Leaf) -> Array:
        return require([name, *(f"_index_{key}" if isinstance(key, int) else key for key in part.path)])

    return EpisodeReader(
        where, lambda name: require([name]), leaf, lambda name: find(["infos", name], required=False)
    )


@contextmanager
def arrow_episodes(folder: Path, count: int, data_format: str) -> Iterator[Callable[[int], EpisodeReader]]:
    """Episodes of the folders 0, 1, ..."""
    numbers = {path.name for path in folder.iterdir() if path.is_dir() and path.name.isdigit()}
    if len(numbers) != count or any(str(i) not in numbers for i in range(count)):
        raise RciError(
            f"{folder} is damaged or not complete: the metadata says {count} episodes, there are {len(numbers)}."
        )
    yield lambda number: _arrow_reader(own_file(folder, str(number)), data_format)


def _arrow_reader(folder: Path, data_format: str) -> EpisodeReader:
    arrow, dataset = optional("pyarrow", "pyarrow"), optional("pyarrow.dataset", "pyarrow")
    where = str(folder)
    for inner in folder.rglob("*"):
        own_file(folder, str(inner.relative_to(folder)))

    def decoding() -> AbstractContextManager[None]:
        return damaged(f"{where} is damaged or not {data_format}", arrow.ArrowException)

    with decoding():
        stored = dataset.dataset(where, format=data_format, ignore_prefixes=["_", ".", "metadata.json"])
        table = stored.to_table().combine_chunks()
        table.validate(full=True)

    def top(name: str) -> Any:
        if name not in table.column_names:
            raise RciError(
                f"{where} has no column {name!r}; its columns are {', '.join(table.column_names)}."
            )
        chunks = table.column(name).chunks
        return chunks[0] if chunks else arrow.array([], table.schema.field(name).type)

    def step(name: str) -> Any:  # the last row is only there because of the last observation
        return top(name)[:-1] if name != "observations" else top(name)

    def leaf(name: str, part: Leaf) -> Array:
        with decoding():
            values = step(name)
            for key in part.path:
                values = values.field(str(key))
            return _numbers(values)

    def plain(name: str) -> Array:
        with decoding():
            return _numbers(step(name))

    def info(name: str) -> Array | None:
        with decoding():
            if "infos" not in table.column_names:
                return None
            infos = top("infos")
            if infos.type.get_field_index(name) < 0:
                return None
            return _numbers(infos.field(name))

    return EpisodeReader(where, plain, leaf, info)


def _numbers(values: Any) -> Array:
    """An Arrow array as numbers: [rows], or [rows, size] of lists of one size."""
    if values.null_count:
        raise RciError(f"an Arrow column has {values.null_count} missing values.")
    types = optional("pyarrow", "pyarrow").types
    if types.is_fixed_size_list(values.type):
        flat = values.flatten().to_numpy(zero_copy_only=False)
        return native(flat.reshape(len(values), values.type.list_size))
    if types.is_list(values.type):
        return np.stack(values.to_numpy(zero_copy_only=False))
    return native(values.to_numpy(zero_copy_only=False))


def native(array: Array) -> Array:
    """In the byte order of this machine."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


STORAGES: dict[str, Callable[[Path, int], AbstractContextManager[Callable[[int], EpisodeReader]]]] = {
    "hdf5": hdf5_episodes,
    "arrow": partial(arrow_episodes, data_format="arrow"),
    "parquet": partial(arrow_episodes, data_format="parquet"),
}
