"""The statistics of the results tables, as pure functions in float64.

Bad input (no values, a value that is not finite, a share outside [0, 1]) is an `RciError`. A quantity that good
input leaves undefined, such as a ratio to zero, is `nan` or infinite, as each docstring says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.risk.shares import check_confidence
from rci.data.risk.shares import clopper_pearson as clopper_pearson


def welch_t_test(a: ArrayLike, b: ArrayLike) -> tuple[float, float, float]:
    """Welch's two-sided t-test: `(t, degrees of freedom, p)`; all `nan` if neither sample varies.

    `t = (mean(a) - mean(b)) / sqrt(v_a + v_b)` with `v = s^2 / n`, and the degrees of freedom of Welch and
    Satterthwaite, `(v_a + v_b)^2 / (v_a^2 / (n_a - 1) + v_b^2 / (n_b - 1))`.
    """
    left, right = _numbers("the first sample", a, least=2), _numbers("the second sample", b, least=2)
    v_a, v_b = left.var(ddof=1) / len(left), right.var(ddof=1) / len(right)
    if v_a + v_b == 0.0:
        return float("nan"), float("nan"), float("nan")
    t = (left.mean() - right.mean()) / np.sqrt(v_a + v_b)
    freedom = (v_a + v_b) ** 2 / (v_a**2 / (len(left) - 1) + v_b**2 / (len(right) - 1))
    return float(t), float(freedom), float(2.0 * stats.t.sf(abs(t), freedom))


def t_half_width(values: ArrayLike, confidence: float = 0.95) -> float:
    """Half the width of Student's interval for a mean: `t(1 - a/2; n - 1) s / sqrt(n)`, with `a = 1 - confidence`."""
    check_confidence(confidence)
    sample = _numbers("the sample", values, least=2)
    quantile = stats.t.ppf(1.0 - (1.0 - confidence) / 2.0, len(sample) - 1)
    return float(quantile * sample.std(ddof=1) / np.sqrt(len(sample)))


def bootstrap_ratio(
    numerators: Sequence[ArrayLike],
    denominators: Sequence[ArrayLike],
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """Ratio of two mean violation rates with its stratified percentile-bootstrap interval: `(ratio, low, high)`.

    Each entry holds one flag per episode of one seed. A rate is the mean over seeds of the share of flags; episodes
    are drawn again within their seed, the seeds themselves stay. With no violation in the denominator the ratio is
    infinite, and with none in the numerator either it is `nan`; a resample that comes out `nan` says nothing, so it
    counts as 0 for the low end and as infinite for the high end.
    """
    check_confidence(confidence)
    if resamples < 1:
        raise RciError(f"the bootstrap needs at least 1 resample, got {resamples}.")
    above, below = _strata("numerators", numerators), _strata("denominators", denominators)
    generator = np.random.default_rng(seed)
    ratios = _ratio(
        _resampled_rates(above, resamples, generator), _resampled_rates(below, resamples, generator)
    )
    return float(_ratio(_rate(above), _rate(below))), *_percentiles(ratios, confidence)


def bootstrap_ratio_of_counts(
    numerators: Sequence[tuple[int, int]],
    denominators: Sequence[tuple[int, int]],
    seed: int,
    resamples: int = 2000,
    confidence: float = 0.95,
) -> tuple[float, float, float]:
    """`bootstrap_ratio` from `(violations, episodes)` of each seed.

    To draw n flags again, x of which are set, is one binomial draw with n trials and chance x / n.
    """
    check_confidence(confidence)
    if resamples < 1:
        raise RciError(f"the bootstrap needs at least 1 resample, got {resamples}.")
    above, below = _counts("numerators", numerators), _counts("denominators", denominators)
    generator = np.random.default_rng(seed)
    drawn = [
        (generator.binomial(n[:, None], (x / n)[:, None], (len(n), resamples)) / n[:, None]).mean(axis=0)
        for x, n in (above, below)
    ]
    ratio = _ratio((above[0] / above[1]).mean(), (below[0] / below[1]).mean())
    return float(ratio), *_percentiles(_ratio(*drawn), confidence)


def normalised_returns(returns: ArrayLike) -> Array:
    """`R_norm = (R - R_min) / (R_max - R_min)` over all the returns given; `nan` if they are all the same."""
    values = np.asarray(returns, np.float64)
    _numbers("returns", values.ravel())
    low, high = values.min(), values.max()
    return np.full_like(values, np.nan) if low == high else (values - low) / (high - low)


def _percentiles(ratios: Array, confidence: float) -> tuple[float, float]:
    """The ends of the interval; a ratio that says nothing is as low and as high as can be."""
    tail = (1.0 - confidence) / 2.0
    low = np.quantile(np.nan_to_num(ratios, nan=0.0, posinf=np.inf), tail, method="lower")
    high = np.quantile(np.nan_to_num(ratios, nan=np.inf, posinf=np.inf), 1.0 - tail, method="higher")
    return float(low), float(high)


def _rate(strata: Sequence[Array]) -> float:
    return float(np.mean([stratum.mean() for stratum in strata]))


def _resampled_rates(strata: Sequence[Array], resamples: int, generator: np.random.Generator) -> Array:
    """The rate of each resample, [resamples]."""
    total = np.zeros(resamples)
    for stratum in strata:
        for i in range(resamples):
            total[i] += stratum[generator.integers(len(stratum), size=len(stratum))].mean()
    return total / len(strata)


def _ratio(above: ArrayLike, below: ArrayLike) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.divide(above, below))


def _strata(name: str, strata: Sequence[ArrayLike]) -> list[Array]:
    if not len(strata):
        raise RciError(f"{name} has no seeds: at least one is needed.")
    return [_shares(f"{name}[{i}]", stratum) for i, stratum in enumerate(strata)]


def _counts(name: str, counts: Sequence[tuple[int, int]]) -> tuple[Array, Array]:
    """Violations and episodes of each seed, two arrays [S]."""
    if not len(counts):
        raise RciError(f"{name} has no seeds: at least one is needed.")
    for violations, episodes in counts:
        if episodes < 1 or not 0 <= violations <= episodes:
            raise RciError(
                f"{name}: violations must be between 0 and the number of episodes, got {violations} of {episodes}."
            )
    violations_of, episodes_of = np.array(counts, np.int64).T
    return violations_of, episodes_of


def _shares(name: str, values: ArrayLike) -> Array:
    array = _numbers(name, values)
    if array.min() < 0.0 or array.max() > 1.0:
        raise RciError(f"{name} must lie in [0, 1], got {array.min():g} to {array.max():g}.")
    return array


def _numbers(name: str, values: ArrayLike, least: int = 1) -> Array:
    array = np.asarray(values, np.float64)
    if array.ndim != 1 or len(array) < least:
        raise RciError(f"{name}: a list of at least {least} numbers is needed, got shape {array.shape}.")
    if not np.isfinite(array).all():
        raise RciError(f"{name}: value {int(np.flatnonzero(~np.isfinite(array))[0])} is not finite.")
    return array
