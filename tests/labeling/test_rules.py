import numpy as np
import pytest
from conftest import ragged

from rci.collection import collect
from rci.data.errors import RciError
from rci.data.types import Episode, Episodes
from rci.labeling import label
from rci.labeling.rules import read_stops
from rci.tasks.highway.scene import observe


def test_the_rule_finds_the_first_unsafe_transition():
    episodes, oracle = collect("point", 40, "mixed", seed=2)
    labels = label(episodes, "point")
    assert np.array_equal(labels.stop_index, oracle.first_unsafe())
    assert 0 < labels.stopped.sum() < 40


def test_callables_and_sequences():
    episodes = ragged([3, 2, 4])
    assert label(episodes, lambda e: 1 if len(e.action) > 2 else None).stop_index.tolist() == [1, -1, 1]
    assert label(episodes, [None, 1, -1]).stop_index.tolist() == [-1, 1, -1]
    assert label(episodes, np.array([0, -1, 3])).cost.tolist() == [1, 0, 1]
    assert label(episodes, {2: 3}).stop_index.tolist() == [-1, -1, 3]
    with pytest.raises(RciError, match="no episode 7: they are numbered 0 to 2"):
        label(episodes, {7: 0})
    with pytest.raises(RciError, match="episodes must be of type Episodes, got list"):
        label([0, -1, 3], episodes)


@pytest.mark.parametrize(
    ("labeler", "message"),
    [
        ("poin", "unknown task 'poin'. Did you mean 'point'"),
        ([1, 2], "3 episodes, but 2 stop indices"),
        ([1.5, 0, 0], "episode 0 must be a whole number or None, got 1.5"),
        (lambda e: "now", "episode 0 must be a whole number or None, got 'now'"),
        ([3, -1, -1], "stop index must be -1"),
        (lambda e: False, "episode 0 must be a whole number or None, got False"),
        ("point", r"observations of 'point' have shape \(4,\), but these episodes have \(3,\)"),
    ],
)
def test_bad_labelers(labeler, message):
    with pytest.raises(RciError, match=message):
        label(ragged([3, 2, 4]), labeler)


def test_stops_from_files(tmp_path):
    (tmp_path / "a.csv").write_text("episode,stop_index,who\n2,3,ann\n0,,ann\n")
    (tmp_path / "a.jsonl").write_text('{"episode": 2, "stop_index": 3}\n{"episode": 0, "stop_index": null}\n')
    (tmp_path / "b.csv").write_bytes(
        "\ufeffepisode,stop_index\r\n\r\n2,3\r\n".encode()
    )  # as spreadsheets write it
    (tmp_path / "c.csv").write_text(
        "episode, stop_index\n2, 3.0\n1, NaN\n"
    )  # as data frames with gaps write it
    for name in ("a.csv", "a.jsonl", "b.csv", "c.csv"):
        assert read_stops(tmp_path / name, 4) == [-1, -1, 3, -1]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "episode,stop\n1,2\n", "line 2: needs `episode` and `stop_index`"),
        ("a.csv", "episode,stop_index\n9,2\n", "line 2: episode must be 0 to 3, got 9"),
        ("a.csv", "episode,stop_index\n1,2\n1,3\n", "line 3: episode 1 is labelled twice"),
        ("a.csv", "episode,stop_index\n1,soon\n", "line 2: stop_index must be a whole number, got 'soon'"),
        ("a.csv", "episode,stop_index\n\n1\n", "line 3: needs `episode` and `stop_index`, got episode"),
        ("a.jsonl", '{"episode": 1, "stop_index": true}', "stop_index must be a whole number, got True"),
        ("a.jsonl", "{", "line 1 is not JSON"),
        ("a.jsonl", "3", "line 1 must be a JSON object"),
        ("a.jsonl", '{"episode": 1.5, "stop_index": 0}', "episode must be a whole number, got 1.5"),
        ("a.xml", "", "not from a.xml"),
        ("a.csv", "", "is empty; where nobody pressed STOP, it still has the line `episode,stop_index`"),
    ],
)
def test_bad_files(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(RciError, match=message):
        read_stops(tmp_path / name, 4)


def test_missing_and_unreadable_files(tmp_path):
    (tmp_path / "latin.csv").write_bytes(b"episode,stop_index\n1,\xe9\n")
    with pytest.raises(RciError, match="cannot be read as UTF-8"):
        read_stops(tmp_path / "latin.csv", 4)
    with pytest.raises(RciError, match="there is no file"):
        read_stops(tmp_path / "none.csv", 4)


def test_stops_can_be_graded():
    episodes = ragged([4, 5, 3, 2])
    graded = label(episodes, [(3, 0.25), 2, None, (-1, 9.0)])
    assert graded.stop_index.tolist() == [3, 2, -1, -1]
    assert graded.cost.tolist() == [0.25, 1.0, 0.0, 0.0]
    same = label(episodes, {0: (3, 0.25), 1: 2})
    assert same.hash == graded.hash
    by_call = label(episodes, lambda episode: (0, 0.5) if len(episode.action) > 3 else None)
    assert by_call.cost.tolist() == [0.5, 0.5, 0.0, 0.0]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ([(3, 0.0), None], "severity of episode 0 must be a number above 0 and at most 1, got 0.0"),
        ([None, (1, 1.5)], "severity of episode 1 must be a number above 0 and at most 1, got 1.5"),
        ([None, (1, float("nan"))], "severity of episode 1 must be"),
        ([(1, "bad"), None], "severity of episode 0 must be"),
        ([(1, 0.5, 2), None], r"must be \(stop index, severity\)"),
    ],
)
def test_bad_grades(answers, message):
    with pytest.raises(RciError, match=message):
        label(ragged([4, 5]), answers)


