"""A real `rci serve` in its own process, and a client that can also misbehave."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import rci
from rci.data.types import Episodes

LINK = re.compile(r"^(.+?)  +\d+ of \d+ labeled  (http://\S+/s/\S+/)$", re.MULTILINE)
COMMAND = [sys.executable, "-c", "from rci.cli.main import main; main()"]


@dataclass
class Server:
    """A running server; `links` has the address of each annotator."""

    command: list[str]
    errors: Path
    process: subprocess.Popen[str] | None = None
    links: dict[str, str] = field(default_factory=dict)
    said: str = ""

    def start(self) -> Server:
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.said = ""
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C ends" in line:
                break
        else:
            self.stop()
            raise AssertionError(f"the server did not start: {self.said} {self.errors.read_text()}")
        self.links = {name.strip(): link for name, link in LINK.findall(self.said)}
        return self

    def stop(self, how: int = signal.SIGINT) -> int:
        """End the server and give its exit code."""
        self.process.send_signal(how)
        self.said += self.process.communicate(timeout=20)[0]
        return self.process.returncode

    def client(self, annotator: str | None = None) -> Client:
        return Client(self.links[annotator] if annotator else next(iter(self.links.values())))

    def __enter__(self) -> Server:
        return self if self.process else self.start()

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()
        assert "Traceback" not in self.errors.read_text()


def server(folder: Path, episodes: Episodes, *options: str) -> Server:
    """`rci serve` on these episodes, on any free port."""
    place = folder / "episodes"
    if not place.exists():
        rci.save(episodes, place)
    port = [] if "--port" in options else ["--port", "0"]
    command = [*COMMAND, "serve", str(place), "--labels", str(folder / "answers"), *port, *options]
    return Server(command, folder / "errors.txt")


class Client:
    """One connection to a server, by the link of one annotator."""

    def __init__(self, link: str) -> None:
        self.link = urlsplit(link)
        self.connection = http.client.HTTPConnection(self.link.netloc, timeout=20)

    def __del__(self) -> None:
        self.connection.close()

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        """Any request below the link; a path with a leading slash is taken as it is."""
        target = path if path.startswith("/") else self.link.path + path
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, target, body, names)
        answer = self.connection.getresponse()
        self.headers = answer.headers
        return answer.status, answer.read()

    def get(self, path: str) -> Any:
        status, body = self.request("GET", path)
        assert status == 200, (status, body)
        return json.loads(body)

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        usual = {"Origin": f"http://{self.link.netloc}", "Content_Type": "application/json"}
        status, answer = self.request("POST", path, data, **(usual | headers))
        return status, json.loads(answer)

    def answer(self, action_id: str, item: str, verdict: str = "safe", **more: Any) -> tuple[int, Any]:
        usual = {"seconds": 1.0, "pace": 5.0, "watched": 1}
        return self.post("api/answers", {"id": action_id, "item": item, "verdict": verdict, **usual, **more})
