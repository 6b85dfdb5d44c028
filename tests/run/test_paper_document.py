"""The page of results that is made from rows alone."""

import json

import pytest
from paper_rows import sweep
from typer.testing import CliRunner

from rci.data.errors import RciError
from rci.evaluation.reference import ReferencePoint, Ruler
from rci.studies.paper.document import SECTIONS, OtherRows, app, results_document, tables_document
from rci.studies.paper.findings.possible import standings
from rci.studies.paper.questions import QUESTIONS

POINT = ReferencePoint("informed", 30.0, 3, 0.0, 0.0, 0.01, 100.0, 99.0, 101.0, 100.0, None)


def test_the_page_tells_command_seeds_duration_and_versions():
    text = results_document(sweep("highway", seeds=2))
    assert text.startswith("# Results\n")
    assert "rci paper --preset full" in text
    assert "To train and test 52 policies took 0.6 hours one after the other, about 0.3 on two cores;" in text
    assert "step costs are not counted." in " ".join(text.split())
    assert "Versions: jax 0.10.2, numpy 2.4.6, python 3.11.7." in text
    assert "**The paper's system on the highway** (2 seeds so far)." in text


def test_answers_are_on_one_page_and_long_tables_on_another():
    rows = sweep("highway", seeds=2)
    answers, tables = results_document(rows), tables_document(rows)
    assert "| Highway: no loss of return |" in answers
    assert "**Dataset composition**. Not run yet." in answers
    assert "| method | budget | seeds |" not in answers
    assert "## The paper's system on the highway" in tables
    assert "| method | budget | seeds |" in tables
    assert "Dataset composition" not in tables


def test_every_experiment_answers_one_of_the_questions():
    asked = [name for section in SECTIONS for name in section.experiments]
    assert sorted(asked) == sorted(QUESTIONS)


def test_the_default_stands_beside_what_is_possible():
    budgets = [
        {"task": "highway", "budget": budget, "mean_return": gain, "violation_rate": rate, "costs": costs}
        for budget, gain, rate, costs in (
            ("inf", 70.0, 0.7, "sparse"),
            ("0.1", 63.0, 0.02, "sparse"),
            ("0.1", 66.0, 0.04, "sparse"),
            ("0.1", 1.0, 0.9, "rudder"),  # other step costs are not the default
        )
    ]
    found = standings(budgets, Ruler(0.0, 100.0, POINT, (POINT,)))
    assert [(one.budget, one.seeds) for one in found] == [("inf", 1), ("0.1", 2)]
    assert found[1].violation_rate == pytest.approx(0.03)
    assert found[1].kept == pytest.approx(64.5 / 70.0)
    assert found[1].possible == pytest.approx(0.0)  # the informed driver violates nowhere
    # Merit: 0.645 - 0.03 against 0.7 - 0.7 without a budget and 1 of the driver.
    assert found[1].share_of_way == pytest.approx(0.615)
    assert standings(budgets[1:], None) == []  # nothing to compare with
    text = results_document([], OtherRows(budgets={"highway": budgets}))
    assert "| highway | 10.0% | 2 | 3.0% |" in text


def test_the_text_depends_on_the_rows_alone():
    rows = sweep("highway", seeds=2)
    assert results_document(rows) == results_document(rows[::-1])


def test_without_rows_nothing_was_run():
    text = results_document([])
    assert text.count("Not run yet.") == len(QUESTIONS)
    assert "Of 17 claims: 17 not yet measured." in text
    assert "![" not in text


def test_lines_of_text_are_short():
    long = [line for line in results_document(sweep("highway", seeds=1)).splitlines() if len(line) > 120]
    assert all(line.startswith(("|", "![")) for line in long)  # tables, and what pictures show


def test_the_command_writes_pages_and_pictures(tmp_path):
    (tmp_path / "results").mkdir()
    rows = sweep("highway", seeds=1)
    (tmp_path / "results" / "paper.json").write_text(json.dumps(rows))
    (tmp_path / "docs" / "images").mkdir(parents=True)
    done = CliRunner().invoke(app, [str(tmp_path / "docs"), "--results", str(tmp_path / "results")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "docs" / "results.md").read_text() == results_document(rows)
    assert (tmp_path / "docs" / "results_tables.md").read_text() == tables_document(rows)
    assert (tmp_path / "docs" / "images" / "study-overview.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("content", "message"), [(None, "there is no file of rows"), ("[{}]", "row 0 has no field 'experiment'")]
)
def test_mistakes_are_named(tmp_path, content, message):
    if content is not None:
        (tmp_path / "paper.json").write_text(content)
    with pytest.raises(RciError, match=message):
        CliRunner().invoke(app, [str(tmp_path), "--results", str(tmp_path)], catch_exceptions=False)
