import json
import time

import numpy as np
import pytest

from rci.labeling.people.agreement import (
    agreement,
    agreement_table,
    cohen_interval,
    cohen_kappa,
    fleiss_interval,
    fleiss_kappa,
    gold_accuracy,
    self_agreement,
)
from rci.labeling.people.answers import SAFE, STOP, UNSURE, Answer
from rci.labeling.people.bootstrap import percentile_interval


def said(name: str, *stops: int | None, showing: int = 0) -> list[Answer]:
    """One answer per episode from 0 on: a stop index, -1 safe, None unsure."""
    return [
        Answer(name, i, UNSURE)
        if stop is None
        else Answer(name, i, STOP if stop >= 0 else SAFE, stop, showing)
        for i, stop in enumerate(stops)
    ]


def test_cohen_by_hand():
    """Two readers of 50 grant proposals, a textbook example: both yes 20, both no 15, 5 and 10 apart.

    observed = 35 / 50 = 0.7; chance = 0.5 * 0.6 + 0.5 * 0.4 = 0.5; kappa = 0.2 / 0.5 = 0.4.
    """
    assert cohen_kappa(np.array([[20, 5], [10, 15]])) == pytest.approx(0.4, abs=1e-15)
    # Three categories: observed 6/10; rows 4, 3, 3; columns 3, 4, 3: chance (12 + 12 + 9) / 100; (60 - 33) / (100 - 33)
    assert cohen_kappa(np.array([[2, 2, 0], [0, 2, 1], [1, 0, 2]])) == pytest.approx(27 / 67, abs=1e-15)


def test_cohen_at_its_borders():
    assert cohen_kappa(np.array([[3, 0], [0, 4]])) == 1
    assert cohen_kappa(np.array([[0, 5], [5, 0]])) == -1
    assert cohen_kappa(np.array([[4, 4], [4, 4]])) == 0
    assert np.isnan(
        cohen_kappa(np.array([[7, 0], [0, 0]]))
    )  # both always say the same: chance agreement is 1
    assert np.isnan(cohen_kappa(np.zeros((2, 2))))
    assert cohen_kappa(np.array([[0, 7], [0, 0]])) == 0  # each always the same, but not the same as the other


def test_fleiss_by_hand():
    """The textbook table of 10 subjects, 14 raters and 5 categories.

    Column sums 20, 28, 39, 21, 32 of 140. P_i = (sum of squares - 14) / 182:
    sums of squares 196, 60, 70, 94, 74, 98, 58, 46, 66, 66; together 828, so the mean of P_i is
    (828 - 140) / 1820 = 688 / 1820. chance = (400 + 784 + 1521 + 441 + 1024) / 19600 = 4170 / 19600.
    kappa = (0.378022 - 0.212755) / 0.787245 = 0.20993.
    """
    ratings = np.array(
        [
            [0, 0, 0, 0, 14],
            [0, 2, 6, 4, 2],
            [0, 0, 3, 5, 6],
            [0, 3, 9, 2, 0],
            [2, 2, 8, 1, 1],
            [7, 7, 0, 0, 0],
            [3, 2, 6, 3, 0],
            [2, 5, 3, 2, 2],
            [6, 5, 2, 1, 0],
            [0, 2, 2, 3, 7],
        ]
    )
    observed, chance = 688 / 1820, 4170 / 19600
    assert fleiss_kappa(ratings) == pytest.approx((observed - chance) / (1 - chance), abs=1e-14)
    assert fleiss_kappa(ratings) == pytest.approx(0.210, abs=5e-4)  # as printed in textbooks


def test_fleiss_with_more_and_fewer_raters_by_hand():
    """[2, 0]: P = (4 - 2) / 2 = 1. [2, 1]: P = (5 - 3) / 6 = 1/3. [1, 3]: P = (10 - 4) / 12 = 1/2.

    Observed (1 + 1/3 + 1/2) / 3 = 11/18. Pooled 5 and 4 of 9: chance 41/81. kappa = (99 - 82) / (162 - 82) = 17/80.
    """
    ratings = np.array([[2, 0], [2, 1], [1, 3]])
    assert fleiss_kappa(ratings) == pytest.approx(17 / 80, abs=1e-15)
    # An episode that counts twice is the same as two episodes.
    twice = float(fleiss_kappa(ratings[[0, 1, 1, 2, 2, 2]]))
    assert fleiss_kappa(ratings, np.array([[1, 2, 3], [1, 1, 1]])) == pytest.approx(
        [twice, 17 / 80], abs=1e-15
    )


