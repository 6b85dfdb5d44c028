"""Work on a Ray cluster: one task, one core. Retries are not left to Ray, so that both engines count and tell alike.

Needs the extra `rci[ray]`, and the same version of this program on every machine of the cluster. Without a store, the
machines must share the folder that a run writes to.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.data.store import versions
from rci.run.cores import available_cores, claim_core, prepare_process
from rci.run.engine import Engine, News, Progress, Task, Work
from rci.run.jobs import code_digest
from rci.run.work_log import Failure, attempt

WAIT = 0.5  # seconds between two looks at the progress of tasks
TELL = 0.5  # seconds between two words of a worker


class RayPool:
    """The cores of a cluster. It may grow and shrink while it is used."""

    def __init__(self, engine: Engine) -> None:
        self.ray = connect(engine)
        self.limit = engine.workers
        self.working: dict[Any, tuple[Task, float]] = {}  # by reference to what will come of it
        self.perform = self.ray.remote(num_cpus=1, max_retries=0)(_perform)
        self.board = self._open_board()

    @property
    def busy(self) -> int:
        return len(self.working)

    def has_room(self) -> bool:
        return len(self.working) < (self.limit or max(1, int(self.ray.cluster_resources().get("CPU", 1))))

    def start(self, task: Task, work: Work) -> None:
        told = self.perform.options(name=task.name).remote(work, task.name, fingerprint(), self.board)
        self.working[told] = task, time.monotonic()

    def news(self) -> list[News]:
        ready, _ = self.ray.wait(list(self.working), num_returns=len(self.working), timeout=0)
        if not ready:
            ready, _ = self.ray.wait(list(self.working), num_returns=1, timeout=WAIT)
        return [self._ended(told) for told in ready] or self._shares()

    def _ended(self, told: Any) -> News:
        task, started = self.working.pop(told)
        try:
            failure = self.ray.get(told)
        except self.ray.exceptions.RayError as error:
            why = f"the worker that ran it was lost ({type(error).__name__})"
            return News(task, 0.0, time.monotonic() - started, why, str(error), lost=True)
        seconds = time.monotonic() - started
        return News(task, 1.0, seconds) if failure is None else News(task, 0.0, seconds, *failure)

    def _shares(self) -> list[News]:
        """How far the tasks are. Only a convenience: where nobody answers, nothing is told."""
        try:
            shares = self.ray.get(self.board.read.remote(), timeout=WAIT)
        except (self.ray.exceptions.RayError, TimeoutError):
            return []
        now = time.monotonic()
        known = [(task, started, shares.get(task.name)) for task, started in self.working.values()]
        return [News(task, share, now - started) for task, started, share in known if share is not None]

    def _open_board(self) -> Any:
        here = self.ray.get_runtime_context().get_node_id()
        near = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
        return self.ray.remote(num_cpus=0, scheduling_strategy=near)(_Board).remote()

    def close(self) -> None:
        for told in self.working:
            with contextlib.suppress(Exception):  # what cannot be cancelled is gone already
                self.ray.cancel(told, force=True)
        self.ray.shutdown()


def connect(engine: Engine) -> Any:
    """Join the cluster at the engine's address, or begin one on this machine; the module `ray`."""
    _check_address(engine.address or os.environ.get("RAY_ADDRESS", ""))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # this program tells nobody what is done with it
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise RciError("the engine 'ray' needs Ray: pip install 'rci[ray]'.") from None
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if engine.address is not None or "RAY_ADDRESS" in os.environ:
        try:
            ray.init(address=engine.address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            place = engine.address or os.environ["RAY_ADDRESS"]
            raise RciError(f"there is no Ray cluster to join at {place!r}: {_first_line(error)}") from None
        return ray
    cores = len(available_cores())
    if engine.workers is not None and engine.workers > cores:
        raise RciError(f"{engine.workers} workers were asked for, but this machine has only {cores} cores.")
    ray.init(address="local", num_cpus=engine.workers or cores, include_dashboard=False, **quiet)
    return ray


def _check_address(address: str) -> None:
    """Refuse an address where nobody answers: Ray would try for minutes, and then end the process."""
    host, _, port = address.rpartition(":")
    if not host or "//" in host or not port.isdigit():
        return  # none, `auto`, or a kind of address that only Ray knows
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise RciError(f"there is no Ray cluster to join at {address!r}: {error}.") from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@cache
def fingerprint() -> tuple[str, dict[str, str]]:
    """What must be the same on every machine for results to be the same: this code and the packages it uses."""
    return code_digest(), versions()


class _Board:
    """Where workers write how far they are, for whoever wants to know."""

    def __init__(self) -> None:
        self.shares: dict[str, float] = {}

    def tell(self, name: str, share: float) -> None:
        self.shares[name] = share

    def read(self) -> dict[str, float]:
        shares, self.shares = self.shares, {}
        return shares


def _perform(work: Work, name: str, expected: tuple[str, dict[str, str]], board: Any) -> Failure | None:
    """In a worker: do the work on one core, and say how it ended."""
    _prepare_once()
    if fingerprint() != expected:
        return Failure(_difference(expected), "")
    with tempfile.TemporaryDirectory(prefix="rci-work-") as folder:
        return attempt(work, _teller(name, board), Path(folder) / "printed.txt")


@cache
def _prepare_once() -> None:
    prepare_process(claim_core())


def _teller(name: str, board: Any) -> Progress:
    told = [time.monotonic()]

    def progress(share: float) -> None:
        if time.monotonic() - told[0] >= TELL:
            told[0] = time.monotonic()
            board.tell.remote(name, min(share, 0.999))

    return progress


def _difference(expected: tuple[str, dict[str, str]]) -> str:
    code, packages = fingerprint()
    other = [
        f"{name} {packages.get(name, 'missing')} instead of {version}"
        for name, version in expected[1].items()
        if packages.get(name) != version
    ]
    if code != expected[0]:
        other.append("other source files of rci")
    return f"a machine of the cluster differs from this one, so its results would too: {', '.join(other)}."
