"""How far to trust a redistributor, judged on episodes that it never saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rci.data.record import Array
from rci.redistribution.base import Redistributor, last_step

BINS = 10


def assess(prefix: Array, lengths: Array, cost: Array) -> dict[str, Any]:
    """Accuracy and quality of the prediction at the end, calibration of the predictions from all prefixes.

    prefix: [N, T] predictions of held-out episodes, cost: [N].
    """
    end = last_step(prefix, lengths)
    level = cost[cost > 0].mean() / 2  # halfway between safe and stopped: 0.5 unless stops are graded
    valid = np.arange(prefix.shape[1]) < lengths[:, None]
    error, table = calibration(prefix[valid], np.repeat(cost, lengths))
    return {
        "held_out_accuracy": float(np.mean((end > level) == (cost > 0))),
        "held_out_calibration_error": error,
        "calibration": table,
        "quality": rudder_quality(end, cost),
    }


def forecast_of(method: Redistributor) -> Callable[[Array], Array] | None:
    """How a method's scores [N, T] become the episodic cost expected after each step; None if they say nothing."""
    if method.forecast is not None:
        return method.forecast
    return (lambda scores: scores) if method.scores == "prefix" else None


def matched_pairs_accuracy(evidence: Array, lengths: Array, stopped: Array) -> dict[str, Any]:
    """How often a stopped episode looks worse at its end than a safe one after as many steps.

    Each stopped episode is paired with every safe one that is at least as long, and weighs the same however many that
    are; ties count half. What knows nothing but the length is right in half of the cases, however well it predicts
    the labels.

    evidence: [N, T] what the model has seen against each episode after each step.
    """
    shares, pairs = [], 0
    for i in np.flatnonzero(stopped):
        others = evidence[~stopped & (lengths >= lengths[i]), lengths[i] - 1]
        if len(others):
            own = evidence[i, lengths[i] - 1]
            shares.append(np.mean(own > others) + np.mean(own == others) / 2)
            pairs += len(others)
    return {"matched_pairs": pairs, "matched_pairs_accuracy": float(np.mean(shares)) if shares else None}


def rudder_quality(end: Array, cost: Array) -> float:
    """1 - sum (C - g_T)^2 / sum C^2, pooled over episodes so that safe ones do not divide by zero.

    1 is perfect, 0 is no better than predicting no cost at all. RUDDER's authors distrust a model below 0.8.
    """
    return float(1.0 - np.sum((cost - end) ** 2) / max(float(np.sum(cost**2)), 1e-12))


def calibration(predicted: Array, outcome: Array) -> tuple[float, list[list[float]]]:
    """Mean gap between predicted and realised cost over ten bins, and the bins: [predicted, realised, count]."""
    bins = np.clip((np.clip(predicted, 0.0, 1.0) * BINS).astype(int), 0, BINS - 1)
    table = [
        [float(predicted[bins == b].mean()), float(outcome[bins == b].mean()), int((bins == b).sum())]
        for b in range(BINS)
        if (bins == b).any()
    ]
    gaps = [count * abs(said - seen) for said, seen, count in table]
    return float(sum(gaps) / len(predicted)), table
