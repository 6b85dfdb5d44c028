"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

MISSING = "–"
LOOSEST = 101.0  # looser than any percentile


class HasInterval(Protocol):
    """A row with the interval of a violation rate."""

    @property
    def violation_low(self) -> float: ...

    @property
    def violation_high(self) -> float: ...


def tightness(budget: float | str) -> float:
    """For the order of budgets: shares by their number, percentiles by theirs, those by channel by their sum."""
    if isinstance(budget, str) and "=" in budget:
        return sum(min(tightness(part.partition("=")[2]), LOOSEST) for part in budget.split(","))
    return float(budget.lstrip("Pp")) if isinstance(budget, str) else budget


def percent(share: float | None) -> str:
    """A share with one decimal, as in 3.1%; a dash for what is missing."""
    return MISSING if share is None else f"{100 * share:.1f}%"


def signed_percent(share: float | None) -> str:
    """The same for what may be negative."""
    return percent(share).replace("-", "−")


def interval(row: HasInterval) -> str:
    """The interval of a violation rate, as in 1.9–4.7%."""
    return f"{100 * row.violation_low:.1f}–{percent(row.violation_high)}"


def number(value: float | None) -> str:
    """About three digits, without an exponent where that is readable; a dash for what is missing."""
    if value is None or math.isnan(value):
        return MISSING
    if value == 0.0 or math.isinf(value):
        return "0" if value == 0.0 else "∞" if value > 0 else "−∞"
    size = abs(value)
    if size < 1e-3 or size >= 1e6:
        return f"{value:.1e}"
    return fixed(value, 0 if size >= 1000 else 1 if size >= 10 else 2 if size >= 1 else 3)


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals, as the columns of a table need it."""
    return f"{value:,.{decimals}f}".replace("-", "−")


def column_decimals(values: Iterable[float]) -> int:
    """How many decimals give the largest number of a column four digits."""
    largest = max(map(abs, values), default=0.0)
    return 3 if largest == 0.0 else min(6, max(0, 3 - math.floor(math.log10(largest))))


def with_error(value: float, error: float | None, decimals: int) -> str:
    """A number and its error in the same decimals, as in 1.02 ± 0.01; alone without an error."""
    return fixed(value, decimals) + ("" if error is None else f" ± {fixed(error, decimals)}")


def thousands(count: int) -> str:
    """A count with commas."""
    return f"{count:,}"
