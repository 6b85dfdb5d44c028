"""`rci assess` on small robot logs: from a CSV file to the verdict, killed once on the way."""

import functools
import json
import operator
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from conftest import ragged
from robot_logs import write_logs
from test_cli import rci_here  # noqa: F401 (a fixture)

import rci
from rci.cli import assess as command
from rci.data import store
from rci.data.risk.estimates import DEPLOY, Verdict
from rci.pipeline.assessing import assess as assessing
from rci.pipeline.assessing.parts import PARTS
from rci.pipeline.commands.inspection import describe

TINY = {
    "behaviour.updates": 20, "behaviour.hidden": 8, "redistribute.epochs": 2, "redistribute.hidden": 4,
    "learn.updates": 20, "learn.hidden": 8, "learn.batch_size": 16, "learn.test_candidates": 4,
    "learn.model_updates": 20, "estimate.models": 2, "estimate.model_updates": 20, "estimate.hidden": 8,
    "estimate.members": 2, "estimate.updates": 20, "estimate.behaviour_updates": 20,
    "budgets": [0.2], "show.episodes": 1,
}  # fmt: skip
FLAGS = [part for name, value in TINY.items() for part in ("--set", f"{name}={json.dumps(value)}")]
RCI = [sys.executable, "-c", "from rci.cli.main import main; main()"]
WORDS = ("Deploy under a monitor", "Do not deploy", "The logs cannot say")


def command_line(folder, *more):
    options = ["--mapping", "columns.toml", "--budget", "5%", "--out", "out", "--workers", "1"]
    return [*RCI, "assess", "runs.csv", *options, *FLAGS, *more]


@pytest.fixture(scope="module")
def assessed(tmp_path_factory):
    """The folder of an assessment that was killed when the behaviour was fitted, and the finished second run."""
    folder = tmp_path_factory.mktemp("assess")
    write_logs(folder)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    first = subprocess.Popen(command_line(folder), start_new_session=True, **pipes)
    for line in first.stderr:
        if line.startswith("behaviour"):
            break
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    assert not (folder / "out" / "assessment.json").exists()
    return folder, subprocess.run(command_line(folder), **pipes)


def test_a_killed_assessment_goes_on_and_ends_with_a_verdict(assessed):
    _folder, second = assessed
    assert second.returncode == 3, second.stderr
    assert "Traceback" not in second.stderr
    for name in ("import", "fit runs", "behaviour"):
        assert f"{name}  unchanged" in second.stderr
    assert re.search(r"training  [\d.]+ s", second.stderr)
    assert re.search(r"\d+ of \d+ jobs, about .* left", second.stderr)
    verdict, why, *_, page = second.stdout.splitlines()
    assert verdict.rstrip(".") in WORDS
    assert "50%" in why
    assert "5.0% are allowed" in why
    assert page == "out/report/index.html"


def test_what_is_done_and_unchanged_is_not_done_again_also_from_python(assessed, monkeypatch):
    folder, _ = assessed
    monkeypatch.chdir(folder)
    table = json.loads((folder / "out" / "assessment.json").read_text())
    made = {path: path.stat().st_mtime_ns for path in folder.glob("out/**/manifest.json")}
    found = rci.assess("runs.csv", "columns.toml", budget="5%", out="out", workers=1, settings=TINY)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("out/**/manifest.json")} == made
    assert found.table == table
    assert not found.deploy
    assert found.verdict.word.capitalize() in WORDS
    assert found.page.is_file()
    assert found.policy.is_dir()
    assert rci.runtime.load_monitor(found.monitor).level > 0
    assert found.verdict.word.capitalize() in repr(found)


def test_the_results_are_in_one_file(assessed):
    table = json.loads((assessed[0] / "out" / "assessment.json").read_text())
    assert table["verdict"]["word"].capitalize() in WORDS
    assert table["verdict"]["reasons"]
    assert [row["name"] for row in table["policies"]] == ["5%", "20%", "no budget"]
    assert table["chosen"] in [row["name"] for row in table["policies"]]
    assert table["budget"] == 0.05
    assert table["logs"] == "runs.csv"
    for row in table["policies"]:
        for part in ("selection", "held_out"):
            stop = row[part]["stop"]
            assert 0 <= stop["low"] <= stop["estimate"] <= stop["high"] <= 1


