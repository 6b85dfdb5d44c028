"""Imports that are interrupted: they go on from where they were, and the result is the same in every byte."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from foreign_files import flat_columns, judged, sample, write_hdf5

import rci
from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Episodes
from rci.formats.importing import stream, unfinished
from rci.formats.importing.growing import GrowingArray
from rci.formats.sources import flat
from rci.formats.tables import parquet as parquet_tables
from rci.formats.tables import text as text_tables


def contents(folder):
    """Every file of a folder, by its name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def logs(episodes, first=0):
    """Rows of a log, with an observation alone at the end of every other episode."""
    rows = []
    for number, episode in enumerate(episodes, first):
        for step in range(len(episode.reward)):
            x, y, z = episode.obs[step].tolist()
            rows.append(
                [f"run {number}", step, x, y, z, *episode.action[step].tolist(), step * 0.5, step % 2]
            )
        if number % 2:
            rows.append([f"run {number}", len(episode.reward), *episode.obs[-1].tolist(), "", "", "", ""])
    return "\n".join(",".join(map(str, row)) for row in rows) + "\n"


HEADER = "run,step,obs_0,obs_1,obs_2,action_0,action_1,reward,stopped\n"


def make(kind, folder):
    """The sample in one of the formats: the path, and options of its reader."""
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1], grade=0.3)
    columns = flat_columns(episodes)
    if kind == "dsrl":
        return rci.write_dsrl(folder / "a.hdf5", episodes, labels, costs), {}
    if kind == "borders":
        columns["terminals"][:] = columns["timeouts"][:] = False
        return write_hdf5(folder / "a.hdf5", columns), {"mismatch": "border"}
    if kind == "d4rl":
        columns["timeouts"][-1] = False
        return write_hdf5(folder / "a.hdf5", {k: columns[k] for k in columns if k != "next_observations"}), {}
    if kind == "omnisafe":
        names = {"observations": "obs", "actions": "action", "next_observations": "next_obs"}
        arrays = {names[key]: columns[key] for key in names} | {"reward": columns["rewards"]}
        done = columns["terminals"] | columns["timeouts"]
        np.savez_compressed(folder / "a.npz", **arrays, cost=columns["costs"], done=done)
        return folder / "a.npz", {}
    if kind == "parquet":
        return rci.write_parquet(folder / "a.parquet", episodes, labels, costs), {}
    if kind == "csv":
        (folder / "logs").mkdir()
        (folder / "logs" / "1.csv").write_text(HEADER + logs(episodes))
        (folder / "logs" / "2.csv").write_text(HEADER + logs(episodes, first=4))
        return folder / "logs", {"data_format": "logs"}
    if kind == "jsonl":
        names = HEADER.strip().split(",")
        rows = [dict(zip(names, line.split(","))) for line in logs(episodes).splitlines()]
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder / "a.jsonl", {}
    if kind == "lists":
        rows = [
            {"episode": i, "obs": seen.tolist(), "reward": 0}
            | ({"action": own.action[t].tolist()} if t < len(own.action) else {})
            for i, own in enumerate(episodes)
            for t, seen in enumerate(own.obs)
        ]
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder / "a.jsonl", {}
    storage = kind.removeprefix("minari-")
    return rci.write_minari(folder / "a-v0", episodes, labels, costs, data_format=storage), {}


KINDS = ["dsrl", "borders", "d4rl", "omnisafe", "parquet", "csv", "jsonl", "lists"]
KINDS += ["minari-hdf5", "minari-arrow"]


@pytest.fixture
def small_pieces(monkeypatch):
    """Two rows at a time, and a journal after each piece."""
    monkeypatch.setattr(flat, "chunk_rows", lambda shape, itemsize: 2)
    monkeypatch.setattr(text_tables, "BLOCK_ROWS", 2)
    monkeypatch.setattr(parquet_tables, "_batch_rows", lambda metadata: 2)
    monkeypatch.setattr(unfinished, "COMMIT_BYTES", 1)


