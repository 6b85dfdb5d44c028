"""Datasets that somebody made to do harm. The canary is a file that a payload would write; it must never appear."""

import io
import json
import os
import pickle
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from foreign_files import flat_columns, write_hdf5

import rci
from rci.data.errors import RciError

BOX = '{"type": "Box", "dtype": "float32", "shape": [3], "low": [-1, -1, -1], "high": [1, 1, 1]}'


class Payload:
    """Writes the canary when it is unpickled."""

    def __init__(self, canary):
        self.canary = str(canary)

    def __reduce__(self):
        return open, (self.canary, "w")


@pytest.fixture
def canary(tmp_path):
    path = tmp_path / "canary"
    pickle.loads(pickle.dumps(Payload(path))).close()
    assert path.exists()  # the payload works
    path.unlink()
    yield path
    assert not path.exists()


def metadata(**more):
    spaces = {"observation_space": BOX, "action_space": BOX}
    return {"total_episodes": 1, "total_steps": 2, "data_format": "hdf5", **spaces, **more}


@pytest.fixture
def dataset(tmp_path):
    """A Minari dataset of one episode in HDF5."""
    folder = tmp_path / "minari"
    folder.mkdir()
    (folder / "metadata.json").write_text(json.dumps(metadata()))
    with h5py.File(folder / "main_data.hdf5", "w") as file:
        group = file.create_group("episode_0")
        group["observations"] = np.zeros((3, 3), np.float32)
        group["actions"] = np.zeros((2, 3), np.float32)
        group["rewards"] = np.zeros(2, np.float32)
        group["terminations"] = np.array([False, True])
        group["truncations"] = np.array([False, False])
    return folder


def test_an_honest_dataset_is_read_and_its_environment_is_not_made(dataset, canary):
    spec = {"id": "Evil-v0", "entry_point": "os:system", "kwargs": {"command": f"touch {canary}"}}
    (dataset / "metadata.json").write_text(
        json.dumps(metadata(env_spec=json.dumps(spec), eval_env_spec=json.dumps(spec)))
    )
    assert len(rci.read_minari(dataset)) == 1


@pytest.mark.parametrize("target", ["group", "dataset", "inside", "soft", "root"])
def test_links_in_a_minari_file_are_not_followed(dataset, tmp_path, target):
    secret = tmp_path / "secret.hdf5"
    (dataset / "main_data.hdf5").rename(secret)
    with h5py.File(secret, "a") as file:
        file["observations"] = file["episode_0/observations"][()]
    with h5py.File(dataset / "main_data.hdf5", "w") as file, h5py.File(secret) as other:
        if target == "group":
            file["episode_0"] = h5py.ExternalLink(str(secret), "/episode_0")
        else:
            other.copy("episode_0", file)
            group = file["episode_0"]
            del group["observations"]
            if target == "dataset":
                group["observations"] = h5py.ExternalLink(str(secret), "/observations")
            elif target == "soft":
                group["observations"] = h5py.SoftLink("/episode_0/elsewhere/observations")
                group["elsewhere"] = h5py.ExternalLink(str(secret), "/")
            else:
                group["observations"] = h5py.ExternalLink(str(secret), "/")
                space = {
                    "type": "Dict",
                    "subspaces": {
                        "observations" if target == "inside" else "episode_0/observations": json.loads(BOX)
                    },
                }
                (dataset / "metadata.json").write_text(
                    json.dumps(metadata(observation_space=json.dumps(space)))
                )
    with pytest.raises(RciError, match="is a link to something else"):
        rci.read_minari(dataset)


@pytest.mark.parametrize("kind", ["external", "virtual"])
def test_numbers_in_other_files_are_not_fetched(dataset, tmp_path, kind):
    secret = tmp_path / "secret.raw"
    secret.write_bytes(np.ones(2, np.float32).tobytes())
    for path, group_name, key in (
        (dataset / "main_data.hdf5", "episode_0", "rewards"),
        (write_hdf5(tmp_path / "a.hdf5", flat_columns()), "/", "rewards"),
    ):
        with h5py.File(path, "a") as file:
            group = file[group_name]
            rows = len(group[key])
            del group[key]
            if kind == "external":
                group.create_dataset(key, (rows,), "f4", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])
            else:
                layout = h5py.VirtualLayout((rows,), "f4")
                layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "x", (rows,))
                group.create_virtual_dataset(key, layout)
    with pytest.raises(RciError, match="has no data in this file"):
        rci.read_minari(dataset)
    with pytest.raises(RciError, match="has no data in this file"):
        rci.read_dsrl(tmp_path / "a.hdf5")


def test_texts_and_objects_are_refused_before_they_are_read(dataset):
    with h5py.File(dataset / "main_data.hdf5", "a") as file:
        del file["episode_0/rewards"]
        file["episode_0"].create_dataset("rewards", data=["a" * 100] * 2, dtype=h5py.string_dtype())
    with pytest.raises(RciError, match="rewards must be numbers, got object"):
        rci.read_minari(dataset)


def test_minari_files_that_lead_elsewhere(dataset, tmp_path):
    for name in ("main_data.hdf5", "metadata.json"):
        os.rename(dataset / name, tmp_path / name)
        (dataset / name).symlink_to(tmp_path / name)
        with pytest.raises(RciError, match=f"{name} is a link that leads out of"):
            rci.read_minari(dataset)
        (dataset / name).unlink()
        os.rename(tmp_path / name, dataset / name)
    assert len(rci.read_minari(dataset)) == 1


