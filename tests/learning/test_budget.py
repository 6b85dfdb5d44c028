import math

import jax.numpy as jnp
import numpy as np
import pytest

from rci.data.errors import RciError
from rci.data.types import StepCosts
from rci.learning.budget import discounted_costs, parse_budget, threshold, update_multiplier


def costs(*episodes):
    flat = np.concatenate([np.array(e, float) for e in episodes])
    sums = np.array([sum(e) for e in episodes], float)
    return StepCosts(flat, np.array([len(e) for e in episodes]), sums, True, "by hand", "")


COSTS = costs([0.5, 0.5], [0.0, 0.0, 1.0], [0.0])


def test_discounted_episodic_costs_by_hand():
    assert discounted_costs(COSTS, 0.5).tolist() == [0.75, 0.25, 0.0]
    assert discounted_costs(COSTS, 1.0).tolist() == [1.0, 1.0, 0.0]


def test_percentiles_are_of_the_discounted_cost():
    assert threshold("P50", COSTS, discount=0.5, cost_discount=1.0) == 0.25
    assert threshold("P0", COSTS, 0.5, 1.0) == 0.0
    assert threshold("P100", COSTS, 0.5, 1.0) == 0.75


def test_a_number_bounds_the_undiscounted_cost():
    assert threshold(0.05, COSTS, 0.5, cost_discount=1.0) == 0.05
    # with discount 0.5 the dataset's mean cost shrinks from 2/3 to 1/3
    assert threshold(0.05, COSTS, 0.5, cost_discount=0.5) == pytest.approx(0.025)
    assert threshold(math.inf, COSTS, 0.5, 0.5) == math.inf
    assert threshold(0.05, costs([0.0, 0.0]), 0.5, 0.5) == 0.05


@pytest.mark.parametrize(
    ("text", "value"),
    [("0.05", 0.05), ("inf", math.inf), ("P30", "P30"), ("p12.5", "P12.5"), (0, 0.0), (1, 1.0)],
)
def test_budgets_as_written(text, value):
    assert parse_budget(text) == value


@pytest.mark.parametrize("text", ["-0.1", "nan", "P101", "lots", "", "P", -1.0, "5", 1.5, True, None])
def test_bad_budgets(text):
    with pytest.raises(RciError, match="budget"):
        parse_budget(text)


def test_multiplier_by_hand():
    assert update_multiplier(jnp.array(1.0), 0.75, 0.25, 0.5) == 1.25
    assert update_multiplier(jnp.array(0.1), 0.0, 0.25, 0.5) == 0.0
    assert update_multiplier(jnp.array(3.0), 0.9, math.inf, 0.5) == 0.0
    assert update_multiplier(jnp.array(3.0), 0.9, math.inf, 0.0) == 0.0
