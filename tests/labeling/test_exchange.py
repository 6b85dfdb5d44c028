from dataclasses import replace

import numpy as np
import pytest
from conftest import ragged
from hypothesis import given, settings
from hypothesis import strategies as st

from rci.data.errors import RciError
from rci.data.types import Labels
from rci.labeling import label
from rci.labeling.people.answers import SAFE, STOP, UNSURE, Answer
from rci.labeling.people.files import answers_from_labels, read_answers, write_answers, write_stops
from rci.labeling.rules import read_stops

LENGTHS = np.array([5, 3, 8, 1])
SUFFIXES = pytest.mark.parametrize("suffix", [".csv", ".jsonl"])

ANSWERS = [
    Answer("ann", 0, STOP, 4, seconds=12.5, pace=0.1 + 0.2, watched=5, time=1.75e9, imported=True),
    Answer("ann", 0, STOP, 3, showing=1, pace=0.0, review=True, imported=True),
    Answer("bob the second", 2, UNSURE, imported=True),
    Answer("None", 3, SAFE, imported=True),
]


@SUFFIXES
def test_answers_survive_a_file(tmp_path, suffix):
    path = tmp_path / f"answers{suffix}"
    write_answers(path, [replace(a, imported=False) for a in ANSWERS])
    assert read_answers(path, LENGTHS) == ANSWERS
    write_answers(path, [])  # replaces the file
    assert read_answers(path, LENGTHS) == []
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_what_the_files_look_like(tmp_path):
    write_answers(tmp_path / "a.csv", ANSWERS[:3])
    assert (tmp_path / "a.csv").read_text() == (
        "annotator,episode,showing,verdict,stop_index,seconds,pace,watched,time,review\n"
        "ann,0,0,stop,4,12.5,0.30000000000000004,5,1750000000.0,false\n"
        "ann,0,1,stop,3,,0.0,,,true\n"
        "bob the second,2,0,unsure,,,,,,false\n"
    )
    write_answers(tmp_path / "a.jsonl", ANSWERS[3:])
    assert (tmp_path / "a.jsonl").read_text() == (
        '{"annotator": "None", "episode": 3, "showing": 0, "verdict": "safe", "stop_index": null, "seconds": null, '
        '"pace": null, "watched": null, "time": null, "review": false}\n'
    )


letters = st.characters(categories=["L", "N"])
names = st.text(letters, min_size=1, max_size=8) | st.tuples(letters, letters).map(" ".join)
amounts = st.none() | st.floats(0, 1e12)


@st.composite
def answer_lists(draw) -> list[Answer]:
    items = draw(st.sets(st.tuples(names, st.integers(0, 3), st.integers(0, 2)), max_size=6))
    answers = []
    for name, episode, showing in sorted(items):
        steps = int(LENGTHS[episode])
        verdict = draw(st.sampled_from([STOP, SAFE, UNSURE]))
        stop = draw(st.integers(0, steps - 1)) if verdict == STOP else -1
        rest = {key: draw(amounts) for key in ("seconds", "pace", "time")}
        watched = draw(st.none() | st.integers(0, steps))
        review = draw(st.booleans())
        if verdict == STOP:
            rest["kinds"] = tuple(draw(st.sets(st.sampled_from(["near", "too fast", "off-road"]))))
            rest["severity"] = draw(st.sampled_from([0.25, 0.5, 1.0]))
        if draw(st.booleans()):
            rest["takeovers"] = ((0, draw(st.integers(1, steps))),)
        rest["note"] = draw(
            st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=9)
        )
        answers.append(
            Answer(
                name, episode, verdict, stop, showing, watched=watched, review=review, imported=True, **rest
            )
        )
    return answers


@settings(max_examples=40, deadline=None)
@given(answers=answer_lists(), suffix=st.sampled_from([".csv", ".jsonl"]))
def test_any_answers_survive_a_file(tmp_path_factory, answers, suffix):
    path = tmp_path_factory.getbasetemp() / f"any{suffix}"
    write_answers(path, answers)
    assert read_answers(path, LENGTHS) == answers


