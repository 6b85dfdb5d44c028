"""The one exception for a user's mistake, and the sentence that names the nearest known word."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

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
    """Say that `name` is no known `what`, which one is nearest, and which ones there are."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return RciError(f"unknown {what} {name!r}.{hint} Known: {', '.join(names)}.")
