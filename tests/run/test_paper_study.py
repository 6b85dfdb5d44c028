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
from rci.engines.engine import Engine
from rci.engines.progress import duration
from rci.studies.paper.cells import (
    Cell,
    StudyPaths,
    cells,
    check_settings,
    key_of,
    learn_settings,
    own_jobs,
    plan,
    plan_drawn,
    redistribute_settings,
)
from rci.studies.paper.experiment_rows import ExperimentRows
from rci.studies.paper.experiments import (
    CONTROLS,
    DISCOUNT,
    EXPERIMENTS,
    FETCH,
    HIGHWAY,
    METHODS,
    OURS,
    PAPERS,
    POINT,
    REWARD_ONLY,
    THRESHOLDS,
    UNTRAINED,
    Experiment,
    Logs,
    Method,
    Scale,
)
from rci.studies.paper.rows import NUMBERS, judged_together, read_study
from rci.studies.paper.scales import SCALES, scale_called
from rci.studies.paper.study import _Clock, chosen, run_study

FULL = SCALES["full"]
TINY = replace(
    SCALES["smoke"],
    episodes=60,
    least_episodes=1,
    updates={PAPERS: 20, OURS: 20},
    test_episodes={"main": 20, "ablation": 10},
    selection_episodes=10,
    budgets=5,
    behaviour={
        PAPERS: {"point": {"hidden": 8, "updates": 10, "proposals": 5}},
        OURS: {"point": {"hidden": 8, "updates": 10, "proposals": 0}},
    },
    learn={
        PAPERS: {"point": {"hidden": 8, "batch_size": 8, "candidates": 2, "test_candidates": 2}},
        OURS: {
            "point": {"hidden": 8, "batch_size": 8, "critics": 2, "test_candidates": 2, "model_updates": 0}
        },
    },
)
SMALL = Experiment("small", (POINT,), ("sparse",), ("0.1",), lengths=(0.5, 1.0))
SHARED = Experiment("shared", (POINT,), (REWARD_ONLY, "sparse"), ("T0", "T5"), OURS)


# What is asked for


def test_the_main_comparison_is_the_papers() -> None:
    """Three policies and five seeds of each method at three percentiles, which coincide for the labels as they are."""
    for name in ("highway", "fetch-reach"):
        own = cells(EXPERIMENTS[name], FULL)
        assert len(own) == 5 * 3 * (1 + 1 + 2 * 3)
        assert {cell.budget for cell in own if cell.method == "sparse"} == {"P10"}
        assert {cell.learner for cell in own} == {"bcq-lagrangian"}
        assert {cell.tests for cell in own} == {1000}
        assert {cell.budget for cell in own if cell.method == "reward-only"} == {"inf"}
        assert {cell.budget for cell in own if cell.method == "rudder"} == {"P10", "P30", "P50"}


def test_the_best_learner_is_tried_with_every_redistributor() -> None:
    """One policy of each of three thresholds and five seeds; reward-only has no threshold."""
    own = cells(EXPERIMENTS["best-learner"], FULL)
    tried = set(METHODS) - set(CONTROLS)  # which are settings of the paper's learner
    assert {cell.method for cell in own} == tried
    assert len(own) == 5 * (1 + 3 * (len(tried) - 1))
    assert {cell.budget for cell in own if cell.method == "hazard"} == set(THRESHOLDS)


def test_every_experiment_can_be_planned_at_every_scale(tmp_path: Path) -> None:
    """Every setting is known to whoever it is for, every parent is planned, and names tell policies apart."""
    for scale in SCALES.values():
        for experiment in EXPERIMENTS.values():
            own = cells(experiment, scale)
            check_settings(own, scale)
            assert len({key_of(cell, scale) for cell in own}) == len(own)
            jobs = plan(own, scale, StudyPaths(tmp_path))
            names = {job.name for job in jobs}
            assert len({job.output for job in jobs}) == len(jobs)
            assert all(set(job.needs) <= names for job in jobs)
            assert sum(job.stage == "learn" for job in jobs) == len({cell.training for cell in own})
            limited = len(own) if experiment.learner == OURS else 0
            assert sum(job.stage == "limit" for job in jobs) == limited


