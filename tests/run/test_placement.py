"""The study of where the hazard stands: its arithmetic by hand, its file, and what the committed file says."""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rci.data.episodes import Episode, Episodes
from rci.data.errors import RciError
from rci.data.options import build
from rci.reporting import placement_figures
from rci.run import placement
from rci.tasks import TASKS, rollout
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


def rows_of(study: str) -> list[placement.Row]:
    return [row for row in placement.read_rows(COMMITTED) if row["settings"]["study"] == study]


class Here(Executor):
    """Does the work at once, in this process."""

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.fixture
def worked(monkeypatch) -> Iterator[list[placement.Table]]:
    """The settings that were worked on; the work itself is nothing."""
    calls: list[placement.Table] = []

    def work(settings: placement.Table) -> placement.Row:
        calls.append(settings)
        return {"settings": settings, "found": {"number": len(calls)}}

    monkeypatch.setattr(placement, "work", work)
    return calls


def test_first_violations_by_hand():
    found = placement.outcome(np.array([-1, 0, 1, 5, 2, -1, -1, -1]), np.array([-1.0, -3.0] * 4))
    assert (found["episodes"], found["violations"], found["violation_rate"]) == (8, 4, 0.5)
    assert found["first_in_step"] == {"1": 1, "2": 1, "later": 2}
    assert found["mean_return"] == -2.0
    low, high = found["violation_interval"]
    assert (low, high) == (pytest.approx(0.157, abs=1e-3), pytest.approx(0.843, abs=1e-3))


def test_a_straight_way_through_the_sphere_counts_and_refused_goals_drop_out():
    through = journey(0.04, 0.08, 0.12, 0.14, goal=(0.14, 0, 0))  # inside after its second step
    short = journey(0.02, 0.02, goal=(0.02, 0, 0))
    refused = journey(0.04, 0.08, goal=(0.08, 0, 0))  # to the very centre
    near = journey(0.04, 0.04, goal=(0.04, 0, 0))  # a goal 1 cm from the surface: less than the clearance
    episodes = Episodes.from_list([through, short, refused, near])
    found = placement.score(AHEAD, episodes)
    assert (found["episodes"], found["violations"], found["goals_kept"]) == (2, 1, 0.5)
    assert found["first_in_step"] == {"1": 0, "2": 1, "later": 0}
    assert found["mean_return"] == pytest.approx((-0.4 - 0.2) / 2)
    with pytest.raises(RciError, match="all of 1 goals are refused"):
        placement.score(AHEAD, Episodes.from_list([refused]))


def test_the_best_direction_is_the_one_that_is_entered():
    episodes = Episodes.from_list([journey(0.04, 0.08, 0.12, 0.14, goal=(0.14, 0, 0))] * 3)
    found = placement.best_direction(episodes, gap=0.05, radius=0.03)
    assert (found["direction"], found["violation_rate"]) == ([1, 0, 0], 1.0)
    assert len(placement.DIRECTIONS) == 26


def test_the_gap_is_from_the_start_to_the_surface():
    hazard = placement.hazard_at((1, 1, 0), gap=0.05, radius=0.06, cone=70.0)
    assert hazard.distance(START) == pytest.approx(0.05, abs=1e-4)
    assert (hazard.radius, hazard.cone) == (0.06, 70.0)
    assert hazard.centre[0] - START[0] == pytest.approx(hazard.centre[1] - START[1], abs=1e-4)


def test_rows_are_keyed_by_all_their_settings():
    settings = placement.plan()
    assert len({placement.key(entry) for entry in settings}) == len(settings)
    first = settings[0]
    assert build(Hazard, first["hazard"], "hazard") == HAZARD
    assert placement.key(first) == placement.key(dict(reversed(first.items())))
    for change in ({"seed": 9}, {"episodes": 7}, {"hazard": {}}, {"ppo": {}}):
        assert placement.key({**first, **change}) != placement.key(first)


def test_no_run_draws_from_the_streams_of_the_study():
    purposes = (rollout.COLLECTION, rollout.EVALUATION, rollout.ROLLOUTS, rollout.TRAINING)
    assert placement.PLACEMENT not in purposes


def test_what_is_there_is_not_done_again(tmp_path, worked):
    path, settings = tmp_path / "rows.json", placement.plan()[:4]
    before = placement.run_study(path, settings[1:3], Here())
    assert worked == settings[1:3]
    rows = placement.run_study(path, settings, Here())
    assert worked == [*settings[1:3], settings[0], settings[3]]
    assert [row["settings"] for row in rows] == settings
    assert rows[1:3] == before
    assert placement.read_rows(path) == rows
    assert placement.run_study(path, settings[2:], Here()) == rows[2:]  # fewer settings, fewer rows
    assert placement.read_rows(path) == rows[2:]
    assert len(worked) == 4


def test_rows_are_kept_as_they_come(tmp_path, worked):
    path, seen = tmp_path / "rows.json", []
    placement.run_study(
        path, placement.plan()[:3], Here(), lambda row: seen.append(len(placement.read_rows(path)))
    )
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("content", ["no JSON", "{}", '[{"task": "highway"}]'])
def test_a_file_of_something_else_is_refused(tmp_path, content, worked):
    path = tmp_path / "rows.json"
    path.write_text(content)
    with pytest.raises(RciError, match="rows.json"):
        placement.run_study(path, placement.plan(), Here())
    assert path.read_text() == content
    assert worked == []


