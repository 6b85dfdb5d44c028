"""Demonstrators in the pipeline and on the command line: trained once, used by every recording."""

import json
import subprocess
import sys

import numpy as np
import pytest

import rci as package
from rci.cli import main as cli
from rci.data.errors import RciError
from rci.engines import cores
from rci.pipeline.config import load_config
from rci.pipeline.jobs import Job, run_job
from rci.pipeline.plan import check_config, plan

RCI = [sys.executable, "-c", "from rci.cli.main import main; main()"]
TINY = [
    "total_steps=512", "num_envs=4", "rollout_length=64", "minibatches=2", "epochs=1", "hidden=[8]", "checkpoints=2",
]  # fmt: skip
SETTINGS = [part for flag in TINY for part in ("--set", flag)]
QUIET = lambda share: None  # noqa: E731


def rci(*arguments, cwd=None):
    return subprocess.run([*RCI, *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


def settings(*more):
    return load_config(
        "point", "quick", None, ["collect.recipe=ppo", *(f"ppo.{flag}" for flag in TINY), *more]
    )


# --- the pipeline -----------------------------------------------------------------------------------------------


def test_the_plan_trains_demonstrators_only_for_recipes_that_need_them(tmp_path):
    jobs = {job.name: job for job in plan(settings(), tmp_path)}
    assert next(iter(jobs)) == "demonstrators"
    assert jobs["demonstrators"].output == tmp_path / "demonstrators"
    assert jobs["demonstrators"].settings["hidden"] == [8]
    assert jobs["collect"].needs == ("demonstrators",)
    assert jobs["collect"].inputs == {"demonstrators": tmp_path / "demonstrators"}
    plain = {job.name: job for job in plan(load_config("point", "quick"), tmp_path)}
    assert "demonstrators" not in plain
    assert (plain["collect"].needs, plain["collect"].inputs) == ((), {})


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("ppo.total_step=3", "unknown setting in ppo 'total_step'. Did you mean 'total_steps'"),
        ("ppo.checkpoints=0", "checkpoints must be at least 1"),
        ("ppo=3", "settings.ppo must be a table"),
        ("compare.methods=['oracle']", "'oracle' needs an exact risk, which is not known"),
    ],
)
def test_mistakes_are_found_before_training(flag, message):
    with pytest.raises(RciError, match=message):
        check_config(settings(flag))


def test_jobs_train_record_and_notice_changes(tmp_path):
    train, record = plan(settings("collect.episodes=12"), tmp_path)[:2]
    run_job(train, QUIET)
    run_job(record, QUIET)
    assert train.is_current()
    assert record.is_current()
    episodes = package.load(tmp_path / "episodes")
    assert episodes.sources == ("ppo-1", "ppo-2")
    demonstrators = package.load(tmp_path / "demonstrators")
    again, _ = package.collect("point", 12, "ppo", seed=0, demonstrators=demonstrators)
    assert again.hash == episodes.hash
    run_job(Job(train.name, train.stage, train.settings, 1, {}, train.output), QUIET)  # another seed
    assert not record.is_current()


def test_a_whole_run_on_ppo_data(tmp_path):
    """Its report too: the exact risk of point is not known for what PPO recorded."""
    quick = [
        "collect.episodes=60", "behaviour.updates=20", "behaviour.hidden=8", "learn.updates=5", "learn.hidden=8",
        "learn.model_updates=5",
        "learn.batch_size=16", "compare.methods=['reward-only']", "evaluate.episodes=10", "evaluate.rollouts=2",
        "collect.recipe=ppo", *(f"ppo.{flag}" for flag in TINY),
    ]  # fmt: skip
    flags = [part for flag in quick for part in ("--set", flag)]
    result = rci("run", "point", "--out", tmp_path / "run", "--workers", 1, *flags)
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("train demonstrators ")
    assert (tmp_path / "run" / "report" / "index.html").is_file()


# --- the command line -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    result = rci("collect", "point", "--recipe", "ppo", "--episodes", 8, *SETTINGS, "--out", "e", cwd=folder)
    assert result.returncode == 0, result.stderr
    return folder


def test_collect_trains_first_and_not_twice(demo):
    again = rci(
        "collect",
        "point",
        "--recipe",
        "ppo",
        "--episodes",
        9,
        *SETTINGS,
        "--out",
        "e",
        "--overwrite",
        cwd=demo,
    )
    assert again.returncode == 0, again.stderr
    assert "demonstrators  unchanged" in again.stderr
    assert np.bincount(package.load(demo / "e").source).tolist() == [4, 5]


def test_collect_with_demonstrators_that_are_there(demo):
    given = ("--demonstrators", "e-demonstrators", "--seed", 5, "--out", "other")
    result = rci("collect", "point", "--recipe", "ppo", "--episodes", 6, *given, "--json", cwd=demo)
    assert result.returncode == 0, result.stderr
    described = json.loads(result.stdout)
    assert described["numbers"]["episodes"] == 6
    assert described["parents"]["demonstrators"] == package.load(demo / "e-demonstrators").hash
    assert not (demo / "other-demonstrators").exists()


def test_inspect_describes_demonstrators(demo):
    text = rci("inspect", "e-demonstrators", cwd=demo).stdout
    assert "e-demonstrators: demonstrators" in text
    assert "checkpoints: 2" in text
    assert "every checksum is right" in text
    numbers = json.loads(rci("inspect", "e-demonstrators", "--json", cwd=demo).stdout)["numbers"]
    assert (numbers["task"], numbers["steps"], len(numbers["mean_return"])) == ("point", 512, 2)


PPO = ("collect", "point", "--recipe", "ppo", "--out", "x")
MISTAKES = [
    ((*PPO, "--set", "total_step=5"), "unknown setting in ppo 'total_step'. Did you mean 'total_steps'?"),
    ((*PPO, "--set", "ppo.total_steps=5"), "without a prefix"),
    ((*PPO, "--set", "total_steps=5"), "5 checkpoints need total_steps of at least"),
    ((*PPO, "--demonstrators", "e"), "e holds 'episodes', but 'demonstrators' is needed here"),
    ((*PPO, "--demonstrators", "nowhere"), "there is nothing at nowhere"),
    ((*PPO, "--demonstrators", "e-demonstrators", "--set", "clip=0.1"), "cannot be given settings as well"),
    (("collect", "point", "--set", "clip=0.1", "--out", "x"), "needs no demonstrators, so there is nothing to set"),
    (("collect", "point", "--demonstrators", "e-demonstrators", "--out", "x"), "'mixed' of 'point' needs no demonstr"),
    (("collect", "point", "--recipe", "ppo", "--out", "."), "is not the name of a folder to write to"),
    (("collect", "pont", "--recipe", "ppo", "--out", "x"), "unknown task 'pont'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_mistake_with_demonstrators_is_one_sentence_and_exit_code_2(
    demo, arguments, message, monkeypatch, capsys
):
    """In this process, so that it is fast."""
    monkeypatch.setattr(cores, "prepare_process", lambda core=None: None)
    monkeypatch.setattr(sys, "argv", ["rci", *arguments])
    monkeypatch.chdir(demo)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (demo / "x").exists()
    assert not (demo / "x-demonstrators").exists()
