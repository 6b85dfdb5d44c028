"""The pieces of HTML that the page is put together from. Text is escaped here, `cells` are HTML already."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from rci.reporting.figures import Picture
from rci.reporting.palette import Look
from rci.reporting.stylesheet import STYLESHEET

# Even if a name or a setting smuggled something in, the browser would fetch and run nothing.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"

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


def document(
    title: str, eyebrow: str, sentences: Sequence[str], sections: Sequence[tuple[str, str, str]], footer: str
) -> str:
    """A whole page. sections: name, title and content of each, of which those without content are left out.

    The first of the sentences is the headline. `footer` and contents are HTML already.
    """
    shown = [section for section in sections if section[2]]
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in shown)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{heading}</h2>{content}</section>\n'
        for name, heading, content in shown
    )
    first, *others = (sentence.replace("–", "\u2060–\u2060") for sentence in sentences)  # no break inside
    beside = f'<p class="beside">{escape(" ".join(others))}</p>' if others else ""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{STYLESHEET}</style>
</head>
<body>
<header>
<p class="eyebrow">{escape(eyebrow)}</p>
<h1>{escape(title)}</h1>
<p class="headline">{escape(first)}</p>
{beside}
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main>
{body}</main>
<footer>
{footer}
</footer>
</body>
</html>
"""


def table(
    caption: str, headers: Sequence[str], cells: Sequence[Sequence[str]], note: str = "", kind: str = ""
) -> str:
    """A table with row and column headers that scrolls sideways on its own where the screen is too narrow.

    `kind`: one more class of the style sheet, such as `prose` for cells with sentences.
    """
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in headers)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>\n'
        for first, *rest in cells
    )
    below = f'<p class="note">{escape(note)}</p>' if note else ""
    classes = f"scroll {kind}".strip()
    return (
        f'<div class="{classes}" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
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
