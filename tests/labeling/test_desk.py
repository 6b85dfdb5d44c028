"""Who is shown what next, and that nothing is counted twice."""

from __future__ import annotations

import time

import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.labeling.people.answers import Answer
from rci.labeling.people.sessions.assignment import HOLD, Assignment, ConflictError, Given
from rci.labeling.people.sessions.queue import Order, make_queue
from rci.labeling.people.sessions.session import open_session


def assignment_of(
    folder, episodes: int = 6, names=("ann", "bob"), votes=None, gold=None, repeats=0.0
) -> Assignment:
    session = open_session(folder / "answers", ragged([5] * episodes))
    if gold:
        session.set_gold(gold)
    queue = make_queue(Order(gold=tuple(gold or ()), repeats=repeats), episodes)
    return Assignment(session, queue, list(names), "secret", votes)


def say(assignment: Assignment, name: str, item, verdict="safe", action_id=None, pace=0.0) -> None:
    at = 3 if verdict == "stop" else -1
    given = Given(assignment.key(name, item), verdict, at, 1.0, pace, 5, False)
    assignment.answer(name, action_id or f"{name}-{item}-{verdict}".replace(" ", ""), given)


def test_the_next_item_is_the_first_without_an_answer(tmp_path):
    assignment = assignment_of(tmp_path)
    assert assignment.next_item("ann") == (0, 0)
    say(assignment, "ann", (0, 0))
    say(assignment, "ann", (2, 0), "unsure")
    assert assignment.next_item("ann") == (1, 0)
    assert assignment.next_item("bob") == (0, 0)
    assert assignment.counts("ann") == (2, 6)
    for episode in (1, 3, 4, 5):
        say(assignment, "ann", (episode, 0))
    assert assignment.next_item("ann") is None
    assert assignment.counts("ann") == (6, 6)


def test_keys_are_an_annotators_own_and_tell_nothing(tmp_path):
    assignment = assignment_of(tmp_path, repeats=1.0)
    keys = {name: {assignment.key(name, item) for item in assignment.queue} for name in ("ann", "bob")}
    assert len(keys["ann"]) == len(assignment.queue)
    assert not keys["ann"] & keys["bob"]
    with pytest.raises(LookupError):
        assignment.item("ann", assignment.key("bob", (0, 0)))
    with pytest.raises(LookupError):
        assignment.item("ann", "../../etc/passwd")


def test_the_same_id_counts_once(tmp_path):
    assignment = assignment_of(tmp_path)
    say(assignment, "ann", (0, 0), action_id="the-same-id")
    say(assignment, "ann", (0, 0), action_id="the-same-id")
    assert len(assignment.session._journal.entries) == 1
    with pytest.raises(ConflictError):
        say(assignment, "ann", (1, 0), action_id="the-same-id")
    with pytest.raises(ConflictError):
        assignment.undo("ann", "the-same-id")


def test_the_same_undo_counts_once_also_after_a_restart(tmp_path):
    assignment = assignment_of(tmp_path)
    say(assignment, "ann", (0, 0))
    say(assignment, "ann", (1, 0))
    assert assignment.undo("ann", "undo-number-1") == (1, 0)
    assert assignment.undo("ann", "undo-number-1") == (1, 0)
    assignment.session.close()
    again = assignment_of(tmp_path)
    assert again.undo("ann", "undo-number-1") == (1, 0)
    assert again.counts("ann")[0] == 1
    with pytest.raises(ConflictError):
        again.undo("bob", "undo-number-1")


def test_a_stop_after_the_end_is_refused(tmp_path):
    assignment = assignment_of(tmp_path)
    with pytest.raises(RciError, match="cannot be stopped at 5"):
        assignment.answer(
            "ann", "some-long-id", Given(assignment.key("ann", (0, 0)), "stop", 5, 1.0, 0.0, 5, False)
        )


def test_one_answer_each_splits_the_work(tmp_path):
    assignment = assignment_of(tmp_path, votes=1)
    assignment.look_at("ann", (0, 0))
    assert assignment.next_item("bob") == (1, 0)
    assignment.look_at("bob", (1, 0))
    say(assignment, "ann", (0, 0))
    assert assignment.next_item("ann") == (2, 0)
    say(assignment, "bob", (1, 0), "unsure")  # somebody else may know
    assignment.look_at("bob", (3, 0))
    assert assignment.next_item("ann") == (1, 0)


def test_an_undone_answer_is_asked_for_again(tmp_path):
    assignment = assignment_of(tmp_path, votes=1)
    say(assignment, "ann", (0, 0), "unsure")
    say(assignment, "ann", (0, 0), "safe")
    assert assignment.next_item("bob") == (1, 0)
    assignment.undo("ann", "undo-number-1")
    assert assignment.next_item("bob") == (0, 0)


def test_votes_are_counted_again_after_a_restart(tmp_path):
    assignment = assignment_of(tmp_path, votes=1)
    say(assignment, "ann", (0, 0))
    assignment.session.close()
    assert assignment_of(tmp_path, votes=1).next_item("bob") == (1, 0)


def test_everybody_is_shown_gold(tmp_path):
    assignment = assignment_of(tmp_path, votes=1, gold={0: 2})
    say(assignment, "ann", (0, 0))
    items = []
    while (item := assignment.next_item("bob")) is not None:
        items.append(item)
        say(assignment, "bob", item)
    assert (0, 0) in items


