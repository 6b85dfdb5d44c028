import numpy as np
import pytest
from scipy import stats as reference

from rci.data.errors import RciError
from rci.evaluation.stats import (
    bootstrap_ratio,
    clopper_pearson,
    normalised_returns,
    t_half_width,
    welch_t_test,
)


def test_welch_by_hand() -> None:
    # v_a = 1/3 and v_b = 4/3: t = -2 / sqrt(5/3); degrees of freedom (25/9) / (1/18 + 16/18) = 50/17.
    t, freedom, p = welch_t_test([1.0, 2.0, 3.0], [2.0, 4.0, 6.0])
    assert t == pytest.approx(-2.0 / np.sqrt(5.0 / 3.0))
    assert freedom == pytest.approx(50.0 / 17.0)
    expected = reference.ttest_ind([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], equal_var=False)
    assert p == pytest.approx(expected.pvalue)


def test_welch_is_odd_in_its_samples() -> None:
    a, b = [1.0, 2.0, 4.0], [3.0, 5.0, 9.0, 2.0]
    assert welch_t_test(a, b)[0] == -welch_t_test(b, a)[0]
    assert welch_t_test(a, b)[1:] == pytest.approx(welch_t_test(b, a)[1:])


def test_welch_without_spread_is_undefined() -> None:
    assert np.isnan(welch_t_test([1.0, 1.0], [2.0, 2.0])).all()


@pytest.mark.parametrize(
    ("violations", "episodes", "low", "high"),
    [
        (0, 10, 0.0, 1.0 - 0.025**0.1),  # no violation: 1 - (a/2)^(1/n)
        (10, 10, 0.025**0.1, 1.0),
        (5, 10, 0.187086, 0.812914),  # published tables of the exact interval
        (1, 10, 0.002529, 0.445016),
    ],
)
def test_clopper_pearson_known_values(violations: int, episodes: int, low: float, high: float) -> None:
    assert clopper_pearson(violations, episodes) == pytest.approx((low, high), abs=5e-7)


def test_clopper_pearson_agrees_with_the_binomial_test() -> None:
    for violations in range(0, 31, 3):
        expected = reference.binomtest(violations, 30).proportion_ci(0.9, method="exact")
        assert clopper_pearson(violations, 30, 0.9) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5])
def test_clopper_pearson_covers_the_truth(share: float) -> None:
    """Misses are at most binomial(3000, 0.05); false-alarm rate at most 1e-6 for each share."""
    episodes, draws = 200, 3000
    counts = np.random.default_rng(1).binomial(episodes, share, draws)
    intervals = {int(count): clopper_pearson(int(count), episodes) for count in np.unique(counts)}
    misses = sum(not intervals[int(count)][0] <= share <= intervals[int(count)][1] for count in counts)
    assert misses <= reference.binom.ppf(1 - 1e-6, draws, 0.05)


def test_bootstrap_keeps_strata_apart() -> None:
    # Flags are constant within each seed, so nothing varies: rates 1/2 and 1 whatever the sizes of the seeds.
    ratio = bootstrap_ratio([np.ones(2), np.zeros(6)], [np.ones(3), np.ones(1)], seed=0, resamples=50)
    assert ratio == (0.5, 0.5, 0.5)


def test_bootstrap_ratio_of_rates_and_interval() -> None:
    # Rates 0.1 and 0.4. The log ratio has variance 0.9 / (0.1 n) + 0.6 / (0.4 n) = 10.5 / n, so with n = 1000 the
    # interval is about 0.25 * exp(-+ 1.96 * 0.1025). The ends scatter by about 3%; 10% is allowed.
    safe, risky = np.arange(1000) < 100, np.arange(1000) < 400
    ratio, low, high = bootstrap_ratio([safe], [risky], seed=3)
    assert ratio == 0.25
    assert low == pytest.approx(0.25 * np.exp(-1.96 * np.sqrt(10.5 / 1000)), rel=0.1)
    assert high == pytest.approx(0.25 * np.exp(1.96 * np.sqrt(10.5 / 1000)), rel=0.1)


def test_bootstrap_same_seed_same_interval_and_global_state_untouched() -> None:
    flags = np.random.default_rng(0).random((2, 60)) < 0.3
    before = np.random.get_state()[1].copy()  # type: ignore[union-attr]
    first = bootstrap_ratio([flags[0]], [flags[1]], seed=7, resamples=200)
    assert first == bootstrap_ratio([flags[0]], [flags[1]], seed=7, resamples=200)
    assert first[1:] != bootstrap_ratio([flags[0]], [flags[1]], seed=8, resamples=200)[1:]
    assert (np.random.get_state()[1] == before).all()


def test_bootstrap_ratio_to_zero() -> None:
    some, none = [np.array([True, True, False])], [np.zeros(5, bool)]
    ratio, _, high = bootstrap_ratio(some, none, seed=0, resamples=100)
    assert (ratio, high) == (np.inf, np.inf)
    assert bootstrap_ratio(none, some, seed=0, resamples=100)[:2] == (0.0, 0.0)
    ratio, low, high = bootstrap_ratio(none, none, seed=0, resamples=100)
    assert np.isnan(ratio)
    assert (low, high) == (0.0, np.inf)


def test_half_width_of_students_interval_by_hand() -> None:
    # mean 2, s = 1, n = 3: t(0.975; 2) = 4.302653, divided by sqrt(3)
    assert t_half_width([1.0, 2.0, 3.0]) == pytest.approx(4.302653 / np.sqrt(3), abs=1e-6)
    assert t_half_width([0.5, 0.5]) == 0.0


def test_normalised_returns_pool_all_values() -> None:
    pooled = normalised_returns([[2.0, 4.0], [6.0, 10.0]])
    np.testing.assert_array_equal(pooled, [[0.0, 0.25], [0.5, 1.0]])
    assert np.isnan(normalised_returns([3.0, 3.0])).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: welch_t_test([1.0], [1.0, 2.0]), "at least 2"),
        (lambda: welch_t_test([1.0, 2.0], [1.0, np.inf]), "not finite"),
        (lambda: clopper_pearson(3, 2), "3 of 2"),
        (lambda: clopper_pearson(-1, 2), "-1 of 2"),
        (lambda: clopper_pearson(0, 0), "0 of 0"),
        (lambda: clopper_pearson(1, 2, confidence=1.0), "confidence"),
        (lambda: bootstrap_ratio([], [[1.0]], seed=0), "no seeds"),
        (lambda: bootstrap_ratio([[]], [[1.0]], seed=0), r"numerators\[0\]"),
        (lambda: bootstrap_ratio([[2.0]], [[1.0]], seed=0), r"\[0, 1\]"),
        (lambda: bootstrap_ratio([[1.0]], [[1.0]], seed=0, resamples=0), "resample"),
        (lambda: normalised_returns([]), "at least 1"),
        (lambda: t_half_width([1.0]), "at least 2"),
        (lambda: t_half_width([1.0, 2.0], confidence=1.5), "confidence"),
    ],
)
def test_bad_input_is_refused_with_the_reason(call, sentence: str) -> None:
    with pytest.raises(RciError, match=sentence):
        call()
