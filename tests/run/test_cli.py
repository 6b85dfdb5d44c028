"""The command line as a user meets it: real files, and real processes wherever something is computed."""

import json
import os
import re
import subprocess
import sys
import time

import pytest
from typer.main import get_command

from rci.cli import main as cli
from rci.cli.help import HEADINGS, VERBS, heading_of
from rci.data import extras
from rci.data.store import read, read_manifest
from rci.engines import cores
from rci.learning import learn
from rci.pipeline.commands.sentences import sentences
from rci.pipeline.config import load_config

RCI = [sys.executable, "-c", "from rci.cli.main import main; main()"]


def rci(*arguments, cwd=None):
    return subprocess.run([*RCI, *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def rci_here(monkeypatch, capsys):
    """The same in this process, for commands that are over at once: starting a process takes most of their time."""
    monkeypatch.setattr(cores, "prepare_process", lambda core=None: None)

    def run(*arguments, cwd):
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["rci", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return subprocess.CompletedProcess(arguments, end.value.code, *capsys.readouterr())

    return run


ORDER = ["run", "report", "collect", "label", "redistribute", "learn", "select", "evaluate", "inspect"]
COMMANDS = ["run", "collect", "label", "redistribute", "learn", "select", "evaluate", "report", "inspect"]


def test_help_answers_at_once():
    best = min(_timed() for _ in range(3))
    assert best < 0.5


def _timed():
    start = time.perf_counter()
    assert rci("--help").returncode == 0
    return time.perf_counter() - start


def test_version_and_commands():
    import rci as package

    assert rci("--version").stdout == f"rci {package.__version__}\n"
    text = rci("--help").stdout
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_an_example(command, rci_here, tmp_path):
    result = rci_here(command, "--help", cwd=tmp_path)
    assert result.returncode == 0
    assert f"Example: rci {command}" in result.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Every stage by hand, one after the other."""
    folder = tmp_path_factory.mktemp("demo")
    steps = [
        ("collect", "point", "--episodes", 60, "--seed", 1, "--out", "episodes"),
        ("label", "episodes", "--rule", "point", "--out", "labels"),
        ("redistribute", "episodes", "labels", "--set", "epochs=2", "--out", "costs"),
        ("learn", "episodes", "labels", "costs", "--method", "bcq-lagrangian", "--budget", "P30", "--set", "updates=5",
         "--set", "hidden=8",
         "--set", "behaviour.updates=20",
         "--out", "policy"),
        ("evaluate", "policy", "--task", "point", "--episodes", 20, "--out", "scores", "--json"),
    ]  # fmt: skip
    for step in steps:
        result = rci(*step, cwd=folder)
        assert result.returncode == 0, result.stderr
    return folder, json.loads(result.stdout)


def test_help_is_in_the_order_of_the_pipeline_and_says_whole_sentences(rci_here, tmp_path):
    text = rci_here("--help", cwd=tmp_path).stdout
    headings = [line[:-1] for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["Options", *HEADINGS]
    listed = [line.split()[0] for line in text.splitlines() if line.startswith("  ") and line[2] != " "]
    assert [name for name in listed if name in COMMANDS] == ORDER
    assert not re.search(r"\w\.\.\.$", text, re.MULTILINE)  # nothing is cut off


def test_every_command_of_a_verb_is_there():
    commands = get_command(cli.app).commands
    assert set(VERBS) <= set(commands)
    assert all(heading_of(command) in HEADINGS for command in commands.values())
    assert not set(commands) & {verb for verbs in VERBS.values() for verb in verbs}


def test_it_runs_as_a_module():
    done = subprocess.run([sys.executable, "-m", "rci", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (0, "rci")


def test_without_its_packages_the_command_line_says_what_a_robot_has():
    code = "import sys; sys.modules['typer'] = None; from rci.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert "needs the package 'typer', which is not installed" in done.stderr
    assert "Traceback" not in done.stderr


def test_stages_one_by_one(demo):
    folder, scores = demo
    assert scores["kind"] == "scores"
    low, high = scores["numbers"]["violation_interval"]
    assert 0 <= low <= scores["numbers"]["violation_rate"] <= high <= 1
    assert (folder / "episodes-oracle").is_dir()
    assert (folder / "labels-behaviour").is_dir()


@pytest.mark.parametrize(
    "name", ["episodes", "episodes-oracle", "labels", "costs", "policy", "labels-behaviour", "scores"]
)
def test_inspect_describes_and_verifies(demo, name, rci_here):
    text = rci_here("inspect", name, cwd=demo[0])
    assert text.returncode == 0
    assert "every checksum is right" in text.stdout
    described = json.loads(rci_here("inspect", name, "--json", cwd=demo[0]).stdout)
    assert described["hash"][:12] in text.stdout
    assert described["versions"]["rci"]


def test_a_stage_is_not_done_twice(demo):
    before = os.stat(demo[0] / "costs" / "cost.npy").st_mtime_ns
    again = ("redistribute", "episodes", "labels", "--set", "epochs=2", "--out", "costs")
    result = rci(*again, cwd=demo[0])
    assert "unchanged" in result.stderr
    assert os.stat(demo[0] / "costs" / "cost.npy").st_mtime_ns == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("episodes", r"episodes: 60 episodes of point with [\d,]+ steps \(\d+ to \d+ each\)\."),
        ("episodes-oracle", r"episodes-oracle: The truth about 60 episodes: \d+ of them became unsafe\."),
        ("labels", r"labels: \d+ of 60 episodes were stopped \(\d+\.\d%\)\."),
        (
            "costs",
            r"costs: Costs of [\d,]+ steps in 60 episodes by rudder; they sum exactly to the label .*\.",
        ),
        (
            "labels-behaviour",
            r"labels-behaviour: A model of the behaviour in the logs \(a mixture of Gaussians\)\.",
        ),
        ("policy", r"policy: A policy by bcq-lagrangian for a budget of P30\."),
        (
            "scores",
            r"scores: \d+ of 20 test episodes were unsafe: .*% \(95% interval .*\)\. The mean return is .*\.",
        ),
    ],
)
def test_results_are_sentences(demo, name, said):
    assert re.fullmatch(said, sentences(demo[0] / name).removeprefix(f"{demo[0]}/"))


def test_details_are_behind_a_flag(demo, rci_here):
    short = rci_here("label", "episodes", "--rule", "point", "--out", "labels", cwd=demo[0])
    assert len(short.stdout.splitlines()) == 1
    long = rci_here("label", "episodes", "--rule", "point", "--out", "labels", "-v", cwd=demo[0])
    assert long.stdout.startswith(short.stdout)
    assert "stop_index.npy" in long.stdout


def test_other_settings_replace_nothing_unless_that_is_wanted(demo, rci_here):
    first = ("label", "episodes", "--noise", "noisy", "--out", "seen")
    assert rci_here(*first, cwd=demo[0]).returncode == 0
    before = read_manifest(demo[0] / "seen")["hash"]
    other = ("label", "episodes", "--out", "seen")
    refused = rci_here(*other, cwd=demo[0])
    assert refused.returncode == 2
    assert "made with other settings (noise noisy, now clean)" in refused.stderr
    assert read_manifest(demo[0] / "seen")["hash"] == before
    assert "unchanged" in rci_here(*first, cwd=demo[0]).stderr
    assert rci_here(*other, "--overwrite", cwd=demo[0]).returncode == 0
    assert read_manifest(demo[0] / "seen")["hash"] == read_manifest(demo[0] / "labels")["hash"]


def test_a_share_is_the_same_budget_as_its_number(demo, rci_here):
    tiny = ("--method", "bc-safe", "--set", "updates=2", "--set", "hidden=4")
    words = ("learn", "episodes", "labels", "costs", *tiny)
    assert rci_here(*words, "--budget", "0.9", "--out", "number", cwd=demo[0]).returncode == 0
    again = rci_here(*words, "--budget", "90%", "--out", "number", cwd=demo[0])
    assert "learn  unchanged" in again.stderr  # one key, so one policy
    assert "for a budget of 90%" in again.stdout
    parts = (read(demo[0] / kind, kind) for kind in ("episodes", "labels", "costs"))
    policy = learn(*parts, method="bc-safe", budget="90%", updates=2, hidden=4)
    assert policy.hash == read(demo[0] / "number").hash
    assert load_config("point", "quick", flags=["compare.budgets=[5%,20%]"]) == load_config(
        "point", "quick", flags=["compare.budgets=[0.05,0.2]"]
    )


def test_what_is_missing_is_said_before_any_work(demo, rci_here, monkeypatch):
    """No folder, no recording, no training: the packages are looked for first."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    for words, said in (
        (("run", "fetch-reach", "--out", "x"), "the task 'fetch-reach' needs mujoco and gymnasium_robotics, which are "
         "not installed: pip install 'rci[fetch]'."),
        (("collect", "fetch-reach", "--out", "x"), "pip install 'rci[fetch]'"),
        (("run", "point", "--engine", "ray", "--out", "x"), "the engine 'ray' needs ray, which is not installed: pip "
         "install 'rci[ray]'."),
        (("run", "point", "--store", "s3://x/y", "--out", "x"), "a store of results needs fsspec"),
        (("run", "point", "--log", "mlflow", "--out", "x"), "--log mlflow needs mlflow, which is not installed: pip "
         "install 'rci[mlflow]'."),
        (("export", "policy", "--onnx", "--out", "x.onnx"), "pip install 'rci[onnx]'"),
    ):  # fmt: skip
        done = rci_here(*words, cwd=demo[0])
        assert done.returncode == 2
        assert said in done.stderr
        assert not (demo[0] / "x").exists()


def test_stops_from_a_file(demo, rci_here):
    (demo[0] / "stops.csv").write_text("episode,stop_index\n3,1\n")
    result = rci_here("label", "episodes", "--stops", "stops.csv", "--out", "by-hand", "--json", cwd=demo[0])
    assert json.loads(result.stdout)["numbers"] == {"episodes": 60, "stopped": 1}


def test_choosing_from_logs(demo):
    tiny = ("--set", "updates=5", "--set", "hidden=8", "--set", "batch_size=8")
    result = rci("select", "episodes", "labels", "costs", "policy", *tiny, "--budget", "0.9", cwd=demo[0])
    assert result.returncode == 0, result.stderr
    table, chosen = result.stdout.splitlines()[:-1], result.stdout.splitlines()[-1]
    assert chosen == "policy"
    assert table[-1].startswith("| policy |")
    assert table[-1].endswith("| chosen |")


MISTAKES = [
    (("run", "pont"), "unknown task 'pont'. Did you mean 'point'?"),
    (("run", "point", "--preset", "quik"), "unknown preset of point 'quik'. Did you mean 'quick'?"),
    (("run", "point", "--set", "learn.updates"), "written key=value"),
    (("run", "point", "--config", "none.toml"), "there is no settings file none.toml"),
    (("run", "point", "--out", "stops.txt/x"), "cannot write to stops.txt/x"),
    (("collect", "point", "--recipe", "expert", "--out", "x"), "unknown recipe of point 'expert'"),
    (("label", "nowhere", "--out", "x"), "there is nothing at nowhere"),
    (("label", "labels", "--out", "x"), "labels holds 'labels', but 'episodes' is needed here"),
    (("label", "episodes", "--rule", "point", "--stops", "a.csv", "--out", "x"), "not from both"),
    (("label", "episodes", "--noise", "loud", "--out", "x"), "unknown label noise 'loud'"),
    (("redistribute", "labels", "episodes", "--out", "x"), "holds 'labels', but 'episodes' is needed"),
    (("redistribute", "episodes", "labels", "--method", "ruder", "--out", "x"), "Did you mean 'rudder'?"),
    (("redistribute", "episodes", "labels", "--set", "epoch=2", "--out", "x"), "Did you mean 'epochs'?"),
    (("learn", "episodes", "labels", "costs", "--budget", "-1", "--out", "x"), "the smallest is 0"),
    (("learn", "episodes", "labels", "costs", "--method", "cpo", "--out", "x"), "unknown learner 'cpo'"),
    (("learn", "episodes", "labels", "costs", "--budget", "5", "--out", "x"), "for 5% write 5% or 0.05"),
    (("learn", "episodes", "labels", "costs", "--budget", "a=0.1,b=0.2", "--out", "x"), "these costs have no channels"),
    (("learn", "episodes", "labels", "costs", "--set", "behaviour.hiden=3", "--out", "x"), "Did you mean 'hidden'?"),
    (("learn", "episodes", "labels", "costs", "--method", "cdt", "--behaviour", "labels-behaviour", "--out", "x"),
     "'cdt' uses no behaviour model"),
    (("learn", "episodes", "labels", "costs", "--method", "bc", "--out", "x"), "knows no budget"),
    (("learn", "episodes", "labels", "costs", "--set", "test_candidates=0", "--out", "x"),
     "candidates must be at least 1"),
    (("learn", "episodes", "labels", "costs", "--budget", "0.1,0.1", "--out", "x"), "is given twice"),
    (("learn", "episodes", "labels", "costs", "--budget", "P30", "--out", "x"), "is a percentile of step costs"),
    (("collect", "point", "--seed", "99999999999999999999", "--out", "x"), "Invalid value for '--seed'"),
    (("select", "episodes", "labels", "costs", "policy", "policy"), "the policy policy is given twice"),
    (("select", "episodes", "labels", "costs", "labels"), "holds 'labels', but 'policy' is needed"),
    (("select", "episodes", "labels", "costs"), "Missing argument"),
    (("evaluate", "policy", "--task", "pont", "--out", "x"), "unknown task 'pont'"),
    (("evaluate", "costs", "--task", "point", "--out", "x"), "holds 'costs', but 'policy' is needed"),
    (("report", "episodes"), "is not the folder of a run"),
    (("inspect", "stops.txt"), "is not an artefact folder"),
    (("redistribute", "episodes", "labels", "--set", "redistribute.epochs=2", "--out", "x"), "without a prefix"),
    (("run", "point", "--out", "labels"), "labels is an artefact; a run needs a folder of its own"),
    (("run", "point", "--out", "stops.txt"), "it is a file, and a run needs a folder"),
    (("collect", "point", "--episodes", "3", "--out", "stops.txt"), "exists and is not an artefact folder"),
    (("collect", "point", "--episodes", "3", "--out", "."), "is not the name of a folder to write to"),
    (("learn", "episodes", "labels", "costs"), "Missing option"),
    (("collect", "point", "--episodes", "0", "--out", "x"), "Invalid value for '--episodes'"),
    (("nonsense",), "No such command"),
    (("train",), "No such command 'train'. Did you mean 'learn' (Train a policy"),
    (("fit",), "Did you mean 'redistribute' (Turn one bit"),
    (("fit",), "or 'learn' (Train a policy"),
    (("evalute",), "Did you mean 'evaluate'?"),
    (("learn", "episodes", "labels", "costs", "--budget", "500%", "--out", "x"), "'500%' would allow everything"),
    (("learn", "episodes", "labels", "costs", "--budget", "5%,0.05", "--out", "x"), "the budget 0.05 is given twice"),
    (("learn", "episodes", "labels", "costs", "--log", "excel", "--out", "x"), "unknown tracker 'excel'"),
    (("learn", "episodes", "labels", "costs", "--method", "sac", "--out", "x"), "the best one whose chance of a stop"),
    (("redistribute", "episodes", "labels", "--compare", "uniform", "--overwrite", "--out", "x"), "folder of its own"),
    (("learn", "episodes", "labels", "costs", "--budget", "P40", "--method", "bcq-lagrangian", "--set", "updates=6",
      "--set", "behaviour.updates=20", "--out", "policy"),
     "made with other settings (budget P30, now P40; hidden 8, now not set"),
    (("label", "episodes", "--out", "labels", "--seed", "4"), "made with other settings (seed 0, now 4)"),
    (("label", "episodes", "--out", "costs", "--overwrite"), "it is not overwritten with 'labels'"),
    (("evaluate", "policy", "--task", "point", "--episodes", "21", "--out", "scores"), "replace it with --overwrite"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_mistake_is_one_sentence_and_exit_code_2(demo, arguments, message, rci_here):
    refuse_in_one_sentence(demo, arguments, message, rci_here)


# One that the parser finds, one of a name, one of a setting deep in a stage, one of the wrong folder.
@pytest.mark.parametrize(
    ("arguments", "message"),
    [mistake for mistake in MISTAKES if mistake[1] in ("No such command", "unknown task 'pont'. Did you mean 'point'?",
     "candidates must be at least 1", "it is a file, and a run needs a folder")],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_mistake_ends_a_real_process(demo, arguments, message):
    refuse_in_one_sentence(demo, arguments, message, rci)


def refuse_in_one_sentence(demo, arguments, message, rci):
    (demo[0] / "stops.txt").write_text("")
    result = rci(*arguments, cwd=demo[0])
    assert result.returncode == 2
    assert message in " ".join(result.stderr.split())
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not (demo[0] / "x").exists()
    assert not (demo[0] / "stops.txt-oracle").exists()


def test_two_budgets_share_one_behaviour_model(demo):
    again = (
        "learn",
        "episodes",
        "labels",
        "costs",
        "--method",
        "bcq-lagrangian",
        "--budget",
        "0.5",
        "--set",
        "updates=5",
        "--set",
        "hidden=8",
    )
    result = rci(*again, "--set", "behaviour.updates=20", "--seed", 3, "--out", "other-policy", cwd=demo[0])
    assert result.returncode == 0, result.stderr
    assert "behaviour  unchanged" in result.stderr


def test_one_training_for_several_budgets_and_one_that_cannot_be_kept(demo):
    """OUT/0.0 and so on; the networks are one file on the disk; exit code 3, and everything is written all the same."""
    more = (
        "--set",
        "updates=5",
        "--set",
        "hidden=8",
        "--set",
        "model_updates=5",
        "--set",
        "behaviour.updates=20",
    )
    words = ("learn", "episodes", "labels", "costs", "--budget", "0,1", *more, "--out", "several", "--json")
    result = rci(*words, cwd=demo[0])
    assert result.returncode == 3, result.stderr
    assert "no threshold is expected to keep the budget 0.0: the lowest bound is" in result.stderr
    assert "budget 1.0" not in result.stderr
    told = json.loads(result.stdout)
    assert list(told) == ["0.0", "1.0"]
    assert told["0.0"]["numbers"]["kept"] is False
    assert told["1.0"]["numbers"]["threshold"] == "inf"
    assert "thresholds, violations at most" in told["1.0"]["numbers"]["ladder"]
    nodes = {
        (demo[0] / "several" / name / "critic.obs_weight.npy").stat().st_ino for name in ("0.0", "1.0", "inf")
    }
    assert len(nodes) == 1
    again = rci(*words, cwd=demo[0])
    assert again.returncode == 3
    assert "learn  unchanged" in again.stderr
    same = rci(
        "evaluate", "several/1.0", "--task", "point", "--episodes", 5, "--out", "several-scores", cwd=demo[0]
    )
    assert same.returncode == 0, same.stderr


def test_a_learner_that_needs_no_behaviour_model_fits_none(demo):
    more = ("--method", "bc-safe", "--set", "updates=5", "--set", "hidden=8", "--out", "imitator")
    result = rci("learn", "episodes", "labels", "costs", "--budget", "P50", *more, cwd=demo[0])
    assert result.returncode == 0, result.stderr
    assert "behaviour" not in result.stderr


def test_labels_of_another_dataset(demo, rci_here):
    other = ("collect", "point", "--episodes", 60, "--seed", 2, "--out", "other")
    assert rci_here(*other, cwd=demo[0]).returncode == 0
    result = rci_here("redistribute", "other", "labels", "--out", "x", cwd=demo[0])
    assert result.returncode == 2
    assert "these labels belong to another dataset" in result.stderr