@settings(max_examples=40, deadline=None)
@given(data=st.data(), suffix=st.sampled_from([".csv", ".jsonl"]))
def test_any_labels_survive_a_file_of_stops(tmp_path_factory, data, suffix):
    episodes = ragged(LENGTHS.tolist())
    stops = [data.draw(st.integers(-1, int(n) - 1)) for n in LENGTHS]
    grades = data.draw(st.none() | st.lists(st.floats(0, 1, exclude_min=True), min_size=4, max_size=4))
    labels = Labels.for_episodes(episodes, stops, grades)
    path = tmp_path_factory.getbasetemp() / f"stops{suffix}"
    write_stops(path, labels)
    assert label(episodes, read_stops(path, 4)).hash == labels.hash


def test_stops_as_they_are_written(tmp_path):
    episodes = ragged([5, 3, 8])
    write_stops(tmp_path / "a.csv", Labels.for_episodes(episodes, [4, -1, 0]))
    assert (tmp_path / "a.csv").read_text() == "episode,stop_index\n0,4\n1,-1\n2,0\n"
    assert read_stops(tmp_path / "a.csv", 3) == [4, -1, 0]
    graded = Labels.for_episodes(episodes, [4, -1, 0], severity=[0.5, 1.0, 1.0])
    write_stops(tmp_path / "b.csv", graded)
    assert (tmp_path / "b.csv").read_text() == "episode,stop_index,severity\n0,4,0.5\n1,-1,\n2,0,1.0\n"
    write_stops(tmp_path / "b.jsonl", graded)
    assert (
        read_stops(tmp_path / "b.jsonl", 3) == [(4, 0.5), -1, (0, 1.0)] == read_stops(tmp_path / "b.csv", 3)
    )


def test_stops_with_reasons_do_not_fit_into_a_file(tmp_path):
    labels = Labels.for_episodes(ragged([5]), [4], [[0.0, 1.0]], ("near", "road"))
    with pytest.raises(RciError, match=r"these labels have 2 channels \(near, road\); keep them"):
        write_stops(tmp_path / "a.csv", labels)


def test_labels_as_answers():
    labels = Labels.for_episodes(ragged([5, 3]), [4, -1], severity=[0.5, 1.0])
    assert answers_from_labels(labels, "rule") == [
        Answer("rule", 0, STOP, 4, imported=True, severity=0.5),
        Answer("rule", 1, SAFE, imported=True),
    ]
    why = Labels.for_episodes(ragged([5, 3]), [4, -1], [[0.0, 0.25], [0.0, 0.0]], ("near", "fast"))
    assert answers_from_labels(why, "rule")[0].kinds == ("fast",)
    assert answers_from_labels(why, "rule")[0].severity == 0.25
    with pytest.raises(RciError, match="annotator's name"):
        answers_from_labels(labels, "")


def test_plain_stops_are_answers_of_the_one_who_is_named(tmp_path):
    expected = [Answer("ann", 2, STOP, 3, imported=True), Answer("ann", 0, SAFE, imported=True)]
    (tmp_path / "a.csv").write_text("episode,stop_index,who\n2,3,x\n0,,x\n")
    (tmp_path / "b.csv").write_bytes("\ufeffepisode,stop_index\r\n\r\n2, 3.0\r\n0,-1\r\n".encode())
    (tmp_path / "c.csv").write_text("episode,stop_index,severity\n2,3,1.0\n0,NaN,\n")
    (tmp_path / "d.jsonl").write_text('{"episode": 2, "stop_index": 3}\n{"episode": 0, "stop_index": null}\n')
    for name in ("a.csv", "b.csv", "c.csv", "d.jsonl"):
        assert read_answers(tmp_path / name, LENGTHS, "ann") == expected
    (tmp_path / "e.csv").write_text("annotator,episode,stop_index,pace\nann,2,3,2.5\n")
    assert read_answers(tmp_path / "e.csv", LENGTHS) == [replace(expected[0], pace=2.5)]
    assert read_answers(tmp_path / "e.csv", LENGTHS, "ann") == [replace(expected[0], pace=2.5)]


