"""What is said beside a verdict: kept in the journal, agreed upon, exported; and journals that know nothing of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import ragged
from hypothesis import given
from hypothesis import strategies as st

import rci
from rci.cli.label_sessions import Wish, write_export
from rci.data.errors import RciError
from rci.labeling.people.answers import Answer
from rci.labeling.people.consensus import consensus, takeovers_of
from rci.labeling.people.remarks import LONGEST_NOTE, MOST_TAKEOVERS, check_intervals, check_kinds, check_note
from rci.labeling.people.sessions.journal import Journal
from rci.labeling.people.sessions.session import open_session, read_session

EPISODES = ragged([5, 3, 8])
KINDS = ("near", "fast")


def stop(name: str, episode: int = 0, at: int = 2, *kinds: str, **more) -> Answer:
    return Answer(name, episode, "stop", at, kinds=kinds, **more)


FULL = stop(
    "ann",
    2,
    4,
    "fast",
    "near",
    severity=0.25,
    takeovers=((0, 2), (2, 8)),
    note="a \u201cdog\u201d \U0001f415",
)


def test_a_journal_keeps_everything(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.set_kinds(KINDS)
    session.add(FULL, "the-first-id")
    session.add(Answer("ann", 1, "unsure", note="too dark"), "the-second-id")
    session.set_rate(4.0)
    session.close()
    again = open_session(tmp_path / "answers", EPISODES)
    assert again.answers() == [Answer("ann", 1, "unsure", note="too dark"), FULL]
    assert again.known("the-first-id") == FULL
    assert (again.offered_kinds, again.rate) == (KINDS, 4.0)
    again.close()


def test_a_journal_of_an_earlier_version_is_read(tmp_path):
    """As it was written when an answer had a verdict and no remarks."""
    folder = tmp_path / "answers"
    open_session(folder, EPISODES).close()
    facts = json.loads((folder / "session.json").read_text())
    assert facts.keys() == {
        "format",
        "episodes",
        "lengths",
        "rate",
    }  # unchanged where nothing new is asked for
    (folder / "answers.jsonl").write_text(
        '{"id": "an-id-of-then", "annotator": "ann", "episode": 0, "verdict": "stop", "stop_index": 2, "seconds": 1.0, '
        '"pace": 5.0, "watched": 3, "time": 1700000000.0, "sum": "fdf7838a5a1e"}\n'
    )
    (answer,) = read_session(folder).answers()
    assert (answer.stop_index, answer.kinds, answer.severity, answer.takeovers, answer.note) == (
        2,
        (),
        1.0,
        (),
        "",
    )
    session = open_session(folder, EPISODES)
    session.set_kinds(KINDS)
    session.add(FULL, "an-id-of-now")
    assert [a.kinds for a in session.answers()] == [(), ("fast", "near")]
    session.close()


def test_a_line_of_today_leaves_out_what_was_not_said(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.add(Answer("ann", 1, "safe"), "the-first-id")
    session.close()
    line = json.loads((tmp_path / "answers" / "answers.jsonl").read_text())
    assert line.keys() == {"id", "annotator", "episode", "verdict", "sum"}


@pytest.mark.parametrize(
    "remark", [{"kinds": 5}, {"severity": "high"}, {"takeovers": [[1]]}, {"takeovers": 3}, {"note": ["x"]}]
)
def test_a_line_with_odd_remarks_is_reported(tmp_path, remark):
    open_session(tmp_path / "answers", EPISODES).close()
    journal = Journal(tmp_path / "answers" / "answers.jsonl")
    journal.append({"annotator": "ann", "episode": 0, "verdict": "stop", "stop_index": 1, **remark})
    journal.close()
    with pytest.raises(RciError):
        read_session(tmp_path / "answers")


def test_kinds_that_answers_name_stay_among_those_to_choose_from(tmp_path):
    session = open_session(tmp_path / "answers", EPISODES)
    session.set_kinds(KINDS)
    session.add(stop("ann", 0, 2, "near"), "the-first-id")
    with pytest.raises(
        RciError, match="name the kind of danger 'near', which is not among fast, road; add it"
    ):
        session.set_kinds(("fast", "road"))
    session.set_kinds((*KINDS, "road"))
    session.add_all([stop("monitor", 1, 1, "cliff", imported=True)])
    assert session.kinds == ("near", "fast", "road", "cliff")
    with pytest.raises(RciError, match="episode 1 has 3 steps, so a takeover cannot last up to step 4"):
        session.add(Answer("ann", 1, "safe", takeovers=((1, 4),)), "the-second-id")
    session.close()


@given(st.text(max_size=500))
def test_a_note_is_kept_or_refused(text):
    try:
        note = check_note(text)
    except RciError:
        assert len(text) > LONGEST_NOTE or not text.isprintable() or not text.isascii()
    else:
        assert note == text.strip()
        assert len(note) <= LONGEST_NOTE
        assert len(note.splitlines()) <= 1


@pytest.mark.parametrize(
    "text", ["two\nlines", "\x1b[31mred", "bell\x07", "a\u2028b", "a\u202eb", "\ud800", "\x00", "a\tb"]
)
def test_characters_that_nobody_can_see_are_refused(text):
    with pytest.raises(RciError, match=r"without control characters, but this one has U\+[0-9A-F]{4}"):
        check_note(text)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (("near",), "a single kind of danger .near. needs no name"),
        (("near", "near"), "with different names, got near, near"),
        (tuple("abcdefg"), "there are up to 6 kinds"),
        (("near", "x;y"), "got 'x;y'"),
        (("near", ""), "got ''"),
        (("near", "x" * 31), "1 to 30 letters"),
    ],
)
def test_wrong_kinds(kinds, message):
    with pytest.raises(RciError, match=message):
        check_kinds(kinds)


@pytest.mark.parametrize(
    ("intervals", "message"),
    [
        ([[0, 2], [1, 3]], "must not overlap, but one begins at 1, before 2"),
        ([[3, 3]], "ends after that, got 3 to 3"),
        ([[-1, 3]], "begins at step 0 or later"),
        ([[0, True]], "pairs of whole numbers"),
        ([[0.0, 1]], "pairs of whole numbers"),
        ([[0, 1, 2]], "pairs of whole numbers"),
        ("ab", "pairs of whole numbers"),
        ([[2 * i, 2 * i + 1] for i in range(MOST_TAKEOVERS + 1)], "at most 64 takeovers, got 65"),
    ],
)
def test_wrong_takeovers(intervals, message):
    with pytest.raises(RciError, match=message):
        check_intervals(intervals)


def test_what_does_not_go_with_the_verdict():
    for more in ({"kinds": ("near",)}, {"severity": 0.5}):
        with pytest.raises(RciError, match="only a stop has kinds of danger and a severity"):
            Answer("ann", 0, "safe", **more)
    with pytest.raises(RciError, match="a severity is a number above 0 and at most 1, got 0"):
        stop("ann", severity=0)


def test_severity_is_the_median_and_a_kind_is_what_half_of_them_named():
    said = [stop("ann", 0, 2, "near", severity=0.25), stop("bob", 0, 3, "near", "fast", severity=0.5)]
    said += [Answer("eve", 0, "safe"), Answer("ann", 1, "safe")]
    said += [stop(name, 2, 4, kind) for name, kind in zip(("ann", "bob", "eve"), ("near", "near", "fast"))]
    agreed = consensus(said, 3, kinds=KINDS)
    # Episode 0: 0.25 and 0.5, of which the higher; near by both, fast by one of two. Episode 2: near by two of three.
    assert agreed.severity.tolist() == [[0.5, 0.5], [0, 0], [1, 0]]
    assert consensus(said, 3).severity.tolist() == [0.5, 0, 1]
    three = [stop(name, 0, 2, kind) for name, kind in zip(("ann", "bob", "eve"), ("near", "fast", "road"))]
    assert consensus(three, 1, kinds=(*KINDS, "road")).severity.tolist() == [
        [1, 1, 1]
    ]  # no half: all of the largest
    with pytest.raises(RciError, match="ann stopped episode 0 without a kind of danger: .*--no-kinds"):
        consensus([stop("ann")], 3, kinds=KINDS)


def test_takeovers_are_the_steps_that_most_marked():
    said = [
        Answer("ann", 0, "safe", takeovers=((1, 4),)),
        Answer("bob", 0, "stop", 2, takeovers=((2, 5),)),
        Answer("eve", 0, "unsure", takeovers=((0, 1), (3, 5))),
        Answer("monitor", 0, "safe", imported=True),  # knows nothing of takeovers
        Answer("ann", 0, "safe", showing=1, takeovers=((0, 5),)),
        Answer("ann", 2, "safe", takeovers=((0, 2), (2, 3), (6, 8))),
    ]
    found = takeovers_of(said, EPISODES)
    assert list(zip(found.episode.tolist(), found.begin.tolist(), found.end.tolist())) == [
        (0, 2, 5),
        (2, 0, 3),
        (2, 6, 8),
    ]
    everybody = takeovers_of(said[:3], EPISODES, quorum=3)
    assert list(zip(everybody.begin.tolist(), everybody.end.tolist())) == [(3, 4)]


@pytest.fixture
def labeled(tmp_path):
    rci.save(EPISODES, tmp_path / "episodes")
    session = open_session(tmp_path / "answers", EPISODES)
    session.set_kinds(KINDS)
    session.add_all(
        [stop("ann", 0, 2, "fast", severity=0.5, takeovers=((3, 5),)), Answer("ann", 1, "safe"), FULL]
    )
    session.close()
    return tmp_path


def exported(place, name: str, **more):
    _, text = write_export(place / "answers", Wish(place / name, place / "episodes", **more))
    return text


def test_exports_have_channels_severity_and_takeovers(labeled):
    text = exported(labeled, "labels")
    assert "1 for near, 2 for fast" in text
    assert "write them with --takeovers" in text
    labels = rci.load(labeled / "labels")
    assert labels.channels == KINDS
    assert labels.cost.tolist() == [[0, 0.5], [0, 0], [0.25, 0.25]]
    exported(labeled, "alike", no_kinds=True)
    assert rci.load(labeled / "alike").cost.tolist() == [0.5, 0, 0.25]
    assert "2 takeovers in 2 episodes, 10 steps" in exported(labeled, "drives", takeovers=True)
    drives = rci.load(labeled / "drives")
    drives.check_parent(EPISODES)
    assert np.flatnonzero(drives.flags()).tolist() == [3, 4, *range(8, 16)]


def test_notes_go_into_files_and_make_no_formulas(labeled):
    session = open_session(labeled / "answers")
    session.add_all([Answer("eve", 1, "safe", note='=HYPERLINK("x"), 1')])
    session.close()
    exported(labeled, "all.csv", answers=True)
    text = (labeled / "all.csv").read_text()
    assert text.splitlines()[0].endswith(",review,kinds,severity,takeovers,note")
    assert '"\'=HYPERLINK(""x""), 1"' in text
    assert "fast;near,0.25,0..2;2..8," in text
    with pytest.raises(RciError, match="keep them as an artefact"):
        exported(labeled, "labels.csv")
    exported(labeled, "labels.csv", no_kinds=True)
    assert (labeled / "labels.csv").read_text() == "episode,stop_index,severity\n0,2,0.5\n1,-1,\n2,4,0.25\n"


@pytest.mark.parametrize("more", [{"calibrate": True}, {"missing": "drop"}, {"no_kinds": True}])
def test_takeovers_are_written_as_they_are(labeled, more):
    with pytest.raises(RciError, match="--takeovers writes when a person drove, as an artefact"):
        exported(labeled, "drives", takeovers=True, **more)


def test_without_a_takeover_there_is_nothing_to_write(tmp_path):
    rci.save(EPISODES, tmp_path / "episodes")
    open_session(tmp_path / "answers", EPISODES).close()
    with pytest.raises(RciError, match="nobody marked a takeover; `rci serve --takeovers` asks for them"):
        exported(tmp_path, "drives", takeovers=True)
