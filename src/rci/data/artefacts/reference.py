"""The reference of a task as an artefact: every driver that was tested, and how it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array, Record, set_fields

COLUMNS = (
    "price", "seed", "episodes", "violation_rate", "violation_low", "violation_high", "mean_return", "return_low",
    "return_high", "mean_return_until_stop", "until_stop_low", "until_stop_high", "median_first_violation",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Reference(Record):
    """Drivers that know the truth, and those they are held against: one entry of every column for each.

    `price` is nan for drivers that are not trained with one, `median_first_violation` nan where nothing was violated.
    Intervals are those of 95%.
    """

    kind: ClassVar[str] = "reference"
    task: str
    drivers: tuple[str, ...]
    columns: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        set_fields(self, drivers=tuple(self.drivers))
        for name in COLUMNS:
            shape = np.shape(self.columns.get(name, ()))
            if shape != (len(self.drivers),):
                raise RciError(
                    f"reference.{name} must have one entry for each of {len(self.drivers)} drivers, got shape {shape}."
                )

    @classmethod
    def of(cls, task: str, rows: list[dict[str, Any]]) -> Reference:
        """The rows of `rci reference` as an artefact."""
        columns = {
            name: np.array([np.nan if row[name] is None else row[name] for row in rows], np.float64)
            for name in COLUMNS
        }
        return cls(task, tuple(row["driver"] for row in rows), columns)

    def arrays(self) -> dict[str, Array]:
        return {name: self.columns[name] for name in COLUMNS}

    def meta(self) -> dict[str, Any]:
        return {"task": self.task, "drivers": list(self.drivers)}

    @classmethod
    def restore(cls, arrays: dict[str, Array], meta: dict[str, Any]) -> Reference:
        return cls(str(meta["task"]), tuple(meta["drivers"]), arrays)

    def __len__(self) -> int:
        return len(self.drivers)

    def __repr__(self) -> str:
        prices = sorted({f"{price:g}" for price in self.columns["price"] if price > 0}, key=float)
        return f"Reference({self.task}: {len(self)} drivers, prices {', '.join(prices) or 'none'})"