def test_what_is_said_of_trainings_is_so() -> None:
    from rci.learning import DISCOUNT as OF_LEARNERS
    from rci.redistribution import REDISTRIBUTORS
    from rci.redistribution.base import Training

    assert DISCOUNT == OF_LEARNERS
    made_by = {method.redistribute["method"] for method in METHODS.values()}
    assert {name for name in made_by if Training not in REDISTRIBUTORS[name].shared} == set(UNTRAINED)


def test_the_first_seed_of_everything_comes_first() -> None:
    seeds = [cell.seed for cell in cells(EXPERIMENTS["when-it-pays"], FULL)]
    assert seeds == sorted(seeds)


def test_every_seed_has_a_recording_of_its_own(tmp_path: Path) -> None:
    jobs = plan(cells(EXPERIMENTS["best-learner"], FULL), FULL, StudyPaths(tmp_path))
    for stage in ("demonstrators", "collect", "label", "behaviour"):
        assert [job.seed for job in jobs if job.stage == stage] == [0, 1, 2, 3, 4], stage
    assert len({job.seed for job in jobs if job.stage == "learn"}) == 5


def test_few_logs_are_counted_by_episodes(tmp_path: Path) -> None:
    own = cells(EXPERIMENTS["when-it-pays"], FULL)
    assert sorted({cell.logs.episodes(FULL) for cell in own}) == [100, 300, 1000, 5000]
    assert {cell.updates for cell in own} == {2000, 8000}
    smoke = cells(EXPERIMENTS["when-it-pays"], SCALES["smoke"])
    assert {cell.logs.episodes(SCALES["smoke"]) for cell in smoke} == {200}
    assert len({cell.logs for cell in smoke}) == 1  # those that are alike are one


def test_few_budgets_are_spread_over_the_list() -> None:
    main = EXPERIMENTS["highway"]

    def budgets(scale: Scale, method: str = "rudder", logs: Logs = main.logs[0]) -> tuple[str, ...]:
        return scale.chosen_budgets(main, logs, method)

    assert budgets(replace(FULL, budgets=2)) == ("P10", "P50")
    assert budgets(FULL) == ("P10", "P30", "P50")
    assert budgets(replace(FULL, budgets=3)) == ("P10", "P30", "P50")
    assert budgets(replace(FULL, budgets=1)) == ("P10",)
    assert budgets(FULL, "reward-only") == ("inf",)
    # Fewer than half of these logs are stopped, so that every percentile of their labels is 0; of PPO's logs most are.
    assert budgets(FULL, "sparse") == ("P10",)
    assert budgets(FULL, "sparse", main.logs[0]._replace(recipe="ppo")) == ("P10", "P30", "P50")


def test_the_same_policy_has_the_same_key_in_every_experiment() -> None:
    pays, imperfect, horizon = (
        {key_of(c, FULL) for c in cells(EXPERIMENTS[name], FULL)}
        for name in ("when-it-pays", "imperfect-labels", "horizon")
    )
    assert not (pays & imperfect) | (pays & horizon)  # other labels, another task
    drawn, main = (
        {key_of(c, FULL) for c in cells(EXPERIMENTS[name], FULL)} for name in ("heatmaps", "highway")
    )
    assert drawn < main


@pytest.mark.parametrize(
    "change",
    [
        {"budget": "0.2"},
        {"seed": 1},
        {"policy": 1},
        {"updates": 7},
        {"method": "rudder"},
        {"method": REWARD_ONLY},
        {"learner": OURS},
        {"logs": POINT._replace(noise="late")},
        {"logs": POINT._replace(share=0.5)},
        {"tests": 21},
    ],
)
def test_whatever_makes_another_policy_makes_another_key(change: dict) -> None:
    cell = Cell(POINT, "sparse", PAPERS, "0.1", 0, 0, 20, 20)
    assert key_of(cell._replace(**change), TINY) != key_of(cell, TINY)


def test_a_percentile_is_held_against_a_critic_that_discounts_alike() -> None:
    cell = Cell(FETCH, "sparse", PAPERS, "P10", 0, 0, 20, 20)
    assert learn_settings(cell, FULL)["cost_discount"] == learn_settings(cell, FULL)["discount"] == 0.95
    assert learn_settings(cell._replace(logs=HIGHWAY), FULL)["cost_discount"] == 0.99
    assert "cost_discount" not in learn_settings(cell._replace(budget="0.1"), FULL)
    assert "cost_discount" not in learn_settings(cell._replace(learner=OURS, budget="T5"), FULL)


