"""The folder of a labelling session: answers, undo, gold, tokens, and what it refuses."""

from __future__ import annotations

import stat

import pytest
from conftest import ragged
from hypothesis import given
from hypothesis import strategies as st

from rci.data.errors import RciError
from rci.labeling.people.answers import Answer, Standing, Undo, check_name, fold
from rci.labeling.people.sessions.session import open_session, read_session

EPISODES = ragged([5, 3, 8])


def stop(episode: int, at: int, **more) -> Answer:
    return Answer("ann", episode, "stop", at, **more)


def test_answers_survive_closing(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES, rate=5.0)
    session.add(stop(0, 2, seconds=1.5, pace=5.0), "first-id")
    session.add(Answer("bob", 1, "safe"), "second-id")
    session.close()
    again = read_session(tmp_path / "answers")
    assert again.answers() == [stop(0, 2, seconds=1.5, pace=5.0), Answer("bob", 1, "safe")]
    assert again.answers(["bob"]) == [Answer("bob", 1, "safe")]
    assert again.rate == 5.0
    assert list(again.lengths) == [5, 3, 8]


def test_a_later_answer_replaces_an_earlier_one_and_undo_brings_it_back(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.add(stop(0, 2), "first-id")
    session.add(Answer("ann", 0, "safe"), "second-id")
    assert session.answers() == [Answer("ann", 0, "safe")]
    assert session.undo("ann", "third-id") == Answer("ann", 0, "safe")
    assert session.answers() == [stop(0, 2)]
    assert session.undo("ann", "fourth-id") == stop(0, 2)
    assert session.answers() == []
    assert session.undo("ann", "fifth-id") is None
    session.close()
    assert read_session(tmp_path / "answers").answers() == []


def test_undo_is_everybodys_own(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.add(stop(0, 2), "first-id")
    session.add(Answer("bob", 0, "safe"), "second-id")
    session.undo("ann", "third-id")
    assert session.answers() == [Answer("bob", 0, "safe")]


def test_what_was_brought_in_is_not_undone(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.add_all([stop(0, 1, imported=True), stop(1, 1, imported=True)])
    session.add(Answer("ann", 0, "safe"), "first-id")
    session.undo("ann", "second-id")
    assert session.undo("ann", "third-id") is None
    assert session.answers() == [stop(0, 1, imported=True), stop(1, 1, imported=True)]


@given(st.lists(st.one_of(st.none(), st.tuples(st.integers(0, 2), st.sampled_from(["safe", "unsure"])))))
def test_undo_is_the_inverse_of_answering(presses):
    """A fold with undo equals a list from which undo removes the last: the state is that of what remains."""
    actions, remaining = [], []
    for press in presses:
        if press is None:
            actions.append(Undo("ann", (0, 0)))
            remaining = remaining[:-1]
        else:
            actions.append(Answer("ann", *press))
            remaining.append(Answer("ann", *press))
    assert fold(actions).get("ann", Standing()).answers() == fold(remaining).get("ann", Standing()).answers()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (stop(3, 0), "no episode 3: they are numbered 0 to 2"),
        (stop(1, 3), "has 3 steps, so it cannot be stopped at 3"),
    ],
)
def test_answers_to_what_is_not_there_are_refused(tmp_path, answer, message):
    session = open_session(tmp_path / "answers", EPISODES)
    with pytest.raises(RciError, match=message):
        session.add(answer, "first-id")
    with pytest.raises(RciError, match=message):
        session.add_all([Answer("ann", 0, "safe"), answer])
    assert session.answers() == []


@pytest.mark.parametrize(
    "wrong", [{"verdict": "stopp"}, {"verdict": "stop"}, {"verdict": "safe", "stop_index": 2}]
)
def test_answers_that_contradict_themselves_are_refused(wrong):
    with pytest.raises(RciError):
        Answer("ann", 0, **wrong)


@pytest.mark.parametrize("name", ["", " ann", "a\nb", "../x", "<b>", "x" * 61, "a/b", "-"])
def test_odd_names_are_refused(name):
    with pytest.raises(RciError, match="annotator's name"):
        check_name(name)


@pytest.mark.parametrize("name", ["ann", "Zoë Müller", "a.b@c-d", "7"])
def test_ordinary_names_are_not(name):
    assert check_name(name) == name


def test_answers_to_other_episodes_are_refused_and_the_folder_is_free_again(tmp_path):
    open_session(tmp_path / "answers", EPISODES).close()
    with pytest.raises(RciError, match="answers to other episodes"):
        open_session(tmp_path / "answers", ragged([5, 3, 8], seed=1))
    open_session(tmp_path / "answers", EPISODES).close()


def test_folders_of_something_else_are_refused(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(RciError, match="choose another folder"):
        open_session(tmp_path / "mine", EPISODES)
    with pytest.raises(RciError, match="`rci serve EPISODES --labels"):
        read_session(tmp_path / "mine")
    with pytest.raises(RciError, match="`rci serve EPISODES --labels"):
        open_session(tmp_path / "nothing")


def test_unknown_annotators_are_named(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.add(stop(0, 2), "first-id")
    with pytest.raises(RciError, match="Did you mean 'ann'"):
        session.answers(["anne"])


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"format": 2}',
        '{"format": 1}',
        '{"format": 1, "episodes": "x", "lengths": [5, "3"], "rate": 10}',
        '{"format": 1, "episodes": "x", "lengths": [5, 3], "rate": "10"}',
    ],
)
def test_a_damaged_or_newer_session_is_refused(tmp_path, content):
    open_session(tmp_path / "answers", EPISODES).close()
    (tmp_path / "answers" / "session.json").write_text(content)
    with pytest.raises(RciError):
        read_session(tmp_path / "answers")


