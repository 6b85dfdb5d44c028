import numpy as np
import pytest

from rci.data.errors import RciError
from rci.evaluation.frontier import (
    area_under_frontier,
    frontier,
    mixture_at,
    mixture_interval,
    points,
    violation_at_return,
)
from rci.evaluation.stats import bootstrap_ratio, bootstrap_ratio_of_counts, clopper_pearson

# (0, 0.1) is beaten by (2, 0.1); (6, 0.5) lies above the segment from (2, 0.1) to (10, 0.5), on which 6 costs 0.3.
SELECTION = points([0.0, 2.0, 6.0, 10.0], [0.1, 0.1, 0.5, 0.5])


def test_corners_go_from_the_safest_policy_to_the_one_that_earns_most():
    assert frontier(SELECTION).tolist() == [1, 3]


def test_a_point_below_the_segment_is_a_corner_and_one_on_it_is_not():
    assert frontier(points([0, 1, 2], [0.0, 0.1, 0.4])).tolist() == [0, 1, 2]
    assert frontier(points([0, 1, 2], [0.0, 0.2, 0.4])).tolist() == [0, 2]


def test_the_order_of_policies_does_not_matter():
    rng = np.random.default_rng(0)
    returns, rates = rng.normal(size=40), rng.uniform(size=40)
    turned = rng.permutation(40)
    expected = frontier(points(returns, rates))
    assert turned[frontier(points(returns[turned], rates[turned]))].tolist() == expected.tolist()


def test_no_policy_lies_below_the_frontier():
    rng = np.random.default_rng(1)
    cloud = points(rng.normal(size=50), rng.uniform(size=50))
    for i in range(50):
        mixed = violation_at_return(cloud, cloud, float(cloud.mean_return[i]))
        assert mixed.violation_rate <= cloud.violation_rate[i] + 1e-12
        assert mixed.mean_return >= cloud.mean_return[i] - 1e-12


def test_of_equal_policies_the_first_is_taken():
    same = points([1.0, 1.0, 1.0], [0.2, 0.2, 0.3])
    assert frontier(same).tolist() == [0]
    assert mixture_at(same, 0.5).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("target", "weights"),
    [
        (-5.0, [0, 1, 0, 0]),  # the safest policy earns more than that
        (2.0, [0, 1, 0, 0]),
        (4.0, [0, 0.75, 0, 0.25]),
        (10.0, [0, 0, 0, 1]),
    ],
)
def test_weights_by_hand(target, weights):
    assert mixture_at(SELECTION, target) == pytest.approx(np.array(weights, float))


def test_a_return_beyond_all_policies_is_not_reached():
    assert np.isnan(mixture_at(SELECTION, 10.5)).all()
    assert np.isnan(violation_at_return(SELECTION, SELECTION, 10.5)).all()
    assert np.isnan(area_under_frontier(SELECTION, SELECTION, 5.0, 10.5))


def test_mixtures_are_chosen_by_selection_and_told_by_evaluation():
    evaluation = points([0.0, 3.0, 6.0, 11.0], [0.0, 0.2, 0.0, 0.6])
    mixed = violation_at_return(SELECTION, evaluation, 4.0)  # three quarters of policy 1, one of policy 3
    assert mixed.mean_return == pytest.approx(0.75 * 3.0 + 0.25 * 11.0)
    assert mixed.violation_rate == pytest.approx(0.75 * 0.2 + 0.25 * 0.6)


def test_area_by_hand():
    # Flat at 0.1 from 0 to 2, then rising by 0.05 for each unit of return: 0.1 * 2 + (0.1 + 0.3) / 2 * 4 over 6.
    assert area_under_frontier(SELECTION, SELECTION, 0.0, 6.0) == pytest.approx((0.2 + 0.8) / 6.0)
    assert area_under_frontier(SELECTION, SELECTION, 4.0, 4.0) == pytest.approx(0.2)
    fine = [violation_at_return(SELECTION, SELECTION, t).violation_rate for t in np.linspace(1, 9, 4001)]
    assert area_under_frontier(SELECTION, SELECTION, 1.0, 9.0) == pytest.approx(np.mean(fine), abs=1e-4)


def test_the_interval_of_one_policy_is_the_usual_one():
    alone = mixture_interval(np.array([0.03, 0.9]), np.array([1000, 10]), np.array([1.0, 0.0]))
    assert alone == pytest.approx(clopper_pearson(30, 1000))


def test_equal_weights_pool_the_episodes():
    pooled = mixture_interval(np.array([0.02, 0.04]), np.array([500, 500]), np.array([0.5, 0.5]))
    assert pooled == pytest.approx(clopper_pearson(30, 1000))


def test_unequal_weights_are_worth_fewer_episodes():
    low, high = mixture_interval(np.array([0.03, 0.03]), np.array([500, 500]), np.array([0.8, 0.2]))
    worth = 1.0 / (0.64 / 500 + 0.04 / 500)  # 735.3
    assert (low, high) == pytest.approx(clopper_pearson(0.03 * worth, worth))
    assert np.isnan(mixture_interval(np.array([0.1]), np.array([5]), np.array([np.nan]))).all()


@pytest.mark.parametrize(
    ("returns", "rates", "message"),
    [
        ([], [], "at least one policy"),
        ([1.0, 2.0], [0.1], "shapes"),
        ([np.nan], [0.1], "finite"),
        ([1.0], [1.5], r"\[0, 1\]"),
    ],
)
def test_bad_points_are_refused(returns, rates, message):
    with pytest.raises(RciError, match=message):
        points(returns, rates)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_weights_that_sum_to_more_than_one_by_rounding_give_no_rate_beyond_0_or_1(rate):
    weights = np.full(6, 1.0 / 6.0) * (1.0 + 4.0 * np.finfo(np.float64).eps)
    assert weights.sum() > 1.0
    found = mixture_interval(np.full(6, rate), np.full(6, 100.0), weights)
    assert found == pytest.approx(clopper_pearson(600 * rate, 600))


def test_bad_questions_are_refused():
    with pytest.raises(RciError, match="above"):
        area_under_frontier(SELECTION, SELECTION, 2.0, 1.0)
    with pytest.raises(RciError, match="same policies"):
        violation_at_return(SELECTION, points([1.0], [0.1]), 1.0)


def test_ratios_of_counts_are_those_of_flags():
    above, below = [(30, 1000), (50, 1000)], [(200, 1000), (160, 1000)]
    flags = [[np.arange(n) < x for x, n in side] for side in (above, below)]
    by_flags = bootstrap_ratio(*[[f.astype(float) for f in side] for side in flags], seed=0)
    by_counts = bootstrap_ratio_of_counts(above, below, seed=0)
    assert by_counts[0] == pytest.approx(80 / 360)
    assert by_counts == pytest.approx(by_flags, abs=0.01)  # fixed seeds: the two draw differently


def test_ratios_of_counts_without_violations():
    ratio, low, high = bootstrap_ratio_of_counts([(0, 10)], [(0, 10)], seed=0)
    assert np.isnan(ratio)
    assert (low, high) == (0.0, np.inf)
    assert bootstrap_ratio_of_counts([(1, 10)], [(0, 10)], seed=0)[0] == np.inf
    assert bootstrap_ratio_of_counts([(0, 10)], [(5, 10)], seed=0) == (0.0, 0.0, 0.0)
    for bad in ([], [(2, 1)]):
        with pytest.raises(RciError, match="numerators"):
            bootstrap_ratio_of_counts(bad, [(1, 2)], seed=0)