def test_methods_use_what_they_make_with_the_best_learner_alone() -> None:
    cell = Cell(HIGHWAY, "rudder-prefix-guide", OURS, "T5", 0, 0, 20, 20)
    assert learn_settings(cell, FULL)["guide"] == "charged"
    assert "guide" not in learn_settings(cell._replace(learner=PAPERS), FULL)
    assert learn_settings(cell._replace(method="rudder-prefix-soft"), FULL)["head"] == "hazard"
    assert learn_settings(cell, FULL)["model_updates"] == 0


def test_settings_of_the_scale_are_for_what_is_trained() -> None:
    cell, smoke = Cell(POINT, "sparse", PAPERS, "0.1", 0, 0, 20, 20), SCALES["smoke"]
    assert redistribute_settings(cell, smoke) == {"method": "sparse"}
    trained = {"method": "rudder", "loss": "prefix", "epochs": 2}
    assert redistribute_settings(cell._replace(method="rudder-prefix"), smoke) == trained


def test_thresholds_share_one_training(tmp_path: Path) -> None:
    """reward-only is the policy without a threshold, of the labels as they are."""
    own = cells(SHARED, TINY)
    assert [(cell.method, cell.budget) for cell in own] == [
        ("reward-only", "inf"), ("sparse", "T0"), ("sparse", "T5"),
    ]  # fmt: skip
    assert len({cell.training for cell in own}) == 1
    jobs = plan(own, TINY, StudyPaths(tmp_path))
    (learn,) = (job for job in jobs if job.stage == "learn")
    assert learn.settings["budget"] == "inf"
    limits = [job for job in jobs if job.stage == "limit"]
    assert [job.settings for job in limits] == [{"budget": "inf"}, {"rung": 0}, {"rung": 5}]
    assert all(job.needs == (learn.name,) for job in limits)
    assert {own_jobs(cell, TINY, StudyPaths(tmp_path))[0] for cell in own} == {learn.name}
    # With other tests it is another policy to measure, but not to train.
    more = [own[1]._replace(tests=99)]
    assert own_jobs(more[0], TINY, StudyPaths(tmp_path))[0] == learn.name
    alone = Cell(POINT, "sparse", PAPERS, "0.1", 0, 0, 20, 20)
    assert alone.training == alone


def test_what_is_drawn_needs_the_policy_that_is_shown(tmp_path: Path) -> None:
    for cell, stage in ((cells(SHARED, TINY)[1], "limit"), (cells(SMALL, TINY)[0], "learn")):
        jobs = plan_drawn([cell], TINY, StudyPaths(tmp_path))
        rollouts = jobs[-1]
        assert rollouts.inputs == {"policy": StudyPaths(tmp_path).policy(cell, TINY)}
        assert [job.stage for job in jobs if job.name in rollouts.needs] == [stage]
        assert not [job for job in jobs if job.stage == "evaluate"]


def test_lengths_of_a_shared_training_are_one_training(tmp_path: Path) -> None:
    longer = replace(SHARED, lengths=(0.5, 1.0))
    learn = [job for job in plan(cells(longer, TINY), TINY, StudyPaths(tmp_path)) if job.stage == "learn"]
    assert [job.settings["updates"] for job in learn] == [10, 20]
    assert learn[0].trail == learn[1].trail is not None
    assert learn[0].name in learn[1].needs


def test_lengths_of_training_are_one_training(tmp_path: Path) -> None:
    jobs = plan(cells(SMALL, TINY), TINY, StudyPaths(tmp_path))
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
    assert [e.name for e in chosen(["horizon", "highway"])] == [
        "highway",
        "horizon",
    ]  # in the order of the list


def test_every_method_is_one() -> None:
    for experiment in EXPERIMENTS.values():
        assert set(experiment.methods) <= set(METHODS)


def test_a_longer_training_never_goes_back(tmp_path: Path) -> None:
    """Where a longer one comes first, the shorter one is trained alone, and the next goes on from the longer one."""
    own = [cell for cell in cells(SMALL, TINY) if cell.method == "sparse"]
    order = [own[1], own[0], own[1]._replace(updates=40)]
    learn = [job for job in plan(order, TINY, StudyPaths(tmp_path)) if job.stage == "learn"]
    assert [job.trail is None for job in learn] == [False, True, False]
    assert learn[0].name in learn[2].needs
    alone = [job for job in plan(order[2:], TINY, StudyPaths(tmp_path)) if job.stage == "learn"]
    assert alone[0].trail is None
    rest = [job for job in plan(order[2:], TINY, StudyPaths(tmp_path), wanted=order) if job.stage == "learn"]
    assert rest[0].trail == learn[0].trail  # what a killed study left is still there