def test_a_repetition_comes_only_after_the_first_showing_and_at_half_the_pace(tmp_path):
    assignment = assignment_of(tmp_path, episodes=3, repeats=1.0)
    repeated = next(item for item in assignment.queue if item[1])
    assert assignment.counts("ann") == (0, 5)  # the total does not grow: that would tell what comes again
    assert not assignment._open("ann")[assignment.place(repeated)]
    say(assignment, "ann", (repeated[0], 0), "stop", pace=assignment.session.rate * 2)
    assert assignment.counts("ann") == (1, 5)
    assert assignment._open("ann")[assignment.place(repeated)]
    assert assignment.speed("ann", repeated) == 1.0
    assert assignment.speed("ann", (repeated[0], 0)) is None
    assert assignment.speed("bob", repeated) is None


def test_a_repetition_of_the_slowest_is_faster(tmp_path):
    assignment = assignment_of(tmp_path, episodes=3, repeats=1.0)
    repeated = next(item for item in assignment.queue if item[1])
    say(assignment, "ann", (repeated[0], 0), "stop", pace=assignment.session.rate * 0.25)
    assert assignment.speed("ann", repeated) == 0.5


def test_neighbours_are_what_one_may_look_at(tmp_path):
    assignment = assignment_of(tmp_path, votes=1)
    say(assignment, "bob", (1, 0))
    assert assignment.neighbours("ann", (0, 0)) == (None, (2, 0))
    assert assignment.neighbours("bob", (0, 0)) == (None, (1, 0))
    assert assignment.neighbours("bob", (5, 0)) == ((4, 0), None)


def test_an_answer_of_somebody_without_a_link_counts_as_a_vote(tmp_path):
    assignment = assignment_of(tmp_path, votes=1)
    assignment.session.add_all([Answer("monitor", 0, "safe", imported=True)])
    assignment.session.close()
    assert assignment_of(tmp_path, votes=1).next_item("ann") == (1, 0)


def test_a_review_mends_the_label_whichever_showing_is_looked_at(tmp_path):
    assignment = assignment_of(tmp_path, episodes=3, repeats=1.0)
    episode, showing = next(item for item in assignment.queue if item[1])
    say(assignment, "ann", (episode, 0), "safe")
    say(assignment, "ann", (episode, 1), "safe")
    given = Given(assignment.key("ann", (episode, showing)), "stop", 2, 1.0, 0.0, 5, review=True)
    for _ in range(2):  # the second time, as after a lost reply
        assignment.answer("ann", "a-review-of-it", given)
    assert assignment.standing("ann").current((episode, 0)).stop_index == 2
    assert assignment.standing("ann").current((episode, 1)).verdict == "safe"
    assert assignment.said("ann", (episode, 1)).stop_index == 2
    assert assignment.undo("ann", "undo-number-1") == (episode, 0)
    assert assignment.said("ann", (episode, 0)).verdict == "safe"


def test_what_somebody_answered_last_is_not_kept_from_others(tmp_path):
    assignment = assignment_of(tmp_path, episodes=3, votes=2)
    while (item := assignment.next_item("ann")) is not None:
        assignment.look_at("ann", item)
        say(assignment, "ann", item)
    assert assignment.counts("bob") == (0, 3)


@pytest.mark.parametrize("votes", [1, 2, 3])
def test_three_people_give_as_many_answers_as_are_needed(tmp_path, votes):
    assignment = assignment_of(tmp_path, episodes=7, names=("ann", "bob", "eve"), votes=votes)
    given = []
    for turn in range(50):
        name = ("ann", "bob", "eve", "bob")[turn % 4]
        if (item := assignment.next_item(name)) is not None:
            assignment.look_at(name, item)
            say(assignment, name, item)
            given.append(item[0])
    assert sorted(given) == sorted(list(range(7)) * votes)


def test_what_somebody_went_away_from_is_given_to_others_after_a_while(tmp_path, monkeypatch):
    assignment = assignment_of(tmp_path, votes=1)
    assignment.look_at("ann", (0, 0))
    assert assignment.next_item("bob") == (1, 0)
    later = time.monotonic() + HOLD
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert assignment.next_item("bob") == (0, 0)


def test_an_imported_answer_outlives_an_undo_and_its_vote_too(tmp_path):
    assignment = assignment_of(tmp_path, votes=1)
    say(assignment, "ann", (0, 0), "unsure")
    assignment.session.add_all([Answer("ann", 0, "safe", imported=True)])
    assignment.session.close()
    again = assignment_of(tmp_path, votes=2)
    assert again.undo("ann", "undo-number-1") == (0, 0)
    assert again.said("ann", (0, 0)).verdict == "safe"
    assert again.next_item("bob") == (0, 0)  # one of two answers is there, not two


def test_the_last_item(tmp_path):
    assignment = assignment_of(tmp_path)
    assert assignment.last("ann") is None
    say(assignment, "ann", (2, 0))
    say(assignment, "ann", (1, 0))
    assert assignment.last("ann") == (1, 0)
    assignment.undo("ann", "undo-number-1")
    assert assignment.last("ann") == (2, 0)
