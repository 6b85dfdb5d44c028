"""Redistributors side by side: the table as text, as Markdown and on a page of its own, with the figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.data.types import Labels, Oracle, StepCosts
from rci.reporting.figures import Picture
from rci.reporting.markup import document, grid, method_name, strips, table, yes_no
from rci.reporting.palette import variant_looks
from rci.reporting.summary import fixed, number

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
PLACES = {"epochs": 1, "seconds": 1}  # decimals; all else has three
MISSING = "–"
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

    def told(self, name: str) -> str:
        """A figure with its interval, as in 0.512 ± 0.034."""
        mean, half = self.mean(name), self.half_width.get(name)
        if mean is None:
            return MISSING
        if name == "largest_gap":
            return number(max(self.values[name]))
        places = PLACES.get(name, 3)
        return fixed(mean, places) + ("" if half is None else f" ± {fixed(half, places)}")


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


def write_comparison(comparison: ComparisonInput, folder: Path) -> Path:
    """Write `index.html`, `comparison.md` and `figures/` into `folder`; the path of the page."""
    from rci.reporting.comparison_figures import pictures

    try:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RciError(f"cannot write the comparison to {folder}: {error.strerror or error}.") from error
    drawn = pictures(comparison)
    files: dict[str, bytes] = {}
    for picture in drawn.values():
        files[f"figures/{picture.name}.svg"] = picture.svg
        files[f"figures/{picture.name}.png"] = picture.png
    files["comparison.md"] = markdown(comparison.results).encode()
    files["index.html"] = page(comparison, drawn).encode()
    for name, content in files.items():
        write_file(folder / name, content)
    return folder / "index.html"


def columns(results: Sequence[VariantResult]) -> dict[str, list[str]]:
    """The cells of the table, column by column; a figure that no variant has is left out."""
    cells = {
        "variant": [result.variant for result in results],
        "exact sums": ["yes" if result.return_equivalent else "no" for result in results],
        "seeds": [str(result.seeds) for result in results],
    }
    for name, header in FIGURES.items():
        told = [result.told(name) for result in results]
        if set(told) != {MISSING}:
            cells[header] = told
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


def headline(comparison: ComparisonInput) -> list[str]:
    """The outcome in two sentences: who points best at danger, and what was compared."""
    results = comparison.results
    known = [result for result in results if result.mean("rise_correlation") is not None]
    rivals = [result for result in known if result.method not in REFERENCES] or known
    sentences = []
    if rivals:
        best = max(rivals, key=lambda result: result.mean("rise_correlation") or 0.0)
        least = (best.mean("rise_correlation") or 0.0) - (best.half_width.get("rise_correlation") or 0.0)
        sentences.append(
            f"{best.variant} follows what each step added to the exact risk most closely: a rank correlation of "
            f"{best.told('rise_correlation')} within stopped episodes."
            if least > 0.0
            else "No variant is sure to follow what each step added to the exact risk: the highest rank correlation "
            f"within stopped episodes is {best.told('rise_correlation')}, of {best.variant}."
        )
    else:
        rivals = [result for result in results if result.method not in REFERENCES] or list(results)
        best = max(rivals, key=lambda result: result.mean("time_correlation") or 0.0)
        sentences.append(
            f"The exact risk of these episodes is not known. The costs of {best.variant} rise most steadily towards "
            f"the stop: a rank correlation with time of {best.told('time_correlation')}."
        )
    labels = comparison.labels
    sentences.append(
        f"Variants: {len(results)}, seeds of each: {results[0].seeds}, on the labels of {len(labels):,} episodes, of "
        f"which {int(labels.stopped.sum()):,} were stopped."
    )
    return sentences


def page(comparison: ComparisonInput, drawn: dict[str, Picture]) -> str:
    """The whole page."""
    found = [drawn[name] for name in ("correlations", "calibration") if name in drawn]
    sections = [
        ("table", "Side by side", _tables(comparison)),
        ("figures", "How well the costs point at danger", grid(found, "two")),
        ("episodes", "Where the cost went", _episodes(comparison, drawn["episodes"])),
        ("run", "What was run", _run(comparison)),
    ]
    return document(
        "Redistributors compared",
        f"Task {comparison.task}" if comparison.task else "Episodes of no known task",
        headline(comparison),
        sections,
        "Every figure is also in <code>figures/</code> as SVG and PNG, every number in <code>comparison.json</code>.",
    )


def _tables(comparison: ComparisonInput) -> str:
    """Where the cost lies, then the models behind it and what they took."""
    style = variant_looks(list(comparison.costs))
    cells = columns(comparison.results)
    shown = {header: [_cell(cell) for cell in column] for header, column in cells.items()}
    shown["variant"] = [
        method_name(broken(name, 34), style[name]).replace("\n", "<br>") for name in cells["variant"]
    ]
    shown["exact sums"] = [yes_no(cell) for cell in cells["exact sums"]]
    del shown["seeds"]  # the headline says it
    headers = list(FIGURES.values())
    second = headers[headers.index(FIGURES[MODEL]) :]
    parts = [
        [header for header in shown if header not in second],
        ["variant", *(header for header in shown if header in second)],
    ]
    several = any(result.seeds > 1 for result in comparison.results)
    notes = (
        "Mean over seeds. After ±: half the width of a 95% interval (Student's t over seeds)."
        if several
        else "One seed alone has no interval.",
        "",
    )
    meanings = {"exact sums": comparison.meanings["return_equivalent"]}
    meanings |= {header: comparison.meanings[name] for name, header in FIGURES.items() if header in cells}
    rows = [(escape(header), escape(meaning)) for header, meaning in meanings.items()]
    return (
        "".join(
            table(caption, part, list(zip(*(shown[header] for header in part))), note)
            for caption, part, note in zip(
                ("Where the cost lies", "The models, and what they took"), parts, notes
            )
        )
        + f"<details open><summary>What the columns mean</summary>{table('Columns', ('column', 'meaning'), rows)}"
        "</details>"
    )


def _cell(text: str) -> str:
    value, sign, half = escape(text).partition(" ±")
    return f"{value} <small>±{half}</small>" if sign else value


def _episodes(comparison: ComparisonInput, picture: Picture) -> str:
    distance = (
        ""
        if comparison.oracle is None
        else " At the bottom, the distance to the nearest danger; truly unsafe steps are shaded, and the broken line "
        "is where danger begins."
    )
    return (
        "<p>Recorded episodes picked by rule, not by hand: stopped ones at the quartiles of length, and one that was "
        "never stopped. On top, the cost as the label gives it; below it, as each variant spreads it over the steps, "
        f"with its first seed. Every row has a scale of its own.{distance}</p>" + strips([picture])
    )


def _run(comparison: ComparisonInput) -> str:
    versions = [(escape(name), escape(version)) for name, version in comparison.versions.items()]
    title = f"Versions ({len(versions)})"
    return (
        "<p>This command repeats the comparison:</p>"
        f'<pre tabindex="0"><code>{escape(comparison.command)}</code></pre>'
        f"<details><summary>{title}</summary>{table(title, ('name', 'value'), versions)}</details>"
    )
