"""The one exception for a user's mistake, and the sentence that names the nearest known word."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class RciError(ValueError):
    """Something the user can mend. The message is one clear sentence; the command line prints only that."""


def unknown_name(what: str, name: str, known: Iterable[str]) -> RciError:
    """Say that `name` is no known `what`, which one is nearest, and which ones there are."""
    names = sorted(known)
    near = get_close_matches(str(name), names, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return RciError(f"unknown {what} {name!r}.{hint} Known: {', '.join(names)}.")