def interrupt(share):
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_that_is_interrupted_after_every_piece(kind, tmp_path, small_pieces):
    path, options = make(kind, tmp_path)
    has_costs = kind not in ("csv", "jsonl", "lists")
    whole = rci.convert_dataset(
        path, tmp_path / "whole", cost_path=tmp_path / "whole.npy" if has_costs else None, **options
    )
    told = []
    for _ in range(100):
        try:
            found = rci.convert_dataset(
                path,
                tmp_path / "out",
                progress=interrupt,
                cost_path=tmp_path / "out.npy" if has_costs else None,
                continuing=told.append,
                **options,
            )
            break
        except KeyboardInterrupt:
            assert (tmp_path / ".out.import").is_dir()
            assert not (tmp_path / "out").exists()
    assert len(told) >= 4
    assert told == sorted(told)
    assert found.continued_from == told[-1] == found.lengths.sum()
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    assert rci.load(tmp_path / "out").hash == found.episodes_hash == whole.episodes_hash
    assert found.notes == whole.notes
    for name in ("lengths", "stop_index", "cost", "severity"):
        one, two = getattr(found, name), getattr(whole, name)
        assert (one is None) == (two is None)
        assert one is None or np.array_equal(one, two)
    assert not [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_what_was_written_is_not_read_again(tmp_path, small_pieces, monkeypatch):
    """Rows of an HDF5 file."""
    path, _ = make("dsrl", tmp_path)
    with pytest.raises(KeyboardInterrupt):
        rci.convert_dataset(path, tmp_path / "out", progress=lambda share: share < 0.5 or interrupt(share))
    journal = json.loads((tmp_path / ".out.import" / "journal.json").read_text())
    rows = []
    column = flat.Flat.column
    monkeypatch.setattr(
        flat.Flat, "column", lambda self, name, part: rows.append(part.start) or column(self, name, part)
    )
    rci.convert_dataset(path, tmp_path / "out")
    assert min(rows) == journal["state"]["row"] == journal["rows"]["reward"] > 4


def interrupted(path, out, at=0.5):
    """Begin an import, and break it off at this share of its steps; its work folder."""
    with pytest.raises(KeyboardInterrupt):
        rci.convert_dataset(path, out, progress=lambda share: share < at or interrupt(share))
    return out.parent / f".{out.name}.import"


def test_a_source_that_has_changed_is_read_anew(tmp_path, small_pieces):
    episodes = sample()
    path = write_hdf5(tmp_path / "a.hdf5", flat_columns(episodes))
    interrupted(path, tmp_path / "out")
    other = Episodes(**{**episodes.arrays(), "reward": episodes.reward + 1})
    write_hdf5(path, flat_columns(other))
    told = []
    rci.convert_dataset(path, tmp_path / "out", continuing=told.append)
    assert told == []
    assert np.array_equal(rci.load(tmp_path / "out").reward, other.reward)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.hdf5", "out"]


def test_another_mapping_begins_anew(tmp_path, small_pieces):
    (tmp_path / "a.csv").write_text(HEADER + logs(sample()))
    interrupted(tmp_path / "a.csv", tmp_path / "out")
    told = []
    mapping = {"obs": ["obs_1", "obs_0"], "action": ["action_0"]}
    rci.convert_dataset(tmp_path / "a.csv", tmp_path / "out", mapping=mapping, continuing=told.append)
    assert told == []
    assert np.array_equal(
        rci.load(tmp_path / "out").obs, rci.import_logs(tmp_path / "a.csv", mapping).episodes.obs
    )


@pytest.mark.parametrize("damage", ["torn", "empty", "other", "no list", "short array", "no array", "more"])
def test_a_damaged_journal_costs_time_and_nothing_else(damage, tmp_path, small_pieces):
    path, _ = make("dsrl", tmp_path)
    rci.convert_dataset(path, tmp_path / "whole")
    work = interrupted(path, tmp_path / "out")
    journal, array = work / "journal.json", work / "episodes" / "obs.npy"
    if damage in ("torn", "empty"):
        journal.write_text(journal.read_text()[: 40 if damage == "torn" else 0])
    elif damage == "other":
        journal.write_text("[1, 2]")
    elif damage == "no list":
        told = json.loads(journal.read_text())
        journal.write_text(json.dumps({**told, "rows": 5}))
    elif damage == "short array":
        array.write_bytes(array.read_bytes()[:-1])
    elif damage == "no array":
        array.unlink()
    else:  # rows behind those that the journal tells of, as a killed process leaves them
        array.write_bytes(array.read_bytes() + b"half a row")
    told = []
    rci.convert_dataset(path, tmp_path / "out", continuing=told.append)
    assert len(told) == (damage == "more")
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_wrong_data_leave_nothing_even_after_an_interruption(tmp_path, small_pieces):
    columns = flat_columns(sample())
    columns["rewards"][-1] = np.nan
    path = write_hdf5(tmp_path / "a.hdf5", columns)
    interrupted(path, tmp_path / "out")
    with pytest.raises(RciError, match="rewards, row 12 is not finite"):
        rci.convert_dataset(path, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]


def test_a_disk_that_was_away_for_a_moment_costs_nothing(tmp_path, small_pieces, monkeypatch):
    path, _ = make("dsrl", tmp_path)
    rci.convert_dataset(path, tmp_path / "whole")

    def away(*arguments):
        pieces = stream_checked(*arguments)
        yield next(pieces)
        try:
            raise OSError(errno.EIO, "Input/output error")
        except OSError as error:
            raise RciError(f"{path} is damaged or no HDF5 file: {error}.") from None

    stream_checked = stream.checked
    with monkeypatch.context() as patch:
        patch.setattr(stream, "checked", away)
        with pytest.raises(RciError, match="Input/output error"):
            rci.convert_dataset(path, tmp_path / "out")
    told = []
    rci.convert_dataset(path, tmp_path / "out", continuing=told.append)
    assert len(told) == 1
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_the_same_episode_twice_is_seen_across_an_interruption(tmp_path, small_pieces):
    (tmp_path / "a.csv").write_text(HEADER + logs(sample()) + logs(sample()))
    interrupted(tmp_path / "a.csv", tmp_path / "out", at=0.3)
    with pytest.raises(RciError, match="'run 0' was there before"):
        rci.convert_dataset(tmp_path / "a.csv", tmp_path / "out")


def test_a_full_disk(tmp_path, small_pieces, monkeypatch):
    path, _ = make("dsrl", tmp_path)
    rci.convert_dataset(path, tmp_path / "whole")
    append = GrowingArray.append

    def full(self, rows):
        if self.rows >= 6:
            self.file.write(b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return append(self, rows)

    kept = store.write(tmp_path / "out", sample())
    with monkeypatch.context() as patch:
        patch.setattr(GrowingArray, "append", full)
        with pytest.raises(
            RciError, match=r"No space left on device\. What has been read is kept .*goes on from there"
        ):
            rci.convert_dataset(path, kept)
    assert rci.load(kept).hash == sample().hash
    told = []
    rci.convert_dataset(path, kept, continuing=told.append)
    assert told == [4]
    assert contents(kept) == contents(tmp_path / "whole")


def test_two_imports_at_a_time(tmp_path, small_pieces):
    path, _ = make("dsrl", tmp_path)

    def second(share):
        with pytest.raises(RciError, match=r"another import is writing .*out; wait for it"):
            rci.convert_dataset(path, tmp_path / "out")

    rci.convert_dataset(path, tmp_path / "out", progress=second)
    assert len(rci.load(tmp_path / "out")) == 4


def test_a_source_that_changes_while_it_is_read(tmp_path, small_pieces):
    path, _ = make("dsrl", tmp_path)
    with pytest.raises(RciError, match=r"a\.hdf5 was changed while it was read; import it again"):
        rci.convert_dataset(path, tmp_path / "out", progress=lambda share: os.utime(path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.hdf5", "a.json"]


COMMAND = """
from rci.formats.sources import flat
from rci.formats.importing import unfinished
flat.chunk_rows = lambda shape, itemsize: 500
unfinished.COMMIT_BYTES = 1
from rci.cli.main import main
main()
"""


@pytest.mark.slow
def test_kill_9(tmp_path):
    """A real command, killed again and again while it writes, and at last left alone."""
    rng = np.random.default_rng(0)
    rows = 20_000
    columns = {
        "observations": rng.normal(size=(rows, 3)).astype(np.float32),
        "actions": rng.normal(size=(rows, 2)).astype(np.float32),
        "rewards": rng.normal(size=rows),
        "costs": rng.random(rows),
        "timeouts": np.arange(rows) % 70 == 69,
    }
    path = write_hdf5(tmp_path / "a.hdf5", columns)
    journal = tmp_path / "killed" / ".out.import" / "journal.json"

    def command(out):
        words = [sys.executable, "-c", COMMAND, "import", path, "--cost-above", "0.99", "--out", out]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def written():
        return json.loads(journal.read_text())["rows"]["reward"] if journal.exists() else 0

    before = 0
    for wanted in (1, 3000, 6000):
        process = command(tmp_path / "killed" / "out")
        while written() < before + wanted:
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert (f"continuing from {before} steps" in errors) == (before > 0)
        before = written()
    assert not (tmp_path / "killed" / "out").exists()
    _, errors = command(tmp_path / "killed" / "out").communicate()
    assert f"continuing from {before} steps" in errors
    _, errors = command(tmp_path / "whole" / "out").communicate()
    assert "continuing" not in errors
    assert sorted(p.name for p in (tmp_path / "killed").iterdir()) == ["out", "out-labels"]
    for name in ("out", "out-labels"):
        assert contents(tmp_path / "killed" / name) == contents(tmp_path / "whole" / name)
