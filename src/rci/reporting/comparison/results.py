"""What a comparison of redistributors found, and its table as text and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.types import Labels, Oracle, StepCosts
from rci.reporting.numbers import MISSING, number, with_error

# The figures of the table, in the order in which they are shown, with their headers.
FIGURES = {
    "rise_correlation": "rise correlation",
    "risk_correlation": "risk correlation",
    "rise_error": "rise error",
    "time_correlation": "time correlation",
    "last_moments": "last moments",
    "first_step": "first step",
    "negative_mass": "negative mass",
    "matched_pairs_accuracy": "matched pairs",
    "held_out_accuracy": "held-out accuracy",
    "held_out_calibration_error": "calibration error",
    "quality": "quality",
    "mean_spread": "mean spread",
    "epochs": "epochs",
    "seconds": "seconds",
    "largest_gap": "largest gap",
}
MODEL = "matched_pairs_accuracy"  # from here on, the figures are about the model and its fit
DECIMALS = {"epochs": 1, "seconds": 1}  # decimals; all else has three
REFERENCES = ("oracle", "sparse", "uniform")  # methods that learn nothing, to be compared with


class VariantResult(NamedTuple):
    """One variant over its seeds. Half-widths are those of 95% intervals, None where there is one seed only."""

    variant: str
    method: str
    return_equivalent: bool
    seeds: int
    values: dict[str, tuple[float, ...]]  # figure -> one value per seed; none where it is not known
    half_width: dict[str, float | None]

    def mean(self, name: str) -> float | None:
        """A figure over all seeds; None where it is not known."""
        return float(np.mean(self.values[name])) if self.values.get(name) else None

    def text(self, name: str) -> str:
        """A figure with its interval, as in 0.512 ± 0.034."""
        mean, half = self.mean(name), self.half_width.get(name)
        if mean is None:
            return MISSING
        if name == "largest_gap":
            return number(max(self.values[name]))
        return with_error(mean, half, DECIMALS.get(name, 3))


@dataclass(frozen=True, eq=False)
class ComparisonInput:
    """Everything that a comparison shows.

    `costs` are those of the first seed, by variant. `oracle`: None where the truth is not known. `danger`: the
    distance at and below which a step is unsafe. `meanings`: what each figure means, in a few words.
    """

    task: str
    command: str
    versions: dict[str, str]
    labels: Labels
    oracle: Oracle | None
    danger: float
    costs: dict[str, StepCosts]
    results: tuple[VariantResult, ...]
    meanings: dict[str, str]

    def __post_init__(self) -> None:
        if not self.results or [result.variant for result in self.results] != list(self.costs):
            raise RciError(
                "a comparison needs results, and step costs of just these variants in the same order."
            )
        for name, costs in self.costs.items():
            if not np.array_equal(costs.lengths, self.labels.kept_lengths):
                raise RciError(f"the step costs of {name!r} belong to other labels: their lengths differ.")
        if self.oracle is not None and not np.array_equal(self.oracle.lengths, self.labels.lengths):
            raise RciError("the oracle of this comparison belongs to other episodes: its lengths differ.")


def columns(results: Sequence[VariantResult]) -> dict[str, list[str]]:
    """The cells of the table, column by column; a figure that no variant has is left out."""
    cells = {
        "variant": [result.variant for result in results],
        "exact sums": ["yes" if result.return_equivalent else "no" for result in results],
        "seeds": [str(result.seeds) for result in results],
    }
    for name, header in FIGURES.items():
        texts = [result.text(name) for result in results]
        if set(texts) != {MISSING}:
            cells[header] = texts
    return cells


def markdown(results: Sequence[VariantResult], headers: Sequence[str] = ()) -> str:
    """The table, to be pasted into a README or an issue; with headers, only these columns of it."""
    cells = columns(results)
    cells = {name: column for name, column in cells.items() if not headers or name in ("variant", *headers)}
    names = [name.replace("|", "\\|") for name in cells.pop("variant")]
    lines = [("variant", *cells), ("---",) * (len(cells) + 1), *zip(names, *cells.values())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def text_table(results: Sequence[VariantResult], width: int | None = None) -> str:
    """The table in aligned columns. With a width, the last columns that do not fit are only named."""
    lines, used = [""] * (len(results) + 2), 0
    left_out: list[str] = []
    for header, cells in columns(results).items():
        top, _, bottom = header.rpartition(" ")
        column = [top, bottom, *cells]
        size = max(map(len, column)) + (2 if used else 0)
        if width is not None and used and (left_out or used + size > width):
            left_out.append(header)
            continue
        align = str.rjust if used else str.ljust
        lines = [line + align(cell, size) for line, cell in zip(lines, column)]
        used += size
    if left_out:
        lines.append(f"also in the page: {', '.join(left_out)}")
    return "\n".join(line.rstrip() for line in lines)


def broken(name: str, width: int = 26) -> str:
    """A long name in several lines, broken at its colons and, where a part is too long, anywhere."""
    lines = [""]
    for part in (f"{text}:" for text in name.split(":")):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    whole = [line[i : i + width] for line in lines for i in range(0, len(line), width)]
    return "\n".join(whole).removesuffix(":").rstrip("\n")
