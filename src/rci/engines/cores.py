"""The cores of this machine, and processes that keep to one of them.

On a CPU, pinned single-thread processes beat threads; and since every piece of work runs on one thread wherever it
runs, its result does not depend on how many workers there are.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from rci.data.disk.cache import cache_folder
from rci.data.disk.files import take_lock


def available_cores() -> list[int]:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def prepare_process(core: int | None = None) -> None:
    """Pin this process to one core, before JAX counts them, and let compiled code survive the process.

    Where the system cannot pin (anything but Linux), work is done all the same, on as many threads as XLA likes.
    """
    if hasattr(os, "sched_setaffinity"):
        cores = available_cores()
        os.sched_setaffinity(0, {cores[os.getpid() % len(cores)] if core is None else core})
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.5")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def claim_core() -> int | None:
    """A core that no other process has claimed, kept until this process ends; None where all are taken.

    For processes that know nothing of each other, as the workers of a cluster. A claim ends with its process,
    however that ends.
    """
    for core in available_cores():
        path = Path(tempfile.gettempdir()) / f"rci-core-{os.getuid()}-{core}.lock"
        with contextlib.suppress(OSError):  # somebody else's, or not ours to lock
            take_lock(path, mode=0o600)
            return core  # the descriptor stays open on purpose: it is the claim
    return None
