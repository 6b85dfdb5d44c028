"""What a finished run hands to its report beyond the scores."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from rci.data import store
from rci.data.types import Episodes, Labels
from rci.learning import fit_behaviour, learn, predict_values
from rci.learning.behaviour import Config
from rci.redistribution import redistribute
from rci.run.config import Collect, Compare, RunConfig
from rci.run.summary import critic_maps, read_demonstrators


def test_maps_are_of_the_first_policy_at_the_tightest_budget(
    point_episodes: Episodes, point_labels: Labels, tmp_path: Path
) -> None:
    behaviour = fit_behaviour(point_episodes, point_labels, 0, Config(hidden=8, updates=20))
    costs = redistribute(point_episodes, point_labels, "sparse")
    for name, budget in (("reward-only-inf", "inf"), ("sparse-0.05", 0.05)):
        policy = learn(
            point_episodes, point_labels, costs, budget=budget, behaviour=behaviour, updates=20, hidden=8
        )
        store.write(tmp_path / "policies" / f"{name}-seed0", policy)
    obs = point_episodes.obs[:12].reshape(3, 4, 4)
    task = SimpleNamespace(probe=lambda: SimpleNamespace(obs=obs))
    config = RunConfig("point", compare=Compare(("sparse", "reward-only"), (0.2, 0.05), seeds=2))
    first, second = critic_maps(config, tmp_path, task)  # type: ignore[arg-type]
    assert [(m.method, m.budget) for m in (first, second)] == [("sparse", "0.05"), ("reward-only", "inf")]
    np.testing.assert_allclose(first.value, predict_values(policy, obs)[1])
    assert first.value.shape == (3, 4)
    assert critic_maps(config, tmp_path, SimpleNamespace(probe=None)) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize("recipe", ["seeker", "mixed"])
def test_only_recipes_with_demonstrators_have_some(recipe: str, tmp_path: Path) -> None:
    assert read_demonstrators(RunConfig("point", collect=Collect(recipe=recipe)), tmp_path) is None