def test_fleiss_at_its_borders():
    assert fleiss_kappa(np.array([[3, 0], [0, 2], [5, 0]])) == 1
    assert np.isnan(fleiss_kappa(np.array([[3, 0], [2, 0]])))
    assert np.isnan(fleiss_kappa(np.zeros((0, 2))))


def test_agreement_of_three_annotators_by_hand():
    answers = [
        *said("bob", 3, -1, 7, None, 5, -1),
        *said("ann", 5, -1, -1, 4, 6, -1),
        *said("cyd", 13, 2),
        *said("ann", -1, 9, showing=1),
    ]
    found = agreement(answers, intervals=False)
    # ann and bob: episodes 0, 1, 2, 4, 5. Both stop 2, both safe 2, bob alone 1: observed 4/5, chance
    # (2 * 3 + 3 * 2) / 25 = 12/25, kappa (20 - 12) / (25 - 12). Apart |5 - 3| = 2 and |6 - 5| = 1: 90% at 1.9.
    assert found["pairs"][0] == {
        "a": "ann",
        "b": "bob",
        "episodes": 5,
        "cohen": pytest.approx(8 / 13, abs=1e-15),
        "low": None,
        "high": None,
        "both_stopped": 2,
        "median": 1.5,
        "p90": pytest.approx(1.9, abs=1e-12),
    }
    # ann and cyd: episodes 0 (both stop, 8 apart) and 1 (cyd alone): chance is all there is.
    assert found["pairs"][1]["cohen"] == 0
    assert (found["pairs"][1]["both_stopped"], found["pairs"][1]["median"]) == (1, 8.0)
    assert [(p["a"], p["b"]) for p in found["pairs"]] == [("ann", "bob"), ("ann", "cyd"), ("bob", "cyd")]
    # Fleiss, (stop, safe): 0 (3, 0), 1 (1, 2), 2 (1, 1), 4 (2, 0), 5 (0, 2); episode 3 has one opinion only.
    # P: 1, 1/3, 0, 1, 1 -> 2/3; pooled 7 and 5 of 12: chance 74/144; kappa (96 - 74) / (144 - 74) = 11/35.
    assert found["episodes"] == 5
    assert found["fleiss"] == pytest.approx(11 / 35, abs=1e-15)
    # ann again: stop became safe, safe became stop.
    assert found["repeats"][0] == {"annotator": "ann", "repeats": 2, "same": 0.0, "median": None}


def test_nothing_to_agree_on():
    empty = agreement([])
    assert empty == {
        "fleiss": None,
        "fleiss_low": None,
        "fleiss_high": None,
        "episodes": 0,
        "pairs": [],
        "repeats": [],
    }
    alone = agreement(said("ann", 1, -1))
    assert (alone["fleiss"], alone["episodes"], alone["pairs"]) == (None, 0, [])
    apart = agreement([Answer("ann", 0, SAFE), Answer("bob", 1, SAFE)])["pairs"][0]
    assert (apart["episodes"], apart["cohen"], apart["low"], apart["median"], apart["p90"]) == (
        0,
        None,
        None,
        None,
        None,
    )
    alike = agreement([*said("ann", -1, -1), *said("bob", -1, -1)])
    assert (alike["fleiss"], alike["fleiss_low"], alike["pairs"][0]["cohen"]) == (None, None, None)
    unsure = agreement([*said("ann", None, None), *said("bob", 1, 2)])
    assert (unsure["episodes"], unsure["pairs"][0]["episodes"]) == (0, 0)
    for found, episodes in ((empty, 0), (alone, 0), (alike, 2), (unsure, 0)):
        json.dumps(found, allow_nan=False)
        assert f"kappa, stopped or not: - on {episodes} episodes" in agreement_table(found)


def test_the_later_of_two_answers_about_the_same_item_counts():
    first, review = Answer("ann", 0, STOP, 4), Answer("ann", 0, SAFE, review=True)
    found = agreement([first, review, *said("bob", -1, 3), Answer("ann", 1, STOP, 3)], intervals=False)
    assert found["pairs"][0]["cohen"] == 1


def test_agreement_with_oneself_by_hand():
    answers = [
        *said("ann", 3, -1, 8, 5, None, -1),
        *said("ann", 5, -1, -1, 6, showing=1),  # 2 apart, same, other, 1 apart
        Answer("ann", 0, STOP, 10, showing=2),  # 7 apart
        Answer("ann", 4, SAFE, showing=1),  # the first time unsure
        Answer("ann", 5, UNSURE, showing=1),
        Answer("ann", 9, SAFE, showing=1),  # without a first time
        *said("bob", 1),
    ]
    found = self_agreement(answers)
    assert found["ann"] == {"repeats": 5, "same": 0.8, "median": 2.0}
    assert found["bob"] == {"repeats": 0, "same": None, "median": None}


