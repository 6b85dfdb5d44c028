"""Policies good and bad from one set of logs: thresholds of two trainings, clones of the logs, and noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from rci.data.artefacts.models import Behaviour, Policy
from rci.data.record import Array
from rci.data.types import Episodes, Labels
from rci.learning import learn
from rci.redistribution import redistribute

# Thresholds of critics that were trained long enough, and of critics that were not.
GOOD = ("0.02", "0.06", "0.12", "0.2", "0.35", "0.6", "inf")
BAD = ("0.05", "0.15", "0.3", "0.6", "inf")
# The share of the clone's action that is drawn anew in every step.
NOISE = {"noise 15%": 0.15, "noise 30%": 0.3, "noise 60%": 0.6, "random": 1.0}
NAMES = (*(f"good {t}" for t in GOOD), *(f"bad {t}" for t in BAD), "clone", *NOISE)
UPDATES = {"good": 2_000, "bad": 150, "clone": 800}
SIZES = {"hidden": 64, "test_candidates": 32, "row_hidden": 32, "model_updates": 0}


def policies_of(
    episodes: Episodes, labels: Labels, behaviour: Behaviour, seed: int
) -> Mapping[str, Callable[[], Policy]]:
    """What makes each policy, by name; those of one training share it."""
    costs = redistribute(episodes, labels, "sparse")
    trained: dict[str, Policy] = {}

    def training(kind: str) -> Policy:
        if kind not in trained:
            method = "bc" if kind == "clone" else "feasible"
            own: dict[str, Any] = {"hidden": 64} if method == "bc" else {**SIZES, "behaviour": behaviour}
            trained[kind] = learn(episodes, labels, costs, method, "inf", seed, updates=UPDATES[kind], **own)
        return trained[kind]

    def at(kind: str, threshold: str) -> Policy:
        return training(kind).with_threshold(float(threshold))

    makers: dict[str, Callable[[], Policy]] = {}
    for kind, thresholds in (("good", GOOD), ("bad", BAD)):
        for threshold in thresholds:
            makers[f"{kind} {threshold}"] = partial(at, kind, threshold)
    makers["clone"] = partial(training, "clone")
    for name, share in NOISE.items():
        makers[name] = partial(_noisy, training, share, episodes)
    return makers


def _noisy(training: Callable[[str], Policy], share: float, episodes: Episodes) -> Policy:
    """The clone with a share of even draws from the range of recorded actions."""
    clone = training("clone")
    flat = episodes.action.reshape(len(episodes.action), -1)
    low, high = flat.min(axis=0), flat.max(axis=0)
    rng = np.random.default_rng(0)

    def step(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        action, memory = clone.step(seed, memory, obs)  # type: ignore[misc]
        drawn = rng.uniform(low, high, action.shape)
        return ((1 - share) * action + share * drawn).astype(np.float32), memory

    return replace(clone, step=step)
