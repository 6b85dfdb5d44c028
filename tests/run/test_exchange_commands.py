"""`rci import`, `rci export` and `rci monitor`, from the command line and on bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import rci
from rci.cli.main import app
from rci.data.errors import RciError
from rci.data.store import Provenance, write
from rci.pipeline.commands.conversion import export_data, export_policy, import_to, write_monitor


def run(*words: object):
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture(scope="module")
def stages(tmp_path_factory, point_episodes, point_labels):
    """Episodes, labels, step costs with a model, and a policy, as folders."""
    place = tmp_path_factory.mktemp("stages")
    rci.save(point_episodes, place / "episodes")
    rci.save(point_labels, place / "labels")
    costs = rci.redistribute(point_episodes, point_labels, epochs=2, hidden=8)
    rci.save(costs, place / "costs")
    policy = rci.learn(point_episodes, point_labels, costs, method="bc", budget="inf", updates=5, hidden=8)
    rci.save(policy, place / "policy")
    return place


@pytest.mark.parametrize("name", ["out.hdf5", "out.parquet"])
def test_what_goes_out_comes_back(stages, tmp_path, name, point_labels):
    parts = [stages / part for part in ("episodes", "labels", "costs")]
    done = run("export", *parts, "--out", tmp_path / name)
    assert done.exit_code == 0, done.output
    back = run("import", tmp_path / name, "--out", tmp_path / "back", "--json")
    assert back.exit_code == 0, back.output
    found = json.loads(back.stdout)
    assert (found["episodes"], found["stopped"]) == (len(point_labels), int(point_labels.stopped.sum()))
    episodes, labels = rci.load(tmp_path / "back"), rci.load(tmp_path / "back-labels")
    labels.check_parent(episodes)
    np.testing.assert_array_equal(labels.stop_index, point_labels.stop_index)
    np.testing.assert_array_equal(episodes.lengths, point_labels.kept_lengths)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_a_lerobot_folder_there_and_back(stages, tmp_path, version, point_episodes, point_labels):
    parts = [stages / part for part in ("episodes", "labels", "costs")]
    kind = "lerobot" if version == "v3.0" else "lerobot-v2.1"
    new, back, again = tmp_path / "new", tmp_path / "back", tmp_path / "again"
    unknown = run("export", *parts, "--format", kind, "--out", new)
    assert isinstance(unknown.exception, RciError)
    assert "needs the frames per second" in str(unknown.exception)
    done = run("export", *parts, "--format", kind, "--rate", 10, "--monitor", parts[2], "--out", new)
    assert done.exit_code == 0, done.output
    assert run("import", new, "--out", back).exit_code == 0
    episodes, labels = rci.load(back), rci.load(tmp_path / "back-labels")
    for name in set(episodes.stored) - {"source"}:
        np.testing.assert_array_equal(getattr(episodes, name), getattr(point_episodes, name))
    assert labels.stop_index.tolist() == point_labels.stop_index.tolist()
    assert episodes.signals.rate == 10
    done = run(
        "export", back, tmp_path / "back-labels", "--source", new, "--monitor", parts[2], "--out", again
    )
    assert done.exit_code == 0, done.output
    assert json.loads((again / "meta/info.json").read_text())["features"].keys() >= {
        "cost",
        "stopped",
        "risk",
    }
    assert rci.read_lerobot(again).hash == episodes.hash


def test_takeovers_of_a_lerobot_folder(tmp_path):
    sample = Path(__file__).parents[1] / "data" / "formats" / "lerobot" / "v3.0"
    (tmp_path / "columns.toml").write_text('obs = "observation.force"\n')
    done = run("import", sample, "--mapping", tmp_path / "columns.toml", "--out", tmp_path / "e", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["format"], told["stopped"], told["takeovers"]) == ("lerobot", 2, 1)
    assert told["out"] == [str(tmp_path / name) for name in ("e", "e-labels", "e-takeovers")]
    rci.load(tmp_path / "e-takeovers").check_parent(rci.load(tmp_path / "e"))
    assert rci.load(tmp_path / "e").obs.shape == (37, 1)


def test_minari_by_id(stages, tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    parts = [stages / part for part in ("episodes", "labels", "costs")]
    assert run("export", *parts, "--out", "rci/point-v0").exit_code == 0
    done = run("import", "rci/point-v0", "--out", tmp_path / "back")
    assert done.exit_code == 0, done.output
    assert "read as minari" in done.stdout


def test_plain_logs_with_a_mapping(tmp_path):
    (tmp_path / "log.csv").write_text("run,t,x,push,gain,halt\n7,0,0.5,1,2,0\n7,1,0.25,0,1,1\n8,0,1,1,1,0\n")
    (tmp_path / "columns.toml").write_text(
        'obs = ["x"]\naction = ["push"]\nreward = "gain"\nepisode = "run"\nstep = "t"\nstop = "halt"\n'
    )
    done = run(
        "import", tmp_path / "log.csv", "--mapping", tmp_path / "columns.toml", "--out", tmp_path / "episodes"
    )
    assert done.exit_code == 0, done.output
    assert "note: " in done.stdout  # nobody knows what was seen after the last step
    assert list(rci.load(tmp_path / "episodes").lengths) == [2, 1]
    assert list(rci.load(tmp_path / "episodes-labels").stop_index) == [1, -1]


def test_episodes_of_another_source_are_replaced_only_on_demand(tmp_path):
    for name, gain in (("june", 1), ("july", 2)):
        (tmp_path / f"{name}.csv").write_text(f"episode,step,obs_0,action_0,reward\n0,0,1,1,{gain}\n")
    june, july = (["import", tmp_path / f"{name}.csv", "--out", tmp_path / "e"] for name in ("june", "july"))
    assert run(*june).exit_code == 0
    assert run(*june).exit_code == 0  # the same again, as after the mapping was mended
    refused = run(*july)
    assert "made with other settings (source june.csv, now july.csv)" in str(refused.exception)
    assert rci.load(tmp_path / "e")[0].reward[0] == 1.0
    assert run(*july, "--overwrite").exit_code == 0
    assert rci.load(tmp_path / "e")[0].reward[0] == 2.0


def test_recorded_costs_can_say_where_it_was_stopped(tmp_path):
    (tmp_path / "log.csv").write_text(
        "episode,step,obs_0,action_0,reward,cost\n0,0,1,1,1,0\n0,1,1,1,1,3\n0,2,1,1,1,9\n1,0,1,1,1,1\n"
    )
    found, text = import_to(str(tmp_path / "log.csv"), tmp_path / "out", None, None, 2.0, lambda share: None)
    assert list(rci.load(tmp_path / "out-labels").stop_index) == [1, -1]
    assert found["stopped"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "out", "out-labels"]
    assert "1 of them stopped" in text


def test_a_policy_as_onnx(stages, tmp_path, point_episodes):
    onnxruntime = pytest.importorskip("onnxruntime")
    path = tmp_path / "new" / "policy.onnx"
    done = run("export", stages / "policy", "--onnx", "--out", path)
    assert done.exit_code == 0, done.output
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    obs = np.asarray(point_episodes.obs[:50])
    (action,) = session.run(["action"], {"obs": obs})
    np.testing.assert_allclose(action, rci.load(stages / "policy").act(obs), atol=1e-5)


def test_a_monitor_and_how_early_it_is(stages, tmp_path):
    others, _ = rci.collect("point", 60, seed=11)
    rci.save(others, tmp_path / "others")
    rci.save(rci.label(others, "point"), tmp_path / "answers")
    found, text = write_monitor(
        stages / "costs", tmp_path / "others", tmp_path / "answers", tmp_path / "monitor", 0.2
    )
    assert (tmp_path / "monitor-detection" / "detection.json").is_file()
    assert len(list((tmp_path / "monitor-detection").glob("*.png"))) == 1
    monitor = rci.runtime.load_monitor(tmp_path / "monitor")
    expected = rci.redistribution.score(rci.load(stages / "costs"), others)[0][0]
    assert monitor.step(others[0].obs[0], others[0].action[0]) == pytest.approx(expected, abs=1e-5)
    assert found["false_alarm_rate"] == 0.2
    assert str(tmp_path / "monitor") in text


def test_episodes_with_other_labels_are_still_learned_by_heart(stages, tmp_path, point_episodes):
    made = Provenance(parents={"episodes": point_episodes.hash})
    write(tmp_path / "costs", rci.load(stages / "costs"), made)
    rci.save(rci.label(point_episodes, {0: 1}), tmp_path / "others")
    with pytest.raises(RciError, match="that the step costs were inferred from"):
        write_monitor(tmp_path / "costs", stages / "episodes", tmp_path / "others", tmp_path / "monitor", 0.2)


def test_a_monitor_without_stops_to_be_early_for(stages, tmp_path):
    others, _ = rci.collect("point", 60, seed=11)
    rci.save(others, tmp_path / "others")
    for name, stops in (("none", {}), ("all-but-one", dict.fromkeys(range(1, 60), 0))):
        rci.save(rci.label(others, stops), tmp_path / name)
        found, text = write_monitor(
            stages / "costs", tmp_path / "others", tmp_path / name, tmp_path / "monitor", 0.5
        )
        assert rci.runtime.load_monitor(tmp_path / "monitor").level is not None
        assert found["detection"] is None
        assert "cannot be estimated from" in text
        assert not (tmp_path / "monitor-detection").exists()
    (tmp_path / "monitor-detection").write_text("precious")
    with pytest.raises(RciError, match="monitor-detection is a file"):
        write_monitor(stages / "costs", tmp_path / "others", tmp_path / "none", tmp_path / "monitor", 0.5)


def test_labels_are_not_written_over_something_else(stages, tmp_path):
    (tmp_path / "log.csv").write_text("episode,obs,action,reward,stop\n0,0.5,0.5,0,1\n")
    rci.save(rci.load(stages / "policy"), tmp_path / "out-labels")
    with pytest.raises(RciError, match="out-labels holds 'policy'; it is not overwritten with 'labels'"):
        import_to(str(tmp_path / "log.csv"), tmp_path / "out", None, None, None, lambda share: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.csv", "out-labels"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["import", "none.csv", "--out", "x"], "nothing at none.csv"),
        (["import", "log.xyz", "--out", "x"], "log.xyz"),
        (["import", "log.csv", "--out", "x", "--format", "excel"], "unknown format 'excel'"),
        (["import", "data.npz", "--out", "x", "--mapping", "columns.toml"], "columns of plain logs"),
        (["import", "log.csv", "--out", "log.csv"], "not an artefact folder"),
        (["import", "log.csv", "--out", "."], "not the name of a folder"),
        (["import", "log.csv", "--out", "/"], "not the name of a folder"),
        (["import", "EPISODES", "--out", "x"], "is an artefact already"),
        (["export", "EPISODES", "--out", "x.hdf5"], "with its labels and step costs"),
        (
            ["export", "EPISODES", "LABELS", "COSTS", "--out", "x.txt"],
            "the format of x.txt is not known by its name",
        ),
        (["export", "EPISODES", "--out", "x.onnx"], "a policy with --onnx"),
        (["import", "log.csv", "--out", "x", "--cost-above", "0.5"], "log.csv has no costs"),
        (["import", "log.csv", "--out", "x", "--cost-above", "nan"], "must be a finite number"),
        (["export", "EPISODES", "LABELS", "COSTS", "--out", "x.hdf5", "--seed", "3"], "nothing is drawn"),
        (["export", "POLICY", "LABELS", "--onnx", "--out", "x.onnx"], "nothing else"),
        (["export", "EPISODES", "--onnx", "--out", "x.onnx"], "'policy' is needed"),
        (["export", "LABELS", "EPISODES", "COSTS", "--out", "x.hdf5"], "'episodes' is needed"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(stages, tmp_path, monkeypatch, words, message):
    monkeypatch.chdir(tmp_path)
    for name in ("log.xyz", "log.csv", "data.npz", "columns.toml"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "log.csv").write_text("episode,obs,action,reward\n0,0.5,0.5,0\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    places = {name.upper(): stages / name for name in ("episodes", "labels", "costs", "policy")}
    result = run(*(places.get(word, word) for word in words))
    assert isinstance(result.exception, RciError)
    assert message in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_stands_there_is_kept(stages, tmp_path):
    (tmp_path / "out.hdf5").write_text("precious")
    parts = [stages / part for part in ("episodes", "labels", "costs")]
    with pytest.raises(RciError, match="out.hdf5"):
        export_data(*parts, str(tmp_path / "out.hdf5"), None, False)
    assert (tmp_path / "out.hdf5").read_text() == "precious"
    export_data(*parts, str(tmp_path / "out.hdf5"), None, True)
    with pytest.raises(RciError, match="another id"):
        export_data(*parts, "rci/x-v0", None, True)


def test_a_folder_that_is_no_policy(stages, tmp_path):
    with pytest.raises(RciError, match="'policy' is needed"):
        export_policy(stages / "costs", tmp_path / "x.onnx", 0)


def test_names_go_with_policies_and_monitors(tmp_path, point_episodes, point_labels):
    """From episodes with names to what a robot loads, and to what is printed."""
    names = (rci.Signal("x", "m"), rci.Signal("y", "m"), rci.Signal("vx", "m/s"), rci.Signal("vy", "m/s"))
    signals = rci.Signals(names, (rci.Signal("push x"), rci.Signal("push y")), rate=10.0)
    named = replace(point_episodes, signals=signals)
    half = len(named) // 2
    parts = []
    for chosen in (np.arange(half), np.arange(half, len(named))):
        episodes = named.take(chosen)
        parts.append(
            (episodes, rci.Labels.for_episodes(episodes, np.asarray(point_labels.stop_index)[chosen]))
        )
    (episodes, labels), held_out = parts
    costs = rci.redistribute(episodes, labels, epochs=1, hidden=8)
    policy = rci.learn(episodes, labels, costs, method="bc", budget="inf", updates=5, hidden=8)
    rci.save(policy, tmp_path / "policy")
    runner = rci.runtime.load(tmp_path / "policy")
    assert rci.Signals.from_table(runner.info["signals"]) == signals
    with pytest.raises(
        RciError, match=r"of shape \(4,\) \(x \[m\], y \[m\], vx \[m/s\], vy \[m/s\]\), one or"
    ):
        runner.act(np.zeros(3))
    for name, record in (("costs", costs), ("episodes", held_out[0]), ("labels", held_out[1])):
        rci.save(record, tmp_path / name)
    done = run(
        "monitor", *(tmp_path / name for name in ("costs", "episodes", "labels")), "--out", tmp_path / "m"
    )
    assert done.exit_code == 0, done.output
    assert (
        "it watches obs: x [m], y [m], vx [m/s], vy [m/s]\nit watches action: push x, push y\n" in done.output
    )
    monitor = rci.runtime.load_monitor(tmp_path / "m")
    assert rci.Signals.from_table(monitor.info["signals"]) == signals
    with pytest.raises(RciError, match=r"expects 4 numbers as obs \(x \[m\], y \[m\]"):
        monitor.step(np.zeros(3), np.zeros(2))
    for folder, line in (("policy", "obs: x [m], y [m], vx [m/s], vy [m/s]"), ("m", "action: push x, push y"),
                         ("episodes", "rate: 10.0")):  # fmt: skip
        assert line in run("inspect", tmp_path / folder).output
    table = tmp_path / "costs.csv"
    rci.save(labels, tmp_path / "own-labels")
    rci.save(episodes, tmp_path / "own")
    done = run("export", tmp_path / "own", tmp_path / "own-labels", tmp_path / "costs", "--out", table)
    assert done.exit_code == 0, done.output
    assert table.read_text().splitlines()[0] == "episode,step,cost,stopped"
    assert len(table.read_text().splitlines()) == 1 + len(costs.cost)
