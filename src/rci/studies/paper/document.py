"""The pages `docs/results.md` and `docs/results_tables.md`, made from the rows alone.

python -m rci.studies.paper.document docs
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, NamedTuple

import typer

from rci.data.errors import RciError
from rci.data.store import write_file
from rci.pipeline.commands.command_line import run_command
from rci.pipeline.results.known_danger import known_rulers
from rci.pipeline.results.rows import Row, read_rows
from rci.reporting.figures.picture import Picture
from rci.reporting.paper.contents import Experiment, PaperSummary
from rci.reporting.paper.figures import OVERVIEW, paper_pictures
from rci.reporting.paper.page import ASKED, COMMAND, duration, headline
from rci.reporting.paper.tables import PaperTable, claim_table, paper_tables
from rci.studies.paper.findings.possible import outcome_of_budget, standing_table
from rci.studies.paper.findings.summary import paper_summary
from rci.studies.paper.from_logs import choice_table
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

writes every number, table and figure of the study to a page of its own. This page is made from the committed rows,
[results/paper.json](../results/paper.json), one per evaluated policy, as are the [long tables](results_tables.md):
`python -m rci.studies.paper.document docs`.
"""


class Section(NamedTuple):
    """A question, the experiments that answer it, and those whose picture shows it."""

    question: str
    experiments: tuple[str, ...]
    pictures: tuple[str, ...]


SECTIONS = (
    Section(
        "Is the paper's claim true as it stands?",
        ("highway", "fetch-reach", "readings", "composition", "label-noise", "controls"),
        (OVERVIEW,),
    ),
    Section(
        "Does redistribution pay under the best learner?",
        ("best-learner", "best-learner-arm"),
        ("best-learner",),
    ),
    Section(
        "When does it pay?",
        ("when-it-pays", "imperfect-labels", "horizon"),
        ("when-it-pays", "imperfect-labels"),
    ),
)
POSSIBLE = "How far is the best from what is possible?"
BUDGETED = ("highway", "fetch-reach", "point")  # tasks with rows of `rci bench budgets`


class OtherRows(NamedTuple):
    """Rows of other studies that the page of answers shows."""

    budgets: Mapping[str, Sequence[Row]] = MappingProxyType({})  # of `rci bench budgets`, by task
    recordings: Mapping[str, Sequence[Row]] = MappingProxyType({})  # the same on the recordings of this study
    judged: Sequence[Row] = ()  # of choices from logs


NO_OTHERS = OtherRows()


def other_rows(results: Path) -> OtherRows:
    """What the folder of rows holds of other studies."""
    return OtherRows(
        {task: read_rows(results / f"one-training-{task}.json") for task in BUDGETED},
        {task: read_rows(results / f"one-training-{task}-study.json") for task in BUDGETED},
        read_rows(results / "from-logs.json"),
    )


def results_document(rows: Sequence[Row], others: OtherRows = NO_OTHERS) -> str:
    """The page of answers. The same rows give the same text, in whatever order they come."""
    summary = _summary(rows, others)
    return _answers(summary, paper_pictures(summary), rows, others)


def tables_document(rows: Sequence[Row]) -> str:
    """The page of long tables."""
    return _tables(paper_summary(rows, known_rulers(TASKS)))


def _summary(rows: Sequence[Row], others: OtherRows) -> PaperSummary:
    with_budget = {task: outcome_of_budget(own) for task, own in others.recordings.items()}
    return paper_summary(
        rows, known_rulers(TASKS), {task: found for task, found in with_budget.items() if found is not None}
    )


