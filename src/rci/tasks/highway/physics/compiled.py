"""How the simulator's functions are compiled, and where the machine code is kept between runs."""

from __future__ import annotations

import hashlib
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

from rci.data.disk.cache import cache_folder

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
    folder, before = code_folder(), NUMBA.CACHE_DIR
    NUMBA.CACHE_DIR = (
        folder or before
    )  # read when a function is decorated; other people's functions keep theirs
    try:
        compiled: Function = numba.njit(cache=bool(folder), **OPTIONS)(function)
    finally:
        NUMBA.CACHE_DIR = before
    return compiled


@cache
def code_folder() -> str:
    """Where machine code of just this source is kept; empty if nothing can be written there."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    folder = Path(NUMBA.CACHE_DIR or cache_folder()) / f"highway-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = error.strerror or error
        warnings.warn(
            f"cannot write to {folder} ({reason}): every process compiles the highway anew.", stacklevel=2
        )
        return ""
    return str(folder)
