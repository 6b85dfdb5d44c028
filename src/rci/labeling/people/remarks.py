"""What is said beside a verdict: kinds of danger, how bad it was, when a person drove, and a note; and their limits."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from rci.data.errors import RciError, unknown_name

LONGEST_NOTE = 400  # characters
LONGEST_KIND = 30
MOST_KINDS = 6  # as many as there are keys for
MOST_TAKEOVERS = 64  # in one episode
KIND = re.compile(r"\w([\w -]*\w)?")
TURNS_TEXT = frozenset(
    "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # right to left

Interval = tuple[int, int]  # the first transition, and the first one after it


def check_note(note: Any) -> str:
    """A note of one line, without spaces around it; refused if it is too long or has characters that nobody can see."""
    if not isinstance(note, str):
        raise RciError(f"a note must be text, got {type(note).__name__}.")
    if len(note) > LONGEST_NOTE:
        raise RciError(f"a note has at most {LONGEST_NOTE} characters, this one has {len(note)}.")
    for character in note:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in TURNS_TEXT:
            raise RciError(
                f"a note is one line without control characters, but this one has U+{ord(character):04X}."
            )
    return note.strip()


def check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    """Names of the kinds of danger that annotators choose from: none, or two to six different ones."""
    kinds = tuple(kinds)
    _check_names(kinds)
    if len(kinds) == 1:
        raise RciError(f"a single kind of danger ({kinds[0]}) needs no name; name two or more, or none.")
    if len(kinds) > MOST_KINDS or len(set(kinds)) < len(kinds):
        raise RciError(
            f"there are up to {MOST_KINDS} kinds of danger with different names, got {', '.join(kinds)}."
        )
    return kinds


def check_reasons(chosen: Any, severity: Any, stopped: bool) -> tuple[str, ...]:
    """The kinds of danger of one answer; only a stop has some, each once, and a severity other than 1."""
    if not isinstance(chosen, list | tuple):
        raise RciError(f"the kinds of danger must be a list of names, got {chosen!r}.")
    _check_names(chosen)
    if len(set(chosen)) < len(chosen):
        raise RciError(f"a stop names a kind of danger once, got {', '.join(chosen)}.")
    if isinstance(severity, bool) or not isinstance(severity, int | float) or not 0 < severity <= 1:
        raise RciError(f"a severity is a number above 0 and at most 1, got {severity!r}.")
    if not stopped and (chosen or severity != 1):
        raise RciError("only a stop has kinds of danger and a severity.")
    return tuple(chosen)


def _check_names(kinds: Sequence[Any]) -> None:
    for kind in kinds:
        if not isinstance(kind, str) or len(kind) > LONGEST_KIND or not KIND.fullmatch(kind):
            raise RciError(
                f"a kind of danger is 1 to {LONGEST_KIND} letters or digits, '_', '-' and spaces inside, got {kind!r}."
            )


def check_chosen(chosen: Sequence[str], kinds: Sequence[str]) -> None:
    """Refuse kinds of danger that are not among those to choose from."""
    for kind in chosen:
        if kind not in kinds:
            raise unknown_name("kind of danger", kind, kinds)


def check_intervals(intervals: Any) -> tuple[Interval, ...]:
    """When a person drove: [begin, end) in transitions, in order, without overlap."""
    try:
        pairs = tuple((begin, end) for begin, end in intervals)
    except (TypeError, ValueError):
        pairs = ((None, None),)
    if not all(type(number) is int for pair in pairs for number in pair):
        raise RciError(
            "takeovers are pairs of whole numbers: the first step of each and the first one after it."
        )
    if len(pairs) > MOST_TAKEOVERS:
        raise RciError(f"an episode has at most {MOST_TAKEOVERS} takeovers, got {len(pairs)}.")
    for begin, end in pairs:
        if not 0 <= begin < end:
            raise RciError(f"a takeover begins at step 0 or later and ends after that, got {begin} to {end}.")
    for (_, end), (begin, _) in pairwise(pairs):
        if begin < end:
            raise RciError(
                f"takeovers must be in order and must not overlap, but one begins at {begin}, before {end}."
            )
    return pairs
