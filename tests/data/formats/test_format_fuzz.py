"""Whatever is in a file, a reader gives a dataset or one clear sentence, and soon."""

import json

import numpy as np
import pytest
from foreign_files import flat_columns, judged, sample, write_hdf5
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import rci
from rci.data.errors import RciError

LOG = "episode,t,obs_x,obs_y,act,reward,stop\n0,0,1,2,3,4,\n0,1,1,2,3,4,1\n1,0,5,5,5,5,0\n1,1,5,5,,,\n"
ROW = {"episode": 0, "obs": {"x": [1, 2]}, "action": [1, 2], "reward": 3, "stop": False}
BYTES = st.one_of(
    st.binary(min_size=1, max_size=8), st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f"])
)
EDITS = st.lists(
    st.tuples(st.sampled_from(["put", "insert", "delete", "truncate"]), st.floats(0, 1), BYTES),
    min_size=1,
    max_size=6,
)
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.just(10**400),
    st.lists(st.one_of(st.none(), st.floats(), st.text(max_size=2), st.lists(st.integers(), max_size=2)), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)  # fmt: skip
patient = settings(
    max_examples=60,
    deadline=5000,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    """For each kind of file: the file, and what to read."""
    root = tmp_path_factory.mktemp("valid")
    episodes = sample()
    labels, costs = judged(episodes, [2, -1, 3, -1])
    columns = flat_columns()
    arrays = {
        "obs": columns["observations"], "next_obs": columns["next_observations"], "action": columns["actions"],
        "reward": columns["rewards"], "cost": columns["costs"], "done": columns["terminals"],
    }  # fmt: skip
    np.savez(root / "a.npz", **arrays)
    np.savez_compressed(root / "b.npz", **arrays)
    (root / "a.csv").write_text(LOG)
    (root / "a.jsonl").write_text("\n".join([json.dumps(ROW)] * 3))
    files = {
        "dsrl": rci.write_dsrl(root / "a.hdf5", episodes, labels, costs),
        "d4rl": write_hdf5(root / "b.hdf5", columns),
        "parquet": rci.write_parquet(root / "a.parquet", episodes, labels, costs),
        **{name: root / name for name in ("a.npz", "b.npz", "a.csv", "a.jsonl")},
    }
    found = {name: (path, path) for name, path in files.items()}
    for kind in ("hdf5", "arrow", "parquet"):
        folder = rci.write_minari(root / f"{kind}-v0", episodes, labels, costs, data_format=kind)
        data = folder / "data"
        found[f"minari-{kind}"] = (
            data / "main_data.hdf5" if kind == "hdf5" else next(data.glob("2/part*")),
            folder,
        )
    found["minari-metadata"] = data / "metadata.json", folder
    return {name: (path, place, path.read_bytes()) for name, (path, place) in found.items()}


def edited(content, edits):
    for kind, where, inserted in edits:
        at = int(where * len(content))
        rest = {"put": len(inserted), "insert": 0, "delete": 4 * len(inserted), "truncate": len(content)}[
            kind
        ]
        middle = inserted if kind in ("put", "insert") else b""
        content = content[:at] + middle + content[at + rest :]
    return content


def refused_or_read(place):
    told = ""
    try:
        assert len(rci.import_dataset(place).episodes) >= 1
    except RciError as error:
        told = str(error)
    assert "\n" not in told


@pytest.mark.parametrize(
    "kind",
    ["dsrl", "d4rl", "parquet", "a.npz", "b.npz", "a.csv", "a.jsonl"]
    + [f"minari-{part}" for part in ("hdf5", "arrow", "parquet", "metadata")],
)
@patient
@given(edits=EDITS)
def test_damaged_files(valid, kind, edits):
    path, place, content = valid[kind]
    try:
        path.write_bytes(edited(content, edits))
        refused_or_read(place)
    finally:
        path.write_bytes(content)


@pytest.mark.parametrize(
    "kind", ["dsrl", "parquet", "b.npz", "minari-hdf5", "minari-arrow", "minari-parquet"]
)
def test_files_that_were_cut_off_are_refused(valid, kind):
    path, place, content = valid[kind]
    try:
        for share in (0.0, 0.1, 0.5, 0.9, 0.99):
            path.write_bytes(content[: int(share * len(content))])
            with pytest.raises(RciError, match="damaged|cannot be read|not complete"):
                rci.import_dataset(place)
    finally:
        path.write_bytes(content)


@patient
@given(
    rows=st.lists(st.dictionaries(st.sampled_from([*ROW, "t", "obs.x", "cost", "done"]), VALUES), max_size=4)
)
@example(rows=[{"episode": 0, "obs": 10**400, "action": 1, "reward": 1}])
def test_lines_of_anything(tmp_path, rows):
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({**ROW, **row}) for row in [{}, *rows]))
    refused_or_read(path)


@patient
@given(
    cells=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 6), st.text(max_size=6)), min_size=1, max_size=4
    )
)
@example(cells=[(0, 0, '"')])
@example(cells=[(0, 2, "1e400"), (1, 2, "nan")])
def test_cells_of_anything(tmp_path, cells):
    lines = [line.split(",") for line in LOG.splitlines()]
    for row, column, text in cells:
        lines[row + 1][column] = text
    path = tmp_path / "a.csv"
    path.write_text("\n".join(",".join(line) for line in lines), encoding="utf-8", errors="replace")
    refused_or_read(path)


@patient
@given(
    name=st.sampled_from(
        ["observations", "next_observations", "actions", "rewards", "costs", "terminals", "stopped"]
    ),
    kind=st.sampled_from(["f2", "f4", "f8", ">f4", "i1", "i8", "u8", "?", "c8", "S3"]),
    shape=st.lists(st.sampled_from([0, 1, 2, 3, 12]), max_size=3),
    fill=st.sampled_from([0, 1, 2, -1, 1e30, np.inf, np.nan]),
)
def test_columns_of_any_shape_and_type(tmp_path, name, kind, shape, fill):
    with np.errstate(all="ignore"):
        array = np.full(shape, fill).astype(kind)
    refused_or_read(write_hdf5(tmp_path / "a.hdf5", {**flat_columns(), name: array}))
