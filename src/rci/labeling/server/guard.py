"""What every request passes before anything reads it, and every answer on its way out.

A page of a foreign site can make a browser send requests to this machine, and a foreign name can be made to point to
it. So a request must name an address that this server goes by (`Host`), and one that changes something must come from
a page of this server (`Origin`). Who may label is decided by the token in the address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 4096  # of a request's body; an answer has about 250
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Refuses requests that do not come from a page of this server. hosts: names it goes by; None, any address."""

    def __init__(self, app: ASGIApp, hosts: Collection[str] | None) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # nothing here speaks through web sockets
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refused = self._refusal(scope["method"], Headers(scope=scope))
        await (refused or self.app)(scope, receive, send_guarded)

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self._known(host):
            return refuse(
                403, f"this server does not go by the name {host[:100]!r}; open the link as it was printed."
            )
        if method in ("GET", "HEAD"):
            return None
        if headers.get("origin") != f"http://{host}":
            return refuse(403, "only pages of this server may change something: the Origin is another one.")
        length = headers.get("content-length", "")
        if not length.isascii() or not length.isdigit():
            return refuse(411, "a request needs a Content-Length.")
        if len(length) > 9 or int(length) > MOST_BYTES:
            return refuse(413, f"a request has at most {MOST_BYTES} bytes, this one has {length[:20]}.")
        if headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
            return refuse(415, "a request must be of type application/json.")
        return None

    def _known(self, host: str) -> bool:
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if self.hosts is not None:
            return name in self.hosts
        # Listening to the whole network, the machine has addresses that it does not know itself. A foreign name that
        # points here is what must be refused, and an address is not a name.
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return name in LOOPBACK
        return True


def refuse(status: int, sentence: str) -> JSONResponse:
    """An error as every part of the server reports it: one sentence."""
    return JSONResponse({"error": sentence}, status)
