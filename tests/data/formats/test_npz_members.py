"""The members of .npz files: rows in any order of slices, and archives that are not what they claim to be."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rci
from rci.data.errors import RciError
from rci.formats.sources.npz import open_npz

ARRAYS = {
    "obs": np.arange(60, dtype=np.float32).reshape(20, 3),
    "action": np.arange(20, dtype=">i4"),
    "done": np.arange(20) % 5 == 4,
}


@pytest.fixture(scope="module", params=["stored", "packed"])
def archive(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("npz") / "a.npz"
    (np.savez if request.param == "stored" else np.savez_compressed)(path, **ARRAYS)
    return path


@settings(max_examples=50, deadline=None)
@given(slices=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6))
@example(slices=[(0, 1), (8, 8), (7, 8)])
def test_any_slices_in_any_order(archive, slices):
    with open_npz(archive) as columns:
        assert set(columns) == set(ARRAYS)
        for name, array in ARRAYS.items():
            assert (columns[name].shape, columns[name].dtype) == (array.shape, array.dtype)
            for one, two in slices:
                part = slice(min(one, two), max(one, two))
                assert np.array_equal(columns[name][part], array[part])


def test_rows_in_order_are_unpacked_once(archive, monkeypatch):
    """Each slice begins with the last row of the one before, as a row is compared with the next one."""
    with open_npz(archive) as columns:
        monkeypatch.setattr(zipfile.ZipFile, "open", None)  # it may not begin again
        for start in range(0, 20, 4):
            part = slice(start, min(start + 5, 20))
            assert np.array_equal(columns["obs"][part], ARRAYS["obs"][part])


def npy(array):
    text = io.BytesIO()
    np.save(text, array)
    return text.getvalue()


def refused(tmp_path, message, change):
    """An archive with something wrong in it."""
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        change(file)
    with pytest.raises(RciError, match=message) as caught:
        rci.read_omnisafe(tmp_path / "a.npz")
    assert "a.npz cannot be read as an .npz file" in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("name", ["../obs.npy", "/etc/obs.npy", "a/obs.npy", "a\\obs.npy", "C:obs.npy", ".."])
def test_names_are_no_paths(tmp_path, name):
    refused(tmp_path, "is not the name of an array", lambda file: file.writestr(name, npy(np.zeros(3))))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_stands_for_one_array(tmp_path):
    def twice(file):
        file.writestr("obs.npy", npy(np.zeros(3)))
        file.writestr("obs.npy", npy(np.zeros(3)))

    refused(tmp_path, "there are two arrays 'obs.npy'", twice)


def test_headers_that_do_not_fit(tmp_path):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (10**12, 8)}
    )
    refused(tmp_path, "claims to have shape", lambda file: file.writestr("obs.npy", header.getvalue()))
    content = npy(np.zeros(3)) + b"more"
    refused(tmp_path, "claims to have shape", lambda file: file.writestr("obs.npy", content))


def test_a_member_that_claims_to_unpack_to_more_than_it_can(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, **ARRAYS)
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"PK\x01\x02")  # of the last member in the directory of the archive
    data[entry + 24 : entry + 28] = (1 << 30).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(RciError, match="claims to unpack to 1073741824 bytes from"):
        rci.read_omnisafe(path)


def test_members_that_overlap(tmp_path):
    """Two names for the same bytes, as a bomb is made."""
    path = tmp_path / "a.npz"
    noise = np.random.default_rng(0).random((2000, 3))
    np.savez(path, obs=noise, own=noise)
    data = path.read_bytes()
    first, second = (data.index(b"PK\x01\x02"), data.rindex(b"PK\x01\x02"))
    start = data.index(b"PK\x03\x04", 4)  # where the second array begins; it is taken out
    directory = bytearray(data[first:])
    end = directory.rindex(b"PK\x05\x06")
    directory[end + 16 : end + 20] = start.to_bytes(4, "little")
    directory[second - first + 42 : second - first + 46] = bytes(4)
    path.write_bytes(data[:start] + directory)
    with pytest.raises(RciError, match="larger than the file, so they overlap"):
        rci.read_omnisafe(path)


def test_an_array_by_columns_cannot_be_read_by_rows(tmp_path):
    flags = {"done": ARRAYS["done"], "reward": np.zeros(20), "action": np.zeros((20, 1))}
    np.savez(tmp_path / "a.npz", obs=np.asfortranarray(ARRAYS["obs"]), **flags)
    with pytest.raises(RciError, match=r"not stored one after the other; .*np\.ascontiguousarray"):
        rci.read_omnisafe(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", obs=ARRAYS["obs"], other=np.asfortranarray(ARRAYS["obs"]), **flags)
    assert len(rci.read_omnisafe(tmp_path / "a.npz")) == 4


def test_damaged_rows_are_noticed(tmp_path):
    flags = {"done": ARRAYS["done"], "reward": np.zeros(20), "action": np.zeros((20, 1))}
    np.savez(tmp_path / "a.npz", obs=ARRAYS["obs"], **flags)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[data.index(ARRAYS["obs"].tobytes()) + 4] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(RciError, match="Bad CRC-32"):
        rci.read_omnisafe(tmp_path / "a.npz")
