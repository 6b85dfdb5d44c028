"""People at work: the page in a real browser, by keyboard, by touch, with reloads, kills and a second annotator."""

from __future__ import annotations

import re
import shutil
import signal
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import ragged, sparse_costs
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright
from serving import Server, server

import rci
from rci.labeling.session import read_session
from rci.tasks.highway.scene import observe

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STOPS = [3, None, 7, 2, None] * 4  # None: safe to the end


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium")
    assert program, "these tests need Chromium: `make test` installs it, or `apt-get install chromium`"
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=QUIET)
        yield running
        running.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A visitor of their own; whatever a page complains of fails the test."""
    complaints: list[str] = []
    visitor = browser.new_context(viewport={"width": 1200, "height": 800})
    visitor.on("weberror", lambda error: complaints.append(str(error.error)))
    visitor.on(
        "console", lambda message: complaints.append(message.text) if message.type == "error" else None
    )
    yield visitor
    visitor.close()
    told = [text for text in complaints if "ERR_CONNECTION_REFUSED" not in text]  # a killed server
    assert not told


def roads(steps: int = 12, episodes: int = 20) -> rci.Episodes:
    """Drives on the highway, each with a car of its own ahead."""
    drives = []
    for i in range(episodes):
        ego = np.stack([np.zeros(steps + 1), np.full(steps + 1, 4.0 * (i % 4))], -1)
        cars = np.array([[60.0 - i, 0.0], [80.0, 4.0], [90.0, 8.0], [120.0, 12.0]])
        obs = np.stack([observe(place, cars, 25.0, 22.0) for place in ego]).astype(np.float32)
        drives.append(
            rci.Episode(obs, np.zeros((steps, 2), np.float32), np.zeros(steps, np.float32), False, True)
        )
    return rci.Episodes.from_list(drives, task="highway")


def ready(page: Page) -> None:
    page.wait_for_selector("body[data-state=ready]")


def visit(context: BrowserContext, link: str, autoplay: bool = False) -> Page:
    page = context.new_page()
    page.goto(link)
    ready(page)
    if not autoplay and page.get_attribute("#autoplay", "aria-pressed") == "true":
        page.keyboard.press("a")
        page.keyboard.press("Home")
    return page


def at(page: Page, place: int) -> None:
    """Wait until the item at this place of the queue is shown and takes answers."""
    expect(page.locator("#position")).to_have_text(re.compile(rf"^{place} of"), timeout=20_000)
    ready(page)


def position(page: Page) -> str:
    return page.inner_text("#position")


def go_to(page: Page, moment: int) -> None:
    """By keys alone: to the start, then on."""
    page.keyboard.press("Home")
    for _ in range(moment):
        page.keyboard.press("ArrowRight")
    expect(page.locator("#step")).to_contain_text(f"step {moment} of")


def label(page: Page, stop: int | None) -> None:
    """One episode: to the moment, then one key; the next one is there when this returns."""
    before = position(page)
    if stop is not None:
        go_to(page, stop + 1)
    page.keyboard.press("Enter" if stop is None else "s")
    page.wait_for_function(
        "before => document.body.dataset.state === 'finished' || (document.body.dataset.state === 'ready' && "
        "document.getElementById('position').innerText !== before)",
        arg=before,
    )


def answers(one: Server, folder, name: str = "ann") -> list[tuple[int, int | None]]:
    return [
        (a.episode, None if a.stop_index < 0 else a.stop_index)
        for a in read_session(folder / "answers").answers([name])
    ]


def test_twenty_episodes_by_keyboard_alone(tmp_path, context):
    with server(tmp_path, roads(), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        expect(page.locator("#annotator")).to_have_text("ann")
        assert position(page).startswith("1 of 20")
        for stop in STOPS:
            label(page, stop)
        expect(page.locator("#finished")).to_be_visible()
        assert page.get_attribute("body", "data-state") == "finished"
        assert answers(one, tmp_path) == list(enumerate(STOPS))
    times = [a.seconds for a in read_session(tmp_path / "answers").answers()]
    assert all(seconds is not None and 0 < seconds < 60 for seconds in times)


def test_undo_brings_back_the_episode_and_takes_back_the_label(tmp_path, context):
    with server(tmp_path, roads(episodes=4), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        for stop in (3, None):
            label(page, stop)
        page.keyboard.press("Control+z")
        at(page, 2)
        assert answers(one, tmp_path) == [(0, 3)]
        expect(page.locator("#answer")).to_be_hidden()
        label(page, 5)
        assert answers(one, tmp_path) == [(0, 3), (1, 5)]
        page.keyboard.press("u")
        at(page, 4)
        assert read_session(tmp_path / "answers").answers()[2].verdict == "unsure"


def test_a_reload_goes_on_where_it_was_and_can_still_undo(tmp_path, context):
    with server(tmp_path, roads(episodes=4), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        label(page, 3)
        page.reload()
        ready(page)
        assert position(page).startswith("2 of 4")
        page.keyboard.press("Control+z")
        at(page, 1)
        assert read_session(tmp_path / "answers").answers() == []


def test_an_answer_can_be_looked_at_and_replaced(tmp_path, context):
    with server(tmp_path, roads(episodes=4), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        label(page, 3)
        page.keyboard.press("p")
        at(page, 1)
        expect(page.locator("#answer")).to_contain_text("4")
        ready(page)
        page.keyboard.press("Enter")
        at(page, 2)
        assert answers(one, tmp_path) == [(0, None)]


def test_two_annotators_at_once(tmp_path, browser, context):
    with server(tmp_path, roads(episodes=6), "--annotator", "ann", "--annotator", "bob") as one:
        other = browser.new_context()
        ann, bob = visit(context, one.links["ann"]), visit(other, one.links["bob"])
        for i in range(6):
            label(ann, i)
            label(bob, None)
        assert answers(one, tmp_path, "ann") == [(i, i) for i in range(6)]
        assert answers(one, tmp_path, "bob") == [(i, None) for i in range(6)]
        ann.goto(one.links["ann"] + "progress.html")
        expect(ann.locator("body")).to_contain_text("bob")
        other.close()


def test_one_answer_each_shows_different_episodes(tmp_path, browser, context):
    with server(
        tmp_path, roads(episodes=6), "--annotator", "ann", "--annotator", "bob", "--votes", "1"
    ) as one:
        other = browser.new_context()
        ann, bob = visit(context, one.links["ann"]), visit(other, one.links["bob"])
        for _ in range(3):
            label(ann, 2)
            label(bob, 4)
        found = read_session(tmp_path / "answers").answers()
        assert sorted(a.episode for a in found) == list(range(6))
        other.close()


def test_a_killed_server_loses_nothing_and_the_page_goes_on(tmp_path, context):
    one = server(tmp_path, roads(episodes=6), "--annotator", "ann").start()
    page = visit(context, one.links["ann"])
    port = one.client().link.port
    label(page, 3)
    one.stop(signal.SIGKILL)
    go_to(page, 6)
    page.keyboard.press("s")  # nobody is there to hear it
    expect(page.locator("#banner")).to_be_visible()
    with server(tmp_path, roads(episodes=6), "--annotator", "ann", "--port", str(port)) as again:
        expect(page.locator("#banner")).to_be_hidden(timeout=20_000)
        page.wait_for_function(
            "document.getElementById('position').innerText.startsWith('3 of')", timeout=20_000
        )
        ready(page)
        label(page, None)
        assert answers(again, tmp_path) == [(0, 3), (1, 5), (2, None)]


def test_playing_by_key(tmp_path, context):
    with server(tmp_path, roads(steps=60, episodes=2), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        step = page.locator("#step")
        for key, where in (
            ("End", 60), ("Home", 0), ("ArrowRight", 1), ("Shift+ArrowRight", 11), ("ArrowLeft", 10),
            ("Shift+ArrowLeft", 0), ("ArrowLeft", 0),
        ):  # fmt: skip
            page.keyboard.press(key)
            expect(step).to_contain_text(f"step {where} of 60")
        page.keyboard.press("]")
        expect(page.locator("#speed")).to_contain_text("2")
        for _ in range(6):
            page.keyboard.press("]")
        expect(page.locator("#speed")).to_contain_text("8")
        page.keyboard.press("Space")
        expect(step).to_contain_text("step 60 of 60", timeout=10_000)
        for _ in range(9):
            page.keyboard.press("[")
        expect(page.locator("#speed")).to_contain_text("0.25")
        page.keyboard.press("?")
        expect(page.locator("#help")).to_be_visible()
        page.keyboard.press("s")
        page.keyboard.press("Escape")
        expect(page.locator("#help")).to_be_hidden()
        assert read_session(tmp_path / "answers").answers() == []


def test_the_pace_of_a_stop_is_recorded(tmp_path, context):
    with server(tmp_path, roads(steps=60, episodes=3), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"], autoplay=True)
        page.wait_for_function("() => parseInt(document.getElementById('step').innerText.split(' ')[1]) > 2")
        page.keyboard.press("s")
        at(page, 2)
        page.keyboard.press("Space")
        page.keyboard.press("s")
        at(page, 3)
    moving, paused = read_session(tmp_path / "answers").answers()
    assert moving.pace == 5.0
    assert moving.stop_index >= 2
    assert paused.pace == 0.0


def test_a_key_that_is_held_labels_once(tmp_path, context):
    with server(tmp_path, roads(episodes=4), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        for _ in range(5):
            page.keyboard.down("Enter")  # the second and later ones are repetitions
        page.keyboard.up("Enter")
        at(page, 2)
        assert len(read_session(tmp_path / "answers").answers()) == 1


def test_a_phone(tmp_path, browser):
    with server(tmp_path, roads(episodes=3), "--annotator", "ann") as one:
        phone = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
        page = visit(phone, one.links["ann"])
        box = page.locator("#stop").bounding_box()
        assert box["y"] > 370  # under the thumb
        assert box["y"] + box["height"] <= 740
        assert box["width"] >= 100
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.locator("#stop").tap()
        at(page, 2)
        page.locator("#safe").tap()
        at(page, 3)
        assert len(answers(one, tmp_path)) == 2
        phone.close()


def test_a_review_shows_the_costs_and_takes_another_answer(tmp_path, context):
    episodes = roads(episodes=3)
    labels = rci.label(episodes, [6, None, 3])
    rci.save(sparse_costs(labels), tmp_path / "costs")
    with server(tmp_path, episodes, "--annotator", "ann", "--costs", str(tmp_path / "costs")) as one:
        page = visit(context, one.links["ann"])
        expect(page.locator("#heat")).to_be_hidden()
        page.keyboard.press("r")
        expect(page.locator("#heat")).to_be_visible()
        page.keyboard.press("m")
        expect(page.locator("#step")).to_contain_text("step 7 of 12")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("s")
        expect(page.locator("#answer")).to_contain_text("6")
        assert position(page).startswith("1 of")
    (answer,) = read_session(tmp_path / "answers").answers()
    assert (answer.stop_index, answer.review) == (5, True)


def test_nothing_gives_the_answer_away(tmp_path, context):
    with server(
        tmp_path, roads(episodes=2), "--annotator", "ann", "--instructions", "Stop below <b>40 m</b>."
    ) as one:
        asked = []
        context.on("request", lambda request: asked.append(request.url))
        page = visit(context, one.links["ann"])
        expect(page.locator("#instructions")).to_have_text("Stop below <b>40 m</b>.")
        page.keyboard.press("t")
        page.keyboard.press("r")
        label(page, 3)
        assert not [url for url in asked if "truth" in url or "costs" in url]
        assert all(url.startswith(one.links["ann"]) for url in asked)


def test_what_is_revealed_on_demand(tmp_path, context, point_episodes):
    with server(tmp_path, point_episodes, "--annotator", "ann", "--reveal") as one:
        page = visit(context, one.links["ann"])
        expect(page.locator("#note")).to_be_hidden()
        page.keyboard.press("t")
        expect(page.locator("#note")).to_be_visible()


def test_pictures_and_signals(tmp_path, context):
    pictures = (np.arange(6)[:, None, None] * np.full((1, 8, 8), 40)).astype(np.uint8)
    one_film = rci.Episode(pictures, np.zeros((5, 1)), np.zeros(5), False, True)
    films = rci.Episodes.from_list([one_film, one_film])
    (tmp_path / "films").mkdir()
    with server(tmp_path / "films", films, "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        go_to(page, 3)
        label(page, None)
    (tmp_path / "signals").mkdir()
    with server(tmp_path / "signals", ragged([5, 8]), "--annotator", "ann") as one:
        page = visit(context, one.links["ann"])
        label(page, 2)
        assert answers(one, tmp_path / "signals") == [(0, 2)]


def test_a_link_that_is_not_valid_says_so(tmp_path, browser):
    with server(tmp_path, roads(episodes=2), "--annotator", "ann") as one:
        page = browser.new_page()
        assert page.goto(one.links["ann"].rsplit("/", 2)[0] + "/wrong/").status == 403
        expect(page.locator("body")).to_contain_text("ask whoever started the server")
        page.close()