def test_every_artefact_is_as_single_commands_write_it(assessed):
    out = assessed[0] / "out"
    kinds = {
        "episodes": "episodes", "episodes-labels": "labels", "fit": "episodes", "held-out-labels": "labels",
        "behaviour": "behaviour", "step-costs": "costs", "held-out-costs": "costs", "training": "policy",
        "policies/5": "policy", "policies/none": "policy", "monitor": "monitor", "estimates-held-out": "estimates",
    }  # fmt: skip
    for name, kind in kinds.items():
        assert describe(out / name, verify=True)["kind"] == kind, name
    estimates = describe(out / "estimates-selection", verify=True)["numbers"]
    assert estimates["judged on"] == "selection runs"
    assert estimates["5%"].endswith("stopped")
    assert rci.load(out / "policies" / "5").act(np.zeros(3, np.float32)).shape == (2,)


def test_no_run_is_in_two_parts_and_none_is_lost(assessed):
    out = assessed[0] / "out"
    parts = [store.read(out / name, "episodes") for name in PARTS]
    whole = store.read(out / "episodes", "episodes")
    begins = [one.obs[one.obs_offset[:-1], 0].tolist() for one in (*parts, whole)]
    assert sorted(functools.reduce(operator.iadd, begins[:3], [])) == sorted(begins[3])
    for name in PARTS:
        labels = store.read(out / f"{name}-labels", "labels")
        labels.check_parent(store.read(out / name, "episodes"))
        assert labels.stopped.any()
        assert not labels.stopped.all()


def test_the_page_begins_with_the_verdict_and_needs_nothing_else(assessed):
    page = (assessed[0] / "out" / "report" / "index.html").read_text()
    heading = re.search(r"<h1>(.*?)</h1>", page).group(1)
    assert heading in WORDS
    assert page.index("<h1>") < page.index("<section") < page.index('id="evidence"') < page.index('id="run"')
    assert not re.search(r"(?:src|href)=\"(?!data:|#)", page)
    assert "http://" not in page.split("</style>")[1]
    assert "<script" not in page
    assert page.count("<img") >= 7
    assert page.count("<img") == page.count('alt="')
    for text in ("runs.csv", "throttle", "Lead time", "What would change it", "leaves the data"):
        assert text in page


@pytest.mark.parametrize(("word", "code"), [(DEPLOY, 0), ("do not deploy", 3), ("the logs cannot say", 3)])
def test_exit_codes(word, code, rci_here, tmp_path, monkeypatch):  # noqa: F811
    found = assessing.Assessment(Verdict(word, ("why",), ()), 0.05, tmp_path, tmp_path, tmp_path, {})
    monkeypatch.setattr(assessing, "run_assessment", lambda *arguments: found)
    result = rci_here("assess", "runs.csv", cwd=tmp_path)
    assert result.returncode == code
    assert result.stdout.splitlines() == [f"{word.capitalize()}.", "Why.", str(tmp_path)]
    told = rci_here("assess", "runs.csv", "--json", cwd=tmp_path)
    assert told.returncode == code
    assert json.loads(told.stdout) == {"page": str(tmp_path)}
    assert command.NOT_DEPLOYED == 3


# --- bad input -----------------------------------------------------------------------------------------------------


def edited(folder, change, **mapping):
    """Logs whose rows were changed, each a dict or None for a row that is left out; the words of the mapping too."""
    path, columns = write_logs(folder, runs=24)
    header, *rows = [line.split(",") for line in path.read_text().splitlines()]
    kept = [change(dict(zip(header, row))) for row in rows]
    lines = [",".join(str(row[name]) for name in header) for row in kept if row is not None]
    path.write_text("\n".join([",".join(header), *lines]) + "\n")
    text = columns.read_text()
    for old, new in mapping.items():
        text = re.sub(rf"^{old} = .*$", f"{old} = {new}", text, flags=re.M)
    columns.write_text(text)


def one_run(row):
    return row if row["run"] == "1" else None


