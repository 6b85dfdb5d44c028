"""Texts from files of others, where they are shown: a terminal, a spreadsheet, a bar of progress."""

import csv
import io
from types import SimpleNamespace

import pytest
from conftest import ragged
from rich.console import Console
from typer.testing import CliRunner

import rci
from rci.cli.main import app
from rci.data.types import Episodes
from rci.engines.progress import _print_lines
from rci.labeling.people.answers import check_name
from rci.reporting.paper.tables import PaperTable, spreadsheet_text

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt"
TOLD = "\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\u202etxt"


def test_inspect_shows_what_a_terminal_would_obey(tmp_path):
    arrays = ragged([3]).arrays()
    rci.save(Episodes(**arrays, task=EVIL), tmp_path / "a")
    result = CliRunner().invoke(app, ["inspect", str(tmp_path / "a")])
    assert result.exit_code == 0
    assert f"task: {TOLD}" in result.output
    as_json = CliRunner().invoke(app, ["inspect", str(tmp_path / "a"), "--json"])
    for character in "\x1b\x07\x9b\u202e":
        assert character not in result.output + as_json.output


def test_notes_on_an_import_have_nothing_to_obey(tmp_path):
    (tmp_path / "a.csv").write_text(f"obs_{EVIL},action,reward\n1,3,4\n1,3,4\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["import", str(tmp_path / "a.csv"), "--out", str(tmp_path / "a")])
    assert result.exit_code == 0, result.output
    assert TOLD in result.output
    assert "\x1b" not in result.output


def test_the_name_of_a_job_is_no_markup(capsys):
    file = io.StringIO()
    _print_lines(Console(file=file))(SimpleNamespace(name="[red]a[/red] [link=http://x]b"), 1.0, None)
    assert file.getvalue() == "[red]a[/red] [link=http://x]b  unchanged\n"


@pytest.mark.parametrize(
    "cell",
    [
        "=1+1",
        "@SUM(A1)",
        "+cmd|' /C calc'!A0",
        "-2+3+cmd|' /C calc'!D2",
        " =HYPERLINK(1)",
        "\t=1",
        "−=1",
    ],
)
def test_a_spreadsheet_takes_no_cell_for_a_formula(cell):
    written = list(csv.reader(io.StringIO(PaperTable("x", "X", ("a",), ((cell,),)).csv(), newline="")))[1][0]
    assert written == f"'{cell.replace('−', '-')}"


@pytest.mark.parametrize(
    "cell", ["", "rci", "0.05", "-3.2 ± 0.1", "+4%", "-1.5 (-2.0 to -1.1)", "1e-05", "-2e-05", "a=b"]
)
def test_numbers_and_names_stay_as_they_are(cell):
    assert spreadsheet_text(cell) == cell


def test_a_cell_is_one_line():
    assert spreadsheet_text("a\r=1") == "a\\r=1"


@pytest.mark.parametrize("name", ["=1+1", "+a", "-a", "@a", "\ta", "a\x1b[2J"])
def test_no_annotator_has_a_name_that_does_something(name):
    with pytest.raises(rci.RciError):
        check_name(name)
