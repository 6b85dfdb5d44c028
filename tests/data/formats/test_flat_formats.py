import contextlib
import resource
from dataclasses import replace

import h5py
import numpy as np
import pytest
from conftest import ragged
from foreign_files import assert_same, cut, flat_columns, judged, sample, write_hdf5

import rci
from rci.data.errors import RciError
from rci.data.types import Episodes
from rci.formats.importing import imported
from rci.formats.sources import flat


@pytest.fixture
def whole():
    """Episodes with a flag at every end."""
    arrays = ragged([4, 3, 5]).arrays()
    arrays["truncated"] = ~arrays["terminated"]
    return Episodes(**arrays)


def test_dsrl_files_are_read_bit_for_bit(whole, tmp_path):
    columns = flat_columns(whole)
    found = rci.import_dsrl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert_same(found.episodes, whole)
    assert np.array_equal(found.cost, columns["costs"])
    assert found.stop_index is None
    assert found.notes == ()
    assert_same(rci.read_dsrl(tmp_path / "a.hdf5"), whole)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12])
def test_chunks_do_not_matter(whole, tmp_path, monkeypatch, size):
    columns = flat_columns(whole)
    columns["stopped"] = np.arange(12) % 4 == 1  # steps 1; 1; 2 of the episodes
    monkeypatch.setattr(flat, "chunk_rows", lambda shape, itemsize: size)
    found = rci.import_dsrl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert_same(found.episodes, whole)
    assert found.stop_index.tolist() == [1, 1, 2]
    assert found.labels().stop_index.tolist() == [1, 1, 2]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64, bool, np.int64])
def test_flags_come_in_many_types_and_columns_in_two_shapes(whole, tmp_path, dtype):
    columns = flat_columns(whole)
    for name in ("terminals", "timeouts", "rewards", "costs"):
        columns[name] = columns[name][:, None]
    for name in ("terminals", "timeouts"):
        columns[name] = columns[name].astype(dtype)
    assert_same(rci.read_dsrl(write_hdf5(tmp_path / "a.hdf5", columns)), whole)


def test_other_types_and_byte_orders(whole, tmp_path):
    columns = flat_columns(whole)
    for name in ("observations", "next_observations"):
        columns[name] = columns[name].astype(">f8")
    found = rci.read_dsrl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert found.obs.dtype == np.dtype("=f8")
    assert np.array_equal(found.obs, whole.obs)


def test_a_tail_without_a_flag_is_kept_and_told(whole, tmp_path):
    columns = flat_columns(whole)
    columns["terminals"][-1] = columns["timeouts"][-1] = False
    found = rci.import_dsrl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert found.episodes.lengths.tolist() == [4, 3, 5]
    assert (found.episodes.terminated[-1], found.episodes.truncated[-1]) == (False, False)
    assert "broke off" in found.notes[0]


def test_without_next_observations_the_last_one_is_repeated(whole, tmp_path):
    columns = flat_columns(whole)
    del columns["next_observations"], columns["costs"]
    found = rci.import_d4rl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert found.cost is None
    assert "3 of 3 episodes" in found.notes[0]
    for episode, truth in zip(found.episodes, whole):
        assert np.array_equal(episode.obs[:-1], truth.obs[:-1])
        assert np.array_equal(episode.obs[-1], truth.obs[-2])
        assert np.array_equal(episode.reward, truth.reward)
    assert_same(rci.read_d4rl(tmp_path / "a.hdf5"), found.episodes)


def test_a_break_in_the_observations_is_an_error_or_a_border(whole, tmp_path):
    columns = flat_columns(whole)
    columns["next_observations"][1] += 1
    path = write_hdf5(tmp_path / "a.hdf5", columns)
    with pytest.raises(RciError, match="of row 1 is not observations of row 2"):
        rci.read_dsrl(path)
    found = rci.import_dsrl(path, mismatch="border")
    assert found.episodes.lengths.tolist() == [2, 2, 3, 5]
    assert not found.episodes.terminated[0]
    assert not found.episodes.truncated[0]
    assert "after rows 1:" in found.notes[0]
    with pytest.raises(RciError, match="'error' or 'border'"):
        rci.read_dsrl(path, mismatch="ignore")


def test_a_stop_that_sets_terminals_is_not_the_environment(whole, tmp_path):
    columns = flat_columns(whole)
    columns["stopped"] = np.zeros(12)
    columns["stopped"][3] = 1
    columns["terminals"][3], columns["timeouts"][3] = True, False
    found = rci.import_dsrl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert found.stop_index.tolist() == [3, -1, -1]
    assert not found.episodes.terminated[0]
    assert "the stop ended them" in found.notes[0]