def test_accuracy_on_known_episodes_by_hand():
    gold = {0: 4, 1: -1, 2: 9, 3: -1, 7: 2}
    answers = [*said("ann", 6, -1, 8, 5, 0), Answer("ann", 7, UNSURE), *said("bob", -1), *said("cyd", None)]
    answers += [Answer("ann", 1, STOP, 0, showing=1)]  # the second time does not count
    found = gold_accuracy(answers, gold)
    assert found["ann"] == {"seen": 4, "right": 3, "median": 1.5}  # |6 - 4| and |8 - 9|; episode 3 is wrong
    assert found["bob"] == {"seen": 1, "right": 0, "median": None}
    assert found["cyd"] == {"seen": 0, "right": 0, "median": None}
    assert gold_accuracy(answers, {}) == {}


def test_intervals_hold_kappa_and_narrow_with_more_episodes():
    few, many = np.array([[20, 5], [10, 15]]), np.array([[2000, 500], [1000, 1500]])
    low, high = cohen_interval(few)
    assert low < 0.4 < high
    assert (low, high) == cohen_interval(few)  # the seed is fixed
    # Fleiss, Cohen and Everitt's large-sample error: sqrt(p_o (1 - p_o) / (n (1 - p_e)^2)) = 0.1296 (the simple form).
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.7 * 0.3 / 50) / 0.5, rel=0.15)
    low, high = cohen_interval(many)
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(0.7 * 0.3 / 5000) / 0.5, rel=0.15)
    assert cohen_interval(np.array([[9, 0], [0, 9]])) == (1.0, 1.0)


def test_fleiss_intervals_are_those_of_drawing_episodes():
    rng = np.random.default_rng(1)
    stops = rng.binomial(4, np.where(rng.random(80) < 0.4, 0.8, 0.1))
    ratings = np.stack([stops, 4 - stops], axis=1)
    low, high = fleiss_interval(ratings)
    assert low < fleiss_kappa(ratings) < high
    plain = [fleiss_kappa(ratings[rng.integers(0, 80, 80)]) for _ in range(2000)]
    # two bootstraps of 2,000 differ by their own noise only: about 0.006 here, false alarm below 1e-6
    assert [low, high] == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.03)


def test_an_interval_that_resamples_leave_undefined_is_not_given():
    """Of two episodes, one stopped and one safe, half of all resamples hold only one kind."""
    assert cohen_interval(np.array([[1, 0], [0, 1]])) == (None, None)
    assert fleiss_interval(np.array([[2, 0], [0, 2]])) == (None, None)
    values = np.arange(1000.0)
    assert percentile_interval(values) == (24.0, 975.0)
    values[:10] = np.nan  # 1%: the low end is counted from below them, the high end from above
    assert percentile_interval(values) == (24.0, 985.0)


def test_the_table_for_a_terminal():
    answers = [*said("ann", 3, -1, 8, -1), *said("bob", 4, -1, -1, -1), *said("ann", 5, -1, showing=1)]
    text = agreement_table(agreement(answers, intervals=False), gold_accuracy(answers, {0: 3, 1: -1}))
    assert text.splitlines() == [
        "Fleiss' kappa, stopped or not: 0.47 on 4 episodes of two or more annotators",
        "",
        "pair      episodes  Cohen's kappa  both stopped  median steps apart  90% within",
        "ann, bob         4           0.50             1                 1.0         1.0",
        "",
        "shown again to  episodes  same verdict  median steps apart",
        "ann                    2          100%                 2.0",
        "",
        "known episodes  seen  right  median steps off",
        "ann                2   100%               0.0",
        "bob                2   100%               1.0",
    ]
    rng = np.random.default_rng(0)
    crowd = [*said("ann", *rng.integers(-1, 2, 50)), *said("bob", *rng.integers(-1, 2, 50))]
    found = agreement(crowd)
    assert f"[{found['fleiss_low']:.2f}, {found['fleiss_high']:.2f}] on 50 episodes" in agreement_table(found)


def test_twenty_thousand_answers_take_less_than_half_a_second():
    rng = np.random.default_rng(0)
    answers = [a for name in "abcde" for a in said(name, *rng.integers(-1, 3, 4000).tolist())]
    start = time.perf_counter()
    found = agreement(answers)
    assert time.perf_counter() - start < 0.5
    assert (found["episodes"], len(found["pairs"])) == (4000, 10)
