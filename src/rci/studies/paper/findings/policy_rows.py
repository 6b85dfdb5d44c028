"""The rows of `results/paper.json`, one per evaluated policy, checked once where they come in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rci.data.errors import RciError
from rci.pipeline.results.rows import Row
from rci.reporting.paper.contents import Setting

REWARD_ONLY = "reward-only"
BUDGET = re.compile(
    r"inf|P\d+(\.\d+)?|T\d+|\d*\.?\d+"
)  # none, percentile, rung of a ladder of thresholds, share


@dataclass(frozen=True)
class PolicyRow:
    """One evaluated policy: how it was made, what selection and evaluation episodes said of it."""

    experiment: str
    task: str
    dataset: str
    noise: str
    method: str
    learner: str
    budget: str
    seed: int
    policy: int
    labelled: int
    updates: int
    selected: bool
    episodes: int
    violation_rate: float
    mean_return: float
    mean_return_until_stop: float
    return_norm: float | None  # None where all returns of the task are the same
    selection_episodes: int
    selection_violation_rate: float
    selection_return: float
    predicted_cost: float | None
    predicted_return: float | None
    multiplier: float | None
    seconds: float
    versions: str
    key: str

    @property
    def setting(self) -> Setting:
        """Where it was measured; rows of one setting can be compared."""
        return Setting(self.task, self.dataset, self.noise, self.learner, self.labelled, self.updates)

    @property
    def violations(self) -> int:
        """How many of the evaluation episodes had a violation."""
        return round(self.violation_rate * self.episodes)

    @property
    def order(self) -> tuple[Any, ...]:
        """A place in a fixed order, whatever the order in which rows were finished."""
        return (self.experiment, *self.setting, self.method, self.seed, self.budget, self.policy)


NAMES = [entry.name for entry in fields(PolicyRow)]
TEXT = {"experiment", "task", "dataset", "noise", "method", "learner", "budget", "versions", "key"}
COUNTS = {"seed", "policy", "labelled", "updates", "episodes", "selection_episodes"}
SHARES = {"violation_rate", "selection_violation_rate"}
OPTIONAL = {"return_norm", "predicted_cost", "predicted_return", "multiplier"}


def policy_rows(rows: Sequence[Row]) -> list[PolicyRow]:
    """The rows of trained policies in a fixed order. A field that is missing or makes no sense is an error."""
    parsed = {place: _parsed(row, place) for place, row in enumerate(rows) if "failed" not in row}
    seen: dict[tuple[Any, ...], int] = {}
    for place, row in parsed.items():
        first = seen.setdefault(row.order, place)
        if first != place:
            raise RciError(
                f"rows {first} and {place} are of the same policy of {row.experiment!r}: drop one."
            )
    return sorted(parsed.values(), key=lambda row: row.order)


def _parsed(row: Row, place: int) -> PolicyRow:
    def wrong(name: str, expected: str) -> RciError:
        return RciError(f"row {place}: {name!r} should be {expected}, got {row.get(name)!r}.")

    for name in NAMES:
        if name not in row:
            raise RciError(f"row {place} has no field {name!r}.")
        value = row[name]
        if name in TEXT:
            if not isinstance(value, str) or not value:
                raise wrong(name, "a text")
        elif name == "selected":
            if not isinstance(value, bool):
                raise wrong(name, "true or false")
        elif name in COUNTS:
            if not _is_count(value):
                raise wrong(name, "a whole number")
        elif not (value is None and name in OPTIONAL):
            if not _is_number(value):
                raise wrong(name, "a number" + (" or null" if name in OPTIONAL else ""))
            if name in SHARES and not 0.0 <= value <= 1.0:
                raise wrong(name, "a share from 0 to 1")
    if not BUDGET.fullmatch(row["budget"]):
        raise wrong("budget", "inf, a percentile such as P30, a threshold such as T5 or a share such as 0.1")
    for name in ("episodes", "selection_episodes"):
        if row[name] < 1:
            raise wrong(name, "at least 1")
    return PolicyRow(**{name: row[name] for name in NAMES})


def one_row_per_policy(rows: Iterable[PolicyRow]) -> list[PolicyRow]:
    """The first row of each policy, since one policy may serve several experiments."""
    first: dict[str, PolicyRow] = {}
    for row in rows:
        first.setdefault(row.key, row)
    return list(first.values())


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
