"""How large the study is: `full` overnight on two cores, `smoke` in ten minutes."""

from __future__ import annotations

from typing import Any

from rci.data.errors import unknown_name
from rci.run.paper.experiments import LEARNER, Scale

# Training of demonstrators and behaviour models, by task.
PPO: dict[str, dict[str, Any]] = {
    "highway": {"total_steps": 4_000_000},
    "fetch-reach": {
        "total_steps": 204_800,
        "rollout_length": 25,
        "discount": 0.9,
        "learning_rate": 2e-3,
        "epochs": 10,
        "initial_deviation": 0.4,
    },
    "point": {},
}
BEHAVIOUR: dict[str, dict[str, Any]] = {
    "highway": {"model": "vae", "updates": 10_000},
    "fetch-reach": {"model": "vae", "updates": 10_000},
    "point": {"model": "vae", "updates": 5_000, "hidden": 64, "latent_limit": 1.0},
}
LEAN = {
    "hidden": 128,
    "batch_size": 128,
    "candidates": 5,
    "test_candidates": 10,
}
LEARN: dict[str, dict[str, Any]] = {
    "highway": LEAN,
    "fetch-reach": {**LEAN, "discount": 0.95},
    "point": {**LEAN, "hidden": 64},
}
# What the default learner needs in short trainings: batches that hold stops, and a multiplier that falls as fast as it
# rises. Found on logs and tests of another seed (see the experiment "ingredients").
PACE: dict[str, dict[str, Any]] = {
    LEARNER: {"draws": "episodes", "gap": "relative", "multiplier_rate": 0.002}
}


def _with(by_task: dict[str, dict[str, Any]], **changes: Any) -> dict[str, dict[str, Any]]:
    """The settings of every task, some of them changed for all."""
    return {task: {**settings, **changes} for task, settings in by_task.items()}


SCALES: dict[str, Scale] = {
    scale.name: scale
    for scale in (
        Scale(
            "full",
            episodes=5000,
            least_episodes=1,
            seeds={"main": 5, "ablation": 3, "survey": 1},
            policies=3,
            updates=8000,
            test_episodes=1000,
            selection_episodes=200,
            budgets=5,
            ppo=PPO,
            behaviour=BEHAVIOUR,
            learn=LEARN,
            pace=PACE,
        ),
        Scale(
            "smoke",
            episodes=200,
            least_episodes=200,
            seeds={"main": 1, "ablation": 1, "survey": 1},
            policies=2,
            updates=200,
            test_episodes=50,
            selection_episodes=20,
            budgets=1,
            ppo={
                **PPO,
                "highway": {"total_steps": 200_000},
                "fetch-reach": {**PPO["fetch-reach"], "total_steps": 25_600},
            },
            behaviour=_with(BEHAVIOUR, updates=300),
            learn=_with(LEARN, hidden=32, batch_size=32),
            pace=PACE,
            redistribute={"epochs": 2},
        ),
    )
}


def scale_called(name: str) -> Scale:
    """The scale of a preset."""
    if name not in SCALES:
        raise unknown_name("preset of rci paper", name, SCALES)
    return SCALES[name]
