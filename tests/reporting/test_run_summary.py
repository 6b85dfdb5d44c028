"""What a finished run hands to its report beyond the scores."""

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import sparse_costs

from rci.data import store
from rci.data.artefacts.models import Policy
from rci.data.types import Episodes, Labels, Scores
from rci.evaluation.stats import clopper_pearson
from rci.learning import fit_behaviour, learn, predict_values
from rci.learning.behaviour import Config
from rci.pipeline.config import Collect, Compare, RunConfig
from rci.pipeline.plan import entries
from rci.pipeline.results.summary import (
    critic_maps,
    field_entries,
    field_maps,
    method_result,
    read_demonstrators,
    result_rows,
)
from rci.redistribution import redistribute
from rci.reporting.run.rows import result_row

CONFIG = RunConfig("point", compare=Compare(("sparse", "reward-only"), (0.2, 0.05), seeds=2))


@pytest.fixture
def policies(point_episodes: Episodes, point_labels: Labels, tmp_path: Path) -> dict[str, Policy]:
    """Three hasty policies, as a run leaves them in its folder; multipliers are made up: there was no time to learn."""
    behaviour = fit_behaviour(point_episodes, point_labels, 0, Config(hidden=8, updates=20))
    costs = redistribute(point_episodes, point_labels, "sparse")
    policies = {}
    for name, budget in (("reward-only-inf", "inf"), ("sparse-0.05", 0.05), ("sparse-0.2", 0.2)):
        settings = {"method": "bcq-lagrangian", "updates": 20, "hidden": 8}
        policy = learn(point_episodes, point_labels, costs, budget=budget, behaviour=behaviour, **settings)
        multiplier = 0.0 if budget == "inf" else 2.0
        policies[name] = replace(policy, info={**policy.info, "multiplier": multiplier})
        store.write(tmp_path / "policies" / f"{name}-seed0", policies[name])
    return policies


def test_maps_are_of_the_first_policy_at_the_tightest_budget(
    point_episodes: Episodes, policies: dict[str, Policy], tmp_path: Path
) -> None:
    obs = point_episodes.obs[:12].reshape(3, 4, 4)
    task = SimpleNamespace(probe=lambda: SimpleNamespace(obs=obs))
    first, second = critic_maps(CONFIG, tmp_path, task)  # type: ignore[arg-type]
    assert [(m.method, m.budget) for m in (first, second)] == [("sparse", "0.05"), ("reward-only", "inf")]
    np.testing.assert_allclose(first.value, predict_values(policies["sparse-0.05"], obs)[1])
    assert first.value.shape == (3, 4)
    assert critic_maps(CONFIG, tmp_path, SimpleNamespace(probe=None)) == ()  # type: ignore[arg-type]


def test_fields_hold_what_the_policies_do_and_expect(
    point_episodes: Episodes, policies: dict[str, Policy], tmp_path: Path
) -> None:
    obs = point_episodes.obs[:12].reshape(3, 4, 4)
    probe = SimpleNamespace(obs=obs, arrow=lambda action: 2.0 * action)
    fields = field_maps(CONFIG, tmp_path, SimpleNamespace(probe=lambda: probe))  # type: ignore[arg-type]
    assert [(f.method, f.budget) for f in fields] == [
        ("reward-only", "inf"),
        ("sparse", "0.2"),
        ("sparse", "0.05"),
    ]
    tight = policies["sparse-0.05"]
    expected_return, expected_cost = predict_values(tight, obs)
    price = tight.info["reward_unit"] * 2.0  # the multiplier counts in the unit of rewards
    np.testing.assert_allclose(fields[2].value, expected_return - price * expected_cost, rtol=1e-5)
    np.testing.assert_allclose(
        fields[0].value, predict_values(policies["reward-only-inf"], obs)[0], rtol=1e-5
    )
    np.testing.assert_allclose(fields[2].arrow[1, 2], 2.0 * tight.act(obs[1, 2]), rtol=1e-5)
    assert fields[2].arrow.shape == (3, 4, 2)
    probe.arrow = None
    for task in (SimpleNamespace(probe=lambda: probe), SimpleNamespace(probe=None)):
        assert field_maps(CONFIG, tmp_path, task) == ()  # type: ignore[arg-type]


def test_policies_without_critics_have_no_maps(
    point_episodes: Episodes, point_labels: Labels, tmp_path: Path
) -> None:
    costs = redistribute(point_episodes, point_labels, "sparse")
    config = RunConfig("point", compare=Compare(("sparse",), (0.1,), seeds=1))
    (entry,) = entries(config)
    policy = learn(point_episodes, point_labels, costs, "bc-safe", 0.1, updates=2, hidden=8)
    store.write(tmp_path / "policies" / entry.name, policy)
    store.write(tmp_path / "rollouts" / entry.name, point_episodes)
    obs = point_episodes.obs[:12].reshape(3, 4, 4)
    probe = SimpleNamespace(obs=obs, arrow=lambda action: action)
    task = SimpleNamespace(probe=lambda: probe)
    assert critic_maps(config, tmp_path, task) == field_maps(config, tmp_path, task) == ()  # type: ignore[arg-type]
    scores = Scores(np.zeros(9), np.zeros(9), np.full(9, -1), np.full(9, 5))
    result = method_result(tmp_path, [entry], {entry: scores})
    assert result.multipliers == ()
    assert result_row(result).multiplier is None


