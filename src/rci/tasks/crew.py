"""Threads that share the worlds of a simulator between them. Results do not depend on how many there are."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np

from rci.data.errors import RciError

WORTH_A_THREAD = 0.5e-3  # s of work below which handing it to a thread costs more than it saves


class Crew:
    """Each member has its share of the worlds; threads are started when they are first needed."""

    def __init__(self, worlds: int, seconds: float, threads: int | None) -> None:
        self.shares = work_shares(worlds, seconds, threads)
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()  # whose threads they are: a fork has none of them

    def run(self, work: Callable[[int, int, int], None]) -> None:
        """work(member, first world, last world + 1), by all members at once. It must give the GIL away."""
        if len(self.shares) == 1:
            work(0, *self.shares[0])
            return
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(len(self.shares)), os.getpid()
        parts = [self._pool.submit(work, i, *share) for i, share in enumerate(self.shares)]
        try:
            for part in parts:
                part.result()
        finally:
            wait(parts)  # whatever happened: nobody may still be at work when the next step begins

    def close(self) -> None:
        """End the threads; a later run would start new ones."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which have threads of their own."""
        return {**self.__dict__, "_pool": None}


def work_shares(worlds: int, seconds: float, threads: int | None) -> list[tuple[int, int]]:
    """Which worlds each thread steps. seconds: that one world takes.

    threads=None: as many as there are free cores and the work is worth.
    """
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = max(1, min(cores, int(worlds * seconds / WORTH_A_THREAD)))
    elif isinstance(threads, bool) or not isinstance(threads, int | np.integer) or threads < 1:
        raise RciError(f"threads must be a whole number, at least 1, got {threads!r}.")
    borders = np.linspace(0, worlds, min(threads, worlds) + 1).astype(int)
    return [(int(first), int(last)) for first, last in pairwise(borders)]
