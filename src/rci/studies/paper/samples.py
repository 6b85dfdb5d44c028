"""The paper's figures of samples, from artefact folders: critics, sampled episodes, trajectories, vector fields.

A figure whose artefacts are not all there is left out, and it is said why.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rci.data import store
from rci.data.errors import RciError
from rci.data.record import Array
from rci.pipeline.commands.comparison import results_of
from rci.pipeline.results.summary import policy_critic_maps, policy_field_map
from rci.reporting.comparison.results import VariantResult
from rci.reporting.figures.picture import Picture
from rci.reporting.numbers import tightness
from rci.reporting.paper.samples.criteria import unsafe_criteria
from rci.reporting.paper.samples.drives import redistribution_samples
from rci.reporting.paper.samples.localisation import localisation
from rci.reporting.paper.samples.maps import heatmaps, vector_fields
from rci.reporting.paper.samples.trajectories import budget_trajectories

HIGHWAY, FETCH = "highway", "fetch-reach"
MAIN = "rudder"  # the paper's method
HEATMAP_METHODS = ("sparse", "hazard", MAIN)
TRAJECTORY_BUDGETS = ("P10", "P30")
WORKBENCH_PIXELS = 1000
SECTIONS = {  # the experiment that a picture stands beside; the others stand for themselves
    "heatmaps": "highway",
    "redistribution-samples": "highway",
    "budget-trajectories": "highway",
    "vector-fields": "fetch-reach",
}

Named = tuple[str, str]  # method, budget


@dataclass(frozen=True)
class TaskPaths:
    """Where the artefacts of one task are. Costs go by method, policies and their rollouts by method and budget."""

    episodes: Path | None = None
    labels: Path | None = None
    costs: Mapping[str, Path] = field(default_factory=dict)
    policies: Mapping[Named, Path] = field(default_factory=dict)
    rollouts: Mapping[Named, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class SamplePaths:
    """Where everything is that the figures are made of. Both go by task; comparisons are of redistributors, as JSON."""

    tasks: Mapping[str, TaskPaths] = field(default_factory=dict)
    comparisons: Mapping[str, Path] = field(default_factory=dict)

    def of(self, task: str) -> TaskPaths:
        """The paths of a task; empty if it has none."""
        return self.tasks.get(task, TaskPaths())


class Missing(NamedTuple):
    """What could not be drawn, and why."""

    what: str
    reason: str


class Samples(NamedTuple):
    """The figures that could be drawn, in the order of the paper, and what is missing."""

    pictures: list[Picture]
    missing: list[Missing]


def sample_pictures(paths: SamplePaths) -> Samples:
    """All figures of samples that the artefacts allow."""
    missing: list[Missing] = []
    workbench = None
    try:
        workbench = render_workbench()
    except RciError as error:
        missing.append(
            Missing("the simulator's picture of the workbench (a plain drawing stands in)", str(error))
        )
    makers: dict[str, Callable[[], Picture]] = {
        "heatmaps": partial(_heatmaps, paths.of(HIGHWAY)),
        "redistribution-samples": partial(_redistribution_samples, paths.of(HIGHWAY)),
        "budget-trajectories": partial(_budget_trajectories, paths.of(HIGHWAY)),
        "vector-fields": partial(_vector_fields, paths.of(FETCH), workbench),
        "unsafe-criteria": partial(unsafe_criteria, workbench),
        "localisation": partial(_localisation, paths.comparisons),
    }
    pictures: list[Picture] = []
    for name, make in makers.items():
        try:
            pictures.append(replace(make(), section=SECTIONS.get(name, "")))
        except RciError as error:
            missing.append(Missing(name, str(error)))
    return Samples(pictures, missing)


def render_workbench() -> Array:
    """The arm at its start, the hazard, and the goal of the vector fields, as the simulator draws them."""
    from rci.tasks.fetch_reach.hazard import HAZARD, START
    from rci.tasks.fetch_reach.original import SafeFetchReach
    from rci.tasks.fetch_reach.scene import probe_goal, slice_axes
    from rci.tasks.fetch_reach.workbench import draw_workbench

    env = SafeFetchReach(HAZARD)
    env.reset(seed=0)
    goal = START + probe_goal(HAZARD) @ slice_axes(HAZARD)
    picture = draw_workbench(env.arm.model, env.arm.data, HAZARD, goal, WORKBENCH_PIXELS, WORKBENCH_PIXELS)
    env.close()
    return picture


def common_budget(policies: Mapping[Named, Path], methods: tuple[str, ...]) -> str:
    """The tightest budget at which there is a policy of every method."""
    shared = set.intersection(*({b for m, b in policies if m == method} for method in methods))
    if not shared:
        raise RciError(f"there is no budget at which {', '.join(methods)} all have a policy.")
    return min(shared, key=tightness)


def three_budgets(paths: Mapping[Named, Path], method: str) -> tuple[str, str, str]:
    """The loosest, a middle and the tightest budget of a method."""
    budgets = budgets_of(paths, method)
    if len(budgets) < 3:
        raise RciError(f"{method} has policies at {len(budgets)} budgets, but three are shown.")
    return budgets[-1], budgets[len(budgets) // 2], budgets[0]


def two_budgets(paths: Mapping[Named, Path], method: str) -> tuple[str, str]:
    """The paper's two budgets if the method has both, else its tightest and its loosest one."""
    budgets = budgets_of(paths, method)
    if set(TRAJECTORY_BUDGETS) <= set(budgets):
        return TRAJECTORY_BUDGETS
    if len(budgets) < 2:
        raise RciError(f"{method} has rollouts at {len(budgets)} budgets, but two are shown.")
    return budgets[0], budgets[-1]