def test_stops_from_recorded_costs(whole, tmp_path):
    found = rci.import_dsrl(write_hdf5(tmp_path / "a.hdf5", flat_columns(whole)))
    assert found.labels() is None
    assert found.labels(cost_above=0.5).stop_index.tolist() == [-1, 2, 0]  # costs are i / 11
    with pytest.raises(RciError, match="cost_above must be a finite number, got nan"):
        found.labels(cost_above=float("nan"))
    with pytest.raises(RciError, match="no costs"):
        imported.Imported(found.episodes, None, None, ()).labels(cost_above=0.5)


def test_whole_numbers_as_actions_become_one_hot(whole, tmp_path):
    columns = flat_columns(whole)
    columns["actions"] = np.arange(12) % 3
    found = rci.import_dsrl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert np.array_equal(found.episodes.action, np.eye(3, dtype=np.float32)[np.arange(12) % 3])
    assert "a choice of 3" in found.notes[0]


def test_omnisafe(whole, tmp_path):
    columns = flat_columns(whole)
    names = {"observations": "obs", "actions": "action", "next_observations": "next_obs"}
    arrays = {names[key]: columns[key] for key in names}
    arrays |= {"reward": columns["rewards"][:, None], "cost": columns["costs"][:, None]}
    arrays["done"] = (columns["terminals"] | columns["timeouts"]).astype(np.float32)[:, None]
    arrays["done"][3] = 0  # as where the collector goes on with another agent
    np.savez(tmp_path / "a.npz", **arrays)
    found = rci.import_omnisafe(tmp_path / "a.npz")
    assert np.array_equal(found.episodes.obs, whole.obs)
    assert found.episodes.terminated.tolist() == [False, True, True]
    assert not found.episodes.truncated.any()
    assert np.array_equal(found.cost, columns["costs"])
    assert any("after rows 3" in note for note in found.notes)
    assert any("taken as terminated" in note for note in found.notes)
    other = rci.read_omnisafe(tmp_path / "a.npz", done="truncated")
    assert other.truncated.tolist() == [False, True, True]
    assert not other.terminated.any()


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("shape", [(3,), (2, 4), (2, 3, 2)])
def test_dsrl_files_come_back_bit_for_bit(dtype, shape, tmp_path):
    episodes = sample(dtype, shape)
    labels, costs = judged(episodes, [2, -1, 3, -1])
    rci.write_dsrl(tmp_path / "a.hdf5", episodes, labels, costs)
    found = rci.import_dsrl(tmp_path / "a.hdf5")
    assert_same(found.episodes, cut(episodes, labels))
    assert found.stop_index.tolist() == [2, -1, 3, -1]
    assert np.array_equal(found.cost, costs.cost)
    assert found.notes == ()


@pytest.mark.parametrize("dtype", [np.int64, np.uint8])
def test_amounts_that_are_whole_numbers_come_back_as_amounts(dtype, tmp_path):
    episodes = sample()
    episodes = replace(episodes, action=np.arange(13, dtype=dtype)[:, None] % 3)
    labels, costs = judged(episodes, [2, -1, 3, -1])
    found = rci.import_dsrl(rci.write_dsrl(tmp_path / "a.hdf5", episodes, labels, costs))
    assert_same(found.episodes, cut(episodes, labels))


def test_numbers_that_float32_cannot_hold(tmp_path):
    episodes = sample(np.float64)
    obs = np.array(episodes.obs)
    obs[1, 0] = -1e300
    episodes = replace(episodes, obs=obs)
    labels, costs = judged(episodes, [2, -1, 3, -1])
    with pytest.raises(RciError, match="observations of step 1 .*write Parquet or Minari"):
        rci.write_dsrl(tmp_path / "a.hdf5", episodes, labels, costs)
    assert not list(tmp_path.iterdir())


