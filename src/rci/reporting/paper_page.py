"""The paper's experiments as one HTML page: what was asked, what came out, which claims hold."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.reporting.figures import Picture
from rci.reporting.markup import document, method_name, strips, table
from rci.reporting.palette import Look
from rci.reporting.paper_contents import Experiment, PaperSummary
from rci.reporting.paper_figures import paper_looks, paper_pictures
from rci.reporting.paper_tables import PaperTable, claim_table, paper_tables

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
    try:
        for name in ("figures", "tables"):
            (folder / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RciError(f"cannot write the paper to {folder}: {error.strerror or error}.") from error
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
    files["index.html"] = page(summary, pictures, tables, missing, command).encode()
    for name, content in files.items():
        write_file(folder / name, content)
    return folder / "index.html"


def page(
    summary: PaperSummary,
    pictures: Sequence[Picture],
    tables: dict[str, list[PaperTable]],
    missing: Sequence[tuple[str, str]] = (),
    command: str = COMMAND,
) -> str:
    """The whole page. Every experiment has a section, also if it was not run yet."""
    style = paper_looks(summary)
    known = {"claims", *(experiment.name for experiment in summary.experiments)}
    strangers = [picture for picture in pictures if picture.section not in known]
    answer = strips([picture for picture in pictures if picture.section == "claims"])
    sections = [("claims", "Claimed and measured", answer + _claims(summary))]
    for experiment in summary.experiments:
        own = [picture for picture in pictures if picture.section == experiment.name]
        content = _experiment(experiment, own, tables.get(experiment.name, []), style)
        sections.append((experiment.name, experiment.title, content))
    sections += [
        (OTHER_SECTION, "More pictures", strips(strangers)),
        ("run", "What was run", _run(summary, command) + _missing(missing)),
    ]
    return document(
        TITLE,
        f"{summary.rows:,} evaluated policies",
        headline(summary),
        sections,
        "Every figure is also in <code>figures/</code> as PDF, SVG and PNG, every table in <code>tables/</code> as "
        "Markdown and CSV.",
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


def _claims(summary: PaperSummary) -> str:
    """The claims in a table, with the verdict in its colour and the numbers below each other."""
    cells = []
    for claim in summary.claims:
        mark = VERDICT_CLASSES.get(claim.verdict)
        verdict = f'<span class="{mark}">{claim.verdict}</span>' if mark else escape(claim.verdict)
        numbers = "<br>".join(escape(part) for part in claim.measured.split("; "))
        cells.append((escape(claim.name), escape(claim.claimed), verdict, numbers))
    headers = ("where", "claimed", "verdict", "measured")
    return table("What was claimed, and what was measured", headers, cells, kind="prose")


def _experiment(
    experiment: Experiment, pictures: Sequence[Picture], tables: Sequence[PaperTable], style: dict[str, Look]
) -> str:
    content = f"<p>{escape(experiment.question)}</p><p><strong>{escape(experiment.answer)}</strong></p>"
    if not experiment.rows:
        return content + strips(pictures)
    content += (
        f'<p class="note">{experiment.rows:,} evaluated policies, seeds {_listed(experiment.seeds)}.</p>'
    )
    return content + strips(pictures) + "".join(_table(one, style) for one in tables)


def _table(entry: PaperTable, style: dict[str, Look]) -> str:
    """A table with the marks of the methods and errors in small print."""
    place = entry.headers.index("method")
    cells = [
        [
            method_name(cell, style[cell]) if column == place else _small_errors(cell)
            for column, cell in enumerate(line)
        ]
        for line in entry.cells
    ]
    return table(entry.title, entry.headers, cells, note=entry.note)


def _small_errors(cell: str) -> str:
    value, sign, rest = escape(cell).partition(" ±")
    return f"{value} <small>±{rest}</small>" if sign else value


def _run(summary: PaperSummary, command: str) -> str:
    versions = "".join(f"<li>{escape(line)}</li>" for line in summary.versions)
    return (
        f'<p>This command repeats everything:</p><pre tabindex="0"><code>{escape(command)}</code></pre>'
        f"<p>{duration(summary)}</p>" + (f"<p>Versions:</p><ul>{versions}</ul>" if versions else "")
    )


def _missing(missing: Sequence[tuple[str, str]]) -> str:
    lines = "".join(f"<li>{escape(what)}: {escape(why)}</li>" for what, why in missing)
    return f"<p>Not drawn:</p><ul>{lines}</ul>" if lines else ""


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
