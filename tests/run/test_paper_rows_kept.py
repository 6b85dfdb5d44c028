"""The study of the paper as cells of a study: who gets a row, what it cost, and what becomes of a failed training."""

from __future__ import annotations

import json

import pytest

from rci.data.errors import RciError
from rci.studies import study as studies
from rci.studies.paper import study
from rci.studies.paper.experiments import OURS, Experiment, Logs
from rci.studies.paper.scales import scale_called

POINT = Experiment("e", (Logs("point"),), ("sparse", "hazard"), ("T3", "T5"), OURS)
SMOKE = scale_called("smoke")


@pytest.fixture
def ran(monkeypatch) -> list[str]:
    """The stages of the jobs that were run, each in a second; the training on the costs of `hazard` fails."""
    stages: list[str] = []

    def run_timed(jobs, out, engine, note, timings, accept):
        dropped = set[str]()
        for job in jobs:
            fails = job.stage == "learn" and "hazard" in str(job.output)
            if dropped.intersection(job.needs) or (fails and accept(job, "it diverged")):
                dropped.add(job.name)
            else:
                stages.append(job.stage)
                timings[job.name] = 1.0
                note(job, 1.0, 1.0)

    def numbers_of(cell, scale, paths, key, seconds):
        numbers = {"mean_return": 1.0, "selection_violation_rate": 0.1, "selection_return": 1.0}
        return {**study.failure_of(cell, scale, key, ""), **numbers, "seconds": seconds}

    def without_failure(*arguments):
        row = numbers_of(*arguments)
        del row["failed"]
        return row

    monkeypatch.setattr(studies, "run_timed", run_timed)
    monkeypatch.setattr(study, "numbers_of", without_failure)
    return stages


def test_rows_of_policies_that_share_a_training(tmp_path, ran):
    told: list[tuple] = []
    file = tmp_path / "rows.json"

    def run(**more):
        return study.run_study(
            [POINT], SMOKE, tmp_path / "out", file, studies.Engine(workers=1), lambda *_: None, **more
        )

    rows = run(on_progress=lambda *news: told.append(news))
    wanted = {
        (method, budget)
        for method in ("sparse", "hazard")
        for budget in SMOKE.chosen_budgets(POINT, POINT.logs[0], method)
    }
    assert {(row["method"], row["budget"]) for row in rows} == wanted
    sparse = [row for row in rows if row["method"] == "sparse"]
    # A training of a second for all its budgets, and two tests of a second for each of them.
    assert [row["seconds"] for row in sparse] == [round(1 / len(sparse) + 2, 1)] * len(sparse)
    assert {row["failed"] for row in rows if row["method"] == "hazard"} == {"it diverged"}
    assert [news[:2] for news in told] == [(done, len(wanted)) for done in range(len(wanted) + 1)]
    assert told[-1][2] == 0.0
    assert ran.count("learn") == 1
    ran.clear()
    assert run() == rows
    assert ran == []


def test_rows_that_nobody_asks_for_are_refused(tmp_path, ran):
    file = tmp_path / "rows.json"
    arguments = SMOKE, tmp_path / "out", file, studies.Engine(workers=1), lambda *_: None
    study.run_study([POINT], *arguments)
    rows = json.loads(file.read_text())
    file.write_text(json.dumps([{**rows[0], "key": "other"}, *rows[1:]]))
    with pytest.raises(RciError, match="does not ask for"):
        study.run_study([POINT], *arguments)
