"""Synthetic rows of `rci paper`: policies on a known line from safe and slow to fast and unsafe."""

from __future__ import annotations

from typing import Any

import numpy as np

# How many violations a method has at the top of the range of returns, and how often it violates at its safest.
METHODS = {"sparse": (0.5, 0.06), "hazard": (0.55, 0.08), "rudder": (0.35, 0.01), "uniform": (0.5, 0.05)}
RANGES = {
    "highway": (2.0, 60.0),
    "highway-open": (2.0, 60.0),
    "highway-disc": (2.0, 60.0),
    "highway-15hz": (2.0, 60.0),
    "fetch-reach": (-1.3, -0.98),
    "fetch-reach-fine": (-1.3, -0.98),
}
BUDGETS = ("P10", "P30", "P50")
THRESHOLDS = ("T3", "T5", "T7")
TOP_RATE = 0.7  # of reward-only


def row(**changes: Any) -> dict[str, Any]:
    """One row with every field; `key` is made from what identifies it."""
    fields: dict[str, Any] = {
        "experiment": "highway", "task": "highway", "dataset": "mixed", "noise": "clean", "method": "rudder",
        "learner": "bcq-lagrangian", "budget": "P30", "seed": 0, "policy": 0, "labelled": 5000,
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


def failure(**changes: Any) -> dict[str, Any]:
    """The row of a policy that could not be trained."""
    made = row(**changes)
    identity = (
        "experiment", "task", "dataset", "noise", "method", "learner", "budget", "seed", "policy", "labelled",
        "updates", "key",
    )  # fmt: skip
    return {**{name: made[name] for name in identity}, "failed": "no episode kept the budget."}


def under_best_learner(
    experiment: str, task: str = "highway", methods=tuple(METHODS), seeds=3, **changes: Any
) -> list[dict[str, Any]]:
    """The methods over thresholds of `feasible`, one policy of each."""
    fields = {"learner": "feasible", "multiplier": None, **changes}
    return sweep(experiment, task, methods, seeds, THRESHOLDS, 1, **fields)


def whole_study(seeds: int = 3) -> list[dict[str, Any]]:
    """Rows of every experiment."""
    rows = [*sweep("highway", seeds=seeds), *sweep("fetch-reach", "fetch-reach", seeds=seeds)]
    for task in ("highway-open", "highway-disc"):
        rows += sweep("readings", task, seeds=seeds)
    for dataset in ("ppo", "random", "mixed"):
        rows += sweep("composition", dataset=dataset, seeds=seeds)
    for noise in ("noisy", "adversarial"):
        rows += sweep("label-noise", noise=noise, seeds=seeds)
    rows += sweep("controls", methods=("sparse", "sparse-10-steps"), seeds=seeds)
    every = (*METHODS, "rudder-prefix-guide")
    rows += under_best_learner("best-learner", "highway", every, seeds)
    rows += under_best_learner("best-learner-arm", "fetch-reach", every, seeds)
    pair = ("sparse", "rudder-prefix-guide")
    for updates in (2000, 8000):
        for labelled in (100, 1000, 5000):
            rows += under_best_learner(
                "when-it-pays", "highway", pair, seeds, labelled=labelled, updates=updates
            )
        few = {"labelled": 1000, "updates": updates}
        for noise in ("noisy", "adversarial", "human", "late"):
            rows += under_best_learner("imperfect-labels", "highway", pair, seeds, noise=noise, **few)
        for task in ("highway-15hz", "fetch-reach-fine"):
            rows += under_best_learner("horizon", task, pair, seeds, **few)
    return rows
