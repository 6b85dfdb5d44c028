"""Times of rows as nanoseconds: ISO 8601, or numbers whose unit is given or obvious."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.formats.tables.block import Block, Numbers, is_empty, large_whole_numbers, numbers

SECOND = 1_000_000_000
SCALE = {"s": SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SINCE_1970 = {"s": (1e8, 1e11), "ms": (1e11, 1e14), "us": (1e14, 1e17), "ns": (1e17, 9e18)}  # 1973 and later
LATEST = 9e18  # nanoseconds that a whole number holds: the year 2255


@dataclass
class Clock:
    """Reads times and remembers what has to hold for all of them."""

    unit: str = ""  # of numbers; of ISO 8601 "iso"
    zoned: bool | None = None  # whether ISO times name their zone

    def read(self, block: Block, name: str) -> tuple[Array, Array]:
        """A column of times as nanoseconds, and which are missing."""
        raw = block.columns[name]
        if isinstance(raw, list):
            missing = np.array([is_empty(value) for value in raw], bool)
            first = next((value for value, empty in zip(raw, missing) if not empty), None)
            if first is None:
                return np.zeros(len(raw), np.int64), missing
            if self.unit == "iso" or (not self.unit and isinstance(first, str) and not _is_number(first)):
                self.unit = "iso"
                return self._iso(block, name, raw, missing), missing
        return self._numbers(block, name)

    def _numbers(self, block: Block, name: str) -> tuple[Array, Array]:
        part: Numbers = numbers(block, name, "a time: seconds, ms, us or ns, or ISO 8601 as in other rows")
        if part.values.ndim != 1:
            raise RciError(f"{block.where(0, name)} must be a time, got a list.")
        present = np.flatnonzero(~part.missing)
        if not self.unit and len(present):
            self.unit = _unit_of(abs(float(part.values[present[0]])), block.where(int(present[0]), name))
        scale = SCALE[self.unit or "s"]
        for row in np.flatnonzero(~(np.abs(part.values.astype(np.float64)) < LATEST / scale))[:1].tolist():
            raise RciError(f"{block.where(row, name)}: {part.values[row]} {self.unit} is not a time.")
        exact = large_whole_numbers(block, name)
        if exact is not None:
            return exact * scale, part.missing
        return np.round(part.values.astype(np.float64) * scale).astype(np.int64), part.missing

    def _iso(self, block: Block, name: str, raw: list[Any], missing: Array) -> Array:
        times = np.zeros(len(raw), np.int64)
        for row in np.flatnonzero(~missing).tolist():
            text = str(raw[row]).strip()
            try:
                moment = datetime.fromisoformat(text)
            except ValueError:
                raise RciError(
                    f"{block.where(row, name)} must be a time as 2026-05-17T09:30:00.125Z, got {text[:80]!r}."
                ) from None
            zoned = moment.tzinfo is not None
            if self.zoned not in (None, zoned):
                raise RciError(
                    f"{block.where(row, name)}: some times name their zone and others do not, so nobody can say how "
                    f"far they are apart: {text[:80]!r}; write them in one way."
                )
            self.zoned = zoned
            since = (moment if zoned else moment.replace(tzinfo=UTC)) - EPOCH
            nanoseconds = since // timedelta(microseconds=1) * 1000
            if not abs(nanoseconds) < LATEST:
                raise RciError(f"{block.where(row, name)}: {text[:80]!r} is not a time of a recording.")
            times[row] = nanoseconds
        return times


def shown(time: int) -> str:
    """A time for people and for other programs: ISO 8601 if it counts from 1970, else seconds."""
    if time < SINCE_1970["s"][0] * SECOND:
        return f"{time / SECOND:.9g}"
    return str(np.datetime64(time, "ns").astype("datetime64[us]")) + "Z"


def _unit_of(value: float, where: str) -> str:
    for unit, (low, high) in SINCE_1970.items():
        if low <= value < high:
            return unit
    raise RciError(
        f"{where}: {value:.15g} may be seconds or anything else; say time_unit = 's' (or 'ms', 'us', 'ns') in the "
        "mapping."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
