"""Tables in Parquet files. Types are kept: what is float32 in the file is float32 afterwards."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from rci.data.errors import RciError
from rci.formats.importing.imported import CHUNK_BYTES, damaged, optional
from rci.formats.tables.block import BLOCK_ROWS, Block, Numbers

RATE = b"rci.rate"  # in the metadata of files that RCI wrote: steps per second
BUFFER = 1 << 20  # bytes of a column that are fetched at a time; without, it is a whole row group


class Elsewhere(Protocol):
    """A file that is not on this machine, of which only a part is read."""

    def open_bytes(self) -> Any:
        """A file object."""


def parquet_columns(path: Path | Elsewhere) -> list[str]:
    """Names of columns; a part of a struct is obs.x."""
    with _open(path) as file, _reading(path):
        return list(file.schema_arrow.empty_table().flatten().column_names)


def parquet_rows(path: Path) -> int:
    """How many rows a file says that it has."""
    with _open(path) as file, _reading(path):
        return int(file.metadata.num_rows)


def parquet_schema(path: Path) -> Any:
    """The columns of a Parquet file with their types and all metadata, as pyarrow has them."""
    with _open(path) as file, _reading(path):
        return file.schema_arrow


def parquet_metadata(path: Path | Elsewhere) -> dict[bytes, bytes]:
    """The metadata of a file, by key."""
    with _open(path) as file, _reading(path):
        return dict(file.metadata.metadata or {})


def parquet_rate(path: Path) -> float | None:
    """Steps per second, if RCI wrote the file and knew them."""
    try:
        rate = float(parquet_metadata(path).get(RATE, b"nan"))
    except ValueError:
        return None
    return rate if 0 < rate < math.inf else None


def parquet_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Rows of a Parquet file just as they are, as pyarrow's record batches; all columns, or some."""
    with _open(path) as file:
        with _reading(path):
            batches = file.iter_batches(_batch_rows(file.metadata), columns=columns, use_threads=False)
        while True:
            with _reading(path):
                batch = next(batches, None)
                if batch is not None:
                    batch.validate(full=True)
            if batch is None:
                return
            yield batch


def parquet_blocks(path: Path, names: Sequence[str], first: int = 0) -> Iterator[Block]:
    """Rows of a Parquet file, from the first one on; row groups in front of it are not read."""
    arrow = optional("pyarrow", "pyarrow")
    with _open(path) as file:
        with _reading(path):
            whole = file.schema_arrow.names
            needed = sorted({name if name in whole else name.split(".")[0] for name in names})
            groups, row = _groups_from(file.metadata, first)
            size = _batch_rows(file.metadata)
            batches = file.iter_batches(size, row_groups=groups, columns=needed, use_threads=False)
        while True:
            with _reading(path):
                batch = next(batches, None)
                if batch is None:
                    return
                batch, row = batch.slice(min(len(batch), max(0, first - row))), row + len(batch)
                batch.validate(full=True)
                table = arrow.Table.from_batches([batch])
                table = table if set(names) <= set(table.column_names) else table.flatten()
                begin = row - len(batch)
                columns = {
                    name: _column(path, name, table.schema.field(name), table.column(name), begin)
                    for name in names
                }
                lines = begin + np.arange(len(batch))
            yield Block(path, columns, lines)


def _groups_from(metadata: Any, first: int) -> tuple[list[int], int]:
    """The row groups that have rows from the first one on, and the row with which they begin."""
    ends = np.cumsum([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)], dtype=np.int64)
    groups = [i for i, end in enumerate(ends.tolist()) if end > first]
    skipped = groups[0] if groups else len(ends)
    return groups, int(ends[skipped - 1]) if skipped else 0


def _batch_rows(metadata: Any) -> int:
    """How many rows to hold at a time; rows may be long, and decoding lists takes several times their size."""
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    return min(BLOCK_ROWS, max(256, CHUNK_BYTES // 4 * metadata.num_rows // max(1, size)))


def _column(path: Path, name: str, field: Any, chunked: Any, first: int) -> list[Any] | Numbers:
    """A column of numbers, or of lists of numbers of one length; anything else as it is. It begins in row `first`."""
    arrow = optional("pyarrow", "pyarrow")
    types = arrow.types
    values = chunked.combine_chunks()
    if isinstance(values, arrow.ChunkedArray):
        values = arrow.concat_arrays(values.chunks) if values.num_chunks else arrow.array([], field.type)
    missing = values.is_null(nan_is_null=types.is_floating(values.type)).to_numpy(zero_copy_only=False)
    if (
        types.is_fixed_size_list(values.type)
        or types.is_list(values.type)
        or types.is_large_list(values.type)
    ):
        return _vectors(path, name, field, values, missing, first)
    if types.is_boolean(values.type) or types.is_integer(values.type) or types.is_floating(values.type):
        filled = values.fill_null(False if types.is_boolean(values.type) else 0)
        array = np.array(filled.to_numpy(zero_copy_only=False))
        array[missing] = 0
        return Numbers(array, missing)
    if types.is_timestamp(values.type):  # as text: nanoseconds are more than Python's times hold
        values = values.cast(arrow.string())
    listed: list[Any] = values.to_pylist()
    return listed


def _vectors(path: Path, name: str, field: Any, values: Any, missing: Any, first: int) -> Numbers:
    compute = optional("pyarrow.compute", "pyarrow")
    present = values.drop_null()
    lengths = compute.list_value_length(present).to_numpy(zero_copy_only=False)
    row = first + np.flatnonzero(~missing)
    for i in np.flatnonzero(lengths != lengths[:1])[:1]:
        raise RciError(
            f"{path}, row {row[i]}, column {name!r} must be a list of {lengths[0]} numbers, as in the rows before, got "
            f"{lengths[i]}."
        )
    flat = present.flatten()
    if flat.null_count:
        inside = next(i for i, value in enumerate(present) if value.values.null_count)
        raise RciError(f"{path}, row {row[inside]}, column {name!r}: a number inside the list is missing.")
    inner = flat.to_numpy(zero_copy_only=False)
    if inner.dtype.kind not in "fiub":
        raise RciError(f"{path}, column {name!r} must be lists of numbers, got {values.type}.")
    fixed = getattr(values.type, "list_size", 0)
    shape: tuple[int, ...] = (int(lengths[0]) if len(lengths) else fixed,)
    written_shape = (field.metadata or {}).get(b"shape")  # as RCI writes it
    if written_shape is not None:
        width, shape = shape[0], tuple(int(n) for n in written_shape.split(b",") if n)
        if any(n < 0 for n in shape) or math.prod(shape) != width:
            raise RciError(
                f"{path}, column {name!r}: lists of {width} numbers cannot have the shape {shape}."
            )
    array = np.zeros((len(values), *shape), inner.dtype)
    array[~missing] = inner.reshape(len(present), *shape)
    return Numbers(array, missing)


@contextmanager
def _open(path: Path | Elsewhere) -> Iterator[Any]:
    parquet = optional("pyarrow.parquet", "pyarrow")
    with ExitStack() as stack:
        with _reading(path):
            source = path if isinstance(path, Path) else stack.enter_context(path.open_bytes())
            file = parquet.ParquetFile(source, buffer_size=BUFFER, pre_buffer=False)
        yield stack.enter_context(file)


def _reading(path: Path | Elsewhere) -> AbstractContextManager[None]:
    """What the library says of damaged data becomes one sentence that names the file."""
    return damaged(f"{path} is damaged or no Parquet file", optional("pyarrow", "pyarrow").ArrowException)