def test_channels_from_policies_to_the_report(point_episodes: Episodes, tmp_path: Path) -> None:
    """Two kinds of danger, made up: multipliers, thresholds, verdicts and maps of each."""
    stops = np.where(np.arange(60) % 2, 1, -1)
    why = np.stack([stops >= 0, (stops >= 0) & (np.arange(60) % 3 == 0)], axis=-1).astype(float)
    labels = Labels.for_episodes(point_episodes, stops, why, ("near", "off"))
    behaviour = fit_behaviour(point_episodes, labels, 0, Config(hidden=8, updates=20))
    budget = "near=0.1,off=inf"
    settings = {"method": "bcq-lagrangian", "updates": 20, "hidden": 8}
    policy = learn(
        point_episodes, labels, sparse_costs(labels), budget=budget, behaviour=behaviour, **settings
    )
    policy = replace(policy, info={**policy.info, "multiplier": {"near": 2.0, "off": 3.0}})
    config = RunConfig("point", compare=Compare(("rci",), (budget,), seeds=1))
    (entry,) = entries(config)
    assert entry.name == "rci-near=0.1,off=inf-seed0"
    store.write(tmp_path / "policies" / entry.name, policy)
    store.write(tmp_path / "rollouts" / entry.name, point_episodes)
    rates = {"near": 0.05, "off": 0.5}
    first = np.where(np.arange(100) < 50, 2, -1)
    scores = Scores(
        np.zeros(100), np.zeros(100), first, np.full(100, 5), info={"channel_violation_rate": rates}
    )
    result = method_result(tmp_path, [entry], {entry: scores})
    assert (result.budget, result.asked, result.threshold, result.multipliers) == (None, budget, None, ())
    near, off = result.channels
    assert (near.channel, near.budget, near.threshold, near.multipliers) == ("near", 0.1, 0.1, (2.0,))
    assert near.seed_intervals == (clopper_pearson(5, 100),)
    assert (off.channel, off.budget, off.violation_rates) == ("off", math.inf, (0.5,))
    row = result_row(result)
    assert row.budget_kept == "undecided"  # 1.6 to 11.3% near it, and no limit on the other
    (told,) = result_rows(config, {entry: scores})
    assert (told["budget"], told["channel_violation_rate"]) == (budget, rates)
    obs = point_episodes.obs[:12].reshape(3, 4, 4)
    probe = SimpleNamespace(obs=obs, arrow=lambda action: action)
    task = SimpleNamespace(probe=lambda: probe)
    expected_return, expected_cost = predict_values(policy, obs)
    total, *each = critic_maps(config, tmp_path, task)  # type: ignore[arg-type]
    np.testing.assert_allclose(total.value, expected_cost.sum(axis=-1), rtol=1e-6)
    assert [entry.channel for entry in each] == ["near", "off"]
    np.testing.assert_allclose(each[1].value, expected_cost[..., 1])
    (field,) = field_maps(config, tmp_path, task)  # type: ignore[arg-type]
    price = policy.info["reward_unit"] * np.array([2.0, 3.0])
    priced = expected_return - expected_cost @ price
    np.testing.assert_allclose(field.value, priced, rtol=1e-5)


@pytest.mark.parametrize("budget", [0.1, "P20"])
def test_a_budget_of_one_kind_of_danger_stays_a_share(
    budget: float | str, policies: dict[str, Policy], tmp_path: Path, point_episodes: Episodes
) -> None:
    config = RunConfig("point", compare=Compare(("sparse",), (budget,), seeds=1))
    (entry,) = entries(config)
    store.write(tmp_path / "policies" / entry.name, policies["sparse-0.2"])
    store.write(tmp_path / "rollouts" / entry.name, point_episodes)
    scores = Scores(np.zeros(9), np.zeros(9), np.full(9, -1), np.full(9, 5))
    result = method_result(tmp_path, [entry], {entry: scores})
    assert (result.budget, result.asked) == (0.1 if budget == 0.1 else None, str(budget))
    assert (result.multipliers, result.threshold, result.channels) == ((2.0,), 0.2, ())
    assert "channel_violation_rate" not in result_rows(config, {entry: scores})[0]


@pytest.mark.parametrize(
    ("methods", "budgets", "expected"),
    [
        (("rci", "sparse"), (0.1,), ["rci-0.1"]),
        (("sparse", "uniform"), (0.1, 0.3), ["uniform-0.3", "uniform-0.1"]),
        (
            ("reward-only", "rci"),
            (0.3, 0.05, "P30", 0.2, 0.1),
            ["reward-only-inf", "rci-P30", "rci-0.2", "rci-0.05"],
        ),
        (("reward-only",), (0.1,), ["reward-only-inf"]),
    ],
)
def test_fields_run_from_loose_to_tight(
    methods: tuple[str, ...], budgets: tuple[float | str, ...], expected: list[str]
) -> None:
    config = RunConfig("point", compare=Compare(methods, budgets, seeds=2))
    assert [entry.name for entry in field_entries(config)] == [f"{name}-seed0" for name in expected]


@pytest.mark.parametrize("recipe", ["seeker", "mixed"])
def test_only_recipes_with_demonstrators_have_some(recipe: str, tmp_path: Path) -> None:
    assert read_demonstrators(RunConfig("point", collect=Collect(recipe=recipe)), tmp_path) is None
