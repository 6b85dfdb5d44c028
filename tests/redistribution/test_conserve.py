import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rci.redistribution.conserve import (
    Conservation,
    compensate,
    conserve,
    difference,
    rescale_nonnegative,
)

MASK = np.array([[1, 1, 1], [1, 1, 0]], bool)
PREFIX = np.array([[0.2, 0.5, 0.8], [0.4, 0.1, 99.0]])
COST = np.array([1.0, 0.0])


def test_difference_by_hand():
    assert difference(PREFIX, MASK) == pytest.approx(np.array([[0.2, 0.3, 0.3], [0.4, -0.3, 0.0]]))


def test_prior_start_by_hand():
    # the empty prefix predicts 0.6; 0.6 is then spread over 3 and over 2 steps
    expected = np.array([[-0.4 + 0.2, 0.3 + 0.2, 0.3 + 0.2], [-0.2 + 0.3, -0.3 + 0.3, 0.0]])
    assert difference(PREFIX, MASK, 0.6) == pytest.approx(expected)


def test_compensation_by_hand():
    step = difference(PREFIX, MASK)
    assert compensate(step, MASK, COST) == pytest.approx(np.array([[0.2, 0.3, 0.5], [0.4, -0.4, 0.0]]))
    even = np.array([[0.2 + 0.2 / 3, 0.3 + 0.2 / 3, 0.3 + 0.2 / 3], [0.35, -0.35, 0.0]])
    assert compensate(step, MASK, COST, "uniform") == pytest.approx(even)


def test_nonnegative_by_hand():
    step = np.array([[0.5, -0.5, 0.25], [-1.0, -1.0, 0.0]])
    expected = np.array([[2 / 3, 0.0, 1 / 3], [0.5, 0.5, 0.0]])
    assert rescale_nonnegative(step, MASK, np.array([1.0, 1.0])) == pytest.approx(expected)
    assert rescale_nonnegative(step, MASK, np.array([1.0, 0.0]))[1].tolist() == [0, 0, 0]


RULES = [
    Conservation(start, where, sign)
    for start in ("zero", "prior")
    for where in ("last", "uniform")
    for sign in ("signed", "nonnegative")
]


@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_sums_are_exact_for_any_scores(rule, data):
    lengths = np.array(data.draw(st.lists(st.integers(1, 1000), min_size=1, max_size=5)))
    seed = data.draw(st.integers(0, 2**32 - 1))
    scale = data.draw(st.sampled_from([0.0, 1e-12, 1.0, 1e4]))
    rng = np.random.default_rng(seed)
    mask = np.arange(lengths.max()) < lengths[:, None]
    prefix = (scale * rng.normal(size=mask.shape)).astype(np.float32)
    cost = np.where(rng.random(len(lengths)) < 0.5, rng.random(len(lengths)), 0.0)
    step = conserve(difference(prefix, mask, 0.3 if rule.start == "prior" else 0.0), mask, cost, rule)
    assert np.abs(step.sum(1) - cost).max() <= 1e-6
    assert (step[~mask] == 0).all()
    if rule.sign == "nonnegative":
        assert step.min() >= 0


def test_padding_has_no_influence():
    wide_mask = np.pad(MASK, ((0, 0), (0, 4)))
    wide = np.pad(PREFIX, ((0, 0), (0, 4)), constant_values=123.0)
    for rule in RULES:
        narrow_costs = conserve(difference(PREFIX, MASK), MASK, COST, rule)
        wide_costs = conserve(difference(wide, wide_mask), wide_mask, COST, rule)
        assert np.array_equal(wide_costs[:, :3], narrow_costs)
