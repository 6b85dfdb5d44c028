"""Pages from templates. Text is escaped; what is `Markup` already stays as it is."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.reporting import numbers
from rci.reporting.figures.picture import Picture

MARKS = {
    "s": "M1 1h8v8h-8z",
    "^": "M5 .5l4.8 9h-9.6z",
    "v": "M5 9.5l4.8-9h-9.6z",
    "P": "M3.3 0h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z",
    "o": "M.5 5a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z",
    "D": "M5 0l5 5l-5 5l-5-5z",
    "X": "M2.5 0l2.5 2.5l2.5-2.5l2.5 2.5l-2.5 2.5l2.5 2.5l-2.5 2.5l-2.5-2.5l-2.5 2.5l-2.5-2.5l2.5-2.5l-2.5-2.5z",
    "<": "M.5 5l9-4.8v9.6z",
    ">": "M9.5 5l-9-4.8v9.6z",
    "p": "M5 .2l4.8 3.6l-1.8 5.8h-6l-1.8-5.8z",
    "d": "M5 0l3 5l-3 5l-3-5z",
    "*": "M5 0l1.2 3.7h3.8l-3.1 2.3l1.2 3.8l-3.1-2.3l-3.1 2.3l1.2-3.8l-3.1-2.3h3.8z",
    "8": "M3 .3h4l2.7 2.7v4l-2.7 2.7h-4l-2.7-2.7v-4z",
    "h": "M5 0l4.4 2.5v5l-4.4 2.5l-4.4-2.5v-5z",
}


def fill(template: str, **content: Any) -> str:
    """A template of the folder `templates` with its content."""
    return _environment().get_template(template).render(content)


def small_error(cell: str) -> str:
    """A number with what stands behind its ± in small print."""
    value, sign, error = cell.partition(" ±")
    return Markup("{} <small>±{}</small>").format(value, error) if sign else cell


def make_folders(folder: Path, names: Iterable[str], what: str) -> None:
    """Make the folders of a report before anything is drawn. what: the word for it in an error."""
    try:
        for name in names:
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RciError(f"cannot write {what} to {folder}: {error.strerror or error}.") from error


def write_page(folder: Path, page: str, files: Mapping[str, bytes], pictures: Iterable[Picture] = ()) -> Path:
    """Write the files, the pictures as SVG and PNG, and `index.html` last; return the path of the page."""
    drawn = [picture.files(("svg", "png")) for picture in pictures]
    figures = {f"figures/{name}": content for group in drawn for name, content in group.items()}
    for name, content in {**figures, **files, "index.html": page.encode()}.items():
        write_file(folder / name, content)
    return folder / "index.html"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("rci.reporting.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"marks": MARKS, "with_error": numbers.with_error}
    environment.filters |= {
        "small_error": small_error,
        "base64": lambda content: base64.b64encode(content).decode(),
        "unbroken": lambda sentence: sentence.replace("–", "\u2060–\u2060"),  # no break inside
        **{
            name: getattr(numbers, name)
            for name in ("number", "percent", "signed_percent", "interval", "thousands")
        },
    }
    return environment
