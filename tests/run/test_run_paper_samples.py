"""The paper's figures of samples from artefact folders; critics are made up, nothing is trained."""

from pathlib import Path

import numpy as np
import pytest

from rci.data import store
from rci.data.artefacts.models import Policy, SavedModel
from rci.data.errors import RciError
from rci.data.types import Episode, Episodes, Labels, StepCosts
from rci.pipeline.folder import write_json
from rci.reporting.comparison.results import FIGURES
from rci.reporting.run.contents import CriticMap, FieldMap
from rci.studies.paper import samples
from rci.studies.paper.samples import SamplePaths, TaskPaths, sample_pictures

NAMES = [
    "heatmaps", "redistribution-samples", "budget-trajectories", "vector-fields", "unsafe-criteria", "localisation",
]  # fmt: skip


def drive(closing: float) -> Episode:
    """Twenty steps towards a car in the same lane."""
    obs = np.zeros((21, 5, 7), np.float32)
    obs[:, :, (0, 5)], obs[:, 1:, 1] = 1.0, 0.9
    obs[:, 1, 1] = 0.8 - closing * np.arange(21)
    return Episode(obs, np.zeros((20, 2), np.float32), np.ones(20), False, True)


def policies(folder: Path, *named: tuple[str, str]) -> dict[tuple[str, str], Path]:
    """Policies without content."""
    policy = Policy(SavedModel("none", {}, {"weight": np.zeros(1)}), {})
    return {key: store.write(folder / "-".join(key), policy) for key in named}


def expected_value(probe, method: str) -> np.ndarray:
    shape = probe.obs.shape[:2]
    return np.linspace(0.0, 1.0 + len(method), int(np.prod(shape))).reshape(shape)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Which critics were asked; they and the workbench need no learner and no OpenGL here."""
    seen: list[tuple[str, str]] = []

    def critics(policy, probe, method, budget):
        seen.append((method, budget))
        return [CriticMap(method, budget, expected_value(probe, method))]

    def arrows(policy, probe, method, budget):
        seen.append((method, budget))
        value = expected_value(probe, method)
        return FieldMap(method, budget, np.zeros((*value.shape, 2)), value)

    monkeypatch.setattr(samples, "policy_critic_maps", critics)
    monkeypatch.setattr(samples, "policy_field_map", arrows)
    monkeypatch.setattr(samples, "render_workbench", lambda: np.zeros((9, 9, 3), np.uint8))
    return seen


@pytest.fixture
def paths(tmp_path: Path) -> SamplePaths:
    episodes = Episodes.from_list([drive(0.04), drive(0.05), drive(0.0), drive(0.001)], task="highway")
    labels = Labels.for_episodes(episodes, [14, 11, -1, -1])
    kept = labels.kept_lengths
    cost = np.repeat(labels.cost / kept, kept)
    costs = StepCosts(cost, kept, labels.cost, True, "rudder", labels.hash)
    rollouts = {
        ("rudder", budget): store.write(tmp_path / f"rollouts-{budget}", episodes)
        for budget in ("P10", "P20", "P30")
    }
    own = [(m, b) for m in ("sparse", "hazard", "rudder") for b in ("P10", "P30")]
    row = {
        "variant": "rudder", "method": "rudder", "options": {}, "seed": 0, "return_equivalent": True,
        **dict.fromkeys(FIGURES, 0.2),
    }  # fmt: skip
    write_json(tmp_path / "comparison.json", {"rows": [row, row | {"seed": 1}]})
    return SamplePaths(
        tasks={
            "highway": TaskPaths(
                episodes=store.write(tmp_path / "episodes", episodes),
                labels=store.write(tmp_path / "labels", labels),
                costs={"rudder": store.write(tmp_path / "costs", costs)},
                policies=policies(tmp_path / "highway", *own),
                rollouts=rollouts,
            ),
            "fetch-reach": TaskPaths(
                policies=policies(tmp_path / "fetch", *(("rudder", b) for b in ("P10", "P50", "P30", "P20")))
            ),
        },
        comparisons={"point": tmp_path / "comparison.json"},
    )


def test_all_figures_in_the_order_of_the_paper(paths: SamplePaths, asked: list[tuple[str, str]]) -> None:
    pictures, missing = sample_pictures(paths)
    assert [picture.name for picture in pictures] == NAMES
    assert missing == []
    assert asked[:3] == [(method, "P10") for method in ("sparse", "hazard", "rudder")]
    assert asked[3:] == [("rudder", "P50"), ("rudder", "P30"), ("rudder", "P10")]
    trajectories = pictures[2]
    assert "results/redistributors-*.json" in pictures[-1].caption
    assert "P10, return" in trajectories.alt
    assert "P30, return" in trajectories.alt


def test_what_is_missing_is_named_with_its_reason(
    asked: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_driver() -> None:
        raise RciError("no OpenGL here.")

    monkeypatch.setattr(samples, "render_workbench", no_driver)
    pictures, missing = sample_pictures(SamplePaths())
    assert [picture.name for picture in pictures] == ["unsafe-criteria"]
    assert "without its arm" in pictures[0].caption
    assert "picture of the workbench" in missing[0].what
    assert missing[0].reason == "no OpenGL here."
    told = {entry.what: entry.reason for entry in missing[1:]}
    assert set(told) == set(NAMES) - {"unsafe-criteria"}
    assert "sparse, hazard, rudder" in told["heatmaps"]
    assert "step costs of rudder" in told["redistribution-samples"]
    assert "rollouts at 0 budgets" in told["budget-trajectories"]
    assert "policies at 0 budgets" in told["vector-fields"]


def test_a_lost_folder_costs_only_its_figure(tmp_path: Path) -> None:
    lost = TaskPaths(
        episodes=tmp_path / "nothing", labels=tmp_path / "nothing", costs={"rudder": tmp_path / "none"}
    )
    with pytest.raises(RciError, match="there is nothing at"):
        samples._redistribution_samples(lost)
    with pytest.raises(RciError, match="no folder of episodes"):
        samples._redistribution_samples(TaskPaths(costs={"rudder": tmp_path}))


def test_choice_of_budgets() -> None:
    here = Path()
    found = {("rudder", budget): here for budget in ("0.3", "0.05", "inf", "0.1")}
    assert samples.budgets_of(found, "rudder") == ["0.05", "0.1", "0.3", "inf"]
    assert samples.two_budgets(found, "rudder") == ("0.05", "inf")
    assert samples.three_budgets(found, "rudder") == ("inf", "0.3", "0.05")
    paper = {("rudder", budget): here for budget in ("P10", "P20", "P30", "P40", "P50")}
    assert samples.two_budgets(paper, "rudder") == ("P10", "P30")
    assert samples.three_budgets(paper, "rudder") == ("P50", "P30", "P10")
    both = paper | {("sparse", "P20"): here, ("sparse", "P40"): here}
    assert samples.common_budget(both, ("sparse", "rudder")) == "P20"


def test_a_file_that_is_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(RciError, match="cannot read"):
        samples.read_comparison(tmp_path / "none.json")
    for content in ("[]", "{}", "nothing"):
        (tmp_path / "other.json").write_text(content)
        with pytest.raises(RciError, match="not a comparison of redistributors"):
            samples.read_comparison(tmp_path / "other.json")
