"""`rci sweep`: what points share is done once, rows are the same however they came about, failures stay apart."""

import csv
import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rci.cli.main import app
from rci.data.errors import RciError
from rci.engines.engine import Engine, News
from rci.pipeline.folder import alone_in
from rci.reporting.figures.palette import LOOKS
from rci.reporting.sweep.groups import series, series_looks
from rci.studies.sweep import sweep
from rci.studies.sweep.grid import points_of, read_grid
from rci.studies.sweep.plan import plan_points
from rci.studies.sweep.rows import as_csv, groups_of, over_seeds
from rci.studies.sweep.runner import plan_sweep, run_sweep

GRID = """
task = "point"

[settings]
collect.episodes = 60
redistribute.method = "uniform"
learn = {method = "bc", updates = 10, hidden = 8, batch_size = 16}
compare = {methods = ["reward-only", "rci"], budgets = [inf], seeds = 1}
evaluate.episodes = 20

[grid]
"label.noise" = ["clean", "noisy"]
seed = [0, 1]
"""
FILES = ("sweep.json", "sweep.csv")


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    file = tmp_path_factory.mktemp("grid") / "grid.toml"
    file.write_text(GRID)
    return file


def run(grid, out, engine=Engine(workers=2)):  # noqa: B008
    """The result, and the jobs that had to be done."""
    done = []

    def report(job, share, seconds):
        if share == 1.0 and seconds is not None:
            done.append(job.name)

    return run_sweep(grid, out, engine, report, "rci sweep"), done


