"""Worker processes of this machine, one per core and pinned to it."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.engines.cores import available_cores, prepare_process
from rci.engines.engine import News, Task, Work
from rci.engines.temporary_folders import WORK, own_folder, remove_stale_folders
from rci.engines.work_log import Failure, attempt, tail


class LocalPool:
    """Worker processes, started when there is work for them; one that dies is replaced."""

    def __init__(self, workers: int | None) -> None:
        cores = available_cores()
        if workers is not None and workers > len(cores):
            raise RciError(
                f"{workers} workers were asked for, but there are only {len(cores)} cores to pin them to."
            )
        self.free_cores = cores[: workers or len(cores)]
        self.idle: list[_Worker] = []
        self.working: dict[Any, _Worker] = {}  # by connection
        remove_stale_folders(WORK)
        self.folder = own_folder(WORK)

    @property
    def busy(self) -> int:
        return len(self.working)

    def has_room(self) -> bool:
        return bool(self.idle or self.free_cores)

    def start(self, task: Task, work: Work) -> None:
        worker = self.idle.pop() if self.idle else _Worker(self.free_cores.pop(0), self.folder)
        self.working[worker.connection] = worker
        worker.begin(task, work)

    def news(self) -> list[News]:
        heard = []
        for connection in wait(list(self.working)):
            worker = self.working[connection]
            seconds = time.monotonic() - worker.started
            try:
                share, failure = worker.connection.recv()
            except (EOFError, OSError):  # OSError: killed in the middle of a message
                heard.append(self._lose(self.working.pop(connection), seconds))
                continue
            if failure is not None or share == 1.0:
                self.idle.append(self.working.pop(connection))
            heard.append(News(worker.task, share, seconds, *(failure or ())))
        return heard

    def _lose(self, worker: _Worker, seconds: float) -> News:
        """A worker that died; its core is free for another."""
        worker.process.join()
        self.free_cores.insert(0, worker.core)
        why = f"the worker that ran it died (exit code {worker.process.exitcode})"
        return News(worker.task, 0.0, seconds, why, tail(worker.printed), lost=True)

    def close(self) -> None:
        workers = [*self.idle, *self.working.values()]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
        shutil.rmtree(self.folder, ignore_errors=True)


class _Worker:
    """One process on one core."""

    def __init__(self, core: int, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.core, self.printed = core, folder / f"core-{core}.txt"
        self.process = context.Process(target=_serve, args=(core, theirs, self.printed), daemon=True)
        # Ctrl-C here, between a process that exists and a pool that knows of it, would leave it behind.
        with _interrupts_later():
            self.process.start()
        theirs.close()
        self.task: Any = None
        self.started = 0.0

    def begin(self, task: Task, work: Work) -> None:
        self.task, self.started = task, time.monotonic()
        # A worker that died idle is noticed when it is heard of, as one that dies at work.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(work)


@contextlib.contextmanager
def _interrupts_later() -> Iterator[None]:
    """Hold back Ctrl-C and the like for a moment.

    They are only noted. SIGINT, which a terminal sends to all processes, is blocked as well, which a process that is
    started inherits. To block it here would not be enough: another thread may receive it, such as the one that draws
    progress bars, and Python would raise in the main thread all the same.
    """
    resource_tracker.ensure_running()  # its start, which comes with the first process, lets signals through again
    came: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    held = (signal.SIGINT, signal.SIGTERM) if main else ()
    handlers = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in held}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler or signal.SIG_DFL)
        if came:
            signal.raise_signal(came[0])


def _serve(core: int, connection: Connection, printed: Path) -> None:
    """A worker's life: take work, send its progress, say how it ended; end when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    threading.Thread(target=_end_with_parent, daemon=True).start()
    prepare_process(core)
    tempfile.tempdir = str(printed.parent)  # which is cleared away, even if this process is killed
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            work = connection.recv()
            failure: Failure | None = attempt(
                work, lambda share: connection.send((min(share, 0.999), None)), printed
            )
            connection.send((1.0 if failure is None else 0.0, failure))


def _end_with_parent() -> None:
    """A worker whose parent was killed must not go on: the run may be begun again at once."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
