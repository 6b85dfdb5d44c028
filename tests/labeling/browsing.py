"""A real browser for tests of the labeler: a visitor, and what they do by keys alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


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


def ready(page: Page) -> None:
    page.wait_for_selector("body[data-state=ready]")


def visit(context: BrowserContext, link: str, autoplay: bool = False) -> Page:
    page = context.new_page()
    page.goto(link)
    ready(page)
    if not autoplay and page.get_attribute("#autoplay", "aria-pressed") == "true":
        page.keyboard.press("a")
        if page.get_attribute("#play", "aria-label") == "Pause":
            page.keyboard.press("Space")
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


def confirm_safe(page: Page) -> None:
    """Whoever calls safe what they have not seen is asked again; in haste, the second press does not count."""
    expect(page.locator("#ask")).to_be_visible()
    page.wait_for_timeout(220)
    page.keyboard.press("Enter")


def label(page: Page, stop: int | None) -> None:
    """One episode: to the moment, then one key; the next one is there when this returns."""
    before = position(page)
    if stop is not None:
        go_to(page, stop + 1)
    page.keyboard.press("Enter" if stop is None else "s")
    if stop is None:  # a short film may have been seen whole before it was paused; then nothing is asked
        page.wait_for_function(
            "before => !document.getElementById('ask').hidden || document.body.dataset.state === 'finished' || "
            "document.getElementById('position').innerText !== before",
            arg=before,
        )
        if page.is_visible("#ask"):
            confirm_safe(page)
    page.wait_for_function(
        "before => document.body.dataset.state === 'finished' || (document.body.dataset.state === 'ready' && "
        "document.getElementById('position').innerText !== before)",
        arg=before,
    )
    if (
        page.get_attribute("body", "data-state") == "ready"
    ):  # nothing of an answer may be seen on the next episode
        assert not page.is_visible("#answer")
        assert (
            page.inner_text("#step").startswith("step 0 of")
            or page.get_attribute("#autoplay", "aria-pressed") == "true"
        )
