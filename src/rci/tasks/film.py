"""An episode as numbers that a page can draw, moment by moment, without a simulator.

A film is only what an onlooker would see: nothing in it says what is unsafe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rci.data.record import Array

KINDS = ("road", "paths", "pictures", "signals")


@dataclass(frozen=True)
class Film:
    """`kind` says who draws it; `arrays` have a row for each moment (or step), `facts` is what does not change."""

    kind: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
