"""Shards: the same rows with costs that sum up exactly, in bounded memory, whoever computes them, and never twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from shard_files import per_row, work_on, write_shard
from typer.testing import CliRunner

import rci
from rci.cli.main import app
from rci.data.errors import RciError
from rci.engines.engine import Engine
from rci.formats.tables.mapping import ColumnNames
from rci.shards import chunks as shard_chunks
from rci.shards.chunks import chunks_of, filled, joined, padded_shape
from rci.shards.listing import Survey, check_apart, draw, episode_names, find_shards, resolve_columns
from rci.shards.run import Fit, ShardTask, redistribute_shards

RCI = [sys.executable, "-c", "from rci.cli.main import main; main()"]
BRIEF = ["--set", "epochs=2", "--set", "hidden=8"]


def silent(share: float) -> None:
    pass


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, point_episodes, point_labels):
    """Three shards of different habits, and models that were fitted to other episodes."""
    place = tmp_path_factory.mktemp("fleet")
    (place / "logs").mkdir()
    parts = point_episodes, point_labels
    write_shard(place / "logs" / "a.parquet", *parts, range(25))
    write_shard(place / "logs" / "b.parquet", *parts, range(25, 45), cut=True)
    write_shard(place / "logs" / "c.parquet", *parts, range(45, 60), bare=False)
    others, _ = rci.collect("point", 40, seed=8)
    costs = rci.redistribute(others, rci.label(others, "point"), epochs=2, hidden=8)
    rci.save(costs, place / "costs")
    return place


@pytest.fixture(scope="module")
def outputs(fleet):
    """Every shard with its costs, made in this process."""
    for shard in find_shards(fleet / "logs"):
        (fleet / "made").mkdir(exist_ok=True)
        work_on(shard, fleet / "made" / shard.name, fleet / "costs").run(silent)
    return fleet / "made"


def test_all_rows_and_columns_stay_as_they_were(fleet, outputs):
    for shard in find_shards(fleet / "logs"):
        before, after = parquet.read_table(shard), parquet.read_table(outputs / shard.name)
        assert after.column_names == [*before.column_names, "cost", "cost_sparse", "stopped"]
        assert after.select(before.column_names).equals(before)
        assert parquet.read_metadata(outputs / shard.name).metadata[b"fleet"] == b"north"


def test_costs_are_those_of_import_and_transfer_in_one_piece(fleet, outputs):
    """Up to float32, in which networks compute: blocks of other shapes are added up in another order."""
    logs = rci.import_logs(fleet / "logs")
    labels = logs.labels()
    expected = rci.redistribution.transfer(rci.load(fleet / "costs"), logs.episodes, labels)
    rows = [per_row(path, "cost", "cost_sparse", "stopped", "estop") for path in find_shards(outputs)]
    cost, sparse, stopped, recorded = (np.concatenate(column) for column in zip(*rows))
    counted = ~np.isnan(cost)
    np.testing.assert_array_equal(counted, ~np.isnan(sparse))
    np.testing.assert_allclose(cost[counted], expected.cost, atol=1e-5)
    np.testing.assert_array_equal(stopped, recorded)
    ends = np.cumsum(expected.lengths)
    sums = np.add.reduceat(cost[counted], ends - expected.lengths)
    np.testing.assert_allclose(sums, labels.cost, atol=1e-9)
    np.testing.assert_array_equal(sparse[counted][ends - 1], labels.cost)
    assert np.nansum(sparse) == labels.stopped.sum()


def test_what_was_written_can_be_imported(outputs):
    """Where rows follow a stop, their empty costs are not for `import`."""
    logs = rci.import_logs(outputs, {"stop": "estop", "cost": ""})
    assert len(logs.episodes) == 60
    assert rci.import_logs(outputs / "b.parquet", {"stop": "estop"}).cost.shape == (
        int(rci.import_logs(outputs / "b.parquet", {"stop": "estop"}).episodes.lengths.sum()),
    )


@pytest.mark.parametrize("most", [(256, 1 << 15), (2, 1 << 15), (7, 300)])
def test_chunks_are_the_shard(fleet, monkeypatch, most):
    monkeypatch.setattr(shard_chunks, "MOST_EPISODES", most[0])
    monkeypatch.setattr(shard_chunks, "MOST_STEPS", most[1])
    for shard in find_shards(fleet / "logs"):
        names, _ = resolve_columns([shard], None, "")
        chunks = list(chunks_of(shard, names))
        logs = rci.import_logs(shard)
        whole = joined(chunks)
        stored = {name: getattr(logs.episodes, name) for name in rci.Episodes.stored}
        same = rci.Episodes(**stored)  # of shards, neither names nor keys are kept
        assert whole.episodes.hash == same.hash
        labels = rci.Labels.for_episodes(same, logs.stop_index, logs.severity)
        assert whole.labels(whole.episodes).hash == labels.hash
        assert whole.rows.sum() == parquet.read_metadata(shard).num_rows
        for chunk in chunks:
            count, steps = padded_shape(int(chunk.kept.max()), chunk.obs.shape[1] + chunk.action.shape[1])
            assert (len(filled(chunk).lengths), int(filled(chunk).kept.max())) == (count, steps)


def test_blocks_have_few_shapes_and_a_bounded_size():
    shapes = {padded_shape(longest, 10) for longest in range(1, 30_000)}
    assert len(shapes) < 60
    for longest in (1, 5, 100, 1023, 1024, 1025, 20_000):
        count, steps = padded_shape(longest, 10)
        assert longest <= steps <= max(longest + 1, 1.25 * longest)
        assert count * steps <= 2 * (1 << 15)
    assert padded_shape(100, 84 * 84 * 4)[0] * 100 * 84 * 84 * 4 * 4 <= shard_chunks.MOST_BYTES * 2


def test_who_computes_makes_no_difference(fleet, tmp_path):
    """One worker and two, and the models that they fit; what is done is not done again."""
    command = [*RCI, "redistribute-shards", str(fleet / "logs"), "--json", "--out"]
    fitting = ["--fit-episodes", "30", "--method", "potential", *BRIEF, "--seed", "3"]
    one, two = tmp_path / "one", tmp_path / "two"
    for words in (
        [one, *fitting, "--workers", 1],
        [two, "--from", one / "fit" / "costs", "--workers", 2],
    ):
        done = subprocess.run([*command, *map(str, words)], capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
        assert json.loads(done.stdout)["episodes"] == 60
    for shard in find_shards(fleet / "logs"):
        assert (one / "shards" / shard.name).read_bytes() == (two / "shards" / shard.name).read_bytes()
    assert len(rci.load(one / "fit" / "episodes")) == 30
    assert sorted(path.name for path in one.iterdir()) == ["fit", "run.lock", "shards", "surveys"]

    before = {path: path.stat().st_mtime_ns for path in find_shards(one / "shards")}
    again = redistribute_shards(fleet / "logs", one, Fit(30, "potential", {"epochs": 2, "hidden": 8}, 3))
    assert (again["unchanged"], again["shards"], again["steps"]) == (3, 3, json.loads(done.stdout)["steps"])
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_an_output_is_of_its_input_models_and_columns(fleet, outputs, tmp_path):
    shard, out = tmp_path / "a.parquet", tmp_path / "out.parquet"
    shard.write_bytes((fleet / "logs" / "a.parquet").read_bytes())
    work_on(shard, out, fleet / "costs").run(silent)
    assert out.read_bytes() == (outputs / "a.parquet").read_bytes()
    os.utime(shard, ns=(1, 1))  # another time, the same content
    assert work_on(shard, out, fleet / "costs").done()["episodes"] == 25
    for change in ({"content": "x"}, {"models_hash": "x"}, {"prefix": "x"}, {"pessimism": 1.0}):
        assert work_on(shard, out, fleet / "costs", **change).done() is None
    columns = tmp_path / "columns.toml"
    columns.write_text('terminated = ""\n')
    assert work_on(shard, out, fleet / "costs", columns).done() is not None  # there was none to begin with
    columns.write_text('step = ""\n')
    assert work_on(shard, out, fleet / "costs", columns).done() is None
    out.write_bytes(out.read_bytes()[:-100])
    assert work_on(shard, out, fleet / "costs").done() is None


def test_nothing_half_written_after_a_kill(fleet, outputs, tmp_path):
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from shard_files import work_on\n"
        "work = work_on(*map(Path, sys.argv[2:]))\n"
        "work.run(lambda share: os.kill(os.getpid(), signal.SIGKILL))"
    )
    out = tmp_path / "run" / "shards" / "a.parquet"
    out.parent.mkdir(parents=True)
    words = [Path(__file__).parent, fleet / "logs" / "a.parquet", out, fleet / "costs"]
    killed = subprocess.run([sys.executable, "-c", code, *map(str, words)])
    assert killed.returncode == -signal.SIGKILL
    (leftover,) = out.parent.iterdir()
    assert leftover.name.startswith(".a.parquet.tmp-")
    with pytest.raises(RciError, match=r"there is nothing at"):
        redistribute_shards(fleet / "logs", tmp_path / "run", tmp_path / "nowhere")
    assert list(out.parent.iterdir()) == []


def test_a_shard_that_cannot_be_read_does_not_stop_the_others(fleet, outputs, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for shard in find_shards(fleet / "logs"):
        (logs / shard.name).write_bytes(shard.read_bytes())
    (logs / "0.parquet").write_bytes(b"PAR1 nothing PAR1")
    whole = (logs / "b.parquet").read_bytes()
    table = parquet.read_table(logs / "b.parquet")
    flags = table["estop"].to_pylist()
    broken = table.set_column(6, "estop", pa.array([2 if flag else 0 for flag in flags]))
    parquet.write_table(broken, logs / "b.parquet")
    out = tmp_path / "out"
    one = Engine(workers=1)
    with pytest.raises(RciError) as failed:
        redistribute_shards(logs, out, fleet / "costs", engine=one)
    assert f"{logs / '0.parquet'} is damaged or no Parquet file" in str(failed.value)
    assert "b.parquet, row" in str(failed.value)
    assert [path.name for path in find_shards(out / "shards")] == ["a.parquet", "c.parquet"]
    assert (out / "shards" / "a.parquet").read_bytes() == (outputs / "a.parquet").read_bytes()
    with pytest.raises(RciError, match=r"(?s)0\.parquet is damaged.*fitted to episodes of all shards"):
        redistribute_shards(logs, out, Fit(10), engine=one)
    (logs / "0.parquet").unlink()
    (logs / "b.parquet").write_bytes(whole)
    found = redistribute_shards(logs, out, fleet / "costs", engine=one)
    assert (found["shards"], found["unchanged"]) == (3, 2)


def test_an_episode_is_in_one_shard(fleet, tmp_path, point_episodes, point_labels):
    names = ColumnNames(("obs",), ("action",), "reward", episode="run", step="t", stop="estop")
    write_shard(tmp_path / "one.parquet", point_episodes, point_labels, [0, 1, 2])
    write_shard(tmp_path / "two.parquet", point_episodes, point_labels, [3, 1])
    with pytest.raises(RciError, match=r"episode 'drive-1' is in .*one\.parquet and in .*two\.parquet"):
        redistribute_shards(tmp_path, tmp_path / "out", fleet / "costs")
    per_file = ColumnNames(("obs",), ("action",), "reward", episode="run", episodes_per_file=True)
    same = Survey(0, 0, "", 0, np.array([5, 6], np.uint64))
    check_apart({tmp_path / "one.parquet": same, tmp_path / "two.parquet": same}, per_file)
    # The same 64 bits by chance, of different names, are no reason to refuse.
    write_shard(tmp_path / "three.parquet", point_episodes, point_labels, [7])
    check_apart({tmp_path / "one.parquet": same, tmp_path / "three.parquet": same}, names)
    write_shard(tmp_path / "one.parquet", point_episodes, point_labels, [0, 1, 0])
    with pytest.raises(RciError, match=r"one\.parquet: episode 'drive-0' comes twice"):
        list(episode_names(tmp_path / "one.parquet", names))


def test_episodes_without_names_are_counted(fleet, tmp_path, point_episodes, point_labels):
    names, _ = resolve_columns([fleet / "logs" / "a.parquet"], None, "")
    assert list(episode_names(fleet / "logs" / "a.parquet", names)) == [f"drive-{i}" for i in range(25)]
    write_shard(tmp_path / "one.parquet", point_episodes, point_labels, [4, 5, 6])
    (tmp_path / "columns.toml").write_text('episode = ""\n')
    nameless, _ = resolve_columns([tmp_path / "one.parquet"], tmp_path / "columns.toml", "")
    assert list(episode_names(tmp_path / "one.parquet", nameless)) == ["0", "1", "2"]


def test_the_draw_depends_on_seed_and_names_alone():
    surveys = {
        Path("x/a.parquet"): Survey(0, 0, "", 0, np.arange(50, dtype=np.uint64)),
        Path("x/b.parquet"): Survey(0, 0, "", 0, np.arange(50, 80, dtype=np.uint64)),
    }
    turned = {Path("y") / shard.name: known for shard, known in reversed(surveys.items())}
    one, two = draw(surveys, 30, 4), draw(turned, 30, 4)
    assert [(p.name, n.tolist()) for p, n in one.items()] == [(p.name, n.tolist()) for p, n in two.items()]
    assert sum(len(numbers) for numbers in one.values()) == 30
    assert one[Path("x/a.parquet")].tolist() != draw(surveys, 30, 5)[Path("x/a.parquet")].tolist()
    assert sum(len(numbers) for numbers in draw(surveys, 1000, 0).values()) == 80
    # A smaller draw is part of a larger one.
    for shard, numbers in draw(surveys, 10, 4).items():
        assert set(numbers.tolist()) <= set(one[shard].tolist())


def test_a_severity_counts_and_must_make_sense(fleet, tmp_path, point_episodes, point_labels):
    shard, out = tmp_path / "a.parquet", tmp_path / "out.parquet"
    parts = point_episodes, point_labels, range(20)
    write_shard(shard, *parts, severity=[0.5] * 60)
    work_on(shard, out, fleet / "costs").run(silent)
    cost, sparse = per_row(out, "cost", "cost_sparse")
    stops = int(point_labels.stopped[:20].sum())
    assert np.nansum(sparse) == pytest.approx(0.5 * stops)
    assert np.nansum(cost) == pytest.approx(0.5 * stops)
    write_shard(shard, *parts, severity=[7.0] * 60)
    with pytest.raises(RciError, match=r"a stop has the severity 7.*severity = ''"):
        work_on(shard, out, fleet / "costs").run(silent)


def test_names_of_new_columns(fleet, tmp_path, point_episodes, point_labels):
    shard, out = tmp_path / "logs" / "a.parquet", tmp_path / "out.parquet"
    shard.parent.mkdir()
    write_shard(shard, point_episodes, point_labels, range(5), cost=[0.0] * 60)
    with pytest.raises(RciError, match=r"a\.parquet has a column 'cost' already.*--prefix"):
        redistribute_shards(shard.parent, tmp_path / "out", fleet / "costs")
    columns = tmp_path / "columns.toml"
    columns.write_text('cost = ""\n')
    work_on(shard, out, fleet / "costs", columns, prefix="rci_").run(silent)
    assert parquet.read_schema(out).names[-4:] == ["cost", "rci_cost", "rci_cost_sparse", "rci_stopped"]
    # Every shard is held against the names, not only the first.
    work = work_on(fleet / "logs" / "a.parquet", out, fleet / "costs")
    with pytest.raises(RciError, match=r"logs/a\.parquet has a column 'cost' already"):
        replace(work, shard=shard).run(silent)
    # A column of stops that has the name already is the flag.
    table = parquet.read_table(fleet / "logs" / "a.parquet")
    parquet.write_table(table.rename_columns([*table.column_names[:-1], "stopped"]), shard)
    work_on(shard, out, fleet / "costs").run(silent)
    assert parquet.read_schema(out).names[-3:] == ["stopped", "cost", "cost_sparse"]


def test_an_empty_shard_stays_empty(fleet, tmp_path):
    table = parquet.read_table(fleet / "logs" / "a.parquet")
    parquet.write_table(table.slice(0, 0), tmp_path / "a.parquet")
    work = work_on(tmp_path / "a.parquet", tmp_path / "out.parquet", fleet / "costs")
    work.run(silent)
    assert work.done()["episodes"] == 0
    assert parquet.read_schema(work.out).names[-3:] == ["cost", "cost_sparse", "stopped"]
    assert parquet.read_metadata(work.out).num_rows == 0


def test_a_shard_that_changes_meanwhile_is_refused(fleet, tmp_path):
    shard = tmp_path / "a.parquet"
    shard.write_bytes((fleet / "logs" / "a.parquet").read_bytes())
    work = work_on(shard, tmp_path / "out.parquet", fleet / "costs")
    with pytest.raises(RciError, match=r"a\.parquet was changed while the run went on"):
        work.run(lambda share: os.utime(shard, ns=(1, 1)))
    assert list(tmp_path.iterdir()) == [shard]
    with pytest.raises(RciError, match="other code or packages"):
        work_on(shard, tmp_path / "out.parquet", fleet / "costs", made_by="others").run(silent)


def test_a_shard_that_changes_after_it_was_looked_at_is_no_silent_loss(fleet, tmp_path, monkeypatch):
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in "ab":
        (logs / f"{name}.parquet").write_bytes((fleet / "logs" / f"{name}.parquet").read_bytes())
    land = ShardTask.land

    def disturbed(task):
        if task.name == "look/b.parquet":
            os.utime(logs / "b.parquet", ns=(1, 1))
        land(task)

    monkeypatch.setattr(ShardTask, "land", disturbed)
    with pytest.raises(RciError, match=r"^look/b\.parquet: .*b\.parquet was changed while"):
        redistribute_shards(logs, tmp_path / "out", fleet / "costs", engine=Engine(workers=1))
    assert [path.name for path in find_shards(tmp_path / "out" / "shards")] == ["a.parquet"]


def test_shards_may_be_links_to_files_of_other_names(fleet, outputs, tmp_path):
    (tmp_path / "blob").write_bytes((fleet / "logs" / "a.parquet").read_bytes())
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.parquet").symlink_to(tmp_path / "blob")
    (tmp_path / "logs" / "gone.parquet").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RciError, match=r"^look/gone\.parquet: .*No such file") as failed:
        redistribute_shards(tmp_path / "logs", tmp_path / "out", fleet / "costs", engine=Engine(workers=1))
    assert len(str(failed.value).splitlines()) == 1
    written = tmp_path / "out" / "shards" / "a.parquet"
    assert written.read_bytes() == (outputs / "a.parquet").read_bytes()


def test_a_name_cannot_talk_to_the_terminal(fleet, tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a\x1b[31m.parquet").symlink_to(fleet / "logs" / "a.parquet")
    told = set()
    redistribute_shards(
        tmp_path / "logs",
        tmp_path / "out",
        fleet / "costs",
        engine=Engine(workers=1),
        report=lambda task, share, seconds: told.add(task.name),
    )
    assert told == {"look/a\\x1b[31m.parquet", "a\\x1b[31m.parquet"}


def test_a_name_that_is_no_text_is_told(tmp_path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.parquet")).touch()
    with pytest.raises(RciError, match=r"caf\\udce9\.parquet is not text"):
        find_shards(tmp_path)


def test_mistakes_are_told_before_anything_is_read(fleet, tmp_path, point_episodes, point_labels):
    logs, out = fleet / "logs", tmp_path / "out"
    rci.save(rci.redistribute(point_episodes, point_labels, "uniform"), tmp_path / "uniform")
    rci.save(point_labels, tmp_path / "labels")
    empty = tmp_path / "empty"
    empty.mkdir()
    for shards, place, models, message in (
        (tmp_path / "no", out, fleet / "costs", "there is nothing at"),
        (logs / "a.parquet", out, fleet / "costs", "is a file; shards are"),
        (empty, out, fleet / "costs", "there are no .parquet files"),
        (logs, logs, fleet / "costs", "write to another folder"),
        (logs, out, Fit(10, "uniform"), "learns nothing"),
        (logs, out, Fit(10, "rudder", {"distil": True}), "distil cannot be set"),
        (logs, out, Fit(10, "ruder"), "rudder"),
    ):
        with pytest.raises(RciError, match=message):
            redistribute_shards(shards, place, models)
    assert not out.exists()
    for words, message in (
        ([], "--from COSTS, or --fit-episodes N"),
        (["--from", fleet / "costs", "--fit-episodes", 5], "--from COSTS, or --fit-episodes N"),
        (["--from", fleet / "costs", "--method", "rudder"], "cannot be given together"),
        (["--from", fleet / "costs", "--seed", 1], "no effect"),
        (["--from", fleet / "costs", "--set", "epochs=3"], "pessimism"),
        (["--from", fleet / "costs", "--address", "auto"], "--engine ray"),
    ):
        told = CliRunner().invoke(app, [*map(str, ["redistribute-shards", logs, "--out", out, *words])])
        assert isinstance(told.exception, RciError)
        assert message in str(told.exception)
    table = parquet.read_table(logs / "a.parquet")
    parquet.write_table(table.drop_columns(["estop"]), empty / "a.parquet")
    with pytest.raises(RciError, match="no column says where episodes were stopped"):
        redistribute_shards(empty, out, fleet / "costs")


@pytest.mark.slow
def test_memory_does_not_grow_with_the_shard(tmp_path):
    """After a shard of 60 MB, one of 120 MB takes no more, but for what the allocator keeps."""
    code = """if True:
        import resource, sys
        from pathlib import Path
        import numpy as np, pyarrow as pa
        from pyarrow import parquet
        sys.path.insert(0, sys.argv[1])
        from shard_files import work_on
        import rci

        place = Path(sys.argv[2])
        rng = np.random.default_rng(0)
        def write(path, rows):
            writer = None
            for first in range(0, rows, 10_000):
                row = first + np.arange(10_000)
                obs, action = (pa.array(rng.random(10_000 * k, np.float32)) for k in (110, 1))
                table = pa.table({
                    "episode": row // 50, "step": row % 50, "stop": (row % 50 == 49) & (row // 50 % 2 == 0),
                    "obs": pa.FixedSizeListArray.from_arrays(obs, 110),
                    "action": pa.FixedSizeListArray.from_arrays(action, 1), "reward": np.zeros(10_000),
                })
                writer = writer or parquet.ParquetWriter(path, table.schema)
                writer.write_table(table)
            writer.close()

        write(place / "few.parquet", 10_000)
        write(place / "small.parquet", 140_000)
        write(place / "large.parquet", 280_000)
        logs = rci.import_logs(place / "few.parquet")
        few = logs.episodes.take(range(20))
        labels = rci.data.types.Labels.for_episodes(few, logs.stop_index[:20])
        rci.save(rci.redistribute(few, labels, "potential", epochs=1, hidden=8), place / "costs")
        peak = []
        for name in ("small", "large"):
            work_on(place / f"{name}.parquet", place / "out.parquet", place / "costs").run(lambda share: None)
            peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        print(*peak)
    """
    words = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    small, large = map(float, done.stdout.split())
    assert large - small < 60, done.stdout


def test_mappings_that_change_rows_are_for_imports(fleet, tmp_path):
    (tmp_path / "columns.toml").write_text('missing = "forward"\n')
    with pytest.raises(RciError, match="shards are written back row by row, so missing, time, .* rci import"):
        resolve_columns(find_shards(fleet / "logs"), tmp_path / "columns.toml", "")
