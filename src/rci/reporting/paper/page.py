"""The paper's experiments as one HTML page: what was asked, what came out, which claims hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rci.data.errors import RciError
from rci.reporting.figures.picture import Picture
from rci.reporting.html.markup import fill, make_folders, write_page
from rci.reporting.paper.contents import PaperSummary
from rci.reporting.paper.figures import paper_looks, paper_pictures
from rci.reporting.paper.tables import PaperTable, claim_table, paper_tables

TITLE = "Redistribution-based cost inference, measured"
COMMAND = "rci paper --preset full"
ASKED = (
    "Somebody watched recorded runs and pressed STOP where one became unsafe. From this one bit per run, each method "
    "makes a cost for every step, and a learner trains policies on it, offline. How often do these policies violate "
    "the true rule, and what do they earn?"
)
VERDICT_CLASSES = {"holds": "yes", "does not hold": "no"}
OTHER_SECTION = "pictures"  # for pictures that name no experiment


def write_paper(
    summary: PaperSummary,
    pictures_from_artefacts: Sequence[Picture],
    folder: Path,
    missing: Sequence[tuple[str, str]] = (),
    command: str = COMMAND,
) -> Path:
    """Write `index.html`, `figures/` and `tables/` into `folder`; return the path of the page.

    Files appear whole or not at all, the page last; the same summary gives the same bytes. Pictures from artefacts
    stand in the section that they name. missing: what could not be drawn, and why. command: the one
    that made the rows, which repeats everything.
    """
    make_folders(folder, ("figures", "tables"), "the paper")
    pictures = [*paper_pictures(summary), *pictures_from_artefacts]
    names = [picture.name for picture in pictures]
    for name in names:
        if names.count(name) > 1:
            raise RciError(f"two pictures have the same name {name!r}, and would have the same file.")
    tables = paper_tables(summary)
    files: dict[str, bytes] = {}
    for picture in pictures:
        files |= {f"figures/{name}": content for name, content in picture.files().items()}
    for one in (claim_table(summary), *(entry for group in tables.values() for entry in group)):
        files |= {
            f"tables/{one.name}.md": one.markdown().encode(),
            f"tables/{one.name}.csv": one.csv().encode(),
        }
    return write_page(folder, page(summary, pictures, tables, missing, command), files)


def page(
    summary: PaperSummary,
    pictures: Sequence[Picture],
    tables: dict[str, list[PaperTable]],
    missing: Sequence[tuple[str, str]] = (),
    command: str = COMMAND,
) -> str:
    """The whole page. Every experiment has a section, also if it was not run yet."""
    drawn: dict[str, list[Picture]] = {
        name: [] for name in ["claims", *(one.name for one in summary.experiments), OTHER_SECTION]
    }
    for picture in pictures:
        drawn.get(picture.section, drawn[OTHER_SECTION]).append(picture)
    return fill(
        "paper.html",
        title=TITLE,
        sentences=headline(summary),
        summary=summary,
        pictures=drawn,
        tables=tables,
        looks=paper_looks(summary),
        verdict_classes=VERDICT_CLASSES,
        other_section=OTHER_SECTION,
        seeds_of={one.name: _listed(one.seeds) for one in summary.experiments},
        repeat=command,
        duration=duration(summary),
        missing=missing,
    )


def headline(summary: PaperSummary) -> list[str]:
    """What was asked, and how many of the claims hold."""
    verdicts = [claim.verdict for claim in summary.claims]
    counts = [
        f"{verdicts.count(word)} {words}"
        for word, words in (
            ("holds", "hold"),
            ("does not hold", "do not hold"),
            ("not yet measured", "not yet measured"),
        )
        if word in verdicts
    ]
    run = sum(experiment.rows > 0 for experiment in summary.experiments)
    return [
        ASKED,
        f"Of {len(verdicts)} claims: {', '.join(counts)}.",
        f"Experiments with rows: {run} of {len(summary.experiments)}.",
    ]


def duration(summary: PaperSummary) -> str:
    """How long all policies took, and what is not counted in it."""
    hours = summary.seconds / 3600.0
    took = f"To train and test {summary.rows:,} policies took {hours:.1f} hours one after the other"
    return f"{took}, about {hours / 2.0:.1f} on two cores; recording, behaviour models and step costs are not counted."


def _listed(seeds: Sequence[int]) -> str:
    """Seeds in words: a range where they have no gaps."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))
