import dataclasses
import itertools

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.labeling.people.answers import SAFE, STOP, UNSURE, Answer
from rci.labeling.people.delay import (
    Delay,
    estimate_delays,
    gold_quotients,
    repeat_quotients,
    shift_back,
    weighted_median,
    why_no_delay,
    without_delays,
)

RATE = 10.0


def stop(episode: int, index: int, pace: float | None, showing: int = 0, name: str = "ann") -> Answer:
    return Answer(name, episode, STOP, index, showing=showing, pace=pace)


def test_weighted_median_by_hand():
    values = np.array([5.0, 1.0, 3.0])
    assert weighted_median(values, np.ones(3)) == 3
    assert weighted_median(values, np.array([5.0, 1.0, 1.0])) == 5
    assert weighted_median(values, np.array([1.0, 1.0, 2.0])) == 3  # below 3 a quarter, below and at 3 three
    assert (
        weighted_median(values, np.array([2.0, 1.0, 1.0])) == 4
    )  # exactly half at or below 3: between 3 and 5
    assert weighted_median(np.array([4.0, 2.0, 9.0, 1.0]), np.ones(4)) == 3 == np.median([4, 2, 9, 1])
    assert weighted_median(values, np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])).tolist() == [1, 5]


def test_a_delay_from_known_episodes_by_hand():
    """(stop - known) / pace: 4/10, 10/20, 2/4, 3/10, -30/10 with weights 10, 20, 4, 10, 10.

    In order -3, 0.3, 0.4, 0.5, 0.5 the weights reach 10, 20, 30, 54; half of 54 is 27: 0.4.
    """
    gold = {0: 20, 1: 30, 2: 40, 3: 50, 4: 60, 5: -1, 6: 7}
    answers = [
        stop(0, 24, 10.0),
        stop(1, 40, 20.0),
        stop(2, 42, 4.0),
        stop(3, 53, None),  # imported: at the recorded pace of 10
        stop(4, 30, 10.0),  # another danger
        stop(5, 3, 10.0),  # a safe one
        stop(6, 7, 0.0),  # paused
        stop(8, 3, 10.0),  # not known
        Answer("ann", 6, SAFE, showing=1),
        dataclasses.replace(stop(0, 99, 10.0, showing=1), review=True),
    ]
    quotients = gold_quotients(answers[:8], gold, RATE)
    assert quotients.seconds.tolist() == [0.4, 0.5, 0.5, 0.3, -3.0]
    assert quotients.weight.tolist() == [10, 20, 4, 10, 10]
    found = estimate_delays(answers, gold, RATE)["ann"]
    assert found.seconds == pytest.approx(0.4, abs=1e-15)
    assert (found.stops, found.source) == (5, "gold")
    # All the 5^5 ways to draw five episodes again, each quotient repeated by its weight.
    late, weight = np.array([0.4, 0.5, 0.5, 0.3, -3.0]), np.array([10, 20, 4, 10, 10])
    drawn = [
        np.median(np.repeat(late[list(d)], weight[list(d)])) for d in itertools.product(range(5), repeat=5)
    ]
    assert [found.low, found.high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=1e-15)
    assert (found.low, found.high) == (-3.0, 0.5)


def test_a_delay_from_repetitions_by_hand():
    """(s1 - s2) / (p1 - p2): 8/20, 10/20, -9/-30, 6/10, 0/2.5 with weights 20, 20, 30, 10, 2.5.

    In order 0, 0.3, 0.4, 0.5, 0.6 the weights reach 2.5, 32.5, 52.5; half of 82.5 is 41.25: 0.4.
    """
    pairs = [(30, 20, 22, 0), (40, 25, 30, 5), (11, 10, 20, 40), (16, 20, 10, 10), (9, 5, 9, 2.5)]
    answers = []
    for i, (s1, p1, s2, p2) in enumerate(pairs):
        answers += [stop(i, s1, p1), stop(i, s2, p2, showing=1)]
    answers += [stop(9, 3, 10.0), stop(9, 90, 10.25, showing=1)]  # paces too close to say anything
    answers += [stop(10, 3, None), stop(10, 90, 10.0, showing=1)]  # the recorded pace twice
    answers += [stop(11, 3, 5.0), Answer("ann", 11, SAFE, showing=1, pace=20.0)]
    quotients = repeat_quotients([a for a in answers if a.verdict == STOP], RATE)
    assert quotients.seconds.tolist() == pytest.approx([0.4, 0.5, 0.3, 0.6, 0.0], abs=1e-15)
    assert quotients.weight.tolist() == [20, 20, 30, 10, 2.5]
    found = estimate_delays(answers, {}, RATE)["ann"]
    assert found.seconds == pytest.approx(0.4, abs=1e-15)
    assert (found.stops, found.source) == (10, "repeats")
    assert found.low <= 0.3 < 0.5 <= found.high


def test_three_showings_are_three_pairs():
    """r = 0.5: pressed at 10 + 0.5 pace. Fifteen stops, each used once however many pairs it is in."""
    answers = [stop(i, 10 + n * 4, n * 8.0, showing=n) for i in range(5) for n in range(3)]
    found = estimate_delays(answers, {}, RATE)["ann"]
    assert found == Delay(0.5, 0.5, 0.5, 15, "repeats")


def test_known_episodes_go_before_repetitions_if_they_suffice():
    gold = dict.fromkeys(range(5), 10)
    first = [stop(i, 10 + 5, 10.0) for i in range(5)]  # half a second late
    again = [stop(i, 10 + 5 + 20, 20.0, showing=1) for i in range(5)]  # pairs say two seconds
    both = estimate_delays(first + again, gold, RATE)["ann"]
    assert (both.source, both.stops) == ("gold", 10)
    del gold[0]
    few = estimate_delays(first + again, gold, RATE)["ann"]
    assert (few.source, few.seconds, few.stops) == ("repeats", 2.0, 10)


