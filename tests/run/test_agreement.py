import json
import math
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Policy, SavedModel, Scores
from rci.engines.engine import LOCAL
from rci.pipeline.config import load_config
from rci.redistribution import redistribute
from rci.studies import choice as agreement
from rci.studies.study import RowsFile, complete


def rows_of(columns):
    """Four policies: what they truly earn and cost, and what everybody says of it."""
    truth = {"return": [4.0, 3.0, 2.0, 1.0], "cost": [0.5, 0.3, 0.1, 0.0]}
    told = dict.fromkeys(("rci", "sparse", "own", "selection", "evaluation"), truth) | columns
    return [
        {f"{who}_{what}": values[i] for who, own in told.items() for what, values in own.items()}
        for i in range(4)
    ]


def by_chooser(rows):
    return {row["chooser"]: row for row in rows}


def test_correlations_by_hand():
    rows = rows_of({"own": {"return": [1.0, 2.0, 3.0, 4.0], "cost": [0.6, 0.4, 0.2, 0.1]}})
    found = by_chooser(agreement.correlations(rows))
    assert found["rci"]["cost_correlation"] == pytest.approx(1)
    assert found["own"]["return_correlation"] == pytest.approx(-1)
    assert found["own"]["cost_bias"] == pytest.approx(0.1)
    assert found["own"]["policies"] == 4


def test_choices_by_hand():
    """Within 0.2 the third is best. A judge who sees half the cost takes the second, at 0.3; one set has no third."""
    rows = rows_of({"rci": {"return": [4.0, 3.0, 2.0, 1.0], "cost": [0.25, 0.15, 0.05, 0.0]}})
    sets = [np.arange(4), np.array([0, 3])]
    found = by_chooser(agreement.choices(rows, 0.2, sets))
    assert found["selection"]["same_choice"] == 1
    assert found["selection"]["violation_rate"] == pytest.approx((0.1 + 0.0) / 2)
    assert found["selection"]["violation_regret"] == found["selection"]["return_regret"] == 0
    wrong = found["rci"]
    assert wrong["same_choice"] == 0.5
    assert wrong["violation_regret"] == pytest.approx((0.2 + 0) / 2)
    assert wrong["return_regret"] == pytest.approx((-1 + 0) / 2)
    assert wrong["over_budget"] == 0.5
    chance = found["random"]
    assert chance["same_choice"] == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert chance["violation_rate"] == pytest.approx((0.225 + 0.25) / 2)
    assert chance["over_budget"] == 0.5


def test_policies_without_critics_have_no_say_of_their_own():
    rows = rows_of({"own": {"return": [None] * 4, "cost": [None] * 4}})
    summary = agreement.summarise(rows)
    assert "own" not in by_chooser(summary["choices"])
    assert "| random |" in agreement.agreement_table(summary)
    json.dumps(summary, allow_nan=False)


def test_sets_are_drawn_without_repetition():
    sets = agreement.draw_sets(9, 5, 20)
    assert len(sets) == 20
    assert all(len(set(part)) == 5 for part in sets)
    assert [part.tolist() for part in agreement.draw_sets(3, 5, 20)] == [[0, 1, 2]]


@pytest.mark.parametrize("task", ["point", "highway"])
def test_every_job_comes_after_what_it_needs(task, tmp_path):
    wanted = agreement.candidates((0.1, math.inf), 2)
    assert len({one.name for one in wanted}) == len(wanted) == 8
    jobs = agreement.plan_study(load_config(task, "quick"), wanted, 20, 30, tmp_path)
    done: dict = {}
    for job in jobs:
        assert set(job.needs) <= set(done), job.name
        assert set(job.inputs.values()) <= set(done.values()), job.name
        done[job.name] = job.output
    trained = [job.settings for job in jobs if job.stage == "learn"]
    assert len(trained) == 8
    assert trained[-1] == {**load_config(task, "quick").learn, "variant": "penalised", "budget": "inf"}
    tests = [job.settings for job in jobs if job.stage == "evaluate"]
    assert sum(test["purpose"] == "selection" for test in tests) == 8


def test_a_judgement_is_made_once(tmp_path, point_episodes, point_labels, monkeypatch):
    one = agreement.Candidate("critic", 0.1, 0)
    info = {"obs_size": 4, "action_size": 2, "predicted_return": 1.5, "predicted_cost": 0.5}
    policy = Policy(SavedModel("by hand", {}, {"weight": np.ones(1)}), info)
    still = replace(policy, step=lambda seed, memory, obs: (np.zeros((len(obs), 2), np.float32), memory))
    monkeypatch.setattr("rci.load", lambda path: still)  # a registered learner would have to be compiled
    costs = redistribute(point_episodes, point_labels, "sparse")
    scores = Scores(np.ones(4), np.ones(4), np.array([-1, -1, 0, -1]), np.full(4, 3))
    parts = {"episodes": point_episodes, "labels": point_labels, "policies/critic-0.1-seed0": policy}
    parts |= {f"costs/{method}": costs for method in agreement.JUDGES}
    parts |= {f"{purpose}/critic-0.1-seed0": scores for purpose in ("selection", "evaluation")}
    for place, record in parts.items():
        store.write(tmp_path / place, record)
    judging = {"updates": 2, "hidden": 8, "seed": 1}
    study = agreement.study_of(load_config("point", "quick"), [one], 4, 4, tmp_path, judging)
    row = study.row(one, {})
    assert row["evaluation_cost"] == 0.25
    assert row["rci_cost"] == row["sparse_cost"]  # both are sparse here
    assert (row["own_return"], row["own_cost"]) == (1.5, 0.5)
    json.dumps(row, allow_nan=False)
    monkeypatch.setattr(agreement, "judged_row", lambda *_: pytest.fail("it was judged before"))
    rows = RowsFile(tmp_path / "judgements.json")
    rows.add(row)
    complete(study, rows, tmp_path, LOCAL, lambda *_: None)
    assert rows.of(study) == [row]
    judged_otherwise = agreement.study_of(
        load_config("point", "quick"), [one], 4, 4, tmp_path, {"updates": 3}
    )
    assert not rows.has(judged_otherwise.key(one))


def test_mistakes(tmp_path):
    for arguments, message in (
        (["--task", "pont"], "unknown task 'pont'"),
        (["--task", "highway-two"], "one at a time"),
        (["--task", "point", "--judge", "update=3"], "Did you mean 'updates'"),
    ):
        result = CliRunner().invoke(agreement.app, [*arguments, "--out", str(tmp_path / "x")])
        assert isinstance(result.exception, RciError)
        assert message in str(result.exception)
    assert not (tmp_path / "x").exists()
