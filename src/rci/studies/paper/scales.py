"""How large the study is: `full` overnight on two cores, `smoke` in ten minutes."""

from __future__ import annotations

from typing import Any

from rci.data.errors import unknown_name
from rci.pipeline.config import read_preset
from rci.studies.paper.experiments import OURS, PAPERS, Scale

# Training of demonstrators and behaviour models, by task.
TASKS = ("highway", "fetch-reach", "point")
PPO: dict[str, dict[str, Any]] = {task: read_preset(task, "paper").get("ppo", {}) for task in TASKS}
# The paper's learner chooses among the proposals of a VAE; `feasible` among those of a mixture, drawn when it acts.
MIXTURE = {"updates": 10_000, "proposals": 0}
BEHAVIOUR: dict[str, dict[str, dict[str, Any]]] = {
    PAPERS: {
        "highway": {"model": "vae", "updates": 10_000},
        "fetch-reach": {"model": "vae", "updates": 10_000},
        "point": {"model": "vae", "updates": 5_000, "hidden": 64, "latent_limit": 1.0},
    },
    OURS: dict.fromkeys(TASKS, MIXTURE),
}
# Short trainings of the paper's learner need batches that hold stops, and a multiplier that falls as fast as it rises;
# found on logs of another seed.
LEAN = {
    "hidden": 128,
    "batch_size": 128,
    "candidates": 5,
    "test_candidates": 10,
    "draws": "episodes",
    "gap": "relative",
    "multiplier_rate": 0.002,
}
# Thresholds are compared as they are, so none is tried in models of the world. Half of the usual number of proposals.
BARE = {"model_updates": 0, "test_candidates": 32}
LEARN: dict[str, dict[str, dict[str, Any]]] = {
    PAPERS: {"highway": LEAN, "fetch-reach": {**LEAN, "discount": 0.95}, "point": {**LEAN, "hidden": 64}},
    OURS: {"highway": BARE, "fetch-reach": {**BARE, "cost_expectile": 0.2}, "point": BARE},
}

Tables = dict[str, dict[str, dict[str, Any]]]


def _with(tables: Tables, **changes: Any) -> Tables:
    """The settings of every learner and task, some of them changed for all."""
    return {
        learner: {task: {**settings, **changes} for task, settings in by_task.items()}
        for learner, by_task in tables.items()
    }


SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale(
            "full",
            episodes=5000,
            least_episodes=1,
            seeds={"main": 5, "ablation": 3},
            policies=3,
            updates={PAPERS: 8_000, OURS: 8_000},
            test_episodes={"main": 1000, "ablation": 500},
            selection_episodes=200,
            budgets=5,
            ppo=PPO,
            behaviour=BEHAVIOUR,
            learn=LEARN,
        ),
        Scale(
            "smoke",
            episodes=200,
            least_episodes=200,
            seeds={"main": 1, "ablation": 1},
            policies=2,
            updates=dict.fromkeys((PAPERS, OURS), 200),
            test_episodes={"main": 50, "ablation": 50},
            selection_episodes=20,
            budgets=1,
            ppo={
                **PPO,
                "highway": {"total_steps": 200_000},
                "fetch-reach": {**PPO["fetch-reach"], "total_steps": 25_600},
            },
            behaviour=_with(BEHAVIOUR, updates=300),
            learn=_with(LEARN, hidden=32, batch_size=32),
            redistribute={"epochs": 2},
        ),
    )
}


def scale_called(name: str) -> Scale:
    """The scale of a preset."""
    if name not in SCALES:
        raise unknown_name("preset of rci paper", name, SCALES)
    return SCALES[name]
