"""The page of results that is made from rows alone."""

import json

import pytest
from paper_rows import row, sweep
from typer.testing import CliRunner

from rci.data.errors import RciError
from rci.studies.paper.document import app, results_document
from rci.studies.paper.questions import QUESTIONS


def test_the_page_tells_command_seeds_duration_and_versions():
    text = results_document(sweep("highway", seeds=2))
    assert text.startswith("# Results\n")
    assert "rci paper --preset full" in text
    assert "To train and test 52 policies took 0.6 hours one after the other, about 0.3 on two cores;" in text
    assert "step costs are not counted." in " ".join(text.split())
    assert "Versions: jax 0.10.2, numpy 2.4.6, python 3.11.7." in text
    assert "Seeds: highway 2." in text


def test_experiments_with_rows_have_tables_and_the_others_are_listed():
    text = results_document(sweep("highway", seeds=2))
    told, _, waiting = text.partition("## Not run yet")
    assert "## The paper's system on the highway" in told
    assert "| method | budget | seeds |" in told
    assert "- Dataset composition\n" in waiting
    assert "- The paper's system on the highway\n" not in waiting
    assert "| Highway: no loss of return |" in told


def test_the_text_depends_on_the_rows_alone():
    rows = sweep("highway", seeds=2)
    assert results_document(rows) == results_document(rows[::-1])


def test_without_rows_nothing_was_run():
    text = results_document([])
    assert text.count("\n- ") == len(QUESTIONS)
    assert "Of 13 claims: 13 not yet measured." in text


def test_lines_of_text_are_short():
    long = [line for line in results_document(sweep("highway", seeds=1)).splitlines() if len(line) > 120]
    assert all(line.startswith("|") for line in long)


def test_the_command_writes_the_page(tmp_path):
    rows, written = tmp_path / "paper.json", tmp_path / "results.md"
    rows.write_text(json.dumps([row()]))
    done = CliRunner().invoke(app, [str(rows), str(written)])
    assert done.exit_code == 0
    assert written.read_text() == results_document([row()])


@pytest.mark.parametrize(
    ("content", "message"), [(None, "there is no file of rows"), ("[{}]", "row 0 has no field 'experiment'")]
)
def test_mistakes_are_told(tmp_path, content, message):
    rows = tmp_path / "paper.json"
    if content is not None:
        rows.write_text(content)
    with pytest.raises(RciError, match=message):
        CliRunner().invoke(app, [str(rows), str(tmp_path / "x.md")], catch_exceptions=False)
