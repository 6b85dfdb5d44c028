"""The labeler on logs of a robot, in a real browser: signals, map, remarks, takeovers, list."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from browsing import at, browser, context, go_to, ready, visit  # noqa: F401
from conftest import ragged
from playwright.sync_api import Page, expect
from serving import server

import rci
from rci.labeling.people.answers import Answer
from rci.labeling.people.sessions.session import read_session

pytestmark = pytest.mark.browser
STEPS = 20
NAMES = ["ann", "bob", "cleo", "dan", "eve"]
# The right-most pixel of a colour on the canvas of a pane, as a share of its width; -1 where there is none.
REACH = """([pane, colour]) => {
  const canvas = document.querySelector(`.pane.${pane} canvas`);
  const { width, height } = canvas;
  const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  let right = -1;
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = data.subarray(i, i + 3);
    if (Math.abs(r - colour[0]) + Math.abs(g - colour[1]) + Math.abs(b - colour[2]) < 24) {
      right = Math.max(right, (i / 4) % width);
    }
  }
  return right / width;
}"""
BLUE = [0, 114, 178]  # --agent: what was observed
FAINT = [179, 213, 232]  # the same at 0.3 on white


def drives(episodes: int = 4) -> rci.Episodes:
    """A robot that goes to the right and up, and turns."""
    plain = ragged([STEPS] * episodes, obs_size=4)
    moment = np.tile(np.arange(STEPS + 1.0), episodes)
    obs = np.stack([moment, moment / 2, np.sin(moment), np.full_like(moment, 3.0)], -1).astype(np.float32)
    arrays = {**plain.arrays(), "obs": obs}
    named = [
        rci.Signal("pose x", "m"),
        rci.Signal("pose y", "m"),
        rci.Signal("turn", "rad"),
        rci.Signal("mode"),
    ]
    signals = rci.Signals(tuple(named), (rci.Signal("gas"), rci.Signal("steer", "rad")), rate=5.0)
    return rci.Episodes(**arrays, signals=signals)


@pytest.fixture(scope="module")
def robots(tmp_path_factory):
    """One server for all; everybody labels the same four drives."""
    folder = tmp_path_factory.mktemp("robots")
    rci.save(rci.label(drives(), [12, None, 3, None]), folder / "episodes-labels")
    names = [word for name in NAMES for word in ("--annotator", name)]
    with server(
        folder, drives(), *names, "--kinds", "near,fast", "--severity", "--takeovers", "--show-stops"
    ) as one:
        yield one, folder


@pytest.fixture
def links(robots) -> Iterator[str]:
    one, folder = robots
    return lambda name: (one.links[name], lambda: read_session(folder / "answers").answers([name]))


def said(page: Page, answers, count: int) -> list[Answer]:
    at(page, count + 1)
    return answers()


def test_nothing_is_drawn_ahead_until_the_answer_is_given(links, context):
    link, _ = links("ann")
    page = visit(context, link)

    def reach(moment: int, pane: str, colour=BLUE) -> float:
        go_to(page, moment)
        return page.evaluate(REACH, [pane, colour])

    page.keyboard.press("End")
    expect(page.locator("#step")).to_have_text("step 20 of 20")
    whole = page.evaluate(REACH, ["curves", BLUE])
    quarter, half = reach(5, "curves"), reach(10, "curves")
    assert quarter < half < whole
    assert half - quarter == pytest.approx(
        (whole - half) / 2, abs=0.01
    )  # at the cursor, although the end was seen
    assert page.evaluate(REACH, ["curves", FAINT]) < half
    assert reach(5, "map") < reach(15, "map")
    assert (
        page.evaluate(REACH, ["map", FAINT]) <= page.evaluate(REACH, ["map", BLUE]) + 0.01
    )  # no more than the dot
    page.keyboard.press("u")
    at(page, 2)
    page.keyboard.press("p")
    at(page, 1)
    assert reach(10, "curves", FAINT) == pytest.approx(whole, abs=0.01)
    expect(page.locator("#recorded")).to_have_text("logs: stop at step 13")


def test_a_stop_asks_for_the_kind_of_danger_and_keeps_what_was_said(links, context):
    link, answers = links("bob")
    page = visit(context, link)
    go_to(page, 4)
    page.keyboard.press("b")
    go_to(page, 9)
    page.keyboard.press("e")
    page.keyboard.press("-")
    page.keyboard.press("-")
    page.keyboard.press("c")
    page.keyboard.type("safe? no: a dog,  unsure")  # letters that are commands elsewhere
    page.keyboard.press("Enter")
    page.keyboard.press("s")
    expect(page.locator("#ask")).to_contain_text("Stop at step 9: which kind of danger?")
    page.keyboard.press("2")
    (first,) = said(page, answers, 1)
    assert (first.stop_index, first.kinds, first.severity) == (8, ("fast",), 0.5)
    assert (first.takeovers, first.note) == (((4, 9),), "safe? no: a dog, unsure")

    go_to(page, 3)
    page.keyboard.press("1")
    page.keyboard.press("2")
    page.keyboard.press("b")
    page.keyboard.press("e")  # nobody drove for no time
    expect(page.locator("#toast")).to_contain_text("The person took over after step 3")
    page.keyboard.press("s")
    second = said(page, answers, 2)[1]
    assert (second.kinds, second.takeovers, second.severity) == (("near", "fast"), ((3, STEPS),), 1.0)

    page.keyboard.press("Control+z")  # what was said besides is still there
    at(page, 2)
    expect(page.locator('[data-do="kind1"]')).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("x")
    expect(page.locator(".drive")).to_have_count(0)
    page.keyboard.press("u")
    assert [(a.verdict, a.kinds, a.takeovers) for a in said(page, answers, 2)][1] == ("unsure", (), ())


def test_whoever_calls_safe_what_was_not_seen_is_asked_again(links, context):
    link, answers = links("cleo")
    context.add_init_script("try { localStorage.setItem('rci-autoplay', 'false') } catch {}")
    page = visit(context, link)
    go_to(page, 3)
    page.keyboard.press("Enter")
    expect(page.locator("#ask-text")).to_have_text(
        "You have seen 3 of 20 steps. Safe to the end nevertheless?"
    )
    page.keyboard.press("Escape")
    expect(page.locator("#ask")).to_be_hidden()
    page.keyboard.press("End")  # a leap shows the end and nothing before it
    page.keyboard.press("Enter")
    expect(page.locator("#ask-text")).to_contain_text("You have seen 4 of 20 steps")
    page.wait_for_timeout(220)
    page.keyboard.press("Enter")
    assert said(page, answers, 1)[0].verdict == "safe"
    go_to(page, 18)
    page.keyboard.press("Enter")
    assert len(said(page, answers, 2)) == 2


def test_signals_are_chosen_and_the_choice_stays(links, context):
    link, _ = links("dan")
    page = visit(context, link)
    assert page.get_attribute(".panes", "data-has") == "map curves"
    page.keyboard.press("g")
    rows = page.locator("#signal-list li label")
    assert [text.strip() for text in rows.all_inner_texts()] == [
        "pose x [m]", "pose y [m]", "turn [rad]", "gas", "steer [rad]", "mode",
    ]  # fmt: skip
    page.get_by_label("turn up").click()
    page.get_by_label("gas", exact=True).uncheck()
    page.select_option("#map-x", label="no map")
    page.keyboard.press("Escape")
    assert page.get_attribute(".panes", "data-has") == "curves"
    page.reload()
    ready(page)
    assert page.get_attribute(".panes", "data-has") == "curves"
    page.keyboard.press("g")
    assert [text.strip() for text in rows.all_inner_texts()][:3] == ["pose x [m]", "turn [rad]", "pose y [m]"]
    expect(page.get_by_label("gas", exact=True)).not_to_be_checked()
    page.select_option("#map-y", label="turn [rad]")
    assert page.get_attribute(".panes", "data-has") == "map curves"
    page.locator("#signals-reset").click()
    expect(page.get_by_label("gas", exact=True)).to_be_checked()


def test_the_list_goes_to_any_recording(links, context):
    link, _ = links("eve")
    page = visit(context, link)
    page.keyboard.press("c")
    page.keyboard.type("a dog")
    page.keyboard.press("Enter")
    page.keyboard.press("u")
    at(page, 2)
    page.keyboard.press("l")
    rows = page.locator("#list-rows li")
    expect(rows).to_have_count(4)
    expect(rows.nth(0)).to_contain_text("unsure")
    page.select_option("#list-filter", "open")
    expect(rows).to_have_count(3)
    page.select_option("#list-filter", "all")
    page.fill("#list-search", "dog")
    expect(rows).to_have_count(1)
    page.fill("#list-search", "4")
    page.keyboard.press("Enter")
    at(page, 4)
    page.keyboard.press("n")  # past the last one: what is still open
    at(page, 2)
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.goto(link + "progress.html")
    expect(page.locator("#annotators td").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('td')].map(e => e.getBoundingClientRect().right))"
    )
    assert right <= 390
