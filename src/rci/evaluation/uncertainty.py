"""Does an ensemble know where it is wrong? Its spread beside its errors.

Two errors can be known. Of an episode: how far the prediction at its end is from its label. Of a step, where the task
knows the exact risk: how far its cost is from what the step added to the risk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Labels, StepCosts
from rci.evaluation.localisation import rank_correlation, rise

GROUPS = 5


def trust(
    costs: StepCosts, labels: Labels, predictions: Sequence[Array], risk: Array | None = None
) -> dict[str, Any]:
    """The spread of an ensemble's step costs, and how it goes with what is wrong.

    predictions: what the ensemble expects of each episode after each step, one array per episode. Episodes of a single
    step are left out of the figures about episodes.
    risk: the exact chance of a violation after each kept step, flat; None if it is not known.
    """
    costs.check_parent(labels)
    if costs.spread is None:
        raise RciError("these step costs have no spread: they are of a single model, not of an ensemble.")
    if labels.channels:
        raise RciError("the spread is compared with errors one channel at a time; these labels have several.")
    placed = costs.lengths > 1  # a single step has its cost whatever the models say: nothing to be unsure of
    spread = (np.add.reduceat(costs.spread, costs.step_offset[:-1]) / costs.lengths)[placed]
    last = np.array([p[n - 1] for p, n in zip(predictions, costs.lengths)])
    error = np.abs(last - labels.cost)[placed]
    found: dict[str, Any] = {
        "mean_spread": float(costs.spread.mean()),
        "episode_error": float(error.mean()),
        "episode_correlation": rank_correlation(spread, error),
        "episode_groups": error_by_spread(spread, error),
        "step_error": None,
        "step_correlation": None,
        "step_groups": None,
    }
    if risk is not None:
        exact = np.concatenate([rise(part) for part in np.split(risk, costs.step_offset[1:-1])])
        wrong = np.abs(costs.cost - exact)
        found["step_error"] = float(wrong.mean())
        found["step_correlation"] = rank_correlation(costs.spread, wrong)
        found["step_groups"] = error_by_spread(costs.spread, wrong)
    return found


def error_by_spread(spread: Array, error: Array, groups: int = GROUPS) -> list[list[float]]:
    """Equal groups from the least spread to the most: [mean spread, mean error, count] of each."""
    order = np.argsort(spread, kind="stable")
    return [
        [float(spread[part].mean()), float(error[part].mean()), len(part)]
        for part in np.array_split(order, groups)
        if len(part)
    ]