def _answers(summary: PaperSummary, drawn: Sequence[Picture], rows: Sequence[Row], others: OtherRows) -> str:
    possible = standing_table(others.budgets, known_rulers(TASKS))
    choices = choice_table(others.judged, {row["key"]: row for row in rows if "failed" not in row})
    parts = [INTRODUCTION, _facts(summary)]
    pictures = {picture.name: picture for picture in drawn}
    for place, section in enumerate(SECTIONS):
        parts.append(f"## {section.question}\n")
        if place == 0:
            parts.append(f"{headline(summary)[1]}\n\n{claim_table(summary).markdown()}")
        parts += [_answer(summary.experiment(name)) for name in section.experiments]
        parts += [
            f"![{pictures[name].alt}](images/study-{name}.png)\n\n{_wrapped(pictures[name].caption)}\n"
            for name in section.pictures
            if name in pictures
        ]
    if possible:
        parts.append(f"## {POSSIBLE}\n\n{_wrapped(POSSIBLE_NOTE)}\n\n{possible}")
    if choices:
        parts.append(f"## {CHOSEN}\n\n{_wrapped(CHOSEN_NOTE)}\n\n{choices}")
    return "\n".join(parts)


def _tables(summary: PaperSummary) -> str:
    tables = paper_tables(summary)
    parts = ["# Long tables\n\nThe numbers behind the [results](results.md), experiment by experiment.\n"]
    parts += [_experiment(one, tables.get(one.name, [])) for one in summary.experiments if one.rows]
    notes = dict.fromkeys(entry.note for group in tables.values() for entry in group if entry.note)
    if notes:
        parts.append("## How to read the tables\n\n" + "\n".join(f"{_wrapped(note)}\n" for note in notes))
    return "\n".join(parts)


POSSIBLE_NOTE = (
    "The default learner on labels as they are, five recordings, 1,000 test episodes each (`rci bench budgets`), "
    "beside drivers trained online who know the danger (`rci reference`): how rarely they violate at the same return, "
    "and how much of the way from the policy without a budget to the best of them the budgets go."
)

CHOSEN = "Which policy would logs alone have chosen?"
CHOSEN_NOTE = (
    "One policy of each configuration of the paper's system and the default learner at three thresholds and without "
    "one, on each recording, chosen as `rci select` does: the highest judged return of those whose estimated chance of "
    "a stop is within the budget; none where none is. Beside it the same rule with the numbers of selection episodes. "
    "Violations and returns are those of the evaluation episodes, means over the recordings on which one was chosen "
    "(`python -m rci.studies.paper.from_logs --out runs/paper-full`)."
)


def _facts(summary: PaperSummary) -> str:
    lines = [_wrapped(duration(summary)), *(f"Versions: {line}." for line in summary.versions)]
    return "\n".join(lines) + "\n"


def _answer(experiment: Experiment) -> str:
    """Title and answer in a paragraph, with how many seeds there are."""
    count = len(experiment.seeds)
    seeds = f" ({count} seed{'' if count == 1 else 's'} so far)" if count else ""
    return _wrapped(f"**{experiment.title}**{seeds}. {experiment.answer}") + "\n"


def _experiment(experiment: Experiment, tables: Sequence[PaperTable]) -> str:
    parts = [f"## {experiment.title}\n", _wrapped(f"{experiment.question} {experiment.answer}") + "\n"]
    parts += [entry.markdown() for entry in tables]
    return "\n".join(parts)


app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def write(
    docs: Annotated[Path, typer.Argument(help="Folder of pages, such as docs.")],
    results: Annotated[Path, typer.Option(help="Folder of rows.")] = Path("results"),
) -> None:
    """Write the pages of results, and the figure of the answer, from the rows."""
    file = results / "paper.json"
    if not file.is_file():
        raise RciError(f"there is no file of rows at {file}.")
    rows, others = read_rows(file), other_rows(results)
    summary = _summary(rows, others)
    pictures = paper_pictures(summary)
    answers = _answers(summary, pictures, rows, others)
    for name, text in {"results.md": answers, "results_tables.md": _tables(summary)}.items():
        write_file(docs / name, text.encode())
        typer.echo(docs / name)
    shown = {name for section in SECTIONS for name in section.pictures}
    for picture in pictures:
        if picture.name in shown:
            write_file(docs / "images" / f"study-{picture.name}.png", picture.png)


def main() -> None:
    """Write the page: exit code 2 and one sentence for a user's mistake."""
    run_command(app, "document")


if __name__ == "__main__":
    main()
