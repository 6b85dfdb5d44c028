import json

import numpy as np
import pytest

from rci.data import store
from rci.data.errors import RciError
from rci.data.risk.estimates import Interval, PolicyEstimate, Support
from rci.data.types import Policy, SavedModel
from rci.pipeline.commands.selection import select_policies, selection_remarks, selection_table
from rci.redistribution import redistribute

TINY = {"hidden": 8, "batch_size": 8, "updates": 2}


def always(answer, **info):
    """A policy that always does the same; a registered learner would have to be compiled."""

    def step(seed, memory, obs):
        return np.full((len(obs), 2), answer, np.float32), memory

    known = {"obs_size": 4, "action_size": 2, "predicted_return": 1.5, "predicted_cost": 0.5, **info}
    return Policy(SavedModel("by hand", {}, {"answer": np.array(answer)}), known, step=step)


def estimate(stop):
    """An estimate of a policy of logs that were stopped in half of the episodes."""
    half = Interval(0.5, 0.4, 0.6)
    one = Interval(1.0, 0.9, 1.1)
    return PolicyEstimate(
        Interval(*stop), one, {}, Support(0.1, 0.1, 0.1, 20.0), half, one, 100, 0.9, *stop[1:]
    )


STOPS = {0.5: (0.04, 0.0, 0.09), -0.5: (0.7, 0.6, 0.8), 0.1: (0.2, 0.1, 0.3)}


@pytest.fixture
def made(tmp_path, point_episodes, point_labels, monkeypatch):
    costs = redistribute(point_episodes, point_labels, "sparse")
    for kind, record in (("episodes", point_episodes), ("labels", point_labels), ("costs", costs)):
        store.write(tmp_path / kind, record)
    policies = {"policy0": always(0.5), "policy1": always(-0.5), "other": always(0.1, obs_size=9)}
    for name, policy in policies.items():
        policy.save(tmp_path / name)
    monkeypatch.setattr("rci.load", lambda path: policies[path.name])
    monkeypatch.setattr(
        "rci.learning.judging.estimate.estimate_all",
        lambda policies, *logs, **options: [
            estimate(STOPS[float(policy.model.arrays["answer"])]) for policy in policies
        ],
    )
    return tmp_path


def chosen_from(folder, *names, budget=None, rule="best", share=None, options=TINY):
    inputs = {kind: folder / kind for kind in ("episodes", "labels", "costs")}
    return select_policies(inputs, [folder / name for name in names], budget, rule, share, options, 0)


def test_a_table_and_a_choice(made):
    found = chosen_from(made, "policy0", "policy1", budget="inf")
    returns = [row["expected_return"] for row in found["policies"]]
    assert found["chosen"] == str(made / f"policy{int(np.argmax(returns))}")
    assert found["threshold"] == "inf"
    assert found["policies"][0]["predicted_cost"] == 0.5
    json.dumps(found, allow_nan=False)
    lines = selection_table(found).splitlines()
    assert len(lines) == 4
    assert [line for line in lines if line.endswith("| chosen |")] == [lines[2 + int(np.argmax(returns))]]


def test_only_a_policy_within_the_budget_is_chosen(made):
    found = chosen_from(made, "policy1", "policy0", budget="0.1")
    assert found["chosen"] == str(made / "policy0")
    assert [row["verdict"] for row in found["policies"]] == ["do not deploy", "deploy under a monitor"]
    (remark,) = selection_remarks(found)
    assert "policy1 is worse than the logs: stops are estimated in 70.0% (60.0% to 80.0%)" in remark
    assert "the logs were stopped in 50.0%" in remark


def test_where_no_policy_is_within_the_budget_none_is_chosen(made):
    found = chosen_from(made, "policy1", "policy0", budget="0.01")
    assert found["chosen"] is None
    assert "chosen" not in selection_table(found)
    assert selection_remarks(found)[-1] == (
        f"no policy is within the budget of 0.01; the lowest estimate is that of {made / 'policy0'}, stopped in 4.0% "
        "(0.0% to 9.0%)."
    )
    json.dumps(found, allow_nan=False)


def test_costs_by_channel_are_told_by_name():
    row = {"policy": "a", "expected_return": 1.0, "return_error": 0.1, "expected_cost": {"x": 0.25, "y": 0.5}}
    row |= {"stop": [0.04, 0.0, 0.09], "verdict": None}
    row["cost_error"] = {"x": 0.01, "y": 0.02}
    table = selection_table({"policies": [row], "threshold": {"x": 0.1, "y": "inf"}, "chosen": "a"})
    assert table.splitlines()[2] == (
        "| a | 4.0% (0.0% to 9.0%) | – | 1 ± 0.1 | x 0.25 ± 0.01, y 0.5 ± 0.02 | x 0.1, y inf | – | – | chosen |"
    )


def test_mistakes(made):
    for names, options, message in (
        (("policy0", "policy0"), {}, "policy0 is given twice"),
        (("policy0", "costs"), {}, "holds 'costs', but 'policy' is needed"),
        (("policy0", "nowhere"), {}, "there is nothing at"),
        (("policy0", "other"), {}, "other was trained on 9 features, but .*episodes has 4"),
        (("policy0",), {"rule": "bst"}, "Did you mean 'best'"),
        (("policy0",), {"rule": "safest", "budget": "0.1"}, "looks at no budget"),
        (("policy0",), {"share": 0.5}, "has a budget instead"),
        (("policy0",), {"options": {"update": 3}}, "Did you mean 'updates'"),
        (("policy0",), {"budget": "5"}, "for 5% write 5% or 0.05"),
    ):
        with pytest.raises(RciError, match=message):
            chosen_from(made, *names, **options)
