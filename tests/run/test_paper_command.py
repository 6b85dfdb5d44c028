"""`rci paper`: its plan, its page and a user's mistakes."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from paper_rows import sweep
from typer.testing import CliRunner

from rci.cli.main import app
from rci.data.errors import RciError
from rci.engines.cores import available_cores
from rci.engines.engine import Engine
from rci.studies.paper.cells import StudyPaths, cells, key_of
from rci.studies.paper.command import plan_paper, run_paper, update_rates
from rci.studies.paper.experiments import EXPERIMENTS, OURS
from rci.studies.paper.page import sample_paths, write_page
from rci.studies.paper.scales import SCALES
from rci.studies.paper.study import seconds_left

SMOKE = SCALES["smoke"]


def test_the_plan_lists_experiments_and_what_is_left(tmp_path: Path) -> None:
    lines, table = plan_paper(
        ["highway", "best-learner", "heatmaps"], "full", tmp_path, tmp_path / "none.json"
    )
    assert [(line["experiment"], line["policies"], line["done"]) for line in lines] == [
        ("highway", 120, 0),
        ("best-learner", 200, 0),
        ("heatmaps", 5, 0),
    ]
    assert "| highway | 120 | 0 | " in table
    # A minute each; those that are drawn are policies of the main comparison.
    cores = len(available_cores())
    assert [line["hours_left"] for line in lines] == [
        pytest.approx(120 / 60 / cores, abs=0.01), pytest.approx(200 / 60 / cores, abs=0.01), 0.0,
    ]  # fmt: skip
    assert (
        f"about {320 / 60 / cores:.1f} hours left on {cores} cores, by a guess of a minute for each" in table
    )


@pytest.mark.parametrize("preset", ["full", "smoke"])
def test_the_plan_answers_without_loading_what_trains_and_draws(tmp_path: Path, preset: str) -> None:
    """Loading them takes longer than the plan itself."""
    code = f"""
import sys
from pathlib import Path
from rci.cli.main import app
from rci.studies.paper.command import plan_paper
lines, table = plan_paper([], {preset!r}, Path({str(tmp_path)!r}), Path({str(tmp_path / "none.json")!r}))
assert len(lines) == {len(EXPERIMENTS)}
print(sorted({{"jax", "equinox", "optax", "matplotlib", "scipy.stats", "ray"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_plan_counts_hours_by_what_policies_have_taken() -> None:
    """Of two policies one took 20 s: the other, three times as long, takes a minute. Another learner takes the mean."""
    scale = SCALES["full"]
    first, *_ = cells(EXPERIMENTS["highway"], scale)
    key = key_of(first, scale)
    rates = update_rates({key: first}, {key: {"seconds": 20.0}, "stranger": {"seconds": 1e9}})
    longer = first._replace(updates=3 * first.updates)
    assert seconds_left([longer], rates) == pytest.approx(60.0)
    assert seconds_left([first._replace(learner=OURS)], rates) == pytest.approx(20.0)
    assert seconds_left([longer], {}) == 60.0  # the first guess
    failed = update_rates({key: first}, {key: {"failed": "why"}})
    assert seconds_left([longer], failed) == 60.0


def test_the_plan_counts_rows_that_are_there(tmp_path: Path) -> None:
    from rci.studies.paper.cells import key_of

    keys = [key_of(cell, SMOKE) for cell in cells(EXPERIMENTS["composition"], SMOKE)]
    rows = [{**row, "key": key} for row, key in zip(sweep("composition"), keys[:3])]
    (tmp_path / "paper.json").write_text(json.dumps(rows))
    lines, _ = plan_paper(["composition"], "smoke", tmp_path, None)
    assert lines[0]["done"] == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "hihgway"], "Did you mean 'highway'"),
        (["--preset", "ful"], "full"),
        (["--engine", "slurm"], "local, ray"),
        (["--rows", "."], "it is a folder"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], said: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, ["paper", *arguments])
    assert isinstance(found.exception, RciError)
    assert said in str(found.exception)
    assert not any(tmp_path.rglob("*.json"))


def test_everything_that_is_there_already_is_only_written_down(tmp_path: Path) -> None:
    """All rows known: no training, just the page with its figures and tables."""
    from rci.studies.paper.cells import key_of

    own = cells(EXPERIMENTS["composition"], SMOKE)
    made = {
        (row["method"], row["dataset"]): row
        for name in ("ppo", "random", "mixed")
        for row in sweep("composition", dataset=name, seeds=1, policies=1)
    }
    rows = [
        {**made[cell.method, cell.logs.recipe], "budget": cell.budget, "key": key_of(cell, SMOKE)}
        for cell in own
    ]
    (tmp_path / "paper.json").write_text(json.dumps(rows))
    page, found = run_paper(["composition"], "smoke", Engine(workers=1), tmp_path, None)
    assert page == tmp_path / "report" / "index.html"
    assert len(found) == len(own)
    for ending in ("pdf", "svg", "png"):
        assert (page.parent / "figures" / f"composition.{ending}").stat().st_size > 1000
    assert "Does it matter who recorded the data?" in page.read_text()


def test_the_policies_to_be_drawn_are_found_where_they_are_trained(tmp_path: Path) -> None:
    own = cells(EXPERIMENTS["heatmaps"], SMOKE)
    paths = StudyPaths(tmp_path)
    found = sample_paths(own, SMOKE, paths).of("highway")
    assert set(found.policies) == {(cell.method, cell.budget) for cell in own}
    assert found.policies["rudder", own[0].budget].parent == paths.policy(own[0], SMOKE).parent
    assert set(found.costs) == {"sparse", "hazard", "rudder"}


def test_what_cannot_be_drawn_is_said(tmp_path: Path) -> None:
    drawn = [replace(EXPERIMENTS["heatmaps"])]
    page = write_page(drawn, SMOKE, [], tmp_path, "rci paper --only heatmaps").read_text()
    assert "Not drawn" in page
    assert "heatmaps" in page
