"""The text of `docs/results.md`, made from the rows alone.

python -m rci.run.paper.document results/paper.json docs/results.md
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.reporting.paper.contents import Experiment, PaperSummary
from rci.reporting.paper.page import ASKED, COMMAND, duration, headline
from rci.reporting.paper.tables import PaperTable, claim_table, paper_tables
from rci.run.command import run_command
from rci.run.paper.summary import paper_summary
from rci.run.reference.known import known_rulers
from rci.run.rows import Row, read_rows
from rci.tasks import TASKS

WIDTH = 120


def _wrapped(text: str) -> str:
    """A paragraph in lines, as the pages beside it are written; nothing is broken inside a word."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


INTRODUCTION = f"""# Results

{_wrapped(ASKED)}

```sh
{COMMAND}
```

writes every number, table and figure below to a page of its own; this page is made from the committed rows,
[results/paper.json](../results/paper.json), one per evaluated policy:
`python -m rci.run.paper.document results/paper.json docs/results.md`.
"""


def results_document(rows: Sequence[Row]) -> str:
    """The whole page. The same rows give the same text, in whatever order they come."""
    summary = paper_summary(rows, known_rulers(TASKS))
    tables = paper_tables(summary)
    parts = [INTRODUCTION, _facts(summary), _claims(summary)]
    parts += [_experiment(one, tables.get(one.name, [])) for one in summary.experiments if one.rows]
    notes = dict.fromkeys(entry.note for group in tables.values() for entry in group if entry.note)
    if notes:
        parts.append("## How to read the tables\n\n" + "\n".join(f"{_wrapped(note)}\n" for note in notes))
    waiting = [one.title for one in summary.experiments if not one.rows]
    if waiting:
        parts.append("## Not run yet\n\n" + "".join(f"- {title}\n" for title in waiting))
    return "\n".join(parts)


def _facts(summary: PaperSummary) -> str:
    counts = ", ".join(f"{one.name} {len(one.seeds)}" for one in summary.experiments if one.rows)
    lines = [_wrapped(duration(summary)), *(f"Versions: {line}." for line in summary.versions)]
    if counts:
        lines.append(_wrapped(f"Seeds: {counts}."))
    return "\n".join(lines) + "\n"


def _claims(summary: PaperSummary) -> str:
    return f"## Claimed and measured\n\n{headline(summary)[1]}\n\n{claim_table(summary).markdown()}"


def _experiment(experiment: Experiment, tables: Sequence[PaperTable]) -> str:
    parts = [f"## {experiment.title}\n", _wrapped(f"{experiment.question} {experiment.answer}") + "\n"]
    parts += [entry.markdown() for entry in tables]
    return "\n".join(parts)


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def write(
    rows: Annotated[Path, typer.Argument(help="File of rows, such as results/paper.json.")],
    page: Annotated[Path, typer.Argument(help="Markdown file to write, such as docs/results.md.")],
) -> None:
    """Write the page of results from the rows."""
    if not rows.is_file():
        raise RciError(f"there is no file of rows at {rows}.")
    write_file(page, results_document(read_rows(rows)).encode())
    typer.echo(page)


def main() -> None:
    """Write the page: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "document")


if __name__ == "__main__":
    main()
