"""What LeRobot keeps of every feature, for each episode and for all: range, mean, spread, and quantiles since v3.0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rci.data.record import Array

QUANTILES = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}
Statistics = dict[str, list[Any]]  # by name, a value for each number of the feature; `count` has one


def statistics(values: Array, quantiles: bool) -> Statistics:
    """Of one feature in one episode: [T] or [T, numbers]."""
    rows = values.reshape(len(values), -1)
    numbers = rows.astype(np.float64)
    found = {
        "min": rows.min(axis=0).tolist(),
        "max": rows.max(axis=0).tolist(),
        "mean": numbers.mean(axis=0).tolist(),
        "std": numbers.std(axis=0).tolist(),
        "count": [len(rows)],
    }
    if quantiles:
        found |= dict(zip(QUANTILES, np.quantile(numbers, list(QUANTILES.values()), axis=0).tolist()))
    return found


def joined(parts: Sequence[Statistics]) -> Statistics:
    """Of several episodes together; quantiles are means of theirs, weighted by their frames, as LeRobot does it."""
    count = np.concatenate([part["count"] for part in parts]).astype(np.float64)[:, None]
    mean, std = (np.array([part[name] for part in parts], np.float64) for name in ("mean", "std"))
    total = count.sum()
    whole = (mean * count).sum(axis=0) / total
    spread = ((std**2 + (mean - whole) ** 2) * count).sum(axis=0) / total
    found = {
        "min": np.min([part["min"] for part in parts], axis=0).tolist(),
        "max": np.max([part["max"] for part in parts], axis=0).tolist(),
        "mean": whole.tolist(),
        "std": np.sqrt(spread).tolist(),
        "count": [int(total)],
    }
    for name in QUANTILES.keys() & parts[0].keys():
        found[name] = ((np.array([part[name] for part in parts]) * count).sum(axis=0) / total).tolist()
    return found


def as_columns(by_feature: dict[str, Statistics]) -> dict[str, list[Any]]:
    """As `meta/episodes` has them since v3.0: stats/action/mean and so on."""
    return {
        f"stats/{feature}/{name}": values
        for feature, own in by_feature.items()
        for name, values in own.items()
    }
