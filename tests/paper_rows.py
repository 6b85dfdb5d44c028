"""Synthetic rows of `rci paper`: policies on a known line from safe and slow to fast and unsafe."""

from __future__ import annotations

from typing import Any

import numpy as np

# How many violations a method has at the top of the range of returns, and how often it violates at its safest.
METHODS = {"sparse": (0.5, 0.06), "hazard": (0.55, 0.08), "rci": (0.35, 0.01), "uniform": (0.5, 0.05)}
RANGES = {
    "highway": (2.0, 60.0),
    "highway-disc": (2.0, 60.0),
    "highway-two": (2.0, 60.0),
    "fetch-reach": (-1.3, -0.98),
}
BUDGETS = ("P10", "P20", "P30")
TOP_RATE = 0.7  # of reward-only


def row(**changes: Any) -> dict[str, Any]:
    """One row with every field; `key` is made from what identifies it."""
    fields: dict[str, Any] = {
        "experiment": "highway", "task": "highway", "dataset": "mixed", "noise": "clean", "method": "rci",
        "learner": "bcq-lagrangian", "budget": "P30", "seed": 0, "logs_seed": 0, "policy": 0, "labelled": 5000,
        "updates": 5000, "selected": True, "episodes": 1000, "violation_rate": 0.03, "mean_return": 41.0,
        "mean_return_until_stop": 39.2, "return_norm": 0.61, "selection_episodes": 200,
        "selection_violation_rate": 0.02, "selection_return": 41.3, "predicted_cost": 0.05, "predicted_return": 40.1,
        "multiplier": 1.2, "seconds": 41.2, "versions": "jax 0.10.2, numpy 2.4.6, python 3.11.7",
    }  # fmt: skip
    fields |= changes
    named = (
        "experiment",
        "task",
        "dataset",
        "noise",
        "method",
        "learner",
        "budget",
        "seed",
        "policy",
        "labelled",
        "updates",
    )
    return {"key": "-".join(str(fields[name]) for name in named), **fields}


def sweep(
    experiment: str,
    task: str = "highway",
    methods=tuple(METHODS),
    seeds=3,
    budgets=BUDGETS,
    policies=2,
    **changes: Any,
) -> list[dict[str, Any]]:
    """Reward-only and the methods over budgets, policies and seeds, with the safest of each seed selected."""
    return [
        entry
        for seed in range(seeds)
        for method in ("reward-only", *methods)
        for entry in _sweep_of(experiment, task, method, seed, budgets, policies, changes)
    ]


def _sweep_of(experiment, task, method, seed, budgets, policies, changes):
    low, high = RANGES[task]
    rng = np.random.default_rng(
        [seed, sum(map(ord, experiment + task + method + str(sorted(changes.items()))))]
    )
    top, bottom = METHODS.get(method, (TOP_RATE, TOP_RATE))
    made = []
    asked = ("inf",) if method == "reward-only" else budgets
    for place, budget in enumerate(asked):
        for policy in range(policies):
            share = 1.0 if budget == "inf" else (place + 0.5 + 0.3 * rng.normal()) / len(asked)
            share = float(np.clip(share, 0.0, 1.0))
            chance = float(np.clip(bottom + (top - bottom) * share**2, 0.0, 1.0))
            noise = 0.02 * (high - low) * rng.normal(size=2)
            evaluated = float(low + share * (high - low) + noise[0])
            made.append(
                row(
                    experiment=experiment, task=task, method=method, seed=seed, budget=budget, policy=policy,
                    violation_rate=float(rng.binomial(1000, chance)) / 1000, mean_return=evaluated,
                    mean_return_until_stop=evaluated * (1.0 - 0.4 * chance),
                    return_norm=(evaluated - low) / (high - low),
                    selection_violation_rate=float(rng.binomial(200, chance)) / 200,
                    selection_return=float(low + share * (high - low) + noise[1]),
                    predicted_cost=chance, predicted_return=evaluated, selected=False, **changes,
                )
            )  # fmt: skip
    best = min(made, key=lambda one: (one["selection_violation_rate"], -one["selection_return"]))
    best["selected"] = True
    return made


def whole_study(seeds: int = 3) -> list[dict[str, Any]]:
    """Rows of every experiment."""
    rows = [
        *sweep("highway", seeds=seeds),
        *sweep("highway-disc", "highway-disc", seeds=seeds),
        *sweep("fetch-reach", "fetch-reach", seeds=seeds),
    ]
    for dataset in ("ppo", "random", "mixed"):
        rows += sweep("composition", dataset=dataset, seeds=seeds)
    for noise in ("clean", "noisy", "adversarial"):
        rows += sweep("label-noise", noise=noise, seeds=seeds)
    for task in ("highway", "fetch-reach"):
        rows += sweep("calibration", task, seeds=seeds, budgets=("0.05", "0.1", "0.2", "0.4"), policies=1)
        for labelled in (250, 1000, 5000):
            for updates in (1000, 5000, 20000):
                size = {"labelled": labelled, "updates": updates}
                rows += sweep("label-efficiency", task, ("sparse", "hazard", "rci"), seeds, **size)
    rows += sweep("horizon", seeds=seeds)
    tried = ("sparse", "sparse, slow", "potential", "potential, cautious", "hazard")
    rows += sweep("ingredients", methods=tried, seeds=seeds, logs_seed=7)
    for learner in ("bcq-lagrangian", "cpq", "cdt"):
        rows += sweep("grid", methods=("sparse", "rci", "uniform"), seeds=2, learner=learner)
    two = sweep("highway-two", "highway-two", ("sparse", "rci"), seeds, ("proximity=0.1,road=0.1",))
    for one in two:
        one["channel_violation_rate"] = {
            "proximity": 0.8 * one["violation_rate"],
            "road": 0.2 * one["violation_rate"],
        }
    return rows + two