@pytest.mark.parametrize("shape", [[-1, -3], [-3]])
def test_a_space_has_no_negative_sizes(dataset, shape):
    space = BOX.replace("[3]", json.dumps(shape))
    (dataset / "metadata.json").write_text(json.dumps(metadata(observation_space=space)))
    with pytest.raises(RciError, match="cannot have the shape"):
        rci.read_minari(dataset)


def parquet_table(metadata=None, shape=None):
    told = {**(metadata or {}), **({} if shape is None else {b"shape": shape})}
    obs = pa.array(np.zeros((3, 2)).tolist(), pa.list_(pa.float32(), 2))
    fields = [
        pa.field("obs", obs.type, metadata=told),
        pa.field("action", pa.float32()),
        pa.field("reward", pa.float32()),
    ]
    return pa.table(
        [obs, pa.array([0.0, 1.0, 0.0], pa.float32()), pa.array([0.0] * 3, pa.float32())], pa.schema(fields)
    )


def pickled_type(canary):
    """How old versions of Arrow announced a type whose description is a pickle."""
    return {
        b"ARROW:extension:name": b"arrow.py_extension_type",
        b"ARROW:extension:metadata": pickle.dumps(Payload(canary)),
    }


def test_a_pickled_type_in_parquet_is_not_unpickled(tmp_path, canary):
    pq.write_table(parquet_table(pickled_type(canary)), tmp_path / "a.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").names == ["obs", "action", "reward"]
    assert rci.read_logs(tmp_path / "a.parquet").obs.shape == (4, 2)


def test_a_pickled_type_in_arrow_is_not_unpickled(dataset, canary):
    (dataset / "main_data.hdf5").unlink()
    (dataset / "metadata.json").write_text(json.dumps(metadata(data_format="arrow")))
    (dataset / "0").mkdir()
    rows = pa.array(np.zeros((3, 3)).tolist(), pa.list_(pa.float32(), 3))
    columns = {"observations": rows, "actions": rows, "rewards": pa.array([0.0] * 3, pa.float32())}
    columns |= {"terminations": pa.array([False, True, False]), "truncations": pa.array([False] * 3)}
    fields = [pa.field(name, array.type, metadata=pickled_type(canary)) for name, array in columns.items()]
    table = pa.table(list(columns.values()), pa.schema(fields))
    with (
        pa.OSFile(str(dataset / "0" / "part-0.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as writer,
    ):
        writer.write_table(table)
    assert len(rci.read_minari(dataset)) == 1
    os.rename(dataset / "0" / "part-0.arrow", dataset.parent / "out.arrow")
    (dataset / "0" / "part-0.arrow").symlink_to(dataset.parent / "out.arrow")
    with pytest.raises(RciError, match="is a link that leads out of"):
        rci.read_minari(dataset)


@pytest.mark.parametrize("shape", [b"1000000000,1000000", b"-1,-2", b"3", b"x"])
def test_a_shape_that_does_not_fit_is_refused_before_memory_is_taken(tmp_path, shape):
    pq.write_table(parquet_table(shape=shape), tmp_path / "a.parquet")
    with pytest.raises(RciError, match=r"a\.parquet"):
        rci.read_logs(tmp_path / "a.parquet")


def npz(path, compression=zipfile.ZIP_DEFLATED, **members):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def honest():
    obs = np.zeros((3, 2), np.float32)
    row = np.zeros(3, np.float32)
    arrays = {"obs": obs, "next_obs": obs, "action": obs, "reward": row, "cost": row, "done": row}
    return {name: npy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_that_is_packed_as_no_numpy_packs_is_refused(tmp_path, packing):
    """With these a few bytes can stand for very many."""
    path = npz(tmp_path / "a.npz", packing, **{**honest(), "more": npy(np.zeros(1 << 20))})
    assert path.stat().st_size < 20_000
    with pytest.raises(RciError, match="packed in a way that NumPy does not use"):
        rci.read_omnisafe(path)


def test_an_array_that_claims_too_much_is_refused(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (10**15, 2)}
    )
    path = npz(tmp_path / "a.npz", **{**honest(), "obs": header.getvalue()})
    with pytest.raises(RciError, match=r"cannot be read as an \.npz file"):
        rci.read_omnisafe(path)


def test_members_of_an_archive_are_no_paths_and_never_written_anywhere(tmp_path):
    (tmp_path / "deep").mkdir()
    path = npz(tmp_path / "deep" / "a.npz", **honest(), **{"../evil": npy(np.zeros(1))})
    with pytest.raises(RciError, match="is not the name of an array"):
        rci.read_omnisafe(path)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "deep", path]


def test_a_line_of_json_that_is_nested_too_deeply(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"obs":' * 100_000 + "\n")
    with pytest.raises(RciError, match="line 1 is not JSON"):
        rci.read_logs(tmp_path / "a.jsonl")


@pytest.mark.parametrize("shape", ["abc", [-1, -3], [10**9, 10**9], [0], 1.5, [[1, 2], [3, 4]]])
def test_a_shape_beside_a_dataset_counts_only_if_it_fits(tmp_path, shape):
    with h5py.File(write_hdf5(tmp_path / "a.hdf5", flat_columns()), "a") as file:
        features = file["observations"].shape[1:]
        file["observations"].attrs["shape"] = shape
    assert rci.read_dsrl(tmp_path / "a.hdf5").obs.shape[1:] == features
