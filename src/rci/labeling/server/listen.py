"""The server itself: a socket, uvicorn, and the links that are told to whoever started it."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable, Mapping

import uvicorn
from starlette.applications import Starlette

from rci.data.errors import RciError
from rci.labeling.server.guard import LOOPBACK

DEFAULT_PORT = 8765
MOST_CONNECTIONS = 200
EVERYWHERE = ("0.0.0.0", "::")


def open_socket(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a port, the usual one or, if it is taken, any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise RciError(f"{host!r} is no address of this machine: {error.strerror or error}.") from None
    for number in (DEFAULT_PORT, 0) if port is None else (port,):
        # With the protocol named, asyncio sends small answers at once; otherwise each waits 40 ms for its other half.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(MOST_CONNECTIONS)
            return listening
        except OSError as error:
            listening.close()
            if port is None and error.errno == errno.EADDRINUSE and number:
                continue
            cure = "; choose another --port." if error.errno in (errno.EADDRINUSE, errno.EACCES) else "."
            raise RciError(f"cannot listen on {host}:{number}: {error.strerror or error}{cure}") from None
    raise AssertionError("some port is always free")  # pragma: no cover


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def known_names(host: str) -> tuple[str, ...] | None:
    """The names that a server goes by; None where it listens to the whole network and has addresses of all kinds."""
    if host in EVERYWHERE:
        return None
    own = f"[{host}]" if ":" in host else host
    return (*LOOPBACK, own) if is_loopback(host) else (own,)


def links(listening: socket.socket, host: str, tokens: Mapping[str, str]) -> dict[str, str]:
    """The link of each annotator."""
    port = listening.getsockname()[1]
    shown = socket.gethostname() if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    if host in EVERYWHERE:
        shown = _own_address()
    return {name: f"http://{shown}:{port}/s/{token}/" for name, token in tokens.items()}


def run_server(app: Starlette, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until somebody interrupts. ready: called once requests are answered."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        lifespan="off",
        ws="none",
    )
    server = _Server(config, ready)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass  # that is how a server is meant to end
    finally:
        listening.close()


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _own_address() -> str:
    """The address under which other machines most likely reach this one; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address kept for documentation
            return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
