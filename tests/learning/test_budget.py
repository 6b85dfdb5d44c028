import math
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from rci.data.errors import RciError
from rci.data.risk.budgets import in_words, limits, parse_budget
from rci.data.types import StepCosts
from rci.learning.budget import (
    allowed_sum,
    audited,
    discounted_costs,
    kept_budget,
    relative_gap,
    seen_of,
    threshold,
    update_multiplier,
)


def costs(*episodes, **more):
    flat = np.concatenate([np.array(e, float) for e in episodes])
    sums = np.array([np.sum(e, axis=0) for e in episodes], float)
    return StepCosts(flat, np.array([len(e) for e in episodes]), sums, True, "by hand", "", **more)


COSTS = costs([0.5, 0.5], [0.0, 0.0, 1.0], [0.0])
TWO = costs(
    [[0.5, 0.0], [0.5, 0.0]],
    [[0.0, 0.0], [0.0, 0.5], [1.0, 0.5]],
    [[0.0, 0.0]],
    channels=("near", "off"),
)


def test_discounted_episodic_costs_by_hand():
    assert discounted_costs(COSTS, 0.5).tolist() == [0.75, 0.25, 0.0]
    assert discounted_costs(COSTS, 1.0).tolist() == [1.0, 1.0, 0.0]
    assert discounted_costs(TWO, 0.5).tolist() == [[0.75, 0.0], [0.25, 0.375], [0.0, 0.0]]


def test_percentiles_are_of_the_discounted_cost():
    assert threshold("P50", COSTS, discount=0.5, cost_discount=1.0).tolist() == [0.25]
    assert threshold("P0", COSTS, 0.5, 1.0).tolist() == [0.0]
    assert threshold("P100", COSTS, 0.5, 1.0).tolist() == [0.75]
    assert threshold("P100", TWO, 0.5, 1.0).tolist() == [0.75, 0.375]  # of each channel by itself


def test_a_number_bounds_the_undiscounted_cost():
    assert threshold(0.05, COSTS, 0.5, cost_discount=1.0).tolist() == [0.05]
    # with discount 0.5 the dataset's mean cost shrinks from 2/3 to 1/3
    assert threshold(0.05, COSTS, 0.5, cost_discount=0.5) == pytest.approx([0.025])
    assert threshold(math.inf, COSTS, 0.5, 0.5).tolist() == [math.inf]
    assert threshold(0.05, costs([0.0, 0.0]), 0.5, 0.5).tolist() == [0.05]


def test_every_channel_has_a_threshold_of_its_own():
    assert threshold(0.05, TWO, 0.5, 1.0).tolist() == [0.05, 0.05]
    assert threshold({"off": "P100", "near": 0.1}, TWO, 0.5, 1.0).tolist() == [0.1, 0.375]
    assert threshold("off=inf,near=P50", TWO, 0.5, 1.0).tolist() == [0.25, math.inf]
    # with discount 0.5 the mean cost shrinks from 2/3 to 1/3 in one channel and from 1/3 to 1/8 in the other
    assert threshold(0.2, TWO, 0.5, cost_discount=0.5) == pytest.approx([0.1, 0.075])


def test_log_survival_sums_to_minus_the_logarithm_of_safety():
    assert allowed_sum(0.05, "cost") == 0.05
    assert allowed_sum(0.05, "log-survival") == pytest.approx(-math.log(0.95))
    assert allowed_sum(0.0, "log-survival") == 0.0
    assert allowed_sum(1.0, "log-survival") == allowed_sum(math.inf, "log-survival") == math.inf
    survival = costs([0.5, 0.5], [0.0, 0.0, 1.0], [0.0], unit="log-survival")
    assert threshold(0.5, survival, 0.5, 1.0) == pytest.approx([math.log(2)])
    assert threshold(0.5, survival, 0.5, 0.5) == pytest.approx(
        [math.log(2) / 2]
    )  # the scale of the discount, as ever
    assert threshold("P50", survival, 0.5, 1.0).tolist() == [0.25]  # of the costs as they are


def test_limits_go_by_the_order_of_the_channels():
    assert limits(0.05, ()) == (0.05,)
    assert limits("P30", ("near", "off")) == ("P30", "P30")
    assert limits("off=1,near=p20", ("near", "off")) == ("P20", 1.0)
    assert limits({"near": math.inf, "off": 0.1}, ("near", "off")) == (math.inf, 0.1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.05", 0.05),
        ("inf", math.inf),
        ("5%", 0.05),
        (" 0.7 % ", 0.007),
        ("0%", 0.0),
        ("100%", 1.0),
        ("road=1%, proximity=5%", "proximity=0.05,road=0.01"),
        ({"road": "1%"}, "road=0.01"),
        ("P30", "P30"),
        ("p12.5", "P12.5"),
        (0, 0.0),
        (1, 1.0),
        ("road=0.01, proximity=p20", "proximity=P20,road=0.01"),
        ({"road": 0, "proximity": math.inf}, "proximity=inf,road=0.0"),
    ],
)
def test_budgets_as_written(text, value):
    assert parse_budget(text) == value
    assert parse_budget(parse_budget(text)) == value