# Rows


def row(**changes) -> dict:
    usual = {
        "experiment": "e",
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


def test_policies_that_cannot_be_trained_are_neither_selected_nor_judged() -> None:
    failed = {name: value for name, value in row(budget="P10", key="f").items() if name not in NUMBERS}
    failed["failed"] = "no episode kept the budget."
    rows = judged_together([row(budget="P50", mean_return=4.0), failed, row(budget="P50", policy=1)])
    assert [(r["budget"], r["policy"], r["selected"], r["return_norm"]) for r in rows] == [
        ("P10", 0, False, None), ("P50", 0, True, 1.0), ("P50", 1, False, 0.0),
    ]  # fmt: skip
    assert rows[0]["failed"] == "no episode kept the budget."


def test_rows_of_failures_need_no_numbers_but_all_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    failed = {name: value for name, value in row().items() if name not in NUMBERS}
    file.write_text(json.dumps([{**failed, "failed": "why"}]))
    assert len(read_study(file)) == 1
    file.write_text(json.dumps([failed]))
    with pytest.raises(RciError, match="row 0 of .* has no 'mean_return', which should be a number"):
        read_study(file)
    del failed["seed"]
    file.write_text(json.dumps([{**failed, "failed": "why"}]))
    with pytest.raises(RciError, match="row 0 of .* has no 'seed', which should be a number"):
        read_study(file)


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
        ExperimentRows(file, {"new": ["e"]})
    assert len(ExperimentRows(file, {"new": ["third"]}).rows()) == 2


def test_a_policy_serves_every_experiment_that_asks_for_it(tmp_path: Path) -> None:
    file = tmp_path / "new" / "rows.json"
    kept = ExperimentRows(file, {"k": ["e", "other"], "l": ["e"]})
    assert file.is_file()  # a place that cannot be written to is found at once
    kept.add(row())
    assert kept.has("k")
    assert not kept.has("l")
    later = ExperimentRows(file, {"k": ["third"]})
    assert later.has("k")
    later.add(row(key="k", mean_return=2.0))
    kept.add(row(key="l"))  # two studies at once lose nothing
    assert [(r["experiment"], r["key"]) for r in read_study(file)] == [
        ("e", "k"),
        ("e", "l"),
        ("other", "k"),
        ("third", "k"),
    ]


def test_rows_that_cannot_be_kept_are_found_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RciError, match="cannot be"):
        ExperimentRows(tmp_path / "file" / "rows.json", {})


# Time


def test_what_is_left_is_guessed_from_what_was_done() -> None:
    own = [Cell(POINT, "sparse", PAPERS, "0.1", seed, 0, 100, 20) for seed in range(3)]
    clock = _Clock(5, own, workers=2)
    assert clock.progress() == (2, 5, 90.0)
    clock.done(own[0], 10.0)
    assert clock.progress() == (3, 5, 10.0)
    assert _Clock(5, own, workers=0).progress() == (2, 5, math.inf)


def test_durations_are_told_in_units_that_matter() -> None:
    assert [duration(s) for s in (12.4, 90.0, 12_000.0)] == ["12 s", "2 min", "3 h 20 min"]


# The whole


def quiet(*progress) -> None:
    """Nobody listens."""


RUN = """
from pathlib import Path
from tests.run.test_paper_study import SHARED, SMALL, TINY, Engine, quiet, run_study
if __name__ == "__main__":
    run_study([SHARED, SMALL], TINY, Path("{out}"), Path("{rows}"), Engine(workers=1), quiet)
"""


def without_time(rows: list[dict]) -> list[dict]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def identity(rows: list[dict]) -> list[tuple]:
    return [(r["experiment"], r["method"], r["budget"], r["updates"]) for r in rows]


