"""The server itself: a socket, uvicorn, and the links that are printed for whoever started it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Callable, Mapping

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from rci.data.errors import RciError
from rci.labeling.server.guard import LOOPBACK

DEFAULT_PORT = 8765
MOST_CONNECTIONS = 200
PATIENCE = 15.0  # seconds in which a request has to arrive in full
EVERYWHERE = ("0.0.0.0", "::")


def open_socket(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a port, the usual one or, if it is taken, any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise _no_address(host, error) from None
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
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                raise RciError(
                    f"cannot listen on {_in_link(host)}:{number}: {error.strerror}; choose another --port."
                ) from None
            raise _no_address(host, error) from None
    raise AssertionError("some port is always free")  # pragma: no cover


def _no_address(host: str, error: OSError) -> RciError:
    return RciError(
        f"{host!r} is not an address of this machine: {error.strerror or error}. --host 127.0.0.1 is for this machine "
        "alone, 0.0.0.0 for the network."
    )


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
    return (*LOOPBACK, _in_link(host)) if is_loopback(host) else (_in_link(host),)


def links(listening: socket.socket, host: str, tokens: Mapping[str, str]) -> dict[str, str]:
    """The link of each annotator."""
    port = listening.getsockname()[1]
    shown = _own_address() if host in EVERYWHERE else _in_link(host)
    return {name: f"http://{shown}:{port}/s/{token}/" for name, token in tokens.items()}


def run_server(app: Starlette, listening: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until somebody interrupts. ready: called once requests are answered."""
    config = uvicorn.Config(
        app,
        loop="asyncio",  # the same everywhere, whatever else is installed
        http=_Impatient,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=3,
        proxy_headers=False,
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


class _Impatient(H11Protocol):
    """Ends connections on which a request comes too slowly: a few hundred of them would keep everybody else out."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _watch(self) -> None:
        """Count from the first byte of a request, or from the beginning, until it is here in full."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(PATIENCE, self.transport.close)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """Says when it is ready."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()


def _in_link(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _own_address() -> str:
    """The address under which other machines most likely reach this one; no packet is sent.

    Without a network it is the one for this machine alone. A name would not do: the guard takes none.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address kept for documentation
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"
