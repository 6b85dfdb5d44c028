"""The rules of choice, by hand."""

import math

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.learning.judging.selection import check_rule, choose_best, choose_safest, excess


def column(*costs):
    return np.array(costs)[:, None]


def test_excess_by_hand():
    cost = np.array([[0.3, 0.1], [0.05, 0.1], [0.3, 0.4], [0.1 + 1e-9, 0.2]])
    assert excess(cost, np.array([0.1, 0.2])) == pytest.approx([0.2, 0.0, 0.4, 0.0])
    assert excess(cost, np.array([0.1, math.inf])) == pytest.approx([0.2, 0.0, 0.2, 0.0])


def test_best_by_hand():
    returns, cost = [3.0, 2.0, 1.0, 2.0], column(0.3, 0.1, -0.05, 0.02)
    assert choose_best(returns, cost, np.array([0.5])) == 0
    assert choose_best(returns, cost, np.array([math.inf])) == 0
    assert (
        choose_best(returns, cost, np.array([0.1])) == 1
    )  # of two equal returns the first; 0.1 is within 0.1
    assert choose_best(returns, cost, np.array([0.05])) == 3
    assert choose_best(returns, cost, np.array([0.0])) == 2
    assert choose_best(returns, cost, np.array([-0.1])) == 2  # none is within: the lowest cost
    # none is within, two cost the same: the higher return
    assert choose_best([1.0, 2.0, 3.0], column(0.2, 0.2, 0.3), np.array([0.1])) == 1


def test_best_with_two_channels():
    returns, cost = [3.0, 2.0, 1.0], np.array([[0.0, 0.5], [0.1, 0.1], [0.2, 0.0]])
    assert choose_best(returns, cost, np.array([0.1, 0.1])) == 1  # within in both
    assert choose_best(returns, cost, np.array([0.0, math.inf])) == 0
    assert choose_best(returns, cost, np.array([0.05, 0.05])) == 1  # over by 0.45, 0.1 and 0.15


def test_safest_by_hand():
    returns, cost = [10.0, 9.1, 8.9, 0.0], column(0.4, 0.3, 0.1, 0.0)
    assert choose_safest(returns, cost, 0.9) == 1  # at least 9
    assert choose_safest(returns, cost, 0.89) == 2
    assert choose_safest(returns, cost, 1.0) == 0
    assert choose_safest(returns, cost, 0.0) == 3
    assert (
        choose_safest([-1.0, -2.0], column(0.2, 0.1), 0.9) == 0
    )  # negative returns: the range counts, not 0
    assert choose_safest([1.0, 1.0], column(0.2, 0.1), 0.9) == 1
    assert choose_safest([1.0, 2.0, 2.0], np.array([[0.0, 0.1], [0.3, 0.0], [0.1, 0.1]]), 0.5) == 2


def test_what_a_rule_would_ignore_is_refused():
    assert check_rule("best", None, None) == (0.05, None)
    assert check_rule("best", "P30", None) == ("P30", None)
    assert check_rule("safest", None, None) == (None, 0.9)
    for arguments, message in (
        (("bst", None, None), "unknown rule 'bst'. Did you mean 'best'"),
        (("best", 0.1, 0.5), "the rule 'best' has a budget instead"),
        (("safest", 0.1, None), "looks at no budget"),
        (("safest", None, 1.5), "share must be from 0"),
        (("best", -1, None), "the smallest is 0"),
    ):
        with pytest.raises(RciError, match=message):
            check_rule(*arguments)
