"""The one exception for a user's mistake, and the sentence that names the nearest known word."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

# What a terminal obeys rather than shows: control characters but for the end of a line and the tabulator, halves of
# characters, and marks that turn the direction of what follows.
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class RciError(ValueError):
    """Something the user can mend. The message is one clear sentence; the command line prints only that."""

    def __str__(self) -> str:
        return printable(super().__str__())


def printable(text: str) -> str:
    """Text that may hold names from files of others, safe to print: what a terminal would obey is spelled out."""
    return OBEYED.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), text)


def unknown_name(what: str, name: str, known: Iterable[str]) -> RciError:
    """The error for a `name` of `what` that nobody knows: the nearest name, and all that there are."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return RciError(f"unknown {what} {name!r}.{hint} Known: {', '.join(names)}.")


def unknown_method(
    what: str, name: str, known: Mapping[str, Callable[..., Any]], others: Mapping[str, str] | None = None
) -> RciError:
    """The same for a method, whose name says little: a line for each one with what it does.

    known: the functions that make them; the docstring of a method's file begins with what it does. others: names that
    stand for no method alone, with the same in words.
    """
    about = {**(others or {}), **{method: described(make) for method, make in known.items()}}
    near = get_close_matches(str(name), about, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    width = max(map(len, about))
    lines = [f"  {method:{width}}  {text}" for method, text in about.items()]
    return RciError("\n".join([f"unknown {what} {name!r}.{hint} Known:", *lines]))


def described(make: Callable[..., Any]) -> str:
    """What a method does: the first line of its file, or of the function that makes it where a file has several."""
    source = sys.modules[make.__module__] if make.__name__ == "make" else make
    first = (source.__doc__ or "").strip().partition("\n")[0]
    text = (first.partition(": ")[2] or first).rstrip(".")
    return text[:1].lower() + text[1:]
