"""`rci bench serve`: how soon the labeler is there, how smoothly it draws, and whether labels get lost.

A real server in its own process, real HTTP, and for what is seen a real browser (playwright and Chromium).
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from rci.data.errors import RciError
from rci.data.store import write
from rci.data.types import Episodes
from rci.labeling.people.sessions.session import read_session
from rci.tasks.highway.physics.layout import LANE_WIDTH, MAX_SPEED, PERCEPTION, TASK_LANES

Row = dict[str, Any]
ROWS = 5  # that bench_serve gives
EPISODES, STEPS = 5000, 100
VEHICLES = 50  # in sight besides the ego
ANNOTATORS = ("ann", "bob")
COMMAND = "from rci.cli.main import main; main()"
BROWSER = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


def bench_serve(labels: int = 10_000, seconds: float = 3.0) -> Iterator[Row]:
    """Rows of `rci bench serve`. labels: by two annotators together; seconds: how long frames are counted."""
    chromium, playwright = _browser()
    if not len(ANNOTATORS) <= labels <= len(ANNOTATORS) * EPISODES:
        raise RciError(f"labels must be {len(ANNOTATORS)} to {len(ANNOTATORS) * EPISODES}, got {labels}.")
    with tempfile.TemporaryDirectory(prefix="rci-bench-") as folder:
        place = Path(folder)
        write(place / "many", _drives(EPISODES, STEPS, cars=4))
        write(place / "crowded", _drives(2, 600, cars=VEHICLES))
        began = time.perf_counter()
        with _serving(place / "many", place / "seen") as links:
            yield _row("serve: start", {"episodes": EPISODES}, time.perf_counter() - began, "s")
            with playwright() as driver:
                running = driver.chromium.launch(executable_path=chromium, args=list(BROWSER))
                yield from _first_paint(running, links[0])
                with _serving(place / "crowded", place / "crowd") as crowded:
                    yield _frames(running, crowded[0], seconds)
                running.close()
        yield _many_labels(place, labels)


def _first_paint(browser: Any, link: str) -> Iterator[Row]:
    page = browser.new_page()
    page.goto(link)
    page.wait_for_selector("body[data-state=ready]")
    page.wait_for_function("() => window.rciFrames && window.rciFrames.drawn > 0")
    drawn = page.evaluate("() => performance.now()")
    paint = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    page.close()
    for name, value in (("first paint", paint), ("first episode drawn", drawn)):
        yield _row(f"serve: {name}", {"episodes": EPISODES}, value / 1000, "s")


def _frames(browser: Any, link: str, seconds: float) -> Row:
    """Frames that the page draws in a second while it plays, and how much of the time its thread is busy."""
    page = browser.new_page(viewport={"width": 1600, "height": 900})
    page.goto(link)
    page.wait_for_selector("body[data-state=ready]")
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable")

    def reading() -> tuple[float, float, float]:
        found = {m["name"]: m["value"] for m in metrics.send("Performance.getMetrics")["metrics"]}
        return page.evaluate("() => window.rciFrames.drawn"), found["Timestamp"], found["TaskDuration"]

    page.wait_for_timeout(500)
    frames, clock, busy = reading()
    page.wait_for_timeout(seconds * 1000)
    later = reading()
    page.close()
    passed = later[1] - clock
    config = {"vehicles": VEHICLES, "busy": round((later[2] - busy) / passed, 3)}
    return _row("serve: frames", config, (later[0] - frames) / passed, "frames/s")


def _many_labels(place: Path, labels: int) -> Row:
    """Everybody labels at the same time; then the folder is asked what was lost or came twice."""
    each = labels // len(ANNOTATORS)
    with _serving(place / "many", place / "labelled", ANNOTATORS) as links:
        began = time.perf_counter()
        threads = [
            threading.Thread(target=_label, args=(name, link, each)) for name, link in zip(ANNOTATORS, links)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        passed = time.perf_counter() - began
    session = read_session(place / "labelled")
    found = [(answer.annotator, answer.item) for answer in session.answers()]
    lines = len((place / "labelled" / "answers.jsonl").read_bytes().splitlines())
    given = each * len(ANNOTATORS)
    config = {"labels": given, "annotators": len(ANNOTATORS)}
    config |= {"lost": given - len(set(found)), "doubled": lines - len(set(found))}
    return _row("serve: labels", config, given / passed, "labels/s")


def _label(name: str, link: str, count: int) -> None:
    """One annotator: what is next, an answer, and so on."""
    address = urlsplit(link)
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    connection.request("GET", f"{address.path}api/session")
    state = json.loads(connection.getresponse().read())
    headers = {"Origin": f"http://{address.netloc}", "Content-Type": "application/json"}
    for number in range(count):
        answer = {
            "id": f"label-{number:06}-of-{name}", "item": state["next"], "verdict": "stop",
            "stop_index": number % STEPS, "seconds": 1.0, "pace": 5.0, "watched": number % STEPS + 1,
        }  # fmt: skip
        connection.request("POST", f"{address.path}api/answers", json.dumps(answer), headers)
        response = connection.getresponse()
        state = json.loads(response.read())
        if response.status != 200:
            raise RciError(f"the server refused a label: {state}.")
    connection.close()


@contextmanager
def _serving(
    episodes: Path, answers: Path, annotators: Sequence[str] = ANNOTATORS[:1]
) -> Iterator[list[str]]:
    """A server, and the links that it prints."""
    names = [word for name in annotators for word in ("--annotator", name)]
    words = ["serve", str(episodes), "--labels", str(answers), "--port", "0", *names]
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True)
    links = []
    for line in process.stdout or ():
        if "http://" in line:
            links.append(line.split()[-1])
        if len(links) == len(annotators):
            break
    else:
        raise RciError("the server did not start.")
    try:
        yield links
    finally:
        process.terminate()
        process.communicate()


def _drives(episodes: int, steps: int, cars: int) -> Episodes:
    """Drives among cars that stay in sight; made up, since only their number matters here."""
    rng = np.random.default_rng(0)
    along = np.linspace(-28.0, 95.0, cars) / PERCEPTION
    lanes = np.arange(cars) % TASK_LANES - 1  # seen from the second lane
    obs = np.zeros((steps + 1, cars + 1, 7), np.float32)
    obs[..., 0], obs[..., 5] = 1.0, 1.0
    obs[:, 1:, 1] = along + 0.01 * np.sin(np.arange(steps + 1) / 7.0)[:, None]
    obs[:, 0, 2] = LANE_WIDTH / (LANE_WIDTH * TASK_LANES)
    obs[:, 1:, 2] = lanes / TASK_LANES
    obs[:, 0, 3] = 25.0 / (2 * MAX_SPEED)
    return Episodes(
        obs=np.tile(obs, (episodes, 1, 1)),
        action=np.zeros((episodes * steps, 2), np.float32),
        reward=rng.normal(size=episodes * steps).astype(np.float32),
        lengths=np.full(episodes, steps),
        terminated=np.zeros(episodes, bool),
        truncated=np.ones(episodes, bool),
        task="highway",
    )


def _row(name: str, config: Row, value: float, unit: str) -> Row:
    return {"name": name, "config": config, "value": value, "unit": unit}


def _browser() -> tuple[str, Any]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        raise RciError(
            "what is seen is measured in a browser: install the extra 'dev' (it has playwright) and Chromium."
        )
    return program, sync_playwright
