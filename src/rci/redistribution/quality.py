"""How far to trust a redistributor, judged on episodes that it never saw."""

from __future__ import annotations

from typing import Any

import numpy as np

from rci.data.record import Array
from rci.redistribution.base import last_step

BINS = 10


def assess(prefix: Array, lengths: Array, cost: Array) -> dict[str, Any]:
    """Accuracy and quality of the prediction at the end, calibration of the predictions from all prefixes.

    prefix: [N, T] predictions of held-out episodes, cost: [N].
    """
    end = last_step(prefix, lengths)
    valid = np.arange(prefix.shape[1]) < lengths[:, None]
    error, table = calibration(prefix[valid], np.repeat(cost, lengths))
    return {
        "held_out_accuracy": float(np.mean((end > 0.5) == (cost > 0.5))),
        "held_out_calibration_error": error,
        "calibration": table,
        "quality": rudder_quality(end, cost),
    }


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
