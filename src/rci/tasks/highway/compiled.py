"""How the simulator's functions are compiled, and where the machine code is kept between runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numba

from rci.data.cache import cache_folder

Function = TypeVar("Function", bound=Callable[..., Any])
NUMBA: Any = numba.config  # its settings are made at run time
OPTIONS: dict[str, Any] = {
    "nogil": True,  # threads share the work
    "error_model": "numpy",  # a division by zero gives what it gives in numpy
    "_nrt": False,  # no reference counts: nothing is allocated, and counting views took half of the time
}  # and no fastmath: every bit counts


def equation(function: Function) -> Function:
    """A function that is only called by other compiled functions."""
    compiled: Function = numba.njit(forceinline=True, **OPTIONS)(function)
    return compiled


def kernel(function: Function) -> Function:
    """A function that Python calls. Its machine code is kept on disk, so that only the first run compiles it.

    numba notices a change of the kernel's own file, but not of the files with the equations that it calls. So the
    folder that the code is kept in is named after the content of all of them.
    """
    with _cache_folder():
        compiled: Function = numba.njit(cache=True, **OPTIONS)(function)
    return compiled


@contextmanager
def _cache_folder() -> Iterator[None]:
    """numba reads its setting when a function is decorated; other people's functions keep theirs."""
    before = NUMBA.CACHE_DIR
    NUMBA.CACHE_DIR = before or str(cache_folder() / f"highway-{_source_digest()}")
    try:
        yield
    finally:
        NUMBA.CACHE_DIR = before


def _source_digest() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