def test_every_share_is_the_number_that_its_digits_say():
    """A division of floats would miss some of them by the last bit."""
    assert [parse_budget(f"{tenths / 10:g}%") for tenths in range(1001)] == [
        float(f"{tenths / 1000:g}") for tenths in range(1001)
    ]


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (0.05, "5%"),
        ("0.125%", "0.125%"),
        ("inf", "no budget"),
        ("p30", "P30"),
        ("road=0.01,near=inf", "near no budget, road 1%"),
    ],
)
def test_budgets_in_words(budget, words):
    assert in_words(budget) == words


@pytest.mark.parametrize(
    "text",
    [
        "-0.1", "nan", "P101", "lots", "", "P", -1.0, "5", 1.5, True, None, "a=2", "a=0.1,b", "a=0.1,a=0.2", "a=",
        "=0.1", "a=0.1,",
        "500%", "-5%", "%", "5%%", "nan%", "inf%", "x%", "a=101%",
        {}, {"a": 5}, {"a": None}, {"a=b": 0.1}, {3: 0.1}, {"": 0.1},
    ],
)  # fmt: skip
def test_bad_budgets(text):
    with pytest.raises(RciError, match="budget"):
        parse_budget(text)


@pytest.mark.parametrize(
    ("budget", "channels", "message"),
    [
        (
            "near=0.1,of=0.2",
            ("near", "off"),
            "unknown channel in the budget 'of'. Did you mean 'off'. Known: near, off",
        ),
        ("near=0.1", ("near", "off"), "says nothing about off; every channel needs one, and inf is none"),
        ({"near": 0.1, "off": 0.2}, (), "is by channel, but these costs have no channels"),
    ],
)
def test_channels_that_do_not_fit(budget, channels, message):
    with pytest.raises(RciError, match=message):
        limits(budget, channels)


def test_multiplier_by_hand():
    assert update_multiplier(jnp.array(1.0), 0.75, 0.25, 0.5) == 1.25
    assert update_multiplier(jnp.array(0.1), 0.0, 0.25, 0.5) == 0.0
    assert update_multiplier(jnp.array(3.0), 0.9, math.inf, 0.5) == 0.0
    assert update_multiplier(jnp.array(3.0), 0.9, math.inf, 0.0) == 0.0
    each = update_multiplier(
        jnp.array([1.0, 0.1, 3.0]), jnp.array([0.75, 0.0, 0.9]), jnp.array([0.25, 0.25, math.inf]), 0.5
    )
    assert each.tolist() == [1.25, 0.0, 0.0]


def test_relative_gap_by_hand():
    # log(0.11 / 0.06), log(0.06 / 0.11), far over, far under, and nothing where the budget is met
    found = relative_gap(jnp.array([0.1, 0.05, 0.9, -0.3, 0.2]), jnp.array([0.05, 0.1, 0.05, 0.4, 0.2]))
    assert found == pytest.approx([0.606136, -0.606136, 1.0, -1.0, 0.0], abs=1e-5)
    assert relative_gap(jnp.array(0.005), 0.0) == pytest.approx(
        0.405465
    )  # a budget of nothing is over at once


def test_an_auditor_compares_a_number_with_the_labels_whatever_the_costs_mean():
    scores = replace(COSTS, return_equivalent=False, unit="score")
    assert threshold(0.3, scores, 0.99, 1.0, audits=True) == pytest.approx([0.3])
    with pytest.raises(RciError, match="scores"):
        threshold(0.3, scores, 0.99, 1.0)


def test_numbers_are_audited_and_percentiles_are_not():
    assert audited((0.05, "P30", math.inf), audits=True).tolist() == [1.0, 0.0, 1.0]
    assert audited((0.05, "P30", math.inf), audits=False).tolist() == [0.0, 0.0, 0.0]


def test_which_episodes_kept_the_budget():
    assert kept_budget(0.05, COSTS, 0.5).tolist() == [False, False, True]
    assert kept_budget(1.0, COSTS, 0.5).tolist() == [True, True, True]
    # discounted they cost 0.75, 0.25 and 0; the median is 0.25
    assert kept_budget("P50", COSTS, 0.5).tolist() == [False, True, True]
    assert kept_budget("near=1,off=0.5", TWO, 0.5).tolist() == [True, False, True]
    assert kept_budget("near=1,off=inf", TWO, 0.5).tolist() == [True, True, True]


def test_what_is_seen_of_costs_that_are_paid_back():
    """Safe episodes cost 1 at first and are paid back: discounted by a half they show 0.5, stopped ones 1."""
    paid = costs([1.0, -1.0], [1.0, 0.0], [1.0, -1.0], [1.0, 0.0])
    assert threshold(0.0, paid, 0.99, 0.5).tolist() == [0.5]
    assert seen_of(0.1, np.array([0.5, 1.0]), np.array([0.0, 1.0])) == pytest.approx(0.55)
    assert seen_of(0.2, np.array([0.5, 0.25]), np.array([1.0, 1.0])) == pytest.approx(0.2 * 0.375)
    assert threshold(0.1, paid, 0.99, 0.5) == pytest.approx([0.55])
    assert threshold(1.0, paid, 0.99, 0.5) == pytest.approx([1.0])
