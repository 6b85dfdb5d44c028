"""A Ray cluster: one that is there, or one on this machine for as long as it is needed."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rci.data.errors import RciError
from rci.engines.cores import available_cores
from rci.engines.engine import Engine
from rci.engines.signals import end_politely
from rci.engines.temporary_folders import CLUSTER, own_folder, remove_stale_folders
from rci.engines.work_log import printing_to

STORE_BYTES = 1 << 27  # Ray's own memory on this machine; artefacts do not pass through it
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # the empty frame with which HTTP/2 begins on both sides
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS  # as gRPC, which Ray speaks, begins a conversation
BEGIN = "local"  # what Ray calls the address of a cluster that is yet to be begun
LONGEST_ROOT = 16  # letters: Ray puts sockets far below it, and a socket's path may have about 100


class Cluster:
    """Joined or begun; to be closed."""

    def __init__(self, engine: Engine) -> None:
        address = engine.address or os.environ.get("RAY_ADDRESS") or BEGIN
        _check_address(address)
        self.ray = _import_ray()
        self.folder: Path | None = None
        quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
        if address == BEGIN:
            self._begin(engine, quiet)
        else:
            self._join(address, quiet)
        if threading.current_thread() is threading.main_thread():
            # Ray's own handler prints where it was hit, and the run would not close its cluster.
            end_politely()

    def _join(self, address: str, quiet: dict[str, Any]) -> None:
        try:
            with _unheard():
                self.ray.init(address=address, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise RciError(f"there is no Ray cluster to join at {address!r}: {last_line(error)}") from None

    def _begin(self, engine: Engine, quiet: dict[str, Any]) -> None:
        cores = len(available_cores())
        if engine.workers is not None and engine.workers > cores:
            raise RciError(
                f"{engine.workers} workers were asked for, but this machine has only {cores} cores."
            )
        root = tempfile.gettempdir()
        root = root if len(root) <= LONGEST_ROOT else "/tmp"
        remove_stale_folders(CLUSTER, root)  # of runs that were killed
        self.folder = own_folder(CLUSTER, root)  # else its logs would pile up
        try:
            with _unheard():
                self.ray.init(
                    address=BEGIN,
                    num_cpus=engine.workers or cores,
                    include_dashboard=False,
                    object_store_memory=STORE_BYTES,
                    _temp_dir=str(self.folder),
                    **quiet,
                )
        except BaseException as error:
            self.close()
            if isinstance(error, ConnectionError | RuntimeError | ValueError | OSError):
                raise RciError(f"Ray cannot be started on this machine: {last_line(error)}") from error
            raise

    def near(self, kind: type) -> Any:
        """An actor of this kind that takes no core, on the machine of the driver if that is one of the cluster."""
        here = self.ray.get_runtime_context().get_node_id()
        place = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=True)
        return self.ray.remote(num_cpus=0, scheduling_strategy=place)(kind).remote()

    def cores(self) -> int:
        """How many there are now."""
        return int(self.ray.cluster_resources().get("CPU", 0))

    def close(self) -> None:
        """Leave the cluster; one that was begun here ends."""
        self.ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _unheard() -> AbstractContextManager[None]:
    """For Ray's native code, which prints its logging settings on standard error; errors are raised."""
    return printing_to(Path(os.devnull))


def _check_address(address: str) -> None:
    """Refuse an address where no cluster answers: Ray would try for minutes, and then end the process."""
    host, _, port = address.rpartition(":")
    if not host or "//" in host or not port.isdigit():
        return  # none, `auto`, or a kind of address that only Ray knows
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5) as line:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                line.sendall(GREETING)
                if line.recv(len(SETTINGS))[3:4] != SETTINGS[3:4]:
                    raise RciError(
                        f"there is no Ray cluster to join at {address!r}: something else is there."
                    )
    except (OSError, OverflowError) as error:
        raise RciError(f"there is no Ray cluster to join at {address!r}: {error}.") from None


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")  # no word of raylets on standard output
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError as error:
        raise RciError(f"the engine 'ray' needs Ray: pip install 'rci[ray]' ({error}).") from None
    return ray


def last_line(error: Exception) -> str:
    """The sentence at the end of a long story."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"{lines[-1].strip().rstrip('.')}."
