"""People at work: the page in a real browser, by keyboard, by touch, with reloads, kills and a second annotator."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from browsing import at, browser, confirm_safe, context, go_to, label, position, ready, visit  # noqa: F401
from conftest import ragged, sparse_costs
from playwright.sync_api import expect
from serving import Server, server

import rci
from rci.labeling.people.answers import Answer
from rci.labeling.people.sessions.session import read_session
from rci.tasks.fetch_reach.hazard import GOAL, GRIPPER, START
from rci.tasks.highway.scene import observe

pytestmark = pytest.mark.browser
STOPS = [3, None, 7, 2, None] * 4  # None: safe to the end
PEOPLE = [f"person {number}" for number in range(12)]


@dataclass
class Person:
    """One of those who label the same twenty episodes of sixty steps, none of which the others touch."""

    name: str
    link: str
    folder: Path

    def said(self) -> list[Answer]:
        return [a for a in read_session(self.folder / "answers").answers() if a.annotator == self.name]

    def stops(self) -> list[tuple[int, int | None]]:
        return [(a.episode, None if a.stop_index < 0 else a.stop_index) for a in self.said()]


@pytest.fixture(scope="module")
def people(tmp_path_factory) -> Iterator[Iterator[Person]]:
    """One server for all tests that only need somebody who labels."""
    folder = tmp_path_factory.mktemp("people")
    names = [word for name in PEOPLE for word in ("--annotator", name)]
    with server(folder, roads(steps=60), *names) as one:
        yield (Person(name, one.links[name], folder) for name in PEOPLE)


@pytest.fixture
def person(people) -> Person:
    return next(people)


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


def answers(one: Server, folder, name: str = "ann") -> list[tuple[int, int | None]]:
    return [
        (a.episode, None if a.stop_index < 0 else a.stop_index)
        for a in read_session(folder / "answers").answers([name])
    ]


def test_twenty_episodes_by_keyboard_alone(person, browser, context):
    page = visit(context, person.link)
    expect(page.locator("#annotator")).to_have_text(person.name)
    assert position(page).startswith("1 of 20")
    for stop in STOPS:
        label(page, stop)
    expect(page.locator("#finished")).to_be_visible()
    assert page.get_attribute("body", "data-state") == "finished"
    assert person.stops() == list(enumerate(STOPS))
    times = [a.seconds for a in person.said()]
    assert all(seconds is not None and 0 < seconds < 60 for seconds in times)

    other = browser.new_context()  # the server knows which one was the last, whatever the browser remembers
    again = other.new_page()
    again.goto(person.link)
    expect(again.locator("#finished")).to_be_visible()
    again.keyboard.press("p")
    at(again, 20)
    expect(again.locator("#answer")).to_contain_text("safe to the end")
    other.close()


def test_undo_brings_back_the_episode_and_takes_back_the_label(person, context):
    page = visit(context, person.link)
    for stop in (3, None):
        label(page, stop)
    page.keyboard.press("Control+z")
    at(page, 2)
    assert person.stops() == [(0, 3)]
    expect(page.locator("#answer")).to_be_hidden()
    label(page, 5)
    assert person.stops() == [(0, 3), (1, 5)]
    page.keyboard.press("u")
    at(page, 4)
    assert person.said()[2].verdict == "unsure"


def test_a_reload_goes_on_where_it_was_and_can_still_undo(person, context):
    page = visit(context, person.link)
    label(page, 3)
    page.reload()
    ready(page)
    assert position(page).startswith("2 of 20")
    page.keyboard.press("Control+z")
    at(page, 1)
    assert person.said() == []


def test_an_answer_can_be_looked_at_and_replaced(person, context):
    page = visit(context, person.link)
    label(page, 3)
    page.keyboard.press("p")
    at(page, 1)
    expect(page.locator("#answer")).to_contain_text("4")
    ready(page)
    page.keyboard.press("Enter")
    confirm_safe(page)
    at(page, 2)
    assert person.stops() == [(0, None)]


def test_two_annotators_at_once(people, browser, context):
    one, two = next(people), next(people)
    other = browser.new_context()
    ann, bob = visit(context, one.link), visit(other, two.link)
    for i in range(3):
        label(ann, i)
        label(bob, None)
    assert one.stops() == [(i, i) for i in range(3)]
    assert two.stops() == [(i, None) for i in range(3)]
    ann.goto(one.link + "progress.html")
    expect(ann.locator("body")).to_contain_text(two.name)
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


def test_playing_by_key(person, context):
    page = visit(context, person.link)
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
    assert person.said() == []


def test_the_pace_of_a_stop_is_recorded(person, context):
    page = visit(context, person.link, autoplay=True)
    page.wait_for_function("() => parseInt(document.getElementById('step').innerText.split(' ')[1]) > 2")
    page.keyboard.press("s")
    at(page, 2)
    page.keyboard.press("Space")
    page.keyboard.press("s")
    at(page, 3)
    moving, paused = person.said()
    assert moving.pace == 5.0
    assert moving.stop_index >= 2
    assert paused.pace == 0.0


def test_a_key_that_is_held_labels_once(person, context):
    page = visit(context, person.link)
    for _ in range(2):
        for _ in range(5):
            page.keyboard.down("Enter")  # the second and later ones are repetitions
        page.keyboard.up("Enter")
        assert person.said() == []
        page.keyboard.press("Escape")
    go_to(page, 54)  # enough of sixty steps
    for _ in range(5):
        page.keyboard.down("Enter")
    page.keyboard.up("Enter")
    at(page, 2)
    assert len(person.said()) == 1


def test_a_phone(person, browser):
    phone = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    page = visit(phone, person.link)
    box = page.locator("#stop").bounding_box()
    assert box["y"] > 370  # under the thumb
    assert box["y"] + box["height"] <= 740
    assert box["width"] >= 100
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#stop").tap()
    at(page, 2)
    page.locator("#safe").tap()
    page.wait_for_timeout(220)
    page.locator("#ask-ways").get_by_text("Safe to the end").tap()
    at(page, 3)
    assert len(person.said()) == 2
    phone.close()


def test_a_link_that_is_not_valid_says_so(person, browser):
    page = browser.new_page()
    assert page.goto(person.link.rsplit("/", 2)[0] + "/wrong/").status == 403
    expect(page.locator("body")).to_contain_text("ask whoever started the server")
    page.close()


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
        page.keyboard.press("r")
        expect(page.locator("#heat")).to_be_hidden()
        page.keyboard.press("n")
        at(page, 2)
        label(page, None)
        page.keyboard.press("r")
        expect(page.locator("#heat")).to_be_visible()
        page.keyboard.press("r")  # seen is seen
        label(page, 4)
        expect(page.locator("#finished")).to_be_visible()
    said = [(a.stop_index, a.review) for a in read_session(tmp_path / "answers").answers()]
    assert said == [(5, True), (-1, False), (4, True)]


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


def test_the_gripper_is_never_hidden_and_what_is_right_only_on_demand(tmp_path, context):
    obs = np.zeros((3, 16))
    obs[:, GRIPPER] = obs[:, GOAL] = START  # in the middle of the goal
    film = rci.Episode(obs, np.zeros((2, 4)), np.zeros(2), False, True)
    episodes = rci.Episodes.from_list([film], task="fetch-reach")
    with server(tmp_path, episodes, "--annotator", "ann", "--reveal") as one:
        page = visit(context, one.links["ann"])
        expect(page.locator("#note")).to_be_hidden()
        page.keyboard.press("t")
        expect(page.locator("#note")).to_contain_text("the rule never stops")
        blue = page.evaluate(
            """() => {
              const canvas = document.querySelector("#frame canvas");
              const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
              let found = 0;
              for (let i = 0; i < data.length; i += 4) {
                found += data[i] === 0 && data[i + 1] === 114 && data[i + 2] === 178; // --agent: #0072b2
              }
              return found;
            }"""
        )
    assert blue > 2 * 30  # two views, each with a disc of at least 5 pixels' radius


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
