"""The two ends of a 95% interval, from a number worked out again on resampled episodes."""

from __future__ import annotations

import numpy as np

from rci.data.record import Array

RESAMPLES = 2000
CONFIDENCE = 0.95
SEED = 0  # one for all: the same answers always give the same interval

Interval = tuple[float | None, float | None]


def percentile_interval(values: Array) -> Interval:
    """The middle 95% of the numbers that resamples gave, [resamples]; `nan` where one left it undefined.

    An undefined number could be anything, so it counts as very low for the low end and as very high for the high end.
    An end that is undefined then is None.
    """
    tail = (1.0 - CONFIDENCE) / 2.0
    low = np.quantile(np.nan_to_num(values, nan=-np.inf), tail, method="lower")
    high = np.quantile(np.nan_to_num(values, nan=np.inf), 1.0 - tail, method="higher")
    return _or_none(low), _or_none(high)


def _or_none(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
