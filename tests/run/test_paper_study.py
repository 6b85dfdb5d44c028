"""The study of the paper: what it asks for, what identifies a policy, and that it goes on from numbers alone."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rci.data.errors import RciError
from rci.run.engine import Engine
from rci.run.paper.board import Board
from rci.run.paper.cells import Cell, Places, cells, check_settings, key_of, learn_settings, plan
from rci.run.paper.experiments import EXPERIMENTS, METHODS, POINT, Experiment, Logs
from rci.run.paper.rows import judged_together, read_study
from rci.run.paper.scales import SCALES, scale_called
from rci.run.paper.study import _Clock, chosen, run_study
from rci.run.progress import duration

FULL = SCALES["full"]
TINY = replace(
    SCALES["smoke"],
    episodes=60,
    least_episodes=1,
    updates=20,
    test_episodes=20,
    selection_episodes=10,
    behaviour={"point": {"hidden": 8, "updates": 10, "proposals": 5}},
    learn={"point": {"hidden": 8, "batch_size": 8, "candidates": 2, "test_candidates": 2}},
)
SMALL = Experiment("small", (POINT,), ("sparse",), ("0.1",), lengths=(0.5, 1.0))


# What is asked for


def test_the_main_comparison_is_the_papers() -> None:
    """Three policies at five percentiles and five seeds for each constrained method; reward-only knows no budget."""
    for name in ("highway", "fetch-reach"):
        own = cells(EXPERIMENTS[name], FULL)
        assert len(own) == 5 * 3 * (1 + 3 * 5)
        assert {cell.budget for cell in own if cell.method == "reward-only"} == {"inf"}
        assert {cell.budget for cell in own if cell.method == "rci"} == {"P10", "P20", "P30", "P40", "P50"}


def test_every_experiment_can_be_planned_at_every_scale(tmp_path: Path) -> None:
    """Every setting is known to whoever it is for, every parent is planned, and names tell policies apart."""
    for scale in SCALES.values():
        for experiment in EXPERIMENTS.values():
            own = cells(experiment, scale)
            check_settings(own, scale)
            assert len({key_of(cell, scale) for cell in own}) == len(own)
            jobs = plan(own, scale, Places(tmp_path))
            names = {job.name for job in jobs}
            assert len({job.output for job in jobs}) == len(jobs)
            assert all(set(job.needs) <= names for job in jobs)
            assert sum(job.stage == "learn" for job in jobs) == len(own)


def test_the_first_seed_of_everything_comes_first() -> None:
    seeds = [cell.seed for cell in cells(EXPERIMENTS["calibration"], FULL)]
    assert seeds == sorted(seeds)


def test_few_budgets_are_spread_over_the_list() -> None:
    main = EXPERIMENTS["highway"]
    assert replace(FULL, budgets=2).chosen_budgets(main) == ("P10", "P50")
    assert replace(FULL, budgets=3).chosen_budgets(main) == ("P10", "P30", "P50")
    assert replace(FULL, budgets=1).chosen_budgets(main) == ("P10",)


def test_a_study_of_settings_sees_no_logs_and_no_tests_of_the_others(tmp_path: Path) -> None:
    def seen(name: str) -> tuple[set, set]:
        jobs = plan(cells(EXPERIMENTS[name], FULL), FULL, Places(tmp_path))
        return tuple(
            {
                (job.settings.get("task_name", job.settings.get("task")), job.seed)
                for job in jobs
                if job.stage == stage
            }
            for stage in ("collect", "evaluate")
        )

    for name in set(EXPERIMENTS) - {"ingredients"}:
        for own, theirs in zip(seen("ingredients"), seen(name)):
            assert not own & theirs


def test_the_same_policy_has_the_same_key_in_every_experiment() -> None:
    noise, composition = (
        {key_of(c, FULL) for c in cells(EXPERIMENTS[name], FULL)} for name in ("label-noise", "composition")
    )
    assert noise & composition  # clean labels of mixed logs


@pytest.mark.parametrize(
    "change",
    [
        {"budget": "0.2"},
        {"seed": 1},
        {"policy": 1},
        {"updates": 7},
        {"method": "rci"},
        {"learner": "cpq"},
        {"logs": POINT._replace(noise="noisy")},
        {"logs_seed": 7},
    ],
)
def test_whatever_makes_another_policy_makes_another_key(change: dict) -> None:
    cell = Cell(POINT, "sparse", "bcq-lagrangian", "0.1", 0, 0, 20)
    assert key_of(cell._replace(**change), TINY) != key_of(cell, TINY)


def test_a_percentile_is_held_against_a_critic_that_discounts_alike() -> None:
    cell = Cell(Logs("fetch-reach"), "sparse", "bcq-lagrangian", "P10", 0, 0, 20)
    assert learn_settings(cell, FULL)["cost_discount"] == learn_settings(cell, FULL)["discount"] == 0.95
    assert learn_settings(cell._replace(logs=Logs("highway")), FULL)["cost_discount"] == 0.99
    assert "cost_discount" not in learn_settings(cell._replace(budget="0.1"), FULL)
    assert "cost_discount" not in learn_settings(cell._replace(learner="bc-safe"), FULL)


def test_lengths_of_training_are_one_training(tmp_path: Path) -> None:
    jobs = plan(cells(SMALL, TINY), TINY, Places(tmp_path))
    short, long = (job for job in jobs if job.stage == "learn")
    assert short.trail == long.trail is not None
    assert (short.settings["updates"], long.settings["updates"]) == (10, 20)
    assert short.name in long.needs
    assert short.seed == long.seed


def test_mistakes_are_refused() -> None:
    with pytest.raises(RciError, match="Did you mean 'composition'"):
        chosen(["compositon"])
    with pytest.raises(RciError, match="smoke"):
        scale_called("smok")
    assert [e.name for e in chosen(["grid", "highway"])] == ["highway", "grid"]  # in the order of the list


def test_every_method_is_one() -> None:
    for experiment in EXPERIMENTS.values():
        assert set(experiment.methods) <= set(METHODS)


def test_a_longer_training_never_goes_back(tmp_path: Path) -> None:
    """Where a longer one comes first, the shorter one is trained alone, and the next goes on from the longer one."""
    own = [cell for cell in cells(SMALL, TINY) if cell.method == "sparse"]
    order = [own[1], own[0], own[1]._replace(updates=40)]
    learn = [job for job in plan(order, TINY, Places(tmp_path)) if job.stage == "learn"]
    assert [job.trail is None for job in learn] == [False, True, False]
    assert learn[0].name in learn[2].needs
    alone = [job for job in plan(order[2:], TINY, Places(tmp_path)) if job.stage == "learn"]
    assert alone[0].trail is None
    rest = [job for job in plan(order[2:], TINY, Places(tmp_path), wanted=order) if job.stage == "learn"]
    assert rest[0].trail == learn[0].trail  # what a killed study left is still there


# Rows


def row(**changes) -> dict:
    usual = {
        "experiment": "e",
        "logs_seed": 0,
        "task": "point",
        "dataset": "mixed",
        "noise": "clean",
        "labelled": 9,
        "updates": 9,
    }
    policy = {"learner": "l", "method": "m", "seed": 0, "budget": "0.1", "policy": 0, "key": "k"}
    numbers = {"selection_violation_rate": 0.1, "selection_return": 1.0, "mean_return": 1.0}
    return {**usual, **policy, **numbers, **changes}


def test_selected_is_the_policy_with_the_fewest_violations_then_the_most_return() -> None:
    rows = judged_together(
        [
            row(budget="P50", selection_violation_rate=0.2, selection_return=9.0),
            row(budget="P10", policy=1, selection_return=2.0, mean_return=3.0),
            row(budget="P10", policy=0, mean_return=2.0),
            row(seed=1, selection_violation_rate=0.5),
        ]
    )
    assert [(r["seed"], r["budget"], r["policy"]) for r in rows if r["selected"]] == [
        (0, "P10", 1),
        (1, "0.1", 0),
    ]
    assert [r["return_norm"] for r in rows] == [0.5, 1.0, 0.0, 0.0]


def test_returns_of_one_value_have_no_scale() -> None:
    assert judged_together([row()])[0]["return_norm"] is None


def test_rows_of_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(json.dumps([{"experiment": "e"}]))
    with pytest.raises(RciError, match="row 0 of .* has no 'task', which should be a text"):
        read_study(tmp_path / "rows.json")
    (tmp_path / "rows.json").write_text(json.dumps([row(budget=0.1)]))
    with pytest.raises(RciError, match="no 'budget', which should be a text"):
        read_study(tmp_path / "rows.json")
    (tmp_path / "rows.json").write_text(json.dumps([row(), row()]))
    with pytest.raises(RciError, match="row 1 of .* is there twice: e k"):
        read_study(tmp_path / "rows.json")


def test_rows_that_nobody_asks_for_are_not_judged_beside_those_that_somebody_does(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([row(key="old"), row(experiment="other", key="old")]))
    with pytest.raises(RciError, match="holds 1 rows of 'e' that this study does not ask for"):
        Board(file, {"new": ["e"]})
    assert len(Board(file, {"new": ["third"]}).rows()) == 2


def test_a_policy_serves_every_experiment_that_asks_for_it(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.json"
    board = Board(file, {"k": ["e", "other"], "l": ["e"]})
    assert file.is_file()  # a place that cannot be written to is found at once
    board.add(row())
    assert board.has("k")
    assert not board.has("l")
    later = Board(file, {"k": ["third"]})
    assert later.has("k")
    later.add(row(key="k", mean_return=2.0))
    board.add(row(key="l"))  # two studies at once lose nothing
    assert [(r["experiment"], r["key"]) for r in read_study(file)] == [
        ("e", "k"),
        ("e", "l"),
        ("other", "k"),
        ("third", "k"),
    ]


def test_rows_that_cannot_be_kept_are_found_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RciError, match="cannot be"):
        Board(tmp_path / "file" / "rows.json", {})


# Time


def test_what_is_left_is_guessed_from_what_was_done() -> None:
    own = [Cell(POINT, "sparse", "cpq", "0.1", seed, 0, 100) for seed in range(3)]
    clock = _Clock(5, own, workers=2)
    assert clock.told() == (2, 5, 90.0)
    clock.done(own[0], 10.0)
    assert clock.told() == (3, 5, 10.0)
    assert _Clock(5, own, workers=0).told() == (2, 5, math.inf)


def test_durations_are_told_in_units_that_matter() -> None:
    assert [duration(s) for s in (12.4, 90.0, 12_000.0)] == ["12 s", "2 min", "3 h 20 min"]


# The whole


def quiet(*told) -> None:
    """Nobody listens."""


RUN = """
from pathlib import Path
from tests.run.test_paper_study import SMALL, TINY, Engine, quiet, run_study
if __name__ == "__main__":
    run_study([SMALL], TINY, Path("{out}"), Path("{rows}"), Engine(workers=1), quiet)