def no_stop(row):
    return {**row, "estop": row["estop"] and "0"}


def all_stopped(row):
    return row if int(row["run"]) % 2 == 0 else None


def still_obs(row):
    return {**row, "distance": "1", "speed": "1", "heading": "1"}


def still_actions(row):
    return {**row, "throttle": row["throttle"] and "1", "steer": row["steer"] and "0"}


def few_runs(row):
    return row if int(row["run"]) < 10 else None


def one_name_twice(row):
    return {**row, "run": {"9": "3"}.get(row["run"], row["run"])}


def time_going_back(row):
    return {**row, "t": "1"} if (row["run"], row["t"]) == ("4", "3") else row


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (one_name_twice, ["'3'", "line"]),
        (time_going_back, ["line 49", "1 comes after 2", "sort the rows"]),
        (one_run, ["one run", "give all runs at once"]),
        (no_stop, ["none of the 24 runs was stopped", "stop = 'estop'"]),
        (all_stopped, ["every one of the 12 runs was stopped", "add runs that nobody stopped"]),
        (still_obs, ["observations are the same in every row", "obs = [...]"]),
        (still_actions, ["actions never vary", "action = [...]"]),
        (few_runs, ["5 stopped and 5 safe runs", "record more"]),
    ],
)
def test_logs_that_show_nothing(change, words, rci_here, tmp_path):  # noqa: F811
    edited(tmp_path, change)
    refused(rci_here("assess", "runs.csv", "--mapping", "columns.toml", cwd=tmp_path), words)


def refused(result, words):
    """Exit code 2, one sentence with these words in it, and no traceback."""
    assert result.returncode == 2, result.stdout + result.stderr
    (line,) = [one for one in result.stderr.splitlines() if one.startswith("rci: ")]
    assert all(word in line for word in words), line
    assert "Traceback" not in result.stderr
    assert line.endswith(".")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nothing.csv",), ["there is no nothing.csv"]),
        (("runs.csv", "--budget", "0"), ["share of runs", "0.05 or 5%"]),
        (("runs.csv", "--budget", "P30"), ["number such as 0.05", "'P30'"]),
        (("runs.csv", "--labels", "x"), ["--labels go with an artefact", "stop = 'estop'"]),
        (("logs",), ["no labels at logs-labels", "--labels"]),
        (("logs", "--mapping", "columns.toml"), ["artefact already"]),
        (("logs-other",), ["holds 'labels'", "'episodes' or plain logs"]),
        (("runs.csv", "--set", "learn.method=bc"), ["one training", "feasible"]),
        (("runs.csv", "--set", "redistribute.method=uniform"), ["uniform", "rudder"]),
        (("runs.csv", "--set", "split.held_out=0.9"), ["split.held_out", "0.5"]),
        (("runs.csv", "--set", "splt.held_out=0.2"), ["splt", "split"]),
        (("runs.csv", "--set", "estimate.modles=2"), ["modles", "models"]),
        (("runs.csv", "--set", "monitor.false_alarms=2"), ["monitor.false_alarms", "between 0 and 1"]),
        (("runs.csv", "--out", "runs.csv"), ["it is a file"]),
    ],
)
def test_mistakes_of_users(arguments, words, rci_here, tmp_path):  # noqa: F811
    write_logs(tmp_path, runs=2)
    logs = ragged([5, 6, 7])
    rci.save(logs, tmp_path / "logs")
    rci.save(rci.label(logs, {0: 2}), tmp_path / "logs-other")
    refused(rci_here("assess", *arguments, cwd=tmp_path), words)


def test_a_column_that_is_named_twice(rci_here, tmp_path):  # noqa: F811
    edited(tmp_path, lambda row: row, obs='["distance", "speed", "speed"]')
    refused(rci_here("assess", "runs.csv", "--mapping", "columns.toml", cwd=tmp_path), ["'speed'", "twice"])


def test_stops_that_nobody_named(rci_here, tmp_path):  # noqa: F811
    edited(tmp_path, lambda row: row, stop='""')
    refused(
        rci_here("assess", "runs.csv", "--mapping", "columns.toml", cwd=tmp_path),
        ["no column of stops", "stop ="],
    )
