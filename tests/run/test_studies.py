"""What all studies share: jobs done once, rows as they come, failures that are rows, and rows that are found again."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

import pytest

from rci.data.errors import RciError
from rci.pipeline.jobs import Job
from rci.studies import budgets as bench_budgets
from rci.studies import shift
from rci.studies import study as studies
from rci.studies.paper.cells import cells as paper_cells
from rci.studies.paper.cells import key_of as paper_key
from rci.studies.paper.experiments import EXPERIMENTS
from rci.studies.paper.scales import scale_called
from rci.studies.reference import study as reference
from rci.studies.reference.drivers import PRICES, drivers, family_of
from rci.studies.reference.drivers import key_of as driver_key
from rci.studies.study import Pace, RowsFile, Study, complete, key_from, once

RESULTS = Path(__file__).parent.parent.parent / "results"


class Cell(NamedTuple):
    name: str
    shared: str = "logs"


def job(name: str) -> Job:
    return Job(name, "label", {}, 0, {}, Path(name))


def study(names: str, **more) -> Study[Cell]:
    return Study(
        [Cell(name) for name in names],
        lambda cell: cell.name,
        lambda missing: [
            job(n) for cell in missing for n in (cell.shared, f"train-{cell.name}", f"test-{cell.name}")
        ],
        lambda cell: f"train-{cell.name}",
        lambda cell: [f"test-{cell.name}"],
        lambda cell, seconds: {"key": cell.name, "seconds": seconds.get(f"train-{cell.name}")},
        **more,
    )


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """The names of the jobs that were run; `train-b` fails, where that may be."""
    names: list[str] = []

    def run_timed(jobs, out, engine, note, timings, accept):
        dropped = ""
        for one in jobs:
            if one.name.endswith(dropped or "nothing"):
                continue
            names.append(one.name)
            if one.name == "train-b" and accept(one, "no stop was seen"):
                dropped = "-b"
                continue
            timings[one.name] = 2.0
            note(one, 1.0, 2.0)

    monkeypatch.setattr(studies, "run_timed", run_timed)
    return names


def quiet(*news) -> None:
    """Nobody listens."""


def test_what_cells_share_is_done_once_and_what_has_a_row_not_at_all(tmp_path, ran):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([{"key": "other"}, {"key": "a", "seconds": 1.0}]))
    rows, told = RowsFile(file), []
    complete(study("abc"), rows, tmp_path, None, quiet, lambda *news: told.append(news))
    assert ran == ["logs", "train-b", "test-b", "train-c", "test-c"]
    assert [row["key"] for row in json.loads(file.read_text())] == ["other", "a", "b", "c"]
    assert [row["seconds"] for row in rows.of(study("cab"))] == [2.0, 1.0, 2.0]
    assert [news[:2] for news in told] == [(1, 3), (2, 3), (3, 3)]
    assert told[0][2] == math.inf
    assert told[-1][2] == 0.0
    complete(study("abc"), RowsFile(file), tmp_path, None, quiet)
    assert len(ran) == 5


def test_a_row_comes_with_the_last_of_its_tests(tmp_path, ran, monkeypatch):
    two = study("a")
    two = Study(**{**vars(two), "tests": lambda cell: ["train-a", "test-a"]})
    seen = []
    monkeypatch.setattr(RowsFile, "add", lambda self, row: seen.append([*ran]))
    complete(two, RowsFile(tmp_path / "rows.json"), tmp_path, None, quiet)
    assert seen == [["logs", "train-a", "test-a"]]


def test_the_time_left_is_that_of_the_stages_that_are_left(monkeypatch):
    """Four labels, two policies; labels take 2 s in the median, policies 60 s; two jobs are done at once."""
    now = [0.0]
    monkeypatch.setattr(studies.time, "monotonic", lambda: now[0])
    jobs = [Job(name, "learn" if name in "xy" else "label", {}, 0, {}, Path(name)) for name in "abcdxy"]
    pace = Pace(jobs)
    now[0] = 33.0
    pace.done("a", 1.0)
    pace.done("b", 2.0)
    pace.done("c", 3.0)
    assert pace.seconds_left() == math.inf  # nobody knows how long policies take
    pace.done("x", 60.0)
    pace.done("another", 1000.0)
    assert pace.seconds_left() == pytest.approx((2.0 + 60.0) / (66.0 / 33.0))
    pace.done("d", None)  # unchanged: it took no time, and says nothing of others
    assert pace.seconds_left() == pytest.approx(60.0 / 2.0)
    pace.done("y", 60.0)
    assert pace.seconds_left() == 0.0


def test_a_failure_may_be_a_row(tmp_path, ran):
    rows = RowsFile(tmp_path / "rows.json")
    failing = study("abc", failure=lambda cell, why: {"key": cell.name, "failed": why})
    complete(failing, rows, tmp_path, None, quiet)
    assert ran == ["logs", "train-a", "test-a", "train-b", "train-c", "test-c"]
    assert rows.by_key["b"] == {"key": "b", "failed": "no stop was seen"}
    assert set(rows.by_key) == {"a", "b", "c"}


def test_files_that_are_of_no_study(tmp_path):
    with pytest.raises(RciError, match="there is no folder"):
        RowsFile(tmp_path / "nowhere" / "rows.json")
    (tmp_path / "rows.json").write_text('[{"name": 1}]')
    with pytest.raises(RciError, match="not those of a study: a row has no key"):
        RowsFile(tmp_path / "rows.json")


def test_jobs_of_one_name_are_one():
    assert [one.name for one in once([job("b"), job("a"), job("b")])] == ["b", "a"]


def test_a_key_stands_for_settings():
    assert key_from({"a": 1, "b": 2}) == key_from({"b": 2, "a": 1}) != key_from({"a": 1})


# Rows that were committed are found again: no key has changed.


@pytest.mark.parametrize("task", ["point", "highway", "highway-dense", "fetch-reach"])
def test_committed_rows_of_one_training(task):
    rows = RowsFile(RESULTS / f"one-training-{task}.json").rows()
    config = bench_budgets.study_config(task)
    for row in rows:
        cell = bench_budgets.Cell(row["seed"], float(row["budget"]))
        costs = bench_budgets.parse_costs(row["costs"])
        assert bench_budgets.key_of(cell, config, row["episodes"], costs) == row["key"]


@pytest.mark.parametrize("task", ["point", "highway", "highway-open", "highway-disc", "fetch-reach"])
def test_committed_rows_of_references(task):
    file = RESULTS / f"reference-{task}.json"
    if not file.is_file():
        pytest.skip("nobody has committed it")
    rows = RowsFile(file)
    setting = reference.reference_setting(task, 1000, {}, {})
    asked = drivers(setting, family_of(task, PRICES), 1)
    assert [driver.name for driver in asked if not rows.has(driver_key(driver, setting))] == []


def test_committed_rows_of_the_paper():
    scale = scale_called("full")
    rows = json.loads((RESULTS / "paper.json").read_text())
    asked = {
        (name, paper_key(cell, scale))
        for name, experiment in EXPERIMENTS.items()
        if not experiment.drawn
        for cell in paper_cells(experiment, scale)
    }
    assert {(row["experiment"], row["key"]) for row in rows} <= asked


def test_committed_rows_of_shifted_behaviour():
    rows = shift.rows_of(RESULTS / "shift.json")
    asked = shift.study_of("point", range(3), 1000, Path("work")).cells
    assert all(rows.has(cell) for cell in asked)
