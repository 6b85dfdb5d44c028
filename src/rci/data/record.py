"""What every artefact type shares: a kind, arrays, a JSON description, a hash, and the checks at the border."""

from __future__ import annotations

import hashlib
import html
import json
import tokenize
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rci.data.errors import RciError

Array = NDArray[Any]
LARGEST_SEED = 2**31 - 1
NPY_ERRORS = (  # what NumPy has been seen to raise for headers and bytes of anything but an array
    ValueError,
    TypeError,
    OSError,
    EOFError,
    LookupError,
    ArithmeticError,
    MemoryError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
)


def array_digest(array: Array) -> str:
    """sha256 over dtype, shape and bytes: the identity of one array."""
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def content_digest(kind: str, array_digests: Mapping[str, str], meta: Mapping[str, Any]) -> str:
    """The identity of a whole artefact: what it is, its arrays and what describes them; not how it was made."""
    text = json.dumps([kind, dict(array_digests), dict(meta)], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Record:
    """What every artefact type offers the store: its kind, its arrays, its JSON description, its hash."""

    kind: ClassVar[str]

    stored: ClassVar[tuple[str, ...]]  # its fields that are arrays

    def arrays(self) -> dict[str, Array]:
        """The arrays to be written, by name."""
        return {name: getattr(self, name) for name in self.stored}

    def meta(self) -> dict[str, Any]:
        """What describes the arrays, as JSON values."""
        return {}

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> Record:
        """The inverse of `arrays` and `meta`."""
        return cls(**arrays, **meta)

    def _repr_html_(self) -> str:
        """What a notebook shows: the one-line description, and the arrays."""
        rows = "".join(
            f"<tr><td>{html.escape(name)}</td><td>{array.dtype}</td><td>{list(array.shape)}</td></tr>"
            for name, array in self.arrays().items()
        )
        head = "<tr><th>array</th><th>type</th><th>shape</th></tr>"
        return f"<p><b>{html.escape(repr(self))}</b></p><table>{head}{rows}</table>"

    @cached_property
    def hash(self) -> str:
        """sha256 of the content. Children name their parents by it."""
        digests = {name: array_digest(array) for name, array in self.arrays().items()}
        return content_digest(self.kind, digests, self.meta())


@contextmanager
def fitting(what: str) -> Iterator[None]:
    """Settings and arrays of a file that do not belong together become one sentence that names it."""
    try:
        yield
    except RciError:
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        MemoryError,
        RuntimeError,
    ) as error:
        raise RciError(
            f"{what} does not hold what it should: its settings and arrays do not fit together "
            f"({type(error).__name__}: {error})."
        ) from None


def set_fields(record: Any, **values: Any) -> None:
    """Store a normalised field of a frozen record while it is being built."""
    for name, value in values.items():
        object.__setattr__(record, name, value)


def expect(kind: type, **values: Any) -> None:
    """Refuse arguments of another type than `kind`, by name; swapped arguments are the usual cause."""
    for name, value in values.items():
        if not isinstance(value, kind):
            raise RciError(f"{name} must be of type {kind.__name__}, got {type(value).__name__}.")


def float32_numbers(name: str, values: ArrayLike) -> Array:
    """Numbers as networks take them; refuse what is none, or not finite as float32."""
    try:
        array = np.asarray(values)
    except ValueError:
        raise RciError(f"the {name} must be numbers, all rows of one length.") from None
    if array.dtype.kind not in "fiub":
        what = type(values).__name__ if array.dtype == object else array.dtype
        raise RciError(f"the {name} must be numbers, got {what}.")
    with np.errstate(over="ignore"):
        array = array.astype(np.float32, copy=False)
    if not np.isfinite(array).all():
        raise RciError(f"the {name} has a value that is not finite.")
    return array


def check_seed(seed: Any) -> int:
    """A seed that JAX and the runtime take alike."""
    if not isinstance(seed, int | np.integer) or not -LARGEST_SEED <= seed <= LARGEST_SEED:
        raise RciError(f"a seed is a whole number up to {LARGEST_SEED}, got {seed!r}.")
    return int(seed)


def check_lengths(lengths: ArrayLike) -> Array:
    """Episode lengths as int64: at least one episode, none of them empty."""
    array = np.asarray(lengths)
    if array.ndim != 1 or array.size == 0:
        raise RciError("there are no episodes: at least one is needed.")
    if not np.issubdtype(array.dtype, np.integer):
        raise RciError(f"episode lengths must be whole numbers, got {array.dtype}.")
    for i in np.flatnonzero(array < 1)[:1]:
        raise RciError(f"episode {i} has {array[i]} steps; an episode needs at least one.")
    return array.astype(np.int64)


def check_finite(name: str, array: Array, offset: Array) -> None:
    """Refuse NaN and infinity, naming the episode and the step."""
    if np.issubdtype(array.dtype, np.integer) or array.dtype == np.bool_:
        return
    if not np.issubdtype(array.dtype, np.floating):
        raise RciError(f"{name} must be numbers, got {array.dtype}.")
    # A sum is finite only if every term is (barring overflow), and it needs no array of flags.
    if np.isfinite(array.sum(dtype=np.float64)):
        return
    for flat in np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[:1]:
        episode = int(np.searchsorted(offset, flat, side="right")) - 1
        raise RciError(
            f"{name} of episode {episode}, step {flat - offset[episode]} is not finite: "
            f"{np.asarray(array[flat]).tolist()}."
        )