@pytest.fixture(scope="module")
def finished(grid, tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "a"
    result, done = run(grid, out)
    return out, result, done


@pytest.fixture
def copy(finished, tmp_path):
    return Path(shutil.copytree(finished[0], tmp_path / "copy"))


class HerePool:
    """Work is done at once, in this process."""

    def __init__(self, engine):
        self.heard = []

    @property
    def busy(self):
        return len(self.heard)

    def has_room(self):
        return not self.heard

    def start(self, task, work):
        try:
            work.run(lambda share: None)
            self.heard = [News(task, 1.0, 0.1)]
        except RciError as error:
            self.heard = [News(task, 0.0, 0.1, str(error))]

    def news(self):
        heard, self.heard = self.heard, []
        return heard

    def close(self):
        pass


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr("rci.engines.run.open_pool", HerePool)


def planned(grid, out=Path("x")):
    return plan_points(points_of(read_grid(grid)), out)


def test_jobs_that_points_share_are_planned_once(grid):
    plan = planned(grid)
    stages = [job.stage for job in plan.jobs.values()]
    # Episodes are shared by both kinds of noise; all else depends on the labels, and so on noise and seed.
    counts = {stage: stages.count(stage) for stage in dict.fromkeys(stages)}
    assert counts == {"collect": 2, "label": 4, "redistribute": 8, "learn": 8, "evaluate": 8}
    assert plan.shared() == {name for name, job in plan.jobs.items() if job.stage == "collect"}
    for name, job in plan.jobs.items():
        assert job.output == Path("x/artefacts") / name
        assert set(job.inputs.values()) == {plan.jobs[need].output for need in job.needs}


def test_titles_have_the_values_that_all_points_agree_on(grid):
    titles = {job.title for job in planned(grid).jobs.values() if job.stage in ("collect", "learn")}
    assert titles == {
        "record episodes (seed=0)", "record episodes (seed=1)",
        *(f"learn {method}, no budget (label.noise={noise}, seed={seed})"
          for method in ("reward-only", "rci") for noise in ("clean", "noisy") for seed in (0, 1)),
    }  # fmt: skip


def test_names_do_not_depend_on_the_layout_of_the_grid(grid, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(
        GRID.replace("seed = [0, 1]", "seed = [2, 1, 0]").replace(
            '["clean", "noisy"]', '["noisy", "human", "clean"]'
        )
    )
    before, after = planned(grid).jobs, planned(other).jobs
    assert before.items() <= after.items()
    assert len(after) > len(before)


def test_methods_with_the_same_step_costs_share_their_policy(grid):
    text = GRID.replace('["reward-only", "rci"]', '["rci", "uniform"]')
    grid.with_name("same.toml").write_text(text)
    plan = planned(grid.with_name("same.toml"))
    assert len(plan.policies) == 8
    assert len({policy.job for policy in plan.policies}) == 4


@pytest.mark.parametrize("axis", ['preset = ["quick", "paper"]', "evaluate.rollouts = [1, 2]"])
def test_points_that_ask_for_the_same_are_refused(grid, axis):
    settings = 'behaviour.updates = 3\n[grid]\n"label.noise" = ["clean"]\n' + axis
    text = GRID.partition("[grid]")[0].replace('"uniform"', '"sparse"') + settings
    grid.with_name("twins.toml").write_text(text)
    with pytest.raises(
        RciError, match=r"the points label.noise=clean, .*=.* and label.noise=clean, .* are the same"
    ):
        planned(grid.with_name("twins.toml"))


def test_rows_are_in_the_order_of_the_grid(finished):
    out, result, done = finished
    rows = json.loads((out / "sweep.json").read_text())
    assert rows == result.rows
    assert len(done) == 30
    assert [(r["grid"]["label.noise"], r["grid"]["seed"], r["method"]) for r in rows] == [
        (noise, seed, method)
        for noise in ("clean", "noisy")
        for seed in (0, 1)
        for method in ("reward-only", "rci")
    ]
    assert [r["seed"] for r in rows[:4]] == [0, 0, 1000, 1000]
    for row in rows:
        assert (row["task"], row["budget"], row["episodes"]) == ("point", "inf", 20)
        assert 0 <= row["violation_low"] <= row["violation_rate"] <= row["violation_high"] <= 1
        assert row["return_low"] < row["mean_return"] < row["return_high"]
        for stage, name in (("evaluate", "scores_hash"), ("learn", "policy_hash")):
            found = [
                json.loads(file.read_text()) for file in (out / "artefacts").glob(f"{stage}-*/manifest.json")
            ]
            assert row[name] in [manifest["hash"] for manifest in found]
    told = list(csv.DictReader((out / "sweep.csv").read_text().splitlines()))
    assert [float(line["mean_return"]) for line in told] == [row["mean_return"] for row in rows]
    assert [line["grid.seed"] for line in told] == [str(row["grid"]["seed"]) for row in rows]


def test_the_page_and_its_table(finished):
    out, result, _ = finished
    assert result.page == out / "report" / "index.html"
    page = result.page.read_text()
    assert "8 of 8 policies at 4 points" in page
    assert (out / "report" / "figures" / "sweep.svg").stat().st_size > 1000
    assert len((out / "report" / "sweep.md").read_text().splitlines()) == 2 + 4
    assert [group.seeds for group in result.groups] == [2] * 4


def test_one_worker_gives_the_same_bytes_as_two(grid, finished, tmp_path):
    run(grid, tmp_path / "b", Engine(workers=1))
    assert [(tmp_path / "b" / name).read_bytes() for name in FILES] == [
        (finished[0] / name).read_bytes() for name in FILES
    ]


def test_what_a_killed_sweep_has_not_done_is_done(grid, finished, copy):
    plan = planned(grid, copy)
    lost = [name for name, job in plan.jobs.items() if job.stage == "evaluate"][5:]
    lost += [need for name in lost for need in plan.jobs[name].needs]
    for name in lost:
        shutil.rmtree(copy / "artefacts" / name)
    rows = json.loads((copy / "sweep.json").read_text())
    (copy / "sweep.json").write_text(json.dumps(rows[:3]))
    (copy / "sweep.csv").unlink()
    (copy / ".sweep.json.tmp-1").write_text("[")
    facts, _ = plan_sweep(grid, copy)
    assert (facts["jobs"], facts["left"], facts["shared"], facts["policies"]) == (30, 6, 2, 8)
    assert [line["left"] for line in facts["points"]] == [0, 0, 2, 4]
    _, done = run(grid, copy)
    assert sorted(done) == sorted(lost)
    assert [(copy / name).read_bytes() for name in FILES] == [
        (finished[0] / name).read_bytes() for name in FILES
    ]
    assert not list(copy.glob(".*"))


def test_a_value_that_is_added_recomputes_nothing(grid, finished, copy, here):
    grid.with_name("more.toml").write_text(GRID.replace("seed = [0, 1]", "seed = [2, 0, 1]"))
    result, done = run(grid.with_name("more.toml"), copy)
    assert len(done) == 2 * 7 + 1  # episodes serve both kinds of noise
    kept = [row for row in result.rows if row["grid"]["seed"] != 2]
    assert kept == finished[1].rows
    assert [row["grid"]["seed"] for row in result.rows[:6]] == [2, 2, 0, 0, 1, 1]


def test_a_point_that_fails_leaves_the_others_alone(grid, copy, here):
    text = GRID.replace("seed = [0, 1]", "seed = [0]\nlearn.learning_rate = [0.001, 1e30]").replace(
        ', "noisy"', ""
    )
    bad = grid.with_name("bad.toml")
    bad.write_text(text)
    with pytest.raises(RciError, match="training diverged") as found:
        sweep(bad, copy)
    said = str(found.value)
    assert (
        "2 of 4 policies have no row, at the points: label.noise=clean, seed=0, learn.learning_rate=1e+30."
        in said
    )
    rows = json.loads((copy / "sweep.json").read_text())
    assert [row["grid"]["learn.learning_rate"] for row in rows] == [0.001, 0.001]
    told = CliRunner().invoke(app, ["sweep", str(bad), "--out", str(copy), "--json"])
    assert isinstance(told.exception, RciError)  # after the rows that there are
    assert json.loads(told.stdout) == rows
    assert "2 of 4 policies at 2 points" in (copy / "report" / "index.html").read_text()


def test_the_command_prints_the_table_and_the_plan(grid, copy, here):
    told = CliRunner().invoke(app, ["sweep", str(grid), "--out", str(copy)])
    assert told.exit_code == 0, told.output
    lines = told.stdout.splitlines()
    assert lines[0].startswith("| label.noise | method | budget | seeds | violation rate |")
    assert lines[2].startswith("| clean | reward-only | inf | 2 |")
    assert lines[-1] == str(copy / "report" / "index.html")
    told = CliRunner().invoke(app, ["sweep", str(grid), "--out", str(copy / "new"), "--plan"])
    assert "| label.noise=clean, seed=0 | 8 | 1 | 8 |" in told.stdout
    assert "4 points, 8 policies: 30 jobs, 2 of which serve several points; 30 are left to do." in told.stdout
    assert not (copy / "new").exists()


def test_folders_that_are_not_for_sweeps(grid, tmp_path, finished):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RciError, match="holds something else already"):
        run(grid, tmp_path)
    with alone_in(finished[0]), pytest.raises(RciError, match="another run is at work"):
        run(grid, finished[0])


def test_rows_are_kept_where_no_worker_can_be_started(grid, copy):
    before = (copy / "sweep.json").read_bytes()
    with pytest.raises(RciError, match="1000 workers were asked for"):
        run(grid, copy, Engine(workers=1000))
    assert (copy / "sweep.json").read_bytes() == before


def row(seed, rate, gain, episodes=100, key="", **values):
    return {
        "grid": {"seed": seed, **values}, "task": "point", "method": "rci", "budget": "0.1", "seed": 1000 * seed,
        "episodes": episodes, "violation_rate": rate, "violation_low": 0.0, "violation_high": 0.2,
        "mean_return": gain, "return_low": gain - 1, "return_high": gain + 1, "key": key or f"{seed}-{values}",
    }  # fmt: skip


def test_means_and_intervals_over_seeds():
    group = over_seeds([row(0, 0.1, 1.0), row(1, 0.3, 3.0)], {})
    assert (group.violation_rate, group.mean_return, group.seeds) == (pytest.approx(0.2), 2.0, 2)
    # Student's t with one degree of freedom is 12.706; the standard error of 1 and 3 is 1.
    assert (group.return_low, group.return_high) == pytest.approx((2 - 12.706, 2 + 12.706), abs=1e-3)
    assert (group.violation_low, group.violation_high) == (0.0, 1.0)
    agreed = over_seeds([row(seed, 0.0, 1.0) for seed in range(3)], {})
    assert agreed.violation_high == pytest.approx(
        1 - 0.025 ** (1 / 300)
    )  # of 300 episodes without a violation
    alone = over_seeds([row(0, 0.1, 1.0)], {})
    assert (alone.return_low, alone.return_high) == (0.0, 2.0)
    assert (alone.violation_low, alone.violation_high) == pytest.approx((0.0490, 0.1762), abs=1e-4)


def test_groups_differ_in_more_than_the_seed():
    rows = [row(seed, 0.1, 1.0, kind=kind) for seed in (0, 1) for kind in ("a", [1, 2], True)]
    assert [(group.values, group.seeds) for group in groups_of(rows)] == [
        ({"kind": "a"}, 2), ({"kind": "[1, 2]"}, 2), ({"kind": "true"}, 2)
    ]  # fmt: skip
    assert as_csv(rows).splitlines()[2].startswith('0,"[1, 2]",point,rci')
    assert as_csv([]) == ""


def test_the_same_policies_are_one_group():
    rows = [
        row(s, 0.1, 1.0, key=f"{s}{'ab'.find(k)}", kind=k, size=n)
        for s in (0, 1)
        for k in "acd"
        for n in (1, 2)
    ]
    assert [(group.values, group.seeds) for group in groups_of(rows)] == [
        ({"kind": "a", "size": "any"}, 2), ({"kind": "c or d", "size": "any"}, 2)
    ]  # fmt: skip
    lines = series(groups_of(rows))
    assert list(lines) == [("point", "rci, kind=a"), ("point", "rci, kind=c or d")]


def test_many_lines_look_different():
    groups = groups_of([row(0, 0.1, 1.0, kind=kind) for kind in range(150)])
    assert len(set(series_looks(groups).values())) == 150
    assert series_looks(groups_of([row(0, 0.1, 1.0)])) == {"rci": LOOKS["rci"]}
