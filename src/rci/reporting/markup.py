"""The pieces of HTML that the page is put together from. Text is escaped here, `cells` are HTML already."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from rci.reporting.figures import Picture
from rci.reporting.palette import Look

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
    "h": "M5 0l4.4 2.5v5l-4.4 2.5l-4.4-2.5v-5z",
}


def table(caption: str, headers: Sequence[str], cells: Sequence[Sequence[str]], note: str = "") -> str:
    """A table with row and column headers that scrolls sideways on its own where the screen is too narrow."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headers)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>\n'
        for first, *rest in cells
    )
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>{below}"
    )


def grid(pictures: Sequence[Picture], columns: str) -> str:
    """Figures side by side where there is room; `columns` is a class of the style sheet."""
    if not pictures:
        return ""
    return f'<div class="grid {columns}">{"".join(figure(picture) for picture in pictures)}</div>'


def strips(pictures: Sequence[Picture]) -> str:
    """Wide figures one below the other; where the screen is narrow each scrolls sideways on its own."""
    return "".join(
        f'<div class="strip" tabindex="0" role="region" aria-label="Figure {escape(picture.name)}">'
        f"{figure(picture)}</div>"
        for picture in pictures
    )


def figure(picture: Picture) -> str:
    """A figure inside the page, so that the page needs no other file."""
    source = base64.b64encode(picture.svg).decode()
    caption = f"<figcaption>{escape(picture.caption)}</figcaption>" if picture.caption else ""
    image = f'<img alt="{escape(picture.alt)}" src="data:image/svg+xml;base64,{source}">'
    return f"<figure>{image}{caption}</figure>"


def method_name(name: str, look: Look) -> str:
    """A method's name with the mark that it has in the figures."""
    path = f'<path d="{MARKS[look.marker]}"/>'
    return f'<svg class="mark" viewBox="0 0 10 10" fill="{look.color}" aria-hidden="true">{path}</svg>{escape(name)}'


def yes_no(answer: str) -> str:
    """A yes or a no in its colour; any other answer as it is."""
    return f'<span class="{answer}">{answer}</span>' if answer in ("yes", "no") else escape(answer) or "–"
