"""Threads that share the worlds of a simulator between them. Results do not depend on how many there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import pairwise
from typing import Any

import numpy as np

from rci.tasks.batched import check_count

WORTH_A_THREAD = 0.5e-3  # s of work below which handing it to a thread costs more than it saves
CHUNKS = 8  # shares of the work per thread: whichever is done early takes another one


class WorkerThreads:
    """Threads that take shares of the worlds until none is left; they are started when they are first needed."""

    def __init__(self, worlds: int, seconds: float, threads: int | None) -> None:
        self.count = thread_count(worlds, seconds, threads)
        self.shares = work_shares(worlds, seconds, self.count)
        self._pool: ThreadPoolExecutor | None = None
        self._process = os.getpid()  # whose threads they are: a fork has none of them

    def run(self, work: Callable[[int, int, int], None]) -> None:
        """work(thread, first world, last world + 1), by all threads at once. It must give the GIL away."""
        if self.count == 1:
            work(0, *self.shares[0])
            return
        if self._pool is None or self._process != os.getpid():
            self._pool, self._process = ThreadPoolExecutor(self.count), os.getpid()
        left = iter(self.shares)  # each is given out once: the interpreter's lock sees to it
        parts = [self._pool.submit(_take_shares, work, thread, left) for thread in range(self.count)]
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


def _take_shares(work: Callable[[int, int, int], None], thread: int, left: Iterator[tuple[int, int]]) -> None:
    for share in left:
        work(thread, *share)


def thread_count(worlds: int, seconds: float, threads: int | None) -> int:
    """How many threads step `worlds` worlds that take `seconds` each.

    threads=None: as many as there are free cores and the work is worth.
    """
    if threads is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(1, min(cores, worlds, int(worlds * seconds / WORTH_A_THREAD)))
    return min(check_count("threads", threads), worlds)


def work_shares(worlds: int, seconds: float, threads: int) -> list[tuple[int, int]]:
    """Ranges of worlds, several for each thread if they are worth it; one for a single thread."""
    worthwhile = int(worlds * seconds / WORTH_A_THREAD)
    count = 1 if threads == 1 else min(max(threads, min(CHUNKS * threads, worthwhile)), worlds)
    borders = np.linspace(0, worlds, count + 1).astype(int)
    return [(int(first), int(last)) for first, last in pairwise(borders)]
