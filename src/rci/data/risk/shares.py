"""Intervals of shares: of so many episodes, so many were stopped."""

from __future__ import annotations

from rci.data.errors import RciError


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside of the open interval from 0 to 1."""
    if not 0.0 < confidence < 1.0:
        raise RciError(f"the confidence must lie between 0 and 1, got {confidence}.")


def clopper_pearson(violations: float, episodes: float, confidence: float = 0.95) -> tuple[float, float]:
    """Exact interval for a share: the beta quantiles of Clopper and Pearson (1934).

    `low = B(a/2; x, n - x + 1)` and `high = B(1 - a/2; x + 1, n - x)`, with `a = 1 - confidence`; it covers the true
    share with at least the asked probability, whatever the share is. Weighted episodes need not be whole numbers.
    """
    from scipy import stats

    check_confidence(confidence)
    if episodes < 1 or not 0 <= violations <= episodes:
        raise RciError(
            f"violations must be between 0 and the number of episodes, got {violations} of {episodes}."
        )
    tail = (1.0 - confidence) / 2.0
    safe = episodes - violations
    low = 0.0 if violations == 0 else float(stats.beta.ppf(tail, violations, safe + 1))
    high = 1.0 if safe == 0 else float(stats.beta.ppf(1.0 - tail, violations + 1, safe))
    return low, high