def test_severity_is_given_once():
    with pytest.raises(RciError, match="severity is given twice"):
        label(ragged([4, 5]), [(1, 0.5), None], severity=[0.5, 1.0])


def test_severity_in_files(tmp_path):
    file = tmp_path / "stops.csv"
    file.write_text("episode,stop_index,severity\n0,2,0.5\n1,,0.9\n2,1,\n3,-1,0.3\n")
    assert read_stops(file, 5) == [(2, 0.5), -1, 1, -1, -1]
    lines = tmp_path / "stops.jsonl"
    lines.write_text('{"episode": 0, "stop_index": 2, "severity": 0.5}\n{"episode": 2, "stop_index": 1}\n')
    assert read_stops(lines, 3) == [(2, 0.5), -1, 1]
    file.write_text("episode,stop_index,severity\n0,2,1.2\n")
    with pytest.raises(RciError, match=r"stops.csv, line 2: severity must be a number above 0 and at most 1"):
        read_stops(file, 5)


def drives() -> Episodes:
    """Four moments each, by metres across the road, whose edge is at -2, and metres to the car ahead."""
    found = []
    for across, ahead in (
        ((0, 0, 0, 0), (90, 80, 70, 60)),  # safe
        ((0, 0, 0, 0), (90, 60, 30, 20)),  # too close after the second step
        ((0, -1, -3, -4), (90, 80, 70, 60)),  # off the road after the second step
        ((0, 0, 0, -3), (90, 80, 70, 20)),  # both after the third step
    ):
        obs = [
            observe(np.array([0.0, y]), np.array([[x, y], [150, 0], [160, 0], [170, 0]]), 25.0, 20.0)
            for y, x in zip(across, ahead)
        ]
        found.append(Episode(np.stack(obs), np.zeros((3, 2)), np.zeros(3), False, True))
    return Episodes.from_list(found, task="highway-two")


def test_a_task_with_channels_says_why():
    """Where the first unsafe observation is unsafe in both ways, both channels have stopped the episode."""
    labels = label(drives(), "highway-two")
    assert labels.channels == ("proximity", "road")
    assert labels.stop_index.tolist() == [-1, 1, 1, 2]
    assert labels.cost.tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    graded = label(drives(), "highway-two", severity=np.full(4, 0.5))
    assert np.array_equal(graded.cost, 0.5 * labels.cost)


def test_a_file_of_graded_stops_becomes_labels(tmp_path):
    from rci.data import store
    from rci.pipeline.jobs import Job, run_job

    episodes = ragged([4, 5, 3])
    store.write(tmp_path / "episodes", episodes)
    settings = {"stops": [(2, 0.5), -1, 1], "noise": "clean"}
    inputs = {"episodes": tmp_path / "episodes"}
    run_job(Job("label", "label", settings, 0, inputs, tmp_path / "labels"), lambda share: None)
    assert store.read(tmp_path / "labels").cost.tolist() == [0.5, 0.0, 1.0]


def test_a_severity_of_the_wrong_shape(tmp_path):
    with pytest.raises(RciError, match=r"severity must be one number or have shape \(2,\), got \(3,\)"):
        label(ragged([4, 5]), [1, None], severity=[0.5, 0.5, 0.5])
    assert label(ragged([4, 5]), [1, None], severity=0.5).cost.tolist() == [0.5, 0.0]
    with pytest.raises(RciError, match=r"one number, or have shape \(4,\) or \(4, 2\), got \(2,\)"):
        label(drives(), "highway-two", severity=[0.5, 0.5])
    assert label(drives(), "highway-two", severity=0.5).cost.max() == 0.5
