"""The studies of settings: what is planned, what is not done again, and what their tables say."""

import json

import pytest
from typer.testing import CliRunner

from rci.data.errors import RciError
from rci.learning import parse_options
from rci.studies.ladder import (
    STUDIES,
    app,
    budget_table,
    cells,
    key_of,
    ladder_table,
    plan_cells,
    study_config,
)


def config(updates=10):
    return study_config("point", "quick", updates, 20, [])


def row(variant, rate, budget=0.1, gain=1.0, seed=0, task="point"):
    return {
        "variant": variant,
        "budget": budget,
        "seed": seed,
        "task": task,
        "violation_rate": rate,
        "mean_return": gain,
    }


def test_the_whole_comparison_comes_first_with_one_seed():
    wanted = cells("budgets", seeds=2)
    half = len(wanted) // 2
    assert {cell.seed for cell in wanted[:half]} == {0}
    assert {cell.variant for cell in wanted[:half]} == set(STUDIES["budgets"].variants)
    assert len({cell.name for cell in wanted}) == len(wanted)
    assert {cell.variant for cell in cells("budgets", 1, ["batch"])} == {"batch"}
    with pytest.raises(RciError, match="unknown variant 'audit'. Did you mean 'audited'"):
        cells("budgets", 1, ["audit"])


@pytest.mark.parametrize("study", STUDIES)
def test_every_variant_has_settings_that_exist(study):
    for variant in STUDIES[study].variants.values():
        options = {**config().learn, **variant.learn}
        parse_options(options.pop("method"), options)


def test_a_key_is_of_everything_that_a_row_depends_on():
    one, two = cells("ladder", 1)[:2]
    keys = {key_of(one, config()), key_of(two, config()), key_of(one, config(updates=11))}
    assert len(keys) == 3
    assert key_of(one, config()) in keys


def test_shared_work_is_planned_once(tmp_path):
    wanted = cells("ladder", 2)
    jobs = list(plan_cells(wanted, config(), tmp_path))
    names = [job.name for job in jobs]
    assert len(set(names)) == len(names)
    assert sum(job.stage == "collect" for job in jobs) == 1
    assert sum(job.stage == "behaviour" for job in jobs) == 2  # with and without proposals
    assert sum(job.stage == "redistribute" for job in jobs) == 2  # one for each seed
    assert sum(job.stage == "learn" for job in jobs) == len(wanted)
    known = set(names)
    assert all(set(job.needs) <= known for job in jobs)


def test_rungs_by_hand():
    rows = [row("default", 0.1 + 0.1 * s, seed=s) for s in range(2)]
    rows += [row("wide", 0.15 + 0.12 * s, gain=2.0, seed=s) for s in range(2)]
    table = ladder_table(rows).splitlines()
    assert table[2] == "| default | 2 | 15.0 ± 63.5 |  | 1.00 ± 0.00 |  |"
    # differences 5 and 7: mean 6, deviation sqrt(2), t(0.975; 1) = 12.706
    assert table[3] == "| wide | 2 | 21.0 ± 76.2 | +6.0 ± 12.7 | 2.00 ± 0.00 | +1.00 ± 0.00 |"
    alone = ladder_table(rows[2:]).splitlines()  # without the defaults there is nothing to hold it against
    assert alone[2] == "| wide | 2 | 21.0 ± 76.2 |  | 2.00 ± 0.00 |  |"


def test_budgets_by_hand():
    rows = [row("audited", 0.08, 0.1), row("audited", 0.3, 0.2), row("audited", 0.2, 0.2, seed=1)]
    line = budget_table(rows).splitlines()[2]
    assert line == "| audited | 1 | 8.0% | 25.0% | 4.0 | 3.3 |"


def test_rows_in_the_file_are_not_computed_again(tmp_path):
    file = tmp_path / "rows.json"
    wanted = cells("ladder", 1)
    known = [{**row(c.variant, 0.1, c.budget), "key": key_of(c, config())} for c in wanted]
    file.write_text(json.dumps(known))
    arguments = ["ladder", "--task", "point", "--rows", str(file), "--out", str(tmp_path / "out")]
    answer = CliRunner().invoke(app, [*arguments, "--seeds", "1", "--updates", "10", "--episodes", "20"])
    assert answer.exit_code == 0, answer.output
    assert "| default | 1 | 10.0 |" in answer.output
    assert not (tmp_path / "out" / "episodes").exists()


def test_bad_input(tmp_path):
    arguments = ["--task", "point", "--rows", str(tmp_path / "r.json"), "--out", str(tmp_path / "out")]
    for extra, message in (
        (["ladders"], "unknown study 'ladders'. Did you mean 'ladder'"),
        (["ladder", "--figure", "x.png"], "only the study of budgets has a figure"),
        (["ladder", "--set", "learn.hidden=3"], "the learner of a study has its defaults"),
    ):
        answer = CliRunner().invoke(app, [*extra, *arguments])
        assert isinstance(answer.exception, RciError)
        assert message in str(answer.exception)
    for text, message in (("no rows", "cannot be read"), ("{}", "should be a list of objects")):
        (tmp_path / "r.json").write_text(text)
        answer = CliRunner().invoke(app, ["ladder", *arguments])
        assert message in str(answer.exception)
    answer = CliRunner().invoke(app, ["ladder", "--task", "highway-two", *arguments[2:]])
    assert "several kinds of danger" in str(answer.exception)


def test_the_figure_of_budgets():
    from rci.reporting.figures.lines import budget_picture

    rows = [row("audited", 0.08, 0.1), row("audited", 0.25, 0.2), row("batch", 0.5, 0.1, task="highway")]
    picture = budget_picture(rows)
    assert picture.png.startswith(b"\x89PNG")
