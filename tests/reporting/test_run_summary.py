"""What a finished run hands to its report beyond the scores."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rci.data import store
from rci.data.models import Policy
from rci.data.types import Episodes, Labels
from rci.learning import fit_behaviour, learn, predict_values
from rci.learning.behaviour import Config
from rci.redistribution import redistribute
from rci.run.config import Collect, Compare, RunConfig
from rci.run.summary import critic_maps, field_entries, field_maps, read_demonstrators

CONFIG = RunConfig("point", compare=Compare(("sparse", "reward-only"), (0.2, 0.05), seeds=2))


@pytest.fixture
def policies(point_episodes: Episodes, point_labels: Labels, tmp_path: Path) -> dict[str, Policy]:
    """Three hasty policies, as a run leaves them in its folder; multipliers are made up: there was no time to learn."""
    behaviour = fit_behaviour(point_episodes, point_labels, 0, Config(hidden=8, updates=20))
    costs = redistribute(point_episodes, point_labels, "sparse")
    policies = {}
    for name, budget in (("reward-only-inf", "inf"), ("sparse-0.05", 0.05), ("sparse-0.2", 0.2)):
        policy = learn(
            point_episodes, point_labels, costs, budget=budget, behaviour=behaviour, updates=20, hidden=8
        )
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
    np.testing.assert_allclose(fields[2].value, expected_return - 2.0 * expected_cost, rtol=1e-5)
    np.testing.assert_allclose(
        fields[0].value, predict_values(policies["reward-only-inf"], obs)[0], rtol=1e-5
    )
    np.testing.assert_allclose(fields[2].arrow[1, 2], 2.0 * tight.act(obs[1, 2]), rtol=1e-5)
    assert fields[2].arrow.shape == (3, 4, 2)
    probe.arrow = None
    for task in (SimpleNamespace(probe=lambda: probe), SimpleNamespace(probe=None)):
        assert field_maps(CONFIG, tmp_path, task) == ()  # type: ignore[arg-type]


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
