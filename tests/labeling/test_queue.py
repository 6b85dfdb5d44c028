"""Orders of labelling: everything once, gold ones spread, repeated ones far apart."""

from __future__ import annotations

import time

import numpy as np
import pytest

from rci.data.errors import RciError
from rci.labeling.people.sessions.queue import GOLD_EVERY, REPEAT_AFTER, Order, make_queue


def test_the_plain_order_is_that_of_the_dataset():
    assert make_queue(Order(), 4) == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_the_random_order_is_all_of_them_and_the_same_for_the_same_seed():
    queue = make_queue(Order("random", seed=1), 200)
    assert sorted(queue) == [(i, 0) for i in range(200)]
    assert queue == make_queue(Order("random", seed=1), 200) != make_queue(Order("random", seed=2), 200)


def test_the_most_uncertain_come_first_and_ties_keep_their_order():
    queue = make_queue(Order("uncertain", uncertainty=np.array([0.1, 0.9, 0.5, 0.9])), 4)
    assert [episode for episode, _ in queue] == [1, 3, 2, 0]


def test_gold_episodes_are_spread_one_in_ten():
    gold = (7, 50, 90)
    queue = [episode for episode, _ in make_queue(Order(gold=gold), 100)]
    assert sorted(queue) == list(range(100))
    places = [queue.index(i) for i in gold]
    assert sorted(place // GOLD_EVERY for place in places) == [0, 1, 2]


def test_many_episodes_are_put_in_order_quickly():
    began = time.perf_counter()
    queue = make_queue(Order("random", gold=tuple(range(0, 100_000, 50))), 100_000)
    assert len(queue) == 100_000
    assert time.perf_counter() - began < 5.0  # a look through all gold for every episode takes longer


def test_more_gold_than_room_for_it_is_still_shown():
    queue = [episode for episode, _ in make_queue(Order(gold=tuple(range(8))), 10)]
    assert sorted(queue) == list(range(10))


def test_repeated_episodes_come_again_far_enough_away():
    queue = make_queue(Order("random", seed=3, repeats=0.1), 300)
    again = [item for item in queue if item[1] == 1]
    assert len(again) == 30
    assert len(set(queue)) == len(queue) == 330
    gaps = [queue.index((episode, 1)) - queue.index((episode, 0)) for episode, _ in again]
    assert min(gaps) >= REPEAT_AFTER[0]


@pytest.mark.parametrize("episodes", [1, 2, 3, 5, 30])
def test_short_queues_repeat_after_the_first_showing(episodes):
    queue = make_queue(Order(repeats=1.0), episodes)
    for episode, showing in queue:
        if showing:
            assert queue.index((episode, 0)) < queue.index((episode, 1))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "randm"}, "Did you mean 'random'"),
        ({"repeats": 1.5}, "0 to 1, got 1.5"),
        ({"name": "uncertain"}, "needs how uncertain"),
        ({"uncertainty": np.ones(3)}, "no other order does"),
    ],
)
def test_wrong_orders_are_refused(wrong, message):
    with pytest.raises(RciError, match=message):
        Order(**wrong)


def test_uncertainties_of_other_episodes_are_refused():
    with pytest.raises(RciError, match="4 episodes, but 3"):
        make_queue(Order("uncertain", uncertainty=np.ones(3)), 4)
