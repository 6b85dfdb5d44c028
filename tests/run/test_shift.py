import json

import pytest
from typer.testing import CliRunner

from rci.data import store
from rci.data.errors import RciError
from rci.redistribution import redistribute, transfer
from rci.studies import shift

ROW = {
    "task": "point",
    "fitted": "random",
    "scored": "ppo",
    "seed": 0,
    "episodes": 20,
    "stopped": 9,
    "mean_spread": 0.02,
    "episode_error": 0.5,
    "episode_correlation": 0.25,
    "episode_groups": [[0.01, 0.4, 10], [0.03, 0.6, 10]],
    "step_error": None,
    "step_correlation": None,
    "step_groups": None,
}


def test_every_job_comes_after_what_it_needs(tmp_path):
    jobs = shift.plan("point", 3, 20, tmp_path)
    done: dict = {}
    for job in jobs:
        assert set(job.needs) <= set(done), job.name
        made = {path for name in job.needs for path in (done[name],)}
        outside = {path for path in job.inputs.values() if path not in set(done.values())}
        assert not outside, job.name
        assert made <= set(done.values())
        done[job.name] = job.output
    # the behaviour that the models were fitted to is asked about with other episodes
    collected = {job.name: job.seed for job in jobs if job.stage == "collect"}
    assert collected["collect-known-3"] != collected["collect-random-3"]
    assert sum(job.stage == "redistribute" for job in jobs) == shift.FIT["members"]


def test_a_row_of_real_artefacts(tmp_path, point_episodes, point_labels):
    folder = tmp_path / "seed0"
    store.write(folder / "random", point_episodes)
    store.write(folder / "random-labels", point_labels)
    fitted = redistribute(point_episodes, point_labels, epochs=1, hidden=4, members=2)
    store.write(folder / "random-costs", transfer(fitted, point_episodes, point_labels))
    row = shift.found_row("point", "random", 0, tmp_path)
    assert row["episodes"] == len(point_episodes)
    assert row["mean_spread"] == pytest.approx(fitted.spread.mean(), rel=0.5)
    assert row["step_correlation"] is not None  # the exact risk of scripted behaviours is known
    assert sum(count for *_, count in row["step_groups"]) == int(point_labels.kept_lengths.sum())
    json.dumps(row, allow_nan=False)


def test_the_table_has_intervals_where_there_are_seeds():
    table = shift.shift_table([ROW, {**ROW, "seed": 1, "mean_spread": 0.04}, {**ROW, "scored": "random"}])
    lines = table.splitlines()
    assert lines[2].startswith("| point | ppo | 2 | 0.030 ± 0.127 | 0.500 ± 0.000 |")
    assert lines[3] == "| point | random | 1 | 0.020 | 0.500 | 0.250 | – | – |"


def test_the_figure_has_a_panel_for_each_known_error():
    from rci.reporting.figures.lines import shift as draw
    from rci.reporting.figures.lines import shift_picture

    known = {**ROW, "scored": "random", "step_groups": ROW["episode_groups"]}
    assert len(draw([ROW, known]).axes) == 2
    assert shift_picture([ROW, known]).png.startswith(b"\x89PNG")


def test_rows_that_are_there_are_kept_and_bad_ones_refused(tmp_path):
    rows = tmp_path / "rows.json"
    assert shift.rows_of(rows).rows() == []
    rows.write_text(json.dumps([ROW]))
    assert shift.rows_of(rows).rows() == [ROW]
    rows.write_text("{")
    with pytest.raises(RciError, match="cannot be read"):
        shift.rows_of(rows)
    rows.write_text("{}")
    with pytest.raises(RciError, match="should be a list of objects"):
        shift.rows_of(rows)
    rows.write_text('[{"task": "point"}]')
    with pytest.raises(RciError, match="not those of this study: a row has no task or no scored or no seed"):
        shift.rows_of(rows)
    with pytest.raises(RciError, match="there is no folder"):
        shift.rows_of(tmp_path / "nowhere" / "rows.json")
    with pytest.raises(RciError, match="unknown task"):
        shift.scored_behaviours("nothing")


def test_a_finished_study_does_nothing(tmp_path, monkeypatch):
    rows = [{**ROW, "seed": 0, "scored": name, "episodes": 20} for name in ("random", "seeker", "ppo")]
    out = tmp_path / "rows.json"
    out.write_text(json.dumps(rows))
    monkeypatch.setattr("rci.studies.study.run_timed", lambda *_: pytest.fail("nothing is left to do"))
    arguments = [
        "point",
        "--work",
        str(tmp_path / "work"),
        "--out",
        str(out),
        "--episodes",
        "20",
        "--seeds",
        "1",
    ]
    done = CliRunner().invoke(shift.app, [*arguments, "--figure", str(tmp_path / "shift.png")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "shift.png").is_file()
    assert json.loads(out.read_text()) == rows