def test_answers_as_people_write_them(tmp_path):
    """Any order of columns, most of them missing, capitals, and empty fields."""
    (tmp_path / "a.csv").write_text(
        "verdict,annotator,episode,stop_index,review\nSAFE,Ann Lee,1,,TRUE\n Stop,Bo,2.0,7,\n"
    )
    assert read_answers(tmp_path / "a.csv", LENGTHS) == [
        Answer("Ann Lee", 1, SAFE, review=True, imported=True),
        Answer("Bo", 2, STOP, 7, imported=True),
    ]
    (tmp_path / "b.csv").write_text("verdict,episode\nunsure,1\n")
    assert read_answers(tmp_path / "b.csv", LENGTHS, "Bo") == [Answer("Bo", 1, UNSURE, imported=True)]
    (tmp_path / "c.jsonl").write_text('{"annotator": 7, "episode": 1, "verdict": "safe", "stop_index": -1}\n')
    assert read_answers(tmp_path / "c.jsonl", LENGTHS) == [Answer("7", 1, SAFE, imported=True)]


HEAD = "annotator,episode,verdict,stop_index"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv is empty; a file without answers still has a line with the names"),
        ("annotator,verdict\nann,safe\n", "line 2: needs `episode`, and `verdict` or `stop_index`, got annotator"),
        ("annotator,episode\nann,1\n", "line 2: needs `episode`, and `verdict` or `stop_index`"),
        ("episode,annotator,verdict\n1,ann\n", "needs `episode`, and `verdict`.*, got episode, annotator"),
        (f"{HEAD}\nann,4,safe,\n", "line 2: episode must be 0 to 3, got 4"),
        (f"{HEAD}\nann,-1,safe,\n", "line 2: episode must be 0 to 3, got -1"),
        (f"{HEAD}\nann,one,safe,\n", "line 2: episode must be a whole number, got 'one'"),
        (f"{HEAD}\nann,1,stop,3\n", "episode 1 has 3 steps, so stop_index must be -1 or 0 to 2, got 3"),
        (f"{HEAD}\nann,1,stop,-2\n", "stop_index must be -1 or 0 to 2, got -2"),
        (f"{HEAD}\nann,1,stop,1.5\n", "line 2: stop_index must be a whole number, got '1.5'"),
        (f"{HEAD}\nann,1,stop,\n", "the verdict stop needs a stop_index; correct one"),
        (f"{HEAD}\nann,1,stop,-1\n", "the verdict stop needs a stop_index"),
        (f"{HEAD}\nann,1,safe,0\n", "the verdict safe has no stop_index, got 0"),
        (f"{HEAD}\nann,1,unsure,2\n", "the verdict unsure has no stop_index, got 2"),
        (f"{HEAD}\nann,1,halt,2\n", "line 2: unknown verdict 'halt'.*Known: safe, stop, unsure"),
        (f"{HEAD}\nann,1,,2\n", "line 2: unknown verdict ''"),
        (f"{HEAD}\n,1,safe,\n", "line 2 does not say who answered: add a column `annotator`, or name"),
        ("episode,stop_index\n1,2\n", "line 2 does not say who answered"),
        (f"{HEAD}\nann,1,safe,\nbob,1,safe,\nann,1,stop,2\n", "line 4: ann answered episode 1, showing 0, in line 2"),
        (f"{HEAD}\nann,1,safe,,late\n", "line 2 has more fields than there are columns"),
        (f"{HEAD}\na\x07n,1,safe,\n", "line 2: an annotator's name"),
        (f"{HEAD},seconds\nann,1,safe,,-3\n", "line 2: seconds must be a number from 0 on, got '-3'"),
        (f"{HEAD},pace\nann,1,safe,,fast\n", "line 2: pace must be a number from 0 on, got 'fast'"),
        (f"{HEAD},pace\nann,1,safe,,inf\n", "line 2: pace must be a number from 0 on, got 'inf'"),
        (f"{HEAD},watched\nann,1,safe,,4\n", "episode 1 has the moments 0 to 3, got watched 4"),
        (f"{HEAD},showing\nann,1,safe,,-1\n", "showing must be a number from 0 on, got -1"),
        (f"{HEAD},review\nann,1,safe,,maybe\n", "line 2: review must be true or false, got 'maybe'"),
        (f"{HEAD},severity\nann,1,stop,2,1.5\n", "severity must be a number above 0 and at most 1, got '1.5'"),
        (f"{HEAD},severity\nann,1,safe,,0.5\n", "line 2: only a stop has kinds of danger and a severity"),
        (f"{HEAD},kinds\nann,1,stop,2,near;near\n", "line 2: a stop names a kind of danger once, got near, near"),
        (f"{HEAD},kinds\nann,1,stop,2,=1+1\n", "line 2: a kind of danger is 1 to 30 letters.*got '=1"),
        (f"{HEAD},takeovers\nann,1,safe,,1-2\n", "takeovers must be written as 3..7;10..20, got '1-2'"),
        (f"{HEAD},takeovers\nann,1,safe,,2..1\n", "line 2: a takeover begins at step 0 or later and ends after"),
        (f"{HEAD},takeovers\nann,1,safe,,0..4\n", "episode 1 has 3 steps, so a takeover cannot last up to step 4"),
        (f"{HEAD},note\nann,1,safe,,{'x' * 401}\n", "line 2: a note has at most 400 characters, this one has 401"),
        (f"{HEAD},notes\nann,1,safe,,x\n", "unknown column 'notes'. Did you mean `note`"),
        ("annotator,episode,Verdict,stop_index\nann,1,unsure,\n", "unknown column 'Verdict'. Did you mean `verdict`"),
        ("annotator,episode,verdit,stop_index\nann,1,unsure,\n", "unknown column 'verdit'. Did you mean `verdict`"),
    ],
)  # fmt: skip
def test_bad_files_of_answers(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(RciError, match=message):
        read_answers(tmp_path / "a.csv", LENGTHS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1 is not JSON"),
        ("[1]", "line 1 must be a JSON object"),
        ('{"annotator": "ann", "episode": true, "verdict": "safe"}', "episode must be a whole number, got True"),
        ('{"annotator": "ann", "episode": 1, "verdict": null}', "unknown verdict 'None'"),
        ('{"annotator": "ann", "episode": 1, "verdict": "safe", "pace": [2]}', r"pace must be a number .*got \[2\]"),
        ('{"annotator": "ann", "episode": 1, "verdict": "safe", "pace": true}', "pace must be a number .*got True"),
    ],
)  # fmt: skip
def test_bad_lines_of_json(tmp_path, text, message):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(RciError, match=message):
        read_answers(tmp_path / "a.jsonl", LENGTHS)


