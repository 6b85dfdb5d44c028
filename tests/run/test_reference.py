"""`rci reference`: rows, resuming, the artefact, the table, the criteria, and everything that can be asked wrongly."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from rci.cli import main as cli
from rci.data import store
from rci.data.errors import RciError
from rci.pipeline.commands.command_line import run_command
from rci.studies.reference.drivers import Driver, Setting, drivers, jobs_of, key_of
from rci.studies.reference.study import parse_prices, run_reference
from rci.studies.reference.table import criteria, criteria_lines, reference_table

SMALL = {
    "total_steps": 512,
    "num_envs": 4,
    "rollout_length": 64,
    "checkpoints": 1,
    "hidden": [8],
    "minibatches": 2,
}


def small(tmp_path, **more):
    given = {"prices": (0.0, 1.0), "seeds": 1, "episodes": 20, "options": SMALL, **more}
    return run_reference("point", out=tmp_path / "out", rows=tmp_path / "rows.json", **given)


@pytest.fixture(autouse=True)
def _short_demonstrators(monkeypatch):
    """PPO as it records takes half a minute; here it is as short as the rest."""
    from rci.studies.reference import study

    real = study.load_config
    monkeypatch.setattr(
        study, "load_config", lambda task, preset: real(task, preset, flags=["ppo.total_steps=40960"])
    )


def test_every_driver_is_a_row_and_an_entry_of_the_artefact(tmp_path):
    rows = small(tmp_path)
    assert [row["driver"] for row in rows] == ["seeker", "random", "blind", "informed", "ppo"]
    assert [row["price"] for row in rows] == [None, None, 0.0, 1.0, None]
    assert all(row["violation_low"] <= row["violation_rate"] <= row["violation_high"] for row in rows)
    assert all(row["return_low"] <= row["mean_return"] <= row["return_high"] for row in rows)
    assert rows[3]["training_steps"] == 1024  # those of the blind driver included
    written = {row["key"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert written == {row["key"]: row for row in rows}
    reference = store.read(tmp_path / "out" / "reference", "reference")
    assert reference.task == "point"
    assert reference.columns["mean_return"].tolist() == [row["mean_return"] for row in rows]
    assert "prices 1" in repr(reference)


def test_it_goes_on_from_the_rows_alone(tmp_path, monkeypatch):
    first = small(tmp_path)
    began = []
    again = small(tmp_path, report=lambda job, share, seconds: began.append(job.name))
    assert again == first
    assert began == []
    # another price: the blind driver is trained again in another folder, and tested by nobody
    rows = run_reference(
        "point", (0.0, 1.0, 2.0), 1, 20, tmp_path / "other", tmp_path / "rows.json", SMALL,
        report=lambda job, share, seconds: began.append(job.name) if share == 1.0 else None,
    )  # fmt: skip
    assert began == ["train-blind-seed0", "train-informed-2-seed0", "test-informed-2-seed0"]
    assert rows[2] == first[2]
    assert len(json.loads((tmp_path / "rows.json").read_text())) == 6


def test_a_lost_row_comes_back_the_same(tmp_path):
    first = small(tmp_path)
    file = tmp_path / "rows.json"
    file.write_text(json.dumps([row for row in json.loads(file.read_text()) if row["driver"] != "informed"]))
    again = run_reference("point", (0.0, 1.0), 1, 20, tmp_path / "fresh", file, SMALL)
    same = [{k: v for k, v in row.items() if k != "training_seconds"} for row in first]
    assert [{k: v for k, v in row.items() if k != "training_seconds"} for row in again] == same


def test_the_table_has_every_driver(tmp_path):
    text = reference_table(small(tmp_path))
    assert text.count("\n| ") >= 5
    assert "informed | 1 |" in text


def test_prices():
    assert parse_prices("10,3") == (0.0, 3.0, 10.0)
    assert parse_prices("0, 2.5") == (0.0, 2.5)
    for text, message in (
        ("", "numbers with commas"),
        ("3;4", "numbers with commas"),
        ("many", "numbers with commas"),
        ("3,-1", "0 or more, got -1"),
        ("nan", "0 or more, got nan"),
        ("inf", "0 or more, got inf"),
        ("3,3.0", "given twice"),
    ):
        with pytest.raises(RciError, match=message):
            parse_prices(text)


def test_another_world_has_rows_of_its_own():
    ppo = {"blind": {"total_steps": 1}, "careful": {}, "ppo": {}}
    usual, other = Setting("highway", 100, ppo), Setting("highway", 100, ppo, {"vehicles_density": 1})
    blind = Driver("blind", 0.0, 0)
    assert key_of(blind, usual) != key_of(blind, other)
    assert [driver.name for driver in drivers(usual, (0.0,), 1)][2:] == ["blind", "careful", "ppo"]
    assert "ppo" not in [driver.name for driver in drivers(other, (0.0,), 1)]


def test_nothing_is_trained_twice(tmp_path):
    setting = Setting("point", 10, dict.fromkeys(("blind", "informed", "ppo"), SMALL))
    names = [job.name for job in jobs_of(drivers(setting, (0.0, 1.0, 2.0), 2), setting, tmp_path)]
    assert len(names) == len(set(names))
    assert names.index("train-blind-seed1") < names.index("train-informed-1-seed1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["highwy"], "unknown task 'highwy'. Did you mean 'highway'"),
        (["."], "is recorded data; a reference needs a simulator"),
        (["point", "--prices", "-3"], "must be a number, 0 or more"),
        (["point", "--prices", "cheap"], "prices are numbers with commas"),
        (
            ["point", "--set", "total_step=3"],
            "unknown setting in ppo 'total_step'. Did you mean 'total_steps'",
        ),
        (["point", "--world", "vehicles=3"], "cannot be changed so"),
        (["highway", "--world", "vehicles_densty=3"], "vehicles_densty"),
        (["point", "--rows", "nowhere/rows.json"], "there is no folder nowhere"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["rci", "reference", *arguments])
    with pytest.raises(SystemExit) as end:
        run_command(cli.app, "rci")
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_rows_of_something_else_are_refused(tmp_path):
    (tmp_path / "rows.json").write_text('[{"method": "rci"}]')
    with pytest.raises(RciError, match="not those of a reference"):
        small(tmp_path)
    (tmp_path / "rows.json").write_text("{")
    with pytest.raises(RciError, match="cannot be read"):
        small(tmp_path)


def test_nothing_learns_from_it(tmp_path):
    """An informed driver is no policy: no stage takes one."""
    small(tmp_path)
    driver = tmp_path / "out" / "drivers" / "informed-1-seed0"
    for kind in ("policy", "demonstrators", "costs", "labels", "episodes", "behaviour"):
        with pytest.raises(RciError, match=f"holds 'informed', but '{kind}' is needed here"):
            store.read(driver, kind)
    answer = CliRunner().invoke(cli.app, ["inspect", str(driver)])
    assert "informed" in answer.output


# Criteria


def point(driver, rate, mean_return, until=0.0, median=None, price=None):
    return {
        "task": "", "driver": driver, "price": price, "seed": 0, "episodes": 1000, "violations": round(1000 * rate),
        "violation_rate": rate, "mean_return": mean_return, "mean_return_until_stop": until,
        "median_first_violation": median, "marks": {},
    }  # fmt: skip


def of(task, *rows):
    return [{**row, "task": task} for row in rows]


def test_criteria_of_the_highway():
    ppo, blind = point("ppo", 0.8, 70.0, 50.0, 40.0), point("blind", 0.5, 90.0, 60.0, 50.0, 0.0)
    good = point("careful", 0.01, 70.0, 69.0, 60.0, 30.0)
    fast = point("informed", 0.05, 89.0, 80.0, 60.0, 30.0)
    assert all(found.met for found in criteria(of("highway", ppo, blind, good, fast)))
    for wrong, which in (
        ((point("ppo", 0.5, 80.0, 50.0, 40.0), good), 0),
        ((point("ppo", 0.8, 80.0, 50.0, 10.0), good), 1),
        ((ppo, point("careful", 0.03, 70.0, 69.0, 60.0, 30.0)), 2),
        ((ppo, point("careful", 0.01, 60.0, 69.0, 60.0, 30.0)), 2),
        ((ppo, point("careful", 0.01, 70.0, 40.0, 60.0, 30.0)), 3),
    ):
        found = criteria(of("highway", *wrong, blind, fast))
        assert [index for index, one in enumerate(found) if not one.met] == [which]
    assert criteria_lines(of("highway", ppo, blind, fast))[1] == (
        "met: its median first violation is at step 20 or later (step 40)"
    )
    assert criteria(of("point", ppo, blind, fast)) == []


def test_criteria_of_the_arm():
    blind = [point(name, 0.6, -0.5) for name in ("seeker", "swift")] + [point("blind", 0.6, -0.4, price=0.0)]
    scale = point("random", 0.1, -10.4)
    assert all(
        one.met
        for one in criteria(of("fetch-reach", *blind, scale, point("informed", 0.005, -1.0, price=3.0)))
    )
    for safe, kept in ((0.02, -0.5), (0.0, -2.0)):
        found = criteria(of("fetch-reach", *blind, scale, point("informed", safe, kept, price=3.0)))
        assert [one.met for one in found] == [True, True, True, False]