def budgets_of(found: Mapping[Named, Path], method: str) -> list[str]:
    """The budgets of a method, the tightest first."""
    return sorted((budget for name, budget in found if name == method), key=tightness)


def read_comparison(path: Path) -> list[VariantResult]:
    """The results of a comparison of redistributors from its file."""
    try:
        return results_of(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise RciError(f"cannot read {path}: {error.strerror or error}.") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise RciError(f"{path} is not a comparison of redistributors: {error!r}.") from None


def _heatmaps(paths: TaskPaths) -> Picture:
    from rci.tasks.highway.scene import probe

    budget = common_budget(paths.policies, HEATMAP_METHODS)
    maps = [
        policy_critic_maps(store.read(paths.policies[name, budget], "policy"), probe(), name, budget)[0]
        for name in HEATMAP_METHODS
    ]
    return heatmaps(maps)


def _redistribution_samples(paths: TaskPaths) -> Picture:
    if MAIN not in paths.costs:
        raise RciError(f"there are no step costs of {MAIN}.")
    episodes = _read(paths.episodes, "episodes")
    labels = _read(paths.labels, "labels")
    return redistribution_samples(episodes, labels, {MAIN: store.read(paths.costs[MAIN], "costs")})


def _budget_trajectories(paths: TaskPaths) -> Picture:
    budgets = two_budgets(paths.rollouts, MAIN)
    return budget_trajectories(
        {budget: store.read(paths.rollouts[MAIN, budget], "episodes") for budget in budgets}, MAIN
    )


def _vector_fields(paths: TaskPaths, workbench: Array | None) -> Picture:
    from rci.tasks.fetch_reach.hazard import HAZARD
    from rci.tasks.fetch_reach.scene import probe

    maps = [
        policy_field_map(store.read(paths.policies[MAIN, budget], "policy"), probe(HAZARD), MAIN, budget)
        for budget in three_budgets(paths.policies, MAIN)
    ]
    return vector_fields(maps, workbench)


def _localisation(comparisons: Mapping[str, Path]) -> Picture:
    return localisation({task: read_comparison(path) for task, path in comparisons.items()})


def _read(path: Path | None, kind: str) -> Any:
    if path is None:
        raise RciError(f"there is no folder of {kind}.")
    return store.read(path, kind)
