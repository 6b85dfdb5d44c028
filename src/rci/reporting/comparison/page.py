"""The page of a comparison of redistributors: tables, figures, and what the columns mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rci.reporting.comparison.figures import pictures
from rci.reporting.comparison.results import (
    FIGURES,
    MODEL,
    REFERENCES,
    ComparisonInput,
    broken,
    columns,
    markdown,
)
from rci.reporting.figures.palette import variant_looks
from rci.reporting.figures.picture import Picture
from rci.reporting.html.markup import fill, make_folders, write_page


def write_comparison(comparison: ComparisonInput, folder: Path) -> Path:
    """Write `index.html`, `comparison.md` and `figures/` into `folder`; the path of the page."""
    make_folders(folder, ["figures"], "the comparison")
    drawn = pictures(comparison)
    table = markdown(comparison.results).encode()
    return write_page(folder, page(comparison, drawn), {"comparison.md": table}, drawn.values())


def headline(comparison: ComparisonInput) -> list[str]:
    """The outcome in two sentences: who points best at danger, and what was compared."""
    results = comparison.results
    with_risk = [result for result in results if result.mean("rise_correlation") is not None]
    rivals = [result for result in with_risk if result.method not in REFERENCES] or with_risk
    sentences = []
    if rivals:
        best = max(rivals, key=lambda result: result.mean("rise_correlation") or 0.0)
        least = (best.mean("rise_correlation") or 0.0) - (best.half_width.get("rise_correlation") or 0.0)
        sentences.append(
            f"{best.variant} follows what each step added to the exact risk most closely: a rank correlation of "
            f"{best.text('rise_correlation')} within stopped episodes."
            if least > 0.0
            else "No variant is sure to follow what each step added to the exact risk: the highest rank correlation "
            f"within stopped episodes is {best.text('rise_correlation')}, of {best.variant}."
        )
    else:
        rivals = [result for result in results if result.method not in REFERENCES] or list(results)
        best = max(rivals, key=lambda result: result.mean("time_correlation") or 0.0)
        sentences.append(
            f"The exact risk of these episodes is not known. The costs of {best.variant} rise most steadily towards "
            f"the stop: a rank correlation with time of {best.text('time_correlation')}."
        )
    labels = comparison.labels
    sentences.append(
        f"Variants: {len(results)}, seeds of each: {results[0].seeds}, on the labels of {len(labels):,} episodes, of "
        f"which {int(labels.stopped.sum()):,} were stopped."
    )
    return sentences


def page(comparison: ComparisonInput, drawn: Mapping[str, Picture]) -> str:
    """The whole page: where the cost lies, then the models behind it and what they took."""
    cells = columns(comparison.results)
    del cells["seeds"]  # the headline says it
    headers = list(FIGURES.values())
    of_models = headers[headers.index(FIGURES[MODEL]) :]
    names = [broken(name, 34) for name in cells["variant"]]
    meanings = {"exact sums": comparison.meanings["return_equivalent"]}
    meanings |= {header: comparison.meanings[name] for name, header in FIGURES.items() if header in cells}
    return fill(
        "comparison.html",
        sentences=headline(comparison),
        comparison=comparison,
        pictures=drawn,
        pointing=[drawn[name] for name in ("correlations", "calibration") if name in drawn],
        looks=list(variant_looks(list(comparison.costs)).values()),
        several=any(result.seeds > 1 for result in comparison.results),
        meanings=meanings,
        cost_cells={
            **{header: column for header, column in cells.items() if header not in of_models},
            "variant": names,
        },
        model_cells={
            "variant": names,
            **{header: column for header, column in cells.items() if header in of_models},
        },
    )
