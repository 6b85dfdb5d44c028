"""The files of the page hang together and ask for nothing from elsewhere. What they do is tested in a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from importlib import resources

import pytest

FILES = {
    file.name: file.read_text(encoding="utf-8")
    for file in (resources.files("rci.labeling.server") / "static").iterdir()
    if file.is_file()
}
PAGES = sorted(name for name in FILES if name.endswith(".html"))
MODULES = sorted(name for name in FILES if name.endswith(".js"))
SVG_NAMESPACE = "http://www.w3.org/2000/svg"  # a name, not an address that is asked


class Page(HTMLParser):
    """Everything a page refers to, and what the policy of the server would block."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.blocked: list[str] = []
        self.buttons: list[dict[str, str | None]] = []
        self.feed(FILES[name])

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[name] for name in ("href", "src") if name in found]
        self.blocked += [name for name in found if name.startswith("on") or name == "style"]
        if tag == "style" or (tag == "script" and "src" not in found):
            self.blocked.append(tag)
        if tag == "button":
            self.buttons.append(found)


def imports(module: str) -> set[str]:
    return set(re.findall(r'from "\./([^"]+)"', FILES[module]))


def reached(page: str) -> set[str]:
    """The modules that a page loads, directly or through others."""
    found, new = set(), {link for link in Page(page).links if link.endswith(".js")}
    while new:
        found |= new
        new = {name for module in new for name in imports(module)} - found
    return found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_refers_only_to_what_is_there(name):
    page = Page(name)
    assert page.links
    for link in page.links:
        if link.startswith("#"):
            assert link[1:] in page.ids
        elif link != "./":
            assert link in FILES


@pytest.mark.parametrize("name", PAGES)
def test_nothing_that_the_servers_policy_blocks(name):
    page = Page(name)
    assert page.blocked == []
    assert len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize("name", MODULES)
def test_every_imported_name_is_exported(name):
    for names, module in re.findall(r'import \{([^}]*)\} from "\./([^"]+)"', FILES[name]):
        exported = set(re.findall(r"export (?:async )?(?:function|const|class) (\w+)", FILES[module]))
        assert {part.strip() for part in names.split(",")} <= exported


@pytest.mark.parametrize("name", MODULES)
def test_a_module_takes_only_what_another_gives(name):
    """`import * as page` hides a misspelt `page.shwo` until it is called."""
    for alias, module in re.findall(r'import \* as (\w+) from "\./([^"]+)"', FILES[name]):
        exported = set(re.findall(r"export (?:async )?(?:function|const|class) (\w+)", FILES[module]))
        used = set(re.findall(rf"(?<![\w.]){alias}\.(\w+)", FILES[name]))
        used.discard("js")  # the names of files
        assert used <= exported


def test_every_module_is_used_and_there():
    used = set.union(*(reached(page) for page in PAGES))
    assert used == set(MODULES)


@pytest.mark.parametrize("name", sorted(FILES))
def test_nothing_from_elsewhere(name):
    text = FILES[name].replace(SVG_NAMESPACE, "")
    assert not re.search(r"https?://|wss?://|[\"'(]//\w|@import|url\(", text)


@pytest.mark.parametrize("name", MODULES)
def test_no_text_becomes_markup_or_code(name):
    # Names of annotators and sentences of the server are shown as they are, whatever is in them.
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", FILES[name]
    )


def test_ids_that_are_documented_exist():
    comment = FILES["index.html"].split("-->")[0]
    documented = set(re.findall(r"#([\w-]+)", comment))
    assert {"step", "position", "stop", "safe", "unsure", "undo", "scrubber", "heat"} <= documented
    assert documented <= set(Page("index.html").ids)


@pytest.mark.parametrize("name", PAGES)
def test_ids_that_scripts_ask_for_exist(name):
    asked = {
        wanted
        for module in reached(name)
        for wanted in re.findall(r'(?:\$|getElementById|showPressed)\("([\w-]+)"', FILES[module])
    }
    assert asked
    assert asked <= set(Page(name).ids)


def test_every_command_has_a_key_and_a_button():
    keys = set(re.findall(r'does: "(\w+)"', FILES["keys.js"]))
    buttons = {button["data-do"] for button in Page("index.html").buttons if "data-do" in button}
    commands = re.search(r"const commands = \{(.*?)\n\};", FILES["main.js"], re.DOTALL)
    assert commands
    assert keys == buttons == set(re.findall(r"^  (\w+):", commands.group(1), re.MULTILINE))


def test_every_button_says_what_it_is():
    for button in Page("index.html").buttons:
        assert button.get("type") == "button"
        assert "icon" not in (button.get("class") or "") or button.get("aria-label")