def test_links_last_until_they_are_renewed(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    tokens, secret = session.tokens(["ann", "bob"])
    assert len(set(tokens.values())) == 2
    assert all(len(token) >= 32 for token in tokens.values())
    assert session.tokens(["ann"]) == session.tokens([]) == (tokens, secret)
    more, _ = session.tokens(["eve"])
    assert list(more) == ["ann", "bob", "eve"]
    assert more["ann"] == tokens["ann"]
    renewed, other = session.tokens(["ann"], renew=True)
    assert list(renewed) == ["ann"]
    assert renewed["ann"] != tokens["ann"]
    assert other != secret
    assert list(session.tokens([], renew=True)[0]) == ["ann"]
    assert stat.S_IMODE((tmp_path / "answers" / "tokens.json").stat().st_mode) == 0o600


def test_somebody_labels_if_nobody_is_named(tmp_path):
    assert list(open_session(tmp_path / "answers", EPISODES).tokens([])[0]) == ["annotator"]


def test_another_rate_is_kept(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.set_rate(2.5)
    session.close()
    again = read_session(tmp_path / "answers")
    assert (again.rate, list(again.lengths), again.episodes_hash) == (2.5, [5, 3, 8], EPISODES.hash)


def test_gold_is_kept(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.set_gold({2: 5, 0: -1})
    session.close()
    assert read_session(tmp_path / "answers").gold == {2: 5, 0: -1}


@pytest.mark.parametrize("content", ["[]", '{"a": 1}', '{"0": null}', '{"3": 1}', '{"1": 3}', '{"1": -2}'])
def test_damaged_gold_is_refused(tmp_path, content):
    open_session(tmp_path / "answers", EPISODES).close()
    (tmp_path / "answers" / "gold.json").write_text(content)
    with pytest.raises(RciError, match="gold.json"):
        read_session(tmp_path / "answers")
    (tmp_path / "answers" / "gold.json").unlink()
    open_session(tmp_path / "answers").close()  # the lock was let go


@pytest.mark.parametrize("gold", [{3: 1}, {0: 5}, {0: -2}])
def test_gold_of_other_episodes_is_refused(tmp_path, gold):
    session = open_session(tmp_path / "answers", EPISODES)
    with pytest.raises(RciError, match="right answers"):
        session.set_gold(gold)
    assert not (tmp_path / "answers" / "gold.json").exists()


@pytest.mark.parametrize("content", ["{}x", '{"tokens": []}', '{"tokens": {"ann": 5}, "secret": "x"}'])
def test_damaged_links_are_refused(tmp_path, content):
    session = open_session(tmp_path / "answers", EPISODES)
    (tmp_path / "answers" / "tokens.json").write_text(content)
    with pytest.raises(RciError, match="tokens.json"):
        session.tokens(["ann"])


def test_nobody_looks_further_than_the_end(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.add(Answer("ann", 1, "safe", watched=3), "the-first-id")
    with pytest.raises(RciError, match="moments 0 to 3, got watched 4"):
        session.add(Answer("ann", 1, "safe", watched=4), "another-id")
