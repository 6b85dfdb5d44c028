"""`rci view`: what is in the recording, read back by Rerun's own reader where it is installed."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import rci
from rci.cli.main import app, main
from rci.data.errors import RciError
from rci.data.types import Episode, Episodes, Signal, Signals, Takeovers
from rci.formats.writers.rerun import write_rerun


@pytest.fixture
def parts():
    """Three named runs: the second is stopped at its step 2, and a person drives in the third."""
    rng = np.random.default_rng(0)
    runs = [
        Episode(rng.random((n + 1, 2)), rng.random((n, 1)), rng.random(n), False, False) for n in (3, 4, 5)
    ]
    plain = Episodes.from_list(runs)
    episodes = Episodes(
        **plain.arrays(),
        signals=Signals((Signal("speed", "m/s"), Signal("/odom.x")), (Signal("throttle"),), 10.0),
        keys={"bag": ["a", "b", "c"]},
    )
    labels = rci.Labels.for_episodes(episodes, [-1, 2, -1])
    costs = rci.redistribute(episodes, labels, "uniform")
    takeovers = Takeovers(np.array([2]), np.array([1]), np.array([3]), episodes.lengths, episodes.hash)
    return episodes, labels, costs, takeovers


def columns(path):
    """What each path of a recording holds: moments and values of its first component."""
    chunk = pytest.importorskip(
        "rerun.chunk", reason="rerun-sdk is not installed (170 MB): pip install 'rci[rerun]'"
    )
    found = {}
    for piece in chunk.RrdReader(str(path)).stream():
        batch = piece.to_record_batch().to_pydict()
        if piece.is_static or "moment" not in batch:
            continue
        for name, values in batch.items():
            for what in ("scalars", "text", "blob"):
                if name.endswith(f":{what}"):
                    rows = found.setdefault(piece.entity_path, [])
                    rows += list(zip(batch["moment"], batch["time"], (value[0] for value in values)))
    return found


def test_everything_stands_on_one_timeline(parts, tmp_path):
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (170 MB): pip install 'rci[rerun]'")
    episodes, _, costs, _ = parts
    for number, length in enumerate(episodes.lengths):
        (tmp_path / "frames" / str(number)).mkdir(parents=True)
        for step in range(length + 1):
            Image.new("RGB", (8, 8), (number, step, 0)).save(
                tmp_path / "frames" / str(number) / f"{step}.png"
            )
    places = {}
    for name, record in zip(("episodes", "labels", "costs", "takeovers"), parts):
        rci.save(record, tmp_path / name)
        places[name] = str(tmp_path / name)
    words = [
        "view",
        places["episodes"],
        places["costs"],
        "--labels",
        places["labels"],
        "--takeovers",
        places["takeovers"],
    ]
    words += ["--frames", str(tmp_path / "frames"), "--out", str(tmp_path / "x.rrd")]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.stdout == f"3 episodes, 12 steps: {tmp_path / 'x.rrd'}\n"
    found = columns(tmp_path / "x.rrd")
    # Moments 0 to 3 are of the first run, 4 to 8 of the second, 9 to 14 of the third.
    speed = found["/obs/speed\\ \\[m\\/s\\]"]
    assert [(moment, value) for moment, _, value in speed] == list(enumerate(episodes.obs[:, 0]))
    assert "/obs/\\/odom\\.x" in {path.replace("/odom.x", "/odom\\.x") for path in found}
    steps = [0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 13]
    assert [(moment, value) for moment, _, value in found["/action/throttle"]] == list(
        zip(steps, episodes.action[:, 0])
    )
    kept = [0, 1, 2, 4, 5, 6, 9, 10, 11, 12, 13]  # step costs end with the stop
    assert [(moment, value) for moment, _, value in found["/cost/cost"]] == list(zip(kept, costs.cost))
    assert [moment for moment, _, value in found["/flags/stop"] if value] == [6]
    assert [moment for moment, _, value in found["/flags/a\\ person\\ drives"] if value] == [10, 11]
    assert [(moment, text) for moment, _, text in found["/events"]] == [
        (0, "episode 0: bag a"),
        (4, "episode 1: bag b"),
        (6, "STOP at step 2 of episode 1"),
        (9, "episode 2: bag c"),
        (10, "a person takes over in episode 2"),
        (12, "the machine drives again in episode 2"),
    ]
    assert [moment for moment, _, _ in found["/camera/frames"]] == steps
    assert speed[14][1].total_seconds() == pytest.approx(1.4)


def test_some_episodes_and_a_monitor(parts, tmp_path):
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (170 MB): pip install 'rci[rerun]'")
    episodes, labels, costs, _ = parts
    risk = [np.arange(4.0), np.arange(5.0)]
    place = write_rerun(tmp_path / "x.rrd", episodes, labels, costs, risk=risk, level=0.5, chosen=[1, 2])
    found = columns(place)
    assert [(moment, value) for moment, _, value in found["/risk/risk"]] == list(
        zip([0, 1, 2, 3, 5, 6, 7, 8, 9], [0, 1, 2, 3, 0, 1, 2, 3, 4])
    )
    assert [value for _, _, value in found["/risk/level"]] == [0.5, 0.5]
    assert [moment for moment, _, value in found["/flags/stop"] if value] == [2]
    assert [value for _, _, value in found["/cost/cost"]] == costs.cost[3:].tolist()


@pytest.mark.parametrize("installed", [False, True])
def test_what_cannot_be_written(parts, tmp_path, monkeypatch, installed):
    episodes, _, costs, _ = parts
    if not installed:
        monkeypatch.setitem(sys.modules, "rerun", None)
        with pytest.raises(RciError, match=r"needs the package rerun-sdk: pip install 'rci\[rerun\]'"):
            write_rerun(tmp_path / "x.rrd", episodes)
        return
    pytest.importorskip("rerun", reason="rerun-sdk is not installed (170 MB): pip install 'rci[rerun]'")
    with pytest.raises(RciError, match=r"is a \.rrd file, not x\.mp4"):
        write_rerun(tmp_path / "x.mp4", episodes)
    with pytest.raises(RciError, match="these step costs belong to another dataset: they are of 3 episodes"):
        write_rerun(tmp_path / "x.rrd", episodes.take([0, 1]), costs=costs)
    with pytest.raises(RciError, match="labels belong to another dataset"):
        write_rerun(tmp_path / "x.rrd", episodes.take([0, 1]), parts[1])
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "x.rrd").write_text("mine")
    with pytest.raises(RciError, match="exists; choose another name, or overwrite it"):
        write_rerun(tmp_path / "x.rrd", episodes)


def test_a_number_that_is_no_episode(parts, tmp_path, monkeypatch, capsys):
    rci.save(parts[0], tmp_path / "episodes")
    words = ["rci", "view", str(tmp_path / "episodes"), "--episode", "3", "--out", str(tmp_path / "x.rrd")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "rci: there is no episode 3: they are numbered 0 to 2.\n"