def test_what_others_find_in_a_dsrl_file(tmp_path):
    episodes = sample(np.float64, (2, 2))
    labels, costs = judged(episodes, [2, -1, 3, -1])
    unsafe = np.arange(13) % 2 == 0
    path = rci.write_dsrl(tmp_path / "a.hdf5", episodes, labels, costs, true_cost=unsafe)
    with h5py.File(path) as file:
        columns = {key: file[key][()] for key in file}
    rows = 3 + 1 + 4 + 3
    assert all(len(column) == rows for column in columns.values())
    assert columns["observations"].shape == (rows, 4)
    for key in ("observations", "next_observations", "actions", "rewards", "costs"):
        assert columns[key].dtype == np.float32
    assert columns["terminals"].dtype == columns["timeouts"].dtype == columns["stopped"].dtype == bool
    last = np.array([2, 3, 7, 10])
    assert np.flatnonzero(columns["terminals"] | columns["timeouts"]).tolist() == last.tolist()
    assert columns["terminals"][last].tolist() == [True, False, True, False]  # stop, time, stop, broke off
    assert columns["stopped"][last].tolist() == [True, False, True, False]
    assert columns["costs_sparse"].tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
    assert columns["costs_true"].tolist() == unsafe[[0, 1, 2, 5, 6, 7, 8, 9, 10, 11, 12]].tolist()
    assert columns["episode_id"].tolist() == [0, 0, 0, 1, 2, 2, 2, 2, 3, 3, 3]
    assert '"method": "uniform"' in path.with_suffix(".json").read_text()


def test_channels_are_added_up_and_kept(tmp_path):
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1], ("near", "off"))
    path = rci.write_dsrl(tmp_path / "a.hdf5", episodes, labels, costs)
    with h5py.File(path) as file:
        assert np.array_equal(file["costs_by_channel"][()], costs.cost)
    found = rci.import_dsrl(path)
    assert np.array_equal(found.cost, costs.total)
    assert found.labels().cost.tolist() == [1, 0, 1, 0]  # 0.75 in both channels is more than 1
    assert "every stop counts as 1" in found.notes[0]


def test_nothing_is_overwritten_or_left_behind(tmp_path):
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1])
    path = tmp_path / "a.hdf5"
    rci.write_dsrl(path, episodes, labels, costs)
    before = path.read_bytes()
    with pytest.raises(RciError, match="exists; choose another name"):
        rci.write_dsrl(path, episodes, labels, costs)
    assert path.read_bytes() == before
    rci.write_dsrl(path, episodes, labels, costs, overwrite=True)
    with pytest.raises(RciError, match=r"a\.json cannot end in \.json"):
        rci.write_dsrl(tmp_path / "a.json", episodes, labels, costs, overwrite=True)
    with pytest.raises(RciError, match="belong to other labels"):
        rci.write_dsrl(tmp_path / "b.hdf5", episodes, judged(episodes, [1, -1, 3, -1])[0], costs)
    with pytest.raises(RciError, match="one number for each of 13"):
        rci.write_dsrl(tmp_path / "b.hdf5", episodes, labels, costs, true_cost=[1.0])
    with pytest.raises(RciError, match="labels must be of type Labels"):
        rci.write_dsrl(tmp_path / "b.hdf5", episodes, costs, labels)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.hdf5", "a.json"]


@pytest.mark.parametrize("write", [rci.write_dsrl, rci.write_parquet])
def test_a_full_disk_leaves_nothing(write, tmp_path):
    episodes = sample(np.float64, (40, 40))
    labels, costs = judged(episodes, [2, -1, 3, -1])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, before[1]))
    try:
        with pytest.raises(RciError, match=r"cannot write .*a\.data: .*File too large"):
            write(tmp_path / "a.data", episodes, labels, costs)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [rci.write_dsrl, rci.write_parquet])
def test_a_json_file_of_somebody_else_is_kept(write, tmp_path):
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1])
    (tmp_path / "a.json").write_text("precious")
    with pytest.raises(RciError, match=r"a\.json exists and would be replaced"):
        write(tmp_path / "a.data", episodes, labels, costs)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a.json", "precious")]
    write(tmp_path / "a.data", episodes, labels, costs, overwrite=True)
    assert "precious" not in (tmp_path / "a.json").read_text()
    write(tmp_path / "a.again", episodes, labels, costs)  # the same data, so the same words


