"""How well step costs point at what was dangerous, judged with the truth that no redistributor sees.

All of it is about stopped episodes, up to their stop. Where a task knows the exact chance of a violation, a good cost
is high where that chance rose; where it does not, a good cost rises towards the violation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Labels, StepCosts

WINDOW_SECONDS = 1.0  # the last moments before a stop


def localise(
    costs: StepCosts, labels: Labels, risk: Array | None = None, window: int = 1
) -> dict[str, float | None]:
    """The figures of one set of step costs; channels are added up.

    risk: the exact chance, after each kept step, that the episode is violated; flat, like the costs; None if it is not
    known. window: how many steps are the last moments.
    """
    costs.check_parent(labels)
    if not labels.stopped.any():
        raise RciError("no episode was stopped, so there is no danger to point at.")
    cost = [
        c for c, stopped in zip(np.split(costs.total, costs.step_offset[1:-1]), labels.stopped) if stopped
    ]
    figures: dict[str, float | None] = {
        "time_correlation": float(np.mean([rank_correlation(c, np.arange(len(c))) for c in cost])),
        "last_moments": float(np.mean([mass_share(c, slice(-window, None)) for c in cost])),
        "first_step": float(np.mean([mass_share(c, slice(0, 1)) for c in cost])),
        "negative_mass": float(np.mean([np.maximum(-c, 0.0).sum() for c in cost])),
        "risk_correlation": None,
        "rise_correlation": None,
        "rise_error": None,
    }
    if risk is not None:
        kept = [r for r, stopped in zip(np.split(risk, costs.step_offset[1:-1]), labels.stopped) if stopped]
        pairs = list(zip(cost, kept))
        figures["risk_correlation"] = float(np.mean([rank_correlation(c, r) for c, r in pairs]))
        figures["rise_correlation"] = float(np.mean([rank_correlation(c, rise(r)) for c, r in pairs]))
        if costs.return_equivalent:
            figures["rise_error"] = float(np.mean([np.abs(c - rise(r)).sum() for c, r in pairs]))
    return figures


def rise(risk: Array) -> Array:
    """What each step added to the exact chance of a violation, [T]; the first one to nothing."""
    return np.diff(risk, prepend=0.0)


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's correlation of two rows, ties sharing their rank; 0 where one of them is constant."""
    one, two = rankdata(first), rankdata(second)
    one, two = one - one.mean(), two - two.mean()
    size = np.sqrt((one @ one) * (two @ two))
    return float(one @ two / size) if size > 0 else 0.0


def mass_share(cost: Array, part: slice) -> float:
    """The share of an episode's positive cost that lies in a part of it; 0 where nothing is positive."""
    positive = np.maximum(cost, 0.0)
    total = positive.sum()
    return float(positive[part].sum() / total) if total > 0 else 0.0


def last_moments(step_seconds: float | None, steps: int = 5) -> int:
    """How many steps the last second has; where a step has no length in seconds, five."""
    return steps if step_seconds is None else max(1, round(WINDOW_SECONDS / step_seconds))


def describe_columns() -> dict[str, Any]:
    """What the figures mean, in a few words each."""
    return {
        "risk_correlation": "within-episode rank correlation with the exact risk after the step",
        "rise_correlation": "within-episode rank correlation with what the step added to the exact risk",
        "rise_error": "sum over the episode of the absolute gap to what each step added to the exact risk",
        "time_correlation": "within-episode rank correlation with the time (high: cost rises towards the stop)",
        "last_moments": "share of the positive cost in the last second",
        "first_step": "share of the positive cost on the first step",
        "negative_mass": "cost paid back within an episode",
    }