def test_too_little_is_none_and_says_why():
    gold = dict.fromkeys(range(5), 10)
    answers = [stop(i, 14, 10.0) for i in range(4)]
    answers += [stop(0, 12, 5.0, showing=n) for n in range(1, 4)]  # more stops, but no more episodes
    answers += [Answer("bob", 0, UNSURE), *[stop(i, 14, 10.0, name="cyd") for i in range(5)]]
    delays = estimate_delays(answers, gold, RATE)
    assert list(delays) == ["ann", "bob", "cyd"]
    assert (delays["ann"], delays["bob"]) == (None, None)
    assert delays["cyd"].seconds == 0.4
    reasons = why_no_delay(answers, gold, RATE)
    assert list(reasons) == ["ann", "bob"]
    assert reasons["ann"].startswith("ann stopped 4 known episodes while they played, and 1 episodes twice")
    assert "needs 5 of either" in reasons["bob"]
    assert estimate_delays([], gold, RATE) == {}


def test_shifting_back_by_hand():
    assert shift_back(stop(0, 30, 20.0), 0.4, RATE) == 22
    assert shift_back(stop(0, 30, 2.5), 0.4, RATE) == 29
    assert shift_back(stop(0, 30, 2.5), 0.15, RATE) == 30  # 0.375 steps
    assert shift_back(stop(0, 30, 2.5), 0.2, RATE) == 29  # half a step is rounded up
    assert shift_back(stop(0, 30, 2.5), 1.0, RATE) == 27  # 2.5 steps as well
    assert shift_back(stop(0, 30, 0.0), 0.4, RATE) == 30  # paused: no delay
    assert shift_back(stop(0, 30, None), 0.4, RATE) == 26  # unknown: at the recorded pace
    assert shift_back(stop(0, 3, 40.0), 0.4, RATE) == 0
    assert shift_back(stop(0, 30, 20.0), -0.4, RATE) == 30  # never later
    assert shift_back(Answer("ann", 0, SAFE, pace=20.0), 0.4, RATE) == -1
    corrected = without_delays({"ann": Delay(0.4, 0.3, 0.5, 9, "gold"), "bob": None}, RATE)
    assert corrected(stop(0, 30, 20.0)) == 22
    assert corrected(stop(0, 30, 20.0, name="bob")) == 30
    assert corrected(stop(0, 30, 20.0, name="cyd")) == 30


def test_who_anticipates_is_reported_and_not_shifted():
    gold = dict.fromkeys(range(6), 20)
    answers = [stop(i, 18, 10.0) for i in range(6)]
    delays = estimate_delays(answers, gold, RATE)
    assert delays["ann"].seconds == -0.2
    assert [without_delays(delays, RATE)(a) for a in answers] == [18] * 6


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_is_above_0(rate):
    with pytest.raises(RciError, match="steps per second above 0"):
        estimate_delays([], {}, rate)
    with pytest.raises(RciError, match="steps per second above 0"):
        without_delays({}, rate)


def watch(
    seed: int, reaction: float, episodes: int = 40, showings: int = 1
) -> tuple[list[Answer], dict[int, int]]:
    """A simulated annotator: lognormal reactions around `reaction` seconds, and one stop in ten anywhere at all."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(60, 160, episodes)
    answers = []
    for showing in range(showings):
        pace = rng.choice([2.5, 5.0, 10.0, 20.0, 40.0], episodes)
        late = reaction * np.exp(0.2 * rng.standard_normal(episodes))
        anywhere = rng.integers(0, 250, episodes)
        wild = rng.random(episodes) < 0.1
        index = np.where(wild, anywhere, np.rint(truth + late * pace).astype(int))
        answers += [stop(i, int(index[i]), float(pace[i]), showing) for i in range(episodes)]
    return answers, dict(enumerate(truth.tolist()))


def median_error(answers, stop_index, truth):
    return np.median([abs(stop_index(a) - truth[a.episode]) for a in answers])


@pytest.mark.parametrize("source", ["gold", "repeats"])
def test_simulated_reactions_are_found_again_and_taken_back(source):
    """The interval should hold the delay for about 90 of 100 annotators; fewer than 80: chance below 0.2%."""
    held = 0
    errors = []
    for seed in range(100):
        reaction = 0.35 + 0.25 * seed / 99  # seconds
        answers, truth = watch(seed, reaction, showings=1 if source == "gold" else 2)
        delays = estimate_delays(answers, truth if source == "gold" else {}, RATE)
        found = delays["ann"]
        assert found.source == source
        held += found.low <= reaction <= found.high
        errors.append(found.seconds - reaction)
        before = median_error(answers, lambda a: a.stop_index, truth)
        after = median_error(answers, without_delays(delays, RATE), truth)
        assert after < before / 2
    assert held >= 80
    assert abs(np.mean(errors)) < 0.02  # a standard error is 0.004
    assert np.std(errors) < 0.05


def test_annotators_without_delay_are_left_alone():
    for seed in range(20):
        answers, truth = watch(seed, 0.0)
        delays = estimate_delays(answers, truth, RATE)
        assert delays["ann"].seconds == 0
        assert delays["ann"].low <= 0 <= delays["ann"].high
        assert [without_delays(delays, RATE)(a) for a in answers] == [a.stop_index for a in answers]


def test_the_same_answers_give_the_same_interval():
    answers, truth = watch(3, 0.5)
    assert estimate_delays(answers, truth, RATE) == estimate_delays(answers[::-1], truth, RATE)
