"""Comparisons, ensembles in processes and transfer: real processes, real files, mistakes included."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from rci.cli import main as cli
from rci.collection import collect
from rci.data import store
from rci.data.errors import RciError
from rci.data.store import Provenance
from rci.data.types import Labels, StepCosts
from rci.engines import cores
from rci.engines.engine import Engine
from rci.evaluation.localisation import describe_columns
from rci.labeling import label
from rci.pipeline.commands.comparison import (
    MEANINGS,
    Variant,
    comparison_row,
    exact_risk,
    over_seeds,
    parse_variants,
    plan,
    run_comparison,
    split_outside,
)
from rci.redistribution import REDISTRIBUTORS, redistribute, transfer

RCI = [sys.executable, "-c", "from rci.cli.main import main; main()"]
TINY = "rudder:epochs=1:hidden=4"
COMPARE = f"{TINY},uniform"


def rci(*arguments, cwd=None):
    return subprocess.run([*RCI, *map(str, arguments)], capture_output=True, text=True, cwd=cwd)


def write(folder, record):
    store.write(folder, record, Provenance({}, 0, {}))
    return folder


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Episodes with their oracle, labels, other episodes, and labels that nobody was stopped by."""
    folder = tmp_path_factory.mktemp("logged")
    episodes, oracle = collect("point", 60, "mixed", seed=1)
    labels = label(episodes, "point")
    write(folder / "episodes", episodes)
    write(folder / "episodes-oracle", oracle)
    write(folder / "labels", labels)
    write(folder / "other", collect("point", 20, "mixed", seed=2)[0])
    write(folder / "safe", Labels.for_episodes(episodes, np.full(60, -1)))
    return folder


