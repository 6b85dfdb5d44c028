"""Which unlabelled episodes would teach a fitted redistributor most: those of which it cannot say how they end."""

from __future__ import annotations

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.redistribution.base import Redistributor
from rci.redistribution.quality import forecast_of


def entropy(chance: Array) -> Array:
    """Bits that are learnt by hearing whether something of this chance happened: 1 at a half, 0 where it is certain."""
    p = np.clip(np.asarray(chance, np.float64), 0.0, 1.0)
    inside = (p > 0) & (p < 1)
    safe = np.where(inside, p, 0.5)
    return np.where(inside, -safe * np.log2(safe) - (1 - safe) * np.log2(1 - safe), 0.0)


def stop_chance(redistributor: Redistributor, scores: Array, lengths: Array) -> Array:
    """The chance that each episode is stopped somewhere, from scores [N, T].

    A recording goes on after the step at which a person would have stopped it, and what follows can look harmless. So
    the highest forecast counts, not the last.
    """
    forecast = forecast_of(redistributor)
    if forecast is None:
        raise RciError(
            "this redistributor gives step costs only and expects nothing of an episode; use another one."
        )
    expected = np.where(np.arange(scores.shape[1]) < lengths[:, None], forecast(scores), -np.inf)
    return np.clip(expected.max(axis=1), 0.0, 1.0)