def test_wrong_options_are_refused(tmp_path):
    result = CliRunner().invoke(placement.app, ["--out", str(tmp_path / "none" / "rows.json")])
    assert isinstance(result.exception, RciError)
    assert "there is no folder" in str(result.exception)
    assert CliRunner().invoke(placement.app, []).exit_code == 2
    with pytest.raises(RciError, match="only .* cores"):
        placement.workers_pool(10_000)


def test_a_candidate_is_a_task_for_a_while_only():
    candidate = placement._candidate(placement.plan()[-1])
    with placement.registered(candidate):
        assert TASKS[placement.CANDIDATE] is candidate
        with pytest.raises(RciError, match="already"), placement.registered(candidate):
            pass
    assert placement.CANDIDATE not in TASKS


def test_a_row_of_ppo_has_all_checkpoints_and_the_last():
    tiny = {
        "total_steps": 128,
        "num_envs": 4,
        "rollout_length": 16,
        "minibatches": 2,
        "epochs": 1,
        "checkpoints": 2,
    }
    settings = {**placement.plan()[0], "episodes": 4, "ppo": tiny}
    row = placement.work(settings)
    assert row["settings"] == settings
    assert (row["found"]["episodes"], row["found"]["last_checkpoint"]["episodes"]) == (4, 2)
    assert row["found"]["goals_kept"] == 1.0  # the world draws again what the hazard refuses
    with pytest.raises(RciError, match="5 episodes cannot be shared by 2"):
        placement.work({**settings, "episodes": 5})


def test_the_committed_file_is_the_declared_study():
    assert [row["settings"] for row in placement.read_rows(COMMITTED)] == placement.plan()


def test_the_chosen_hazard_keeps_its_promises():
    chosen = [row for row in rows_of("ppo") if build(Hazard, row["settings"]["hazard"], "hazard") == HAZARD]
    seeds = [row["settings"]["seed"] for row in chosen]
    assert seeds == [*placement.SEEDS, *placement.CONFIRMING]
    low, high = placement_figures.WANTED
    fresh = [row["found"] for row, seed in zip(chosen, seeds) if seed in placement.CONFIRMING]
    assert low <= np.mean([found["violation_rate"] for found in fresh]) <= high
    assert low <= np.mean([row["found"]["last_checkpoint"]["violation_rate"] for row in chosen]) <= high
    (detour,) = [row for row in rows_of("scripted") if row["settings"]["behaviour"] == "detour"]
    assert detour["found"]["violation_rate"] < 0.01
    assert detour["found"]["episodes"] >= 1000


def test_native_goals_need_a_sphere_at_the_start():
    rows = rows_of("native")
    often = [row for row in rows if row["found"]["violation_rate"] >= placement_figures.WANTED[0]]
    assert often
    assert max(row["settings"]["gap"] for row in often) <= 0.02
    for row in often:
        assert row["found"]["first_in_step"]["1"] > 0.8 * row["found"]["violations"]


def test_the_figure_shows_the_committed_rows():
    rows = placement.read_rows(COMMITTED)
    found = placement_figures.candidates(rows, HAZARD)
    assert [candidate.chosen for candidate in found].count(True) == 1
    assert found[0].place == placement_figures.placed(HAZARD)
    shown = [candidate for _, family in placement_figures.families(found) for _, candidate in family]
    assert {candidate.place for candidate in shown} == {candidate.place for candidate in found}
    picture = placement_figures.placement_picture(rows, HAZARD)
    assert f"{placement_figures.label(found[0].place)}: {100 * np.mean(found[0].rates):.0f}%" in picture.alt
    assert picture.png.startswith(b"\x89PNG")
    assert len(picture.png) < 120_000
    with pytest.raises(RciError, match="whole study"):
        placement_figures.placement([], HAZARD)


def test_candidates_stand_with_those_that_differ_in_one_number():
    def at(*place: float) -> placement_figures.Candidate:
        return placement_figures.Candidate(place, False, (0.4,), (0.4,), 0.0)

    found = [at(60, 4, 6), at(50, 5, 6), at(50, 4, 6), at(50, 5, 7), at(180, 5, 6), at(90, 5, 6)]
    shown = {name: [word for word, _ in group] for name, group in placement_figures.families(found)}
    assert shown == {
        "Cone, at gap 5 cm and radius 6 cm": ["50°", "90°", "anywhere"],
        "Gap, at cone 50° and radius 6 cm": ["4 cm", "5 cm"],
        "Radius, at cone 50° and gap 5 cm": ["6 cm", "7 cm"],
        "Cone, gap, radius": ["60°, 4 cm, 6 cm"],
    }


def test_a_row_is_told_in_a_line():
    row = {
        "settings": {
            "study": "ppo",
            "hazard": {"centre": [1.4418, 0.7491, 0.5347], "radius": 0.06},
            "seed": 0,
        },
        "found": {"violation_rate": 0.384, "violation_interval": [0.341, 0.428], "episodes": 500},
    }
    assert placement.told(row) == (
        "ppo, cone 180 degrees, gap 4.0 cm, radius 6.0 cm, seed 0: 38.4% (34.1 to 42.8) of 500 episodes"
    )