@pytest.fixture(scope="module")
def compared(logged):
    result = rci(
        "redistribute", "episodes", "labels", "--compare", COMPARE, "--seeds", 2, "--seed", 5,
        "--workers", 1, "--out", "compared", cwd=logged,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return logged / "compared", result


def test_a_comparison_writes_its_rows_its_table_and_its_page(compared):
    folder, result = compared
    found = json.loads((folder / "comparison.json").read_text())
    assert (found["task"], found["episodes"]) == ("point", 60)
    assert found["stopped"] == int(store.read(folder.parent / "labels").stopped.sum())
    assert found["labels_hash"] == store.read(folder.parent / "labels").hash
    assert found["command"].startswith("rci redistribute episodes labels --compare")
    assert found["versions"]["rci"]
    rows = found["rows"]
    assert [(row["variant"], row["seed"]) for row in rows] == [
        (TINY, 5),
        (TINY, 6),
        ("uniform", 5),
        ("uniform", 6),
    ]
    assert rows[0]["options"] == {"epochs": 1, "hidden": 4}
    assert all(row["return_equivalent"] and row["largest_gap"] < 1e-6 and row["seconds"] > 0 for row in rows)
    assert rows[0]["epochs"] == 1
    assert rows[0]["matched_pairs_accuracy"] is not None
    assert rows[2]["epochs"] is rows[2]["quality"] is rows[2]["mean_spread"] is None
    assert rows[2]["rise_correlation"] == 0.0
    lines = result.stdout.splitlines()
    assert lines[-1] == "compared/index.html"
    assert lines[2].startswith(TINY)
    assert " yes " in lines[2]
    assert (folder / "comparison.md").read_text().count("\n") == 4
    page = (folder / "index.html").read_text()
    assert all(describe_columns()[name] in page for name in ("rise_correlation", "rise_error", "first_step"))
    assert "in the last 5 steps" in page
    assert (folder / "figures" / "episodes.png").is_file()


def test_a_second_run_computes_nothing_and_keeps_the_seconds(compared, logged, monkeypatch, capsys):
    folder = compared[0]
    costs = [path for path in (folder / "costs").rglob("*") if path.is_file()]
    before = {path: os.stat(path).st_mtime_ns for path in costs}
    rows = json.loads((folder / "comparison.json").read_text())["rows"]
    again = ("--compare", COMPARE, "--seeds", "2", "--seed", "5", "--out", "compared", "--json")
    monkeypatch.setattr(sys, "argv", ["rci", "redistribute", "episodes", "labels", *again])
    monkeypatch.chdir(logged)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    printed = capsys.readouterr()
    assert printed.err.count("unchanged") == 4
    assert {path: os.stat(path).st_mtime_ns for path in costs} == before
    assert json.loads(printed.out) == rows


MISTAKES = [
    (("--compare", "rudder,ruder"), "unknown redistributor 'ruder'. Did you mean 'rudder'?"),
    (("--compare", ""), "--compare takes redistributors separated by commas"),
    (("--compare", "rudder,,uniform"), "--compare takes redistributors separated by commas"),
    (("--compare", "uniform:epochs=3"), "unknown setting of uniform 'epochs'"),
    (("--compare", "rudder:epochs"), "a setting is written key=value"),
    (("--compare", "rudder:epochs=0"), "epochs must be at least 1"),
    (("--compare", "rudder,rudder:epochs=60"), "the same variant twice: 'rudder' and 'rudder:epochs=60'"),
    (
        ("--compare", "uniform", "--set", "epochs=3"),
        "--compare and --set cannot be given together: settings belong",
    ),
    (("--compare", "uniform", "--method", "sparse"), "--compare and --method cannot be given together"),
    (("--compare", "uniform", "--from", "labels"), "--compare and --from cannot be given together"),
    (("--compare", "uniform", "--seeds", "0"), "Invalid value for '--seeds'"),
    (("--compare", "uniform", "--seeds", "2", "--seed", "2147483647"), "the last of 2 seeds"),
    (("--compare", "uniform", "--workers", "99999"), "99999 workers were asked for"),
    (("--seeds", "3"), "--seeds is the number of seeds of a comparison"),
    (("--workers", "2"), "--workers is for --compare and for ensembles"),
    (("--from", "labels", "--method", "rudder"), "--from and --method cannot be given together"),
    (("--from", "labels"), "holds 'labels', but 'costs' is needed"),
    (("--from", "labels", "--set", "epochs=3"), "unknown setting of --from 'epochs'"),
    (("--from", "labels", "--seed", "3"), "--seed has no effect with --from"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_one_sentence(logged, arguments, message, tmp_path, capsys, monkeypatch):
    """In this process, so that it is fast; that nothing is written shows that it was found in time."""
    monkeypatch.setattr(cores, "prepare_process", lambda core=None: None)
    monkeypatch.setattr(
        sys, "argv", ["rci", "redistribute", "episodes", "labels", "--out", str(tmp_path / "x"), *arguments]
    )
    monkeypatch.chdir(logged)
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    printed = capsys.readouterr()
    assert message in " ".join(printed.err.split())
    assert printed.out == ""
    assert not (tmp_path / "x" / "costs").exists()


def compare(logged, out, compare="uniform", labels="labels", episodes="episodes"):
    paths = {"episodes": logged / episodes, "labels": logged / labels}
    return run_comparison(paths, compare, out, 1, 0, Engine(workers=1), lambda job, share, seconds: None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"episodes": "other"}, "these labels belong to another dataset"),
        ({"labels": "safe"}, "no episode was stopped"),
        ({"labels": "episodes"}, "holds 'episodes', but 'labels' is needed"),
        ({"labels": "nowhere"}, "there is nothing at"),
    ],
)
def test_bad_data_is_found_before_any_work(logged, tmp_path, arguments, message):
    with pytest.raises(RciError, match=message):
        compare(logged, tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_refused(logged, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RciError, match="needs a folder of its own"):
        compare(logged, tmp_path)


def test_variants_are_parsed_with_values_as_in_toml():
    known = parse_variants('rudder, rudder:loss=prefix:epochs=3 ,rudder:loss="prefix",uniform')
    assert [variant.text for variant in known] == [
        "rudder",
        "rudder:loss=prefix:epochs=3",
        'rudder:loss="prefix"',
        "uniform",
    ]
    assert known[1] == Variant("rudder:loss=prefix:epochs=3", "rudder", {"loss": "prefix", "epochs": 3})
    assert split_outside("a:b=[1,2],c:d='x,y',e", ",") == ["a:b=[1,2]", "c:d='x,y'", "e"]
    assert [v.text for v in parse_variants("all")] == list(REDISTRIBUTORS)
    assert [v.text for v in parse_variants("all", risk_known=False)] == [
        m for m in REDISTRIBUTORS if m != "oracle"
    ]
    with pytest.raises(RciError, match="'oracle' needs episodes whose exact risk is known"):
        parse_variants("uniform,oracle", risk_known=False)


def test_every_variant_has_a_folder_of_its_own():
    texts = [
        "rudder",
        "rudder:loss=prefix",
        'rudder:loss="prefix"',
        "rudder:a=1+b",
        "rudder:a=1:b",
        "a" * 300,
        "x/../y",
    ]
    folders = [Variant(text, "rudder", {}).folder for text in texts]
    assert len(set(folders)) == len(texts)
    assert folders[:2] == ["rudder", "rudder+loss=prefix"]
    assert all("/" not in folder and len(folder) <= 100 for folder in folders)


def test_a_job_per_variant_and_seed(tmp_path):
    jobs = plan(parse_variants("uniform,sparse"), 2, 7, {}, tmp_path)
    assert [(job.name, job.seed) for job in jobs] == [
        ("uniform-seed0", 7), ("uniform-seed1", 8), ("sparse-seed0", 7), ("sparse-seed1", 8),
    ]  # fmt: skip


def test_the_risk_of_strangers_is_not_known(point_episodes, point_labels):
    assert exact_risk(point_episodes, point_labels).shape == (int(point_labels.kept_lengths.sum()),)
    stranger = replace(point_episodes, sources=tuple(f"ppo-{i}" for i in range(len(point_episodes.sources))))
    assert exact_risk(stranger, point_labels) is None
    assert exact_risk(replace(point_episodes, task=""), point_labels) is None


def by_hand(labels, exact=True, channels=()):
    """Costs on the last step, in the first channel more than in the second."""
    kept = labels.kept_lengths
    cost = np.zeros((int(kept.sum()), labels.channel_cost.shape[1]))
    cost[np.cumsum(kept) - 1] = labels.channel_cost
    cost = cost if channels else cost[:, 0]
    info = {"epochs": 3, "quality": 0.5, "matched_pairs_accuracy": None, "ensemble": {"mean_spread": 0.25}}
    if channels:
        info = {"by_channel": {"a": {"quality": 0.5, "epochs": 2}, "b": {"quality": 0.7, "epochs": 4}}}
    if not exact:
        cost = cost + 0.5
    unit = "cost" if exact else "log-survival"
    return StepCosts(
        cost, kept, labels.cost, exact, "mine", labels.hash, info=info, channels=channels, unit=unit
    )


def test_a_row_of_costs_that_do_not_sum_up(point_episodes, point_labels):
    costs, variant = by_hand(point_labels, exact=False), Variant("mine", "mine", {})
    risk = exact_risk(point_episodes, point_labels)
    row = comparison_row(variant, 3, costs, point_labels, risk, 5, None)
    assert row["return_equivalent"] is False
    assert row["unit"] == "log-survival"
    assert row["largest_gap"] == pytest.approx(0.5 * point_labels.kept_lengths.max())
    assert row["rise_error"] is None
    assert row["seconds"] is None
    assert (row["epochs"], row["quality"], row["mean_spread"]) == (3, 0.5, 0.25)
    assert row["matched_pairs_accuracy"] is row["held_out_accuracy"] is None
    assert json.loads(json.dumps(row)) == row
    assert over_seeds(variant, [row]).return_equivalent is False


def test_a_row_of_two_channels(point_episodes, point_labels):
    stops = point_labels.stop_index
    severity = np.eye(2)[np.arange(len(stops)) % 2]
    labels = Labels.for_episodes(point_episodes, stops, severity, ("a", "b"))
    costs = by_hand(labels, channels=("a", "b"))
    row = comparison_row(Variant("mine", "mine", {}), 0, costs, labels, None, 5, 1.0)
    assert (row["quality"], row["epochs"]) == (pytest.approx(0.6), 3)
    assert row["last_moments"] == 1.0
    assert row["rise_correlation"] is None


def test_intervals_over_seeds_by_hand(point_labels):
    variant = Variant("mine", "mine", {})
    row = comparison_row(variant, 0, by_hand(point_labels), point_labels, None, 5, 1.0)
    rows = [{**row, "seconds": value} for value in (1.0, 2.0, 3.0)]
    result = over_seeds(variant, rows)
    assert result.mean("seconds") == 2.0
    assert result.half_width["seconds"] == pytest.approx(4.302653 / np.sqrt(3))  # t(0.975; 2)
    assert result.text("seconds") == "2.0 ± 2.5"
    assert result.half_width["rise_correlation"] is None
    alone = over_seeds(variant, rows[:1])
    assert alone.half_width["seconds"] is None
    assert alone.text("seconds") == "1.0"


def test_every_figure_of_the_table_has_a_meaning():
    from rci.reporting.comparison.results import FIGURES

    assert set(FIGURES) <= {*MEANINGS, *describe_columns()}


def test_labels_with_channels_and_no_oracle(tmp_path):
    episodes, _ = collect("point", 30, "mixed", seed=1)
    stops = label(episodes, "point").stop_index
    labels = Labels.for_episodes(episodes, stops, np.eye(2)[np.arange(30) % 2], ("a", "b"))
    write(tmp_path / "episodes", episodes)
    write(tmp_path / "labels", labels)
    page, rows, _ = compare(tmp_path, tmp_path / "out", "uniform,sparse")
    assert [row["last_moments"] for row in rows][1] == 1.0
    assert "distance to the nearest danger" not in page.read_text()


ONE_PROCESS = """
from rci.engines.cores import prepare_process
prepare_process()
from rci.data import store
from rci.redistribution import redistribute, transfer
episodes, labels = store.read("episodes"), store.read("labels")
whole = redistribute(episodes, labels, seed=4, epochs=1, hidden=4, members=2, pessimism=1)
print(whole.hash, transfer(whole, episodes, labels, 0.5).hash)
"""


def test_an_ensemble_in_processes_is_that_of_one_process(logged):
    settings = ("epochs=1", "hidden=4", "members=2", "pessimism=1")
    flags = [word for setting in settings for word in ("--set", setting)]
    result = rci("redistribute", "episodes", "labels", *flags, "--seed", 4, "--out", "ensemble", cwd=logged)
    assert result.returncode == 0, result.stderr
    assert "member-1" in result.stderr
    assert (logged / "ensemble-members" / "1" / "manifest.json").is_file()
    options = ("--from", "ensemble", "--set", "pessimism=0.5", "--out", "moved")
    moved = rci("redistribute", "episodes", "labels", *options, cwd=logged)
    assert moved.returncode == 0, moved.stderr
    # On one thread like every worker: with several, sums may be taken in another order.
    alone = subprocess.run([sys.executable, "-c", ONE_PROCESS], capture_output=True, text=True, cwd=logged)
    hashes = [store.read(logged / name, "costs").hash for name in ("ensemble", "moved")]
    assert hashes == alone.stdout.split(), alone.stderr


def test_what_fails_in_a_worker_is_one_sentence_and_a_log(logged, tmp_path):
    write(tmp_path / "others", collect("point", 10, seed=5)[0])
    flags = ("--set", "members=2", "--workers", 1, "--out", tmp_path / "costs")
    result = rci("redistribute", tmp_path / "others", "labels", *flags, cwd=logged)
    assert result.returncode == 2
    assert "member-0: these labels belong to another dataset" in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in (tmp_path / "costs-failed" / "member-0.log").read_text()


def test_pessimism_needs_members_that_disagree(point_episodes, point_labels):
    costs = redistribute(point_episodes, point_labels, epochs=1, hidden=4)
    with pytest.raises(RciError, match="pessimism needs models that disagree"):
        transfer(costs, point_episodes, point_labels, 1.0)
    with pytest.raises(RciError, match="pessimism must be a number"):
        transfer(costs, point_episodes, point_labels, "much")