def test_an_annotator_does_not_take_the_answers_of_another(tmp_path):
    write_answers(tmp_path / "a.csv", [Answer("ann", 1, SAFE)])
    with pytest.raises(RciError, match="line 2 is by ann, not by bob; name nobody"):
        read_answers(tmp_path / "a.csv", LENGTHS, "bob")
    with pytest.raises(RciError, match="annotator's name"):
        read_answers(tmp_path / "a.csv", LENGTHS, " bob")


def test_places_that_cannot_be_read_or_written(tmp_path):
    (tmp_path / "a.xlsx").write_text("x")
    with pytest.raises(RciError, match="answers are read from .csv or .jsonl files, not from a.xlsx"):
        read_answers(tmp_path / "a.xlsx", LENGTHS)
    with pytest.raises(RciError, match="there is no file"):
        read_answers(tmp_path / "none.csv", LENGTHS)
    with pytest.raises(RciError, match="written to .csv or .jsonl files, not to a.xlsx"):
        write_answers(tmp_path / "a.xlsx", ANSWERS)
    with pytest.raises(RciError, match="cannot write"):
        write_answers(tmp_path / "none" / "a.csv", ANSWERS)
    with pytest.raises(RciError, match="annotator's name"):
        write_answers(tmp_path / "a.csv", [Answer("two\nlines", 0, SAFE)])
    long = tmp_path / "long.csv"
    long.write_text(f"{HEAD}\n{'x' * 200_000},1,safe,\n")
    with pytest.raises(RciError, match="long.csv is not CSV after line 1: field larger"):
        read_answers(long, LENGTHS)
