"""The study of where the hazard stands: its arithmetic by hand, and what the committed file says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rci.data.episodes import Episode, Episodes
from rci.data.errors import RciError
from rci.run import placement
from rci.tasks import rollout
from rci.tasks.fetch_reach.hazard import ACHIEVED, GOAL, GRIPPER, HAZARD, START, Hazard

COMMITTED = Path(__file__).parents[2] / "results" / "fetch-placement.json"
AHEAD = Hazard((START[0] + 0.08, START[1], START[2]), 0.03)  # from 5 to 11 cm ahead of the start


def journey(*ahead: float, goal: tuple[float, float, float]) -> Episode:
    """An arm that is so many metres ahead of the start after each step, on its way to START + goal."""
    obs = np.zeros((len(ahead) + 1, 16))
    obs[:, GRIPPER] = START
    obs[1:, 0] += ahead
    obs[:, ACHIEVED], obs[:, GOAL] = obs[:, GRIPPER], START + goal
    steps = len(ahead)
    return Episode(obs, np.zeros((steps, 4), np.float32), np.full(steps, -0.1), False, True)


def test_a_straight_way_through_the_sphere_counts_and_refused_goals_drop_out():
    through = journey(0.04, 0.08, 0.12, 0.14, goal=(0.14, 0, 0))  # inside after its second step
    short = journey(0.02, 0.02, goal=(0.02, 0, 0))
    refused = journey(0.04, 0.08, goal=(0.08, 0, 0))  # to the very centre
    near = journey(0.04, 0.04, goal=(0.04, 0, 0))  # a goal 1 cm from the surface: less than the clearance
    found = placement.score(AHEAD, Episodes.from_list([through, short, refused, near]))
    assert (found["episodes"], found["violation_rate"], found["median_first_violation"]) == (2, 0.5, 2.0)
    low, high = found["violation_interval"]
    assert low < 0.5 < high
    with pytest.raises(RciError, match="all of 1 goals are refused"):
        placement.score(AHEAD, Episodes.from_list([refused]))


def test_the_gap_is_from_the_start_to_the_surface():
    hazard = placement.hazard_at((1, 1, 0), gap=0.05, radius=0.06, cone=70.0)
    assert hazard.distance(START) == pytest.approx(0.05, abs=1e-4)
    assert (hazard.radius, hazard.cone) == (0.06, 70.0)
    assert hazard.centre[0] - START[0] == pytest.approx(hazard.centre[1] - START[1], abs=1e-4)


def test_no_run_draws_from_the_stream_of_the_study():
    names = ("COLLECTION", "EVALUATION", "ROLLOUTS", "TRAINING", "SELECTION", "BLIND", "PRICED", "REFERENCE")
    assert placement.PLACEMENT not in [getattr(rollout, name) for name in names]


def test_the_study_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "GRID", {placement.CORNER: ((0.05,), (0.04,), (30.0,))})
    out = tmp_path / "rows.json"
    answer = CliRunner().invoke(placement.app, ["--out", str(out), "--episodes", "30"])
    assert answer.exit_code == 0, answer.output
    (row,) = json.loads(out.read_text())
    assert row["seeker"]["violation_rate"] > 0.4
    assert row["hazard"] == json.loads(
        json.dumps(asdict(placement.hazard_at(placement.CORNER, 0.05, 0.04, 30.0)))
    )


def test_wrong_options_are_refused(tmp_path):
    result = CliRunner().invoke(placement.app, ["--out", str(tmp_path / "none" / "rows.json")])
    assert isinstance(result.exception, RciError)
    assert "there is no folder" in str(result.exception)


def test_the_committed_rows_hold_the_chosen_sphere():
    rows = json.loads(COMMITTED.read_text())
    (chosen,) = [row for row in rows if row["hazard"] == json.loads(json.dumps(asdict(HAZARD)))]
    for arm in placement.ARMS:
        assert chosen[arm]["violation_interval"][0] > 0.4