def run_until(script: Path, rows: Path, count: int) -> None:
    """Run a study in a process of its own and kill it as soon as there are so many rows."""
    root = Path(__file__).parent.parent.parent
    path = os.pathsep.join([str(root), str(root / "tests"), os.environ.get("PYTHONPATH", "")])
    child = subprocess.Popen(
        [sys.executable, script], env={**os.environ, "PYTHONPATH": path}, start_new_session=True
    )
    deadline = time.monotonic() + 240
    while len(read_study(rows)) < count and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def test_a_killed_study_goes_on_and_ends_in_the_same_numbers(tmp_path: Path) -> None:
    """Killed twice: between the thresholds of one training, and between the lengths of another."""
    out, rows = tmp_path / "out", tmp_path / "paper.json"
    script = tmp_path / "run.py"
    script.write_text(RUN.format(out=out, rows=rows))
    run_until(script, rows, 1)
    assert identity(read_study(rows))[0] == ("shared", "reward-only", "inf", 20)
    assert len(read_study(rows)) < 3
    (trained,) = out.rglob("policies/sparse-feasible-inf-0-20-0/manifest.json")
    before = trained.stat().st_mtime_ns
    run_until(script, rows, 4)
    assert len(read_study(rows)) == 4
    progress: list[tuple] = []
    both = [SHARED, SMALL]
    found = run_study(both, TINY, out, rows, Engine(workers=1), quiet, lambda *word: progress.append(word))
    assert identity(found) == [
        ("shared", "reward-only", "inf", 20),
        ("shared", "sparse", "T0", 20),
        ("shared", "sparse", "T5", 20),
        ("small", "sparse", "0.1", 10),
        ("small", "sparse", "0.1", 20),
    ]
    assert trained.stat().st_mtime_ns == before  # trained once, for all thresholds
    assert [word[:2] for word in progress] == [(4, 5), (5, 5)]
    assert progress[-1] == (5, 5, 0.0)
    assert not list(out.rglob("trails/*/*"))
    # From the numbers alone, on another machine, with some of them lost, one of which another experiment asks for too.
    kept = [r for r in read_study(rows) if r["updates"] == 10 or r["budget"] in ("inf", "T0")]
    rows.write_text(json.dumps(kept))
    shutil.rmtree(out)
    three = [*both, replace(SMALL, name="other", lengths=(1.0,))]
    again = run_study(three, TINY, tmp_path / "elsewhere", rows, Engine(workers=1), quiet)
    assert without_time([r for r in again if r["experiment"] != "other"]) == without_time(found)
    assert len(again) == 6
    policies = {path.parent.name for path in (tmp_path / "elsewhere").rglob("policies/*/manifest.json")}
    assert policies == {
        "sparse-bcq-lagrangian-0.1-0-20-20", "sparse-feasible-inf-0-20-0", "sparse-feasible-T5-0-20-20",
    }  # fmt: skip


def test_a_policy_that_cannot_be_trained_is_a_row_that_says_so(tmp_path: Path, monkeypatch) -> None:
    """Of two methods one fails at its first length: so does the longer training that would go on from it."""
    broken = Method({"method": "sparse"}, {"learning_rate": 1e30})
    monkeypatch.setitem(METHODS, "broken", broken)
    experiment = Experiment(
        "some", (POINT,), ("sparse", "broken"), ("T5",), OURS, seeds="ablation", lengths=(0.5, 1.0)
    )
    drawn = replace(experiment, name="pictures", lengths=(1.0,), drawn=True)
    rows, progress = tmp_path / "paper.json", []

    def run() -> list[dict]:
        return run_study(
            [experiment, drawn], TINY, tmp_path / "out", rows, Engine(workers=1), quiet,
            lambda *word: progress.append(word),
        )  # fmt: skip

    found = run()
    assert identity(found) == [
        ("some", "broken", "T5", 10), ("some", "sparse", "T5", 10),
        ("some", "broken", "T5", 20), ("some", "sparse", "T5", 20),
    ]  # fmt: skip
    failed = [r for r in found if "failed" in r]
    assert [r["method"] for r in failed] == ["broken", "broken"]
    assert all("training diverged" in r["failed"] for r in failed)
    assert not any(set(r) & {"mean_return", "seconds"} for r in failed)
    assert all(r["mean_return"] is not None for r in found if r["method"] == "sparse")
    assert progress[-1] == (4, 4, 0.0)
    progress.clear()
    monkeypatch.setattr("rci.studies.study.run_timed", lambda jobs, *rest: planned.extend(jobs))
    planned: list = []
    assert run() == found
    assert progress == [(4, 4, 0.0)]
    assert not any("broken" in job.name for job in planned)  # neither for its number nor for its picture
