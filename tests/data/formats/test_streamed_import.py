import subprocess
import sys

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ragged
from foreign_files import assert_same, flat_columns, judged, sample, write_hdf5

import rci
from rci.data import store
from rci.data.errors import RciError
from rci.formats import guess_format
from rci.formats.importing import growing
from rci.formats.sources import flat


@pytest.fixture
def datasets(tmp_path):
    """The sample in every format that we write."""
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1], grade=0.3)
    return {
        "dsrl": rci.write_dsrl(tmp_path / "a.hdf5", episodes, labels, costs),
        "logs": rci.write_parquet(tmp_path / "a.parquet", episodes, labels, costs),
        "minari": rci.write_minari(tmp_path / "a-v0", episodes, labels, costs),
    }


def test_a_streamed_artefact_is_the_same_as_one_from_memory(datasets, tmp_path, monkeypatch):
    monkeypatch.setattr(flat, "chunk_rows", lambda shape, itemsize: 3)
    monkeypatch.setattr(growing, "BLOCK", 16)
    for name, path in datasets.items():
        assert guess_format(path) == name
        whole = rci.import_dataset(path)
        shares = []
        found = rci.convert_dataset(
            path, tmp_path / "streamed", progress=shares.append, cost_path=tmp_path / "cost.npy"
        )
        again = rci.load(tmp_path / "streamed")
        assert_same(again, whole.episodes)
        assert again.hash == whole.episodes.hash == found.episodes_hash
        assert np.array_equal(found.cost, whole.cost)
        assert found.stop_index.tolist() == whole.stop_index.tolist()
        assert found.labels().cost.tolist() == [0.3, 0, 0.3, 0]
        assert found.labels().hash == whole.labels().hash
        assert found.labels(0.05).cost.tolist() == [1, 0, 1, 0]
        assert found.labels(0.05).hash == whole.labels(0.05).hash
        assert found.notes == whole.notes
        assert shares == sorted(shares)
        assert shares[-1] > 0.5
        store.write(tmp_path / "other", whole.episodes)
        for file in (tmp_path / "other").glob("*.npy"):
            assert file.read_bytes() == (tmp_path / "streamed" / file.name).read_bytes()


def test_labels_fit_the_streamed_artefact(datasets, tmp_path):
    found = rci.convert_dataset(datasets["dsrl"], tmp_path / "episodes")
    found.labels().check_parent(rci.load(tmp_path / "episodes"))
    assert found.cost is None


def test_nothing_is_left_after_an_error(tmp_path):
    columns = flat_columns(ragged([4, 3, 5]))
    columns["rewards"][-1] = np.nan
    path = write_hdf5(tmp_path / "a.hdf5", columns)
    with pytest.raises(RciError, match="rewards, row 11 is not finite"):
        rci.convert_dataset(path, tmp_path / "out", cost_path=tmp_path / "cost.npy")
    with pytest.raises(RciError, match=r"to a \.npy file, not to cost\.bin"):
        rci.convert_dataset(path, tmp_path / "out", cost_path=tmp_path / "cost.bin")
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]


def test_what_stood_there_is_untouched_until_the_end(datasets, tmp_path):
    kept = store.write(tmp_path / "out", ragged([2, 2]))

    def interrupt(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rci.convert_dataset(datasets["dsrl"], kept, progress=interrupt, cost_path=tmp_path / "cost.npy")
    assert rci.load(kept).hash == ragged([2, 2]).hash
    assert not [p for p in tmp_path.iterdir() if ".tmp-" in p.name or p.name == "cost.npy"]
    rci.convert_dataset(datasets["dsrl"], kept)
    assert len(rci.load(kept)) == 4


def test_formats_are_guessed(tmp_path):
    for name, wanted in (
        ("a.h5", "dsrl"),
        ("a.npz", "omnisafe"),
        ("a.jsonl", "logs"),
        ("lab/x-v0", "minari"),
    ):
        assert guess_format(name) == wanted
    assert guess_format(tmp_path) == "logs"
    (tmp_path / "metadata.json").write_text("{}")
    assert guess_format(tmp_path) == "minari"
    (tmp_path / "a.csv").write_text("")  # the metadata of these logs
    assert guess_format(tmp_path) == "logs"
    (tmp_path / "a.bin").write_text("")
    with pytest.raises(
        RciError, match="not known by its name; say which: bags, d4rl, dsrl, lerobot, logs, minari, omnisafe"
    ):
        rci.import_dataset(tmp_path / "a.bin")
    with pytest.raises(RciError, match="unknown format 'dsrll'. Did you mean 'dsrl'"):
        rci.import_dataset(tmp_path / "a.bin", "dsrll")


MEASURED = """
import sys
import rci
small, path, out = sys.argv[1:]
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
rci.convert_dataset(small, out)  # loads every library, and lets them reserve what they like
before = peak()
rci.{call}
print(peak() - before)
"""
WIDTH, LENGTH = 500, 1000


def write_large(path, block, episodes):
    """The same 2 MB of observations for each episode, without compression."""
    rows = episodes * LENGTH
    if path.suffix == ".hdf5":
        with h5py.File(path, "w") as file:
            obs = file.create_dataset("observations", (rows, WIDTH), "f4")
            for start in range(0, rows, LENGTH):
                obs[start : start + LENGTH] = block
            file["actions"] = np.zeros((rows, 2), np.float32)
            file["rewards"] = np.zeros(rows, np.float32)
            file["timeouts"] = np.arange(rows) % LENGTH == LENGTH - 1
        return path
    if path.suffix == ".npz":
        flat = {"action": np.zeros((rows, 2)), "reward": np.zeros(rows)}
        done = np.arange(rows) % LENGTH == LENGTH - 1
        np.savez(path, obs=np.tile(block, (episodes, 1)), done=done, **flat)
        return path
    obs, zero = (
        pa.FixedSizeListArray.from_arrays(pa.array(block.reshape(-1)), WIDTH),
        pa.array(np.zeros(LENGTH)),
    )
    tables = (
        pa.table({"obs": obs, "action": zero, "reward": zero, "episode": pa.array(np.full(LENGTH, i))})
        for i in range(episodes)
    )
    first = next(tables)
    with pq.ParquetWriter(path, first.schema, compression=None, use_dictionary=False) as writer:
        for table in (first, *tables):
            writer.write_table(table)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "kind", ["hdf5", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("parquet", "npz"))]
)
def test_memory_does_not_grow_with_the_file(kind, tmp_path):
    """120 MB of observations need no more than 60 MB, which reading them at once does not keep."""
    block = np.random.default_rng(0).random((LENGTH, WIDTH), np.float32)
    small = write_large(tmp_path / f"small.{kind}", block, 1)
    large = write_large(tmp_path / f"large.{kind}", block, 60)
    assert large.stat().st_size > 115_000_000

    def measure(call):
        command = [
            sys.executable,
            "-c",
            MEASURED.format(call=call),
            str(small),
            str(large),
            str(tmp_path / "out"),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    limit = 60_000_000
    assert measure("import_dataset(path)") > limit
    assert measure("convert_dataset(path, out)") < limit
    assert np.array_equal(rci.load(tmp_path / "out", verify=False)[7].obs[:-1], block)
