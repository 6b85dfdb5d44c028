"""Choices from logs: which policies are judged, what would be taken, and what the table says of it."""

from __future__ import annotations

import pytest

from rci.data.errors import RciError
from rci.studies.paper.cells import StudyPaths
from rci.studies.paper.from_logs import by_simulator, candidates, choice_table, from_logs, run_study
from rci.studies.paper.scales import scale_called


def judged(key, stop, gain, seed=0, method="sparse", budget="T5"):
    return {
        "key": key, "task": "highway", "seed": seed, "learner": "feasible", "method": method, "budget": budget,
        "stop": [stop, 0.0, 1.0], "judged_return": gain,
    }  # fmt: skip


def measured(key, rate, gain, selection_rate, selection_gain):
    return {
        "key": key, "violation_rate": rate, "mean_return": gain,
        "selection_violation_rate": selection_rate, "selection_return": selection_gain,
    }  # fmt: skip


JUDGED = [judged("a", 0.04, 1.0), judged("b", 0.08, 3.0), judged("c", 0.5, 9.0)]
MEASURED = {
    row["key"]: row
    for row in (
        measured("a", 0.02, 10.0, 0.01, 11.0),
        measured("b", 0.30, 30.0, 0.25, 31.0),
        measured("c", 0.06, 60.0, 0.09, 61.0),
    )
}


def test_the_highest_judged_return_within_the_budget_is_taken():
    assert from_logs(JUDGED, 0.05)["key"] == "a"
    assert from_logs(JUDGED, 0.1)["key"] == "b"
    assert from_logs(JUDGED, 0.6)["key"] == "c"
    assert from_logs(JUDGED, 0.01) is None


def test_a_simulator_takes_by_its_selection_episodes():
    assert by_simulator(JUDGED, MEASURED, 0.05)["key"] == "a"
    assert by_simulator(JUDGED, MEASURED, 0.1)["key"] == "c"
    assert by_simulator(JUDGED, MEASURED, 0.001) is None


def test_the_table_says_what_the_choice_does():
    rows = [*JUDGED, judged("d", 0.3, 1.0, seed=1), judged("e", 0.0, 1.0, seed=2)]  # `e` was never measured
    lines = choice_table(rows, {**MEASURED, "d": measured("d", 0.4, 2.0, 0.4, 2.0)}).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
    assert cells[1] == [
        "highway", "10.0%", "2", "1", "sparse T5 (feasible) x1", "30.0% (at most 30.0%)", "30.0",
        "6.0% (at most 6.0%)", "60.0",
    ]  # fmt: skip
    assert cells[0][:6] == ["highway", "5.0%", "2", "1", "sparse T5 (feasible) x1", "2.0% (at most 2.0%)"]
    assert choice_table(JUDGED, {}) == ""


def test_one_policy_of_each_configuration_is_judged():
    full = scale_called("full")
    cells = candidates("highway", 3, full)
    assert {cell.seed for cell in cells} == {3}
    assert [(cell.method, cell.budget) for cell in cells if cell.learner == "feasible"] == [
        ("reward-only", "inf"), ("sparse", "T3"), ("sparse", "T5"), ("sparse", "T7"),
    ]  # fmt: skip
    assert len(cells) == 12
    with pytest.raises(RciError, match="chosen on highway and fetch-reach, not on 'point'"):
        candidates("point", 0, full)


@pytest.mark.slow
def test_a_recording_is_judged_once(tmp_path):
    smoke, file = scale_called("smoke"), tmp_path / "rows.json"
    rows = run_study(["highway"], [0], smoke, tmp_path / "study", file)
    assert len(rows) == len(candidates("highway", 0, smoke))
    assert all(0.0 <= row["stop"][1] <= row["stop"][0] <= row["stop"][2] <= 1.0 for row in rows)
    assert StudyPaths(tmp_path / "study").policy(candidates("highway", 0, smoke)[0], smoke).is_dir()
    before = file.read_bytes()
    assert run_study(["highway"], [0], smoke, tmp_path / "elsewhere", file) == rows  # nothing is done again
    assert file.read_bytes() == before
