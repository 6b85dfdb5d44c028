"""`rci labels`: agreement, export and import, from the command line and on bad input."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from conftest import ragged
from typer.testing import CliRunner

import rci
from rci.cli.label_sessions import Wish, import_answers, report_agreement, write_export
from rci.cli.main import app
from rci.data.errors import RciError
from rci.data.store import read_manifest
from rci.labeling.people.answers import Answer
from rci.labeling.people.sessions.session import OpenSession, open_session, read_session

EPISODES = ragged([20] * 12)
TRUE = [9, -1, 12, 6, -1, 15, 8, 10, -1, 7, 11, -1]
LATE = {"ann": 0.4, "bob": 0.6}  # seconds


@pytest.fixture
def labelled(tmp_path):
    """Two people who press late; the right answers are known."""
    rci.save(EPISODES, tmp_path / "episodes")
    session = open_session(tmp_path / "answers", EPISODES, rate=5.0)
    for name, late in LATE.items():
        for i, stop in enumerate(TRUE):
            session.add(answer(name, i, stop if stop < 0 else stop + round(late * 5.0)), f"{name}-number-{i}")
    session.set_gold(dict(enumerate(TRUE)))
    session.close()
    return tmp_path


def answer(name: str, episode: int, stop: int) -> Answer:
    return Answer(name, episode, "safe" if stop < 0 else "stop", stop, pace=5.0, seconds=2.0)


def run(*words: object):
    return CliRunner().invoke(app, ["labels", *map(str, words)])


def wish(folder, **more) -> Wish:
    return Wish(folder / "labels", folder / "episodes", **more)


def test_agreement_is_told_to_people_and_machines(labelled):
    text = run("agreement", labelled / "answers")
    assert text.exit_code == 0
    assert "ann: 0.40 s" in text.stdout
    found = json.loads(run("agreement", labelled / "answers", "--json").stdout)
    assert found["fleiss"] == 1.0
    assert found["pairs"][0]["median"] == 1.0
    assert found["delays"]["bob"]["seconds"] == pytest.approx(0.6)
    assert found["gold"]["ann"] == {"seen": 12, "right": 12, "median": 2.0}


def test_labels_go_into_the_next_stage(labelled):
    done = run(
        "export", labelled / "answers", labelled / "episodes", "--calibrate", "--out", labelled / "labels"
    )
    assert done.exit_code == 0, done.output
    labels = rci.load(labelled / "labels")
    labels.check_parent(EPISODES)
    np.testing.assert_array_equal(labels.stop_index, TRUE)
    assert "12 episodes, 8 of them stopped" in done.stdout
    assert "stops of bob were shifted back: 0.60 s" in done.stdout
    costs = rci.redistribute(EPISODES, labels, method="uniform")
    assert costs.return_equivalent


def test_without_calibration_stops_are_as_they_were_pressed(labelled):
    write_export(labelled / "answers", wish(labelled))
    pressed = rci.load(labelled / "labels").stop_index
    np.testing.assert_array_equal(
        pressed, [s if s < 0 else s + 2 for s in TRUE]
    )  # ann's 2 and bob's 3: the lower
    write_export(labelled / "answers", wish(labelled, annotators=("bob",)))
    assert rci.load(labelled / "labels").stop_index[0] == 12


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_file_of_stops_is_read_by_label(labelled, suffix):
    out = labelled / f"stops{suffix}"
    write_export(labelled / "answers", Wish(out, labelled / "episodes", calibrate=True))
    from rci.labeling.rules import read_stops

    assert read_stops(out, 12) == TRUE


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_answers_survive_export_and_import(labelled, suffix):
    out = labelled / f"answers{suffix}"
    assert run("export", labelled / "answers", "--answers", "--out", out).exit_code == 0
    done = run("import", labelled / "again", out, "--episodes", labelled / "episodes", "--json")
    assert json.loads(done.stdout) == {"answers": 24, "annotators": ["ann", "bob"]}
    before, after = (read_session(labelled / name).answers() for name in ("answers", "again"))
    assert [(a.annotator, a.item, a.stop_index, a.pace) for a in before] == [
        (a.annotator, a.item, a.stop_index, a.pace) for a in after
    ]


def test_labels_of_a_rule_are_compared_with_people(labelled):
    rci.save(rci.label(EPISODES, TRUE), labelled / "rule")
    import_answers(labelled / "answers", labelled / "rule", "rule", None)
    found, _ = report_agreement(labelled / "answers")
    assert {(p["a"], p["b"]): p["median"] for p in found["pairs"]} == {
        ("ann", "bob"): 1.0,
        ("ann", "rule"): 2.0,
        ("bob", "rule"): 3.0,
    }


def disputed(folder) -> OpenSession:
    session = open_session(folder / "answers")
    session.add(answer("ann", 1, 5), "ann-changes-her-mind")
    session.add(Answer("bob", 1, "unsure"), "bob-changes-his-mind")
    session.add(answer("ann", 4, 5), "ann-changes-again")
    return session


def test_episodes_without_a_label_are_refused_dropped_or_called_safe(labelled):
    disputed(labelled).close()  # 1: ann alone says stop; 4: one against one
    with pytest.raises(RciError, match=r"1 of 12 episodes have no label \(episode 4\)"):
        write_export(labelled / "answers", wish(labelled))
    assert not (labelled / "labels").exists()
    found, text = write_export(labelled / "answers", wish(labelled, missing="drop"))
    assert (found["episodes"], found["without_label"]) == (11, 1)
    assert "1 episodes without a label were left out" in text
    kept = rci.load(labelled / "labels-episodes")
    rci.load(labelled / "labels").check_parent(kept)
    np.testing.assert_array_equal(kept[4].obs, EPISODES[5].obs)
    parents = [
        read_manifest(labelled / name)["provenance"]["parents"] for name in ("labels", "labels-episodes")
    ]
    assert parents == [{"episodes": kept.hash}, {"episodes": EPISODES.hash}]
    found, _ = write_export(labelled / "answers", wish(labelled, missing="safe"))
    assert rci.load(labelled / "labels").stop_index[4] == -1
    with pytest.raises(RciError, match="2 of 12 episodes have no label"):
        write_export(labelled / "answers", wish(labelled, quorum=2))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "x"], "labels belong to episodes"),
        (["EPISODES", "--out", "x", "--missing", "ignore"], "unknown way"),
        (["EPISODES", "--out", "x", "--annotator", "an"], "Did you mean 'ann'"),
        (["--answers", "--out", "x.csv", "--quorum", "1"], "as it is"),
        (["--answers", "--out", "x.txt"], "written to .csv or .jsonl"),
        (["OTHERS", "--out", "x"], "answers to other episodes"),
        (["none", "--out", "x"], "nothing at none"),
        (["EPISODES", "--out", "EPISODES"], "not overwritten"),
    ],
)
def test_wishes_that_cannot_be_granted(labelled, monkeypatch, words, message):
    monkeypatch.chdir(labelled)
    rci.save(ragged([20] * 12, seed=1), labelled / "others")
    places = {"EPISODES": "episodes", "OTHERS": "others"}
    result = run("export", "answers", *(places.get(word, word) for word in words))
    assert message in str(result.exception)
    assert not (labelled / "x").exists()


def test_a_reaction_time_that_is_not_known_is_not_guessed(tmp_path):
    rci.save(EPISODES, tmp_path / "episodes")
    session = open_session(tmp_path / "answers", EPISODES)
    session.add_all([answer("ann", i, stop) for i, stop in enumerate(TRUE)])
    session.close()
    with pytest.raises(RciError, match="ann stopped 0 known episodes.*Leave --calibrate out"):
        write_export(tmp_path / "answers", wish(tmp_path, calibrate=True))


def test_whoever_was_never_late_needs_no_reaction_time(labelled):
    session = open_session(labelled / "answers")
    session.add_all([Answer("eve", i, "stop", TRUE[i], pace=0.0) for i in (0, 2)])  # paused
    session.add_all([Answer("kim", i, "safe") for i in (1, 4)])
    session.close()
    found, _ = write_export(labelled / "answers", wish(labelled, calibrate=True))
    np.testing.assert_array_equal(rci.load(labelled / "labels").stop_index, TRUE)
    assert list(found["delays"]) == ["ann", "bob"]


def test_the_recording_itself_is_not_overwritten_by_what_has_a_label(labelled):
    disputed(labelled).close()
    (labelled / "episodes").rename(labelled / "mine-episodes")
    with pytest.raises(RciError, match="holds all episodes; choose another --out"):
        write_export(
            labelled / "answers", Wish(labelled / "mine", labelled / "mine-episodes", missing="drop")
        )
    assert rci.load(labelled / "mine-episodes").hash == EPISODES.hash


def test_a_session_that_an_import_begins_plays_as_it_was_recorded(tmp_path, point_episodes):
    episodes = dataclasses.replace(point_episodes, task="highway")
    rci.save(episodes, tmp_path / "episodes")
    (tmp_path / "stops.csv").write_text("episode,stop_index\n0,1\n")
    import_answers(tmp_path / "answers", tmp_path / "stops.csv", "monitor", tmp_path / "episodes")
    assert read_session(tmp_path / "answers").rate == 5.0


def test_an_import_is_all_or_nothing(labelled, tmp_path):
    (tmp_path / "bad.csv").write_text("episode,stop_index\n0,3\n1,99\n")
    with pytest.raises(RciError, match=r"bad.csv, line 3"):
        import_answers(labelled / "answers", tmp_path / "bad.csv", "monitor", None)
    assert "monitor" not in read_session(labelled / "answers").standing
    with pytest.raises(RciError, match=r"bad.csv, line 3"):
        import_answers(labelled / "new", tmp_path / "bad.csv", "monitor", labelled / "episodes")
    assert not (labelled / "new").exists()
    rci.save(rci.label(EPISODES, TRUE), labelled / "rule")
    with pytest.raises(RciError, match="--annotator"):
        import_answers(labelled / "answers", labelled / "rule", None, None)
    with pytest.raises(RciError, match="holds no labelling session"):
        import_answers(labelled / "nothing", labelled / "rule", "rule", None)


def test_nobody_has_answered_yet(tmp_path):
    open_session(tmp_path / "answers", EPISODES).close()
    with pytest.raises(RciError, match="nobody has answered"):
        report_agreement(tmp_path / "answers")