"""


def without_time(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_a_killed_study_goes_on_and_ends_in_the_same_numbers(tmp_path: Path) -> None:
    out, rows = tmp_path / "out", tmp_path / "paper.json"
    script = tmp_path / "run.py"
    script.write_text(RUN.format(out=out, rows=rows))
    root = Path(__file__).parent.parent.parent
    child = subprocess.Popen(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": str(root)}, start_new_session=True
    )
    deadline = time.monotonic() + 240
    while not read_study(rows) and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    assert len(read_study(rows)) == 1
    told: list[tuple] = []
    found = run_study([SMALL], TINY, out, rows, Engine(workers=1), quiet, lambda *word: told.append(word))
    assert [(r["method"], r["updates"]) for r in found] == [("sparse", 10), ("sparse", 20)]
    assert [word[:2] for word in told] == [(1, 2), (2, 2)]
    assert told[-1] == (2, 2, 0.0)
    assert not list(out.rglob("trails/*/*"))
    # From the numbers alone, on another machine, with one of them lost, which another experiment asks for too.
    rows.write_text(json.dumps([r for r in read_study(rows) if r["updates"] == 10]))
    shutil.rmtree(out)
    both = [SMALL, replace(SMALL, name="other", lengths=(1.0,))]
    again = run_study(both, TINY, tmp_path / "elsewhere", rows, Engine(workers=1), quiet)
    assert without_time([r for r in again if r["experiment"] == "small"]) == without_time(found)
    assert len(again) == 3
    assert len(list((tmp_path / "elsewhere").rglob("policies/*/manifest.json"))) == 1