# --- files that are wrong -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": None}, r"no 'observations'; the keys in it are: actions, costs"),
        ({"terminals": None, "timeouts": None}, "does not say where episodes end: it has no 'terminals' or 'timeouts'"),
        ({"rewards": np.zeros(5)}, r"rewards must have 12 rows as observations has, got shape \(5,\)"),
        ({"rewards": np.zeros((12, 2))}, r"rewards must have one number per row, got shape \(12, 2\)"),
        ({"next_observations": np.zeros((12, 4))}, r"next_observations must have the shape of observations"),
        ({"observations": np.zeros((0, 3))}, "observations is empty"),
        ({"actions": np.zeros((12, 0))}, "actions is empty"),
        ({"actions": np.full(12, b"left")}, r"actions must be numbers, got \|S4"),
        ({"actions": np.zeros((12, 2), complex)}, "actions must be numbers, got complex128"),
        ({"terminals": np.full(12, 0.5)}, "terminals, row 0 must be a flag, 0 or 1, got 0.5"),
        ({"rewards": np.where(np.arange(12) == 7, np.nan, 0)}, "rewards, row 7 is not finite: nan"),
        ({"actions": np.where(np.arange(24).reshape(12, 2) == 9, np.inf, 0)},
         r"actions, row 4 is not finite: \[0.0, inf\]"),
        ({"stopped": np.zeros(3)}, "stopped must have 12 rows"),
        ({"rewards": 3.0}, r"rewards must have 12 rows as observations has, got shape \(\)"),
    ],
)  # fmt: skip
def test_wrong_columns_are_named(whole, tmp_path, change, message):
    columns = {key: value for key, value in {**flat_columns(whole), **change}.items() if value is not None}
    with pytest.raises(RciError, match=message) as caught:
        rci.read_dsrl(write_hdf5(tmp_path / "a.hdf5", columns))
    assert "a.hdf5" in str(caught.value)


def test_arrays_in_groups(tmp_path):
    with pytest.raises(
        RciError, match=r"a\.hdf5 has only groups at its root, data, mask; DSRL and D4RL files"
    ):
        rci.import_dsrl(
            write_hdf5(tmp_path / "a.hdf5", {"data/demo_0/actions": np.ones(3), "mask/x": np.ones(3)})
        )


def test_names_that_are_damaged(tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", flat_columns())
    content = path.read_bytes()
    names = content.index(b"SNOD")  # of the root
    for place in range(names, names + 24):
        path.write_bytes(content[:place] + b"\0\0\0\0\0" + content[place:])
        with contextlib.suppress(RciError):
            rci.import_dsrl(path)


def test_files_that_are_no_hdf5(tmp_path):
    with pytest.raises(RciError, match="there is no file"):
        rci.read_dsrl(tmp_path / "none.hdf5")
    (tmp_path / "a.hdf5").write_bytes(b"hello")
    with pytest.raises(RciError, match=r"a\.hdf5 is damaged or no HDF5 file"):
        rci.read_dsrl(tmp_path / "a.hdf5")
    with h5py.File(tmp_path / "main_data.hdf5", "w") as file:
        file["episode_0/rewards"] = np.zeros(3)
    with pytest.raises(RciError, match="it is the file of a Minari dataset: read the folder"):
        rci.read_dsrl(tmp_path / "main_data.hdf5")
    (tmp_path / "a.npz").write_bytes(b"hello")
    with pytest.raises(RciError, match=r"a\.npz cannot be read as an \.npz file"):
        rci.read_omnisafe(tmp_path / "a.npz")
    with pytest.raises(RciError, match="'terminated' or 'truncated'"):
        rci.read_omnisafe(tmp_path / "a.npz", done="maybe")


def test_a_pickle_is_never_opened(tmp_path):
    np.savez(tmp_path / "a.npz", obs=np.array([{"a": 1}], dtype=object))
    with pytest.raises(RciError, match=r"cannot be read as an \.npz file: Object arrays"):
        rci.read_omnisafe(tmp_path / "a.npz")


def test_data_in_another_file_is_not_fetched(whole, tmp_path):
    columns = flat_columns(whole)
    rewards = columns.pop("rewards")
    write_hdf5(tmp_path / "other.hdf5", {"rewards": rewards})
    with h5py.File(write_hdf5(tmp_path / "a.hdf5", columns), "a") as file:
        file["rewards"] = h5py.ExternalLink("other.hdf5", "/rewards")
    with pytest.raises(RciError, match="rewards is a link to something else"):
        rci.read_dsrl(tmp_path / "a.hdf5")


def test_a_header_that_claims_too_much_is_refused(whole, tmp_path):
    columns = flat_columns(whole)
    columns.pop("rewards")
    with h5py.File(write_hdf5(tmp_path / "a.hdf5", columns), "a") as file:
        file.create_dataset("rewards", shape=(10**15,), dtype="f4", chunks=(1024,))
    with pytest.raises(RciError, match="claims to have shape"):
        rci.read_dsrl(tmp_path / "a.hdf5")


def test_a_missing_package_is_named(monkeypatch, whole, tmp_path):
    path = write_hdf5(tmp_path / "a.hdf5", flat_columns(whole))
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(RciError, match=r"needs the package h5py: pip install 'rci\[formats\]'"):
        rci.read_dsrl(path)
