import errno
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ragged

import rci
from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Labels, SavedModel, Scores, StepCosts


@pytest.fixture
def saved(tmp_path):
    return store.write(tmp_path / "episodes", ragged([2, 3]))


def rewrite(path, **changes):
    manifest = json.loads((path / "manifest.json").read_text())
    manifest.pop("checksum")
    manifest.update(changes)
    manifest["checksum"] = store._checksum(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def test_what_is_written_is_read_bit_for_bit(saved):
    again = rci.load(saved)
    for name, array in ragged([2, 3]).arrays().items():
        assert again.arrays()[name].dtype == array.dtype
        assert np.array_equal(again.arrays()[name], array)
    assert again.hash == ragged([2, 3]).hash
    assert isinstance(again.obs, np.memmap)


def test_all_kinds_come_back(tmp_path):
    episodes = ragged([2, 3])
    labels = Labels.for_episodes(episodes, [1, -1])
    model = SavedModel("rudder", {"hidden": 2}, {"lstm.bias": np.ones(3, np.float32)})
    cost = np.array([0, 1.0, 0, 0, 0])
    costs = StepCosts(cost, labels.kept_lengths, labels.cost, True, "x", labels.hash, model, {"quality": 0.5})
    scores = Scores(np.zeros(1), np.zeros(1), np.array([-1]), np.array([4]), {"task": "point"})
    for record in (labels, costs, scores):
        again = store.read(store.write(tmp_path / record.kind, record))
        assert type(again) is type(record)
        assert again.hash == record.hash
        assert again.meta() == record.meta()
    assert store.read(tmp_path / "costs").model.arrays["lstm.bias"].tolist() == [1, 1, 1]


def test_the_manifest_says_how_it_was_made(tmp_path):
    made = store.Provenance({"episodes": 2}, 7, {"parent": "abc"}, "key")
    path = store.write(tmp_path / "a", ragged([2]), made)
    said = store.read_manifest(path)["provenance"]
    assert (said["config"], said["seed"], said["parents"]) == ({"episodes": 2}, 7, {"parent": "abc"})
    assert said["versions"]["rci"] == rci.__version__
    assert store.is_current(path, "key")
    assert not store.is_current(path, "other")
    assert not store.is_current(tmp_path / "nothing", "key")


def test_same_content_gives_the_same_files(tmp_path):
    one, two = (store.write(tmp_path / name, ragged([2, 3])) for name in "ab")
    for file in one.iterdir():
        assert file.read_bytes() == (two / file.name).read_bytes()


def test_flipped_bits_are_noticed(saved):
    data = bytearray((saved / "obs.npy").read_bytes())
    data[-1] ^= 1
    (saved / "obs.npy").write_bytes(data)
    with pytest.raises(RciError, match="'obs' has a wrong checksum"):
        store.read(saved)


def test_bytes_behind_the_array_are_noticed(saved):
    with open(saved / "obs.npy", "ab") as file:
        file.write(b"x")
    with pytest.raises(RciError, match="'obs' has the wrong length"):
        store.read(saved)


def test_a_damaged_artefact_is_not_current(tmp_path):
    path = store.write(tmp_path / "a", ragged([2]), store.Provenance(key="key"))
    assert store.is_current(path, "key")
    (path / "reward.npy").unlink()
    assert not store.is_current(path, "key")


def test_missing_and_broken_arrays(saved):
    (saved / "obs.npy").rename(saved / "aside")
    with pytest.raises(RciError, match="'obs' is missing"):
        store.read(saved)
    (saved / "obs.npy").write_bytes(b"nonsense")
    with pytest.raises(RciError, match="'obs' cannot be read"):
        store.read(saved)
    np.save(saved / "obs.npy", np.zeros((2, 2)))
    with pytest.raises(RciError, match=r"'obs' should be <f4 \[7, 3\], found <f8 \[2, 2\]"):
        store.read(saved)
    np.save(saved / "obs.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(RciError, match="cannot be read"):
        store.read(saved)


def test_wrong_folders(saved, tmp_path):
    with pytest.raises(RciError, match="holds 'episodes', but 'labels' is needed"):
        store.read(saved, "labels")
    with pytest.raises(RciError, match="there is nothing at"):
        store.read(tmp_path / "nowhere")
    with pytest.raises(RciError, match="has no manifest"):
        store.read(tmp_path)
    with pytest.raises(RciError, match="has no manifest"):
        store.read(saved / "obs.npy")
    rewrite(saved, format=99)
    with pytest.raises(RciError, match="format version 99, newer than this program's 1"):
        store.read(saved)
    rewrite(saved, format=1, kind="dreams")
    with pytest.raises(RciError, match="'dreams', which this program does not know"):
        store.read(saved)


def test_a_changed_manifest_is_noticed(saved):
    text = (saved / "manifest.json").read_text()
    (saved / "manifest.json").write_text(text.replace('"seed": null', '"seed": 5'))
    with pytest.raises(RciError, match="changed after it was written"):
        store.read(saved)
    (saved / "manifest.json").write_text(text[:50])
    with pytest.raises(RciError, match="not readable JSON"):
        store.read(saved)
    (saved / "manifest.json").write_text("[]")
    with pytest.raises(RciError, match="not one of ours"):
        store.read(saved)


def test_writing_replaces_an_artefact_but_nothing_else(saved, tmp_path):
    store.write(saved, ragged([4]))
    assert len(store.read(saved)) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["episodes"]
    labels = Labels.for_episodes(ragged([4]), [1])
    with pytest.raises(RciError, match="holds 'episodes'; it is not overwritten with 'labels'"):
        store.write(saved, labels)
    (saved / "manifest.json").write_text("{")
    store.write(saved, labels)  # what is damaged may be replaced
    (tmp_path / "thesis").mkdir()
    with pytest.raises(RciError, match="is not an artefact folder"):
        store.write(tmp_path / "thesis", ragged([4]))


def test_an_unwritable_place_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RciError, match="cannot write .*(Not a directory|File exists)"):
        store.write(tmp_path / "file" / "episodes", ragged([2]))


def test_a_full_disk_loses_nothing(saved, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "_write_array", full)
    with pytest.raises(RciError, match="no space left"):
        store.write(saved, ragged([4]))
    monkeypatch.undo()
    assert len(store.read(saved)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["episodes"]


def test_a_rename_that_fails_puts_the_old_artefact_back(saved, tmp_path, monkeypatch):
    real, calls = os.rename, []

    def second_fails(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "rename", second_fails)
    with pytest.raises(RciError, match="what stood there before is untouched"):
        store.write(saved, ragged([4]))
    monkeypatch.undo()
    assert len(store.read(saved)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["episodes"]


def test_an_artefact_that_stepped_aside_for_nothing_steps_back(saved, tmp_path):
    """A writer was killed between its two renames."""
    saved.rename(tmp_path / ".episodes.old-999999999-abcd")
    assert len(store.read(saved)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["episodes"]


def test_the_hash_must_be_that_of_the_content(saved):
    rewrite(saved, hash="0" * 64)
    with pytest.raises(RciError, match="its hash is not that of its content"):
        store.read(saved)


def test_a_real_limit_on_file_size_loses_nothing(saved, tmp_path):
    """The same with the operating system refusing the write."""
    code = (
        "import resource, signal, sys; sys.path.insert(0, sys.argv[2]); from conftest import ragged\n"
        "from rci.data import store; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "episodes = ragged([1000] * 10); resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "store.write(sys.argv[1], episodes)"
    )
    tests = os.path.dirname(os.path.dirname(__file__))
    result = subprocess.run([sys.executable, "-c", code, saved, tests], capture_output=True, text=True)
    assert "RciError: no space left" in result.stderr
    assert len(store.read(saved)) == 2
    assert [p.name for p in tmp_path.iterdir()] == ["episodes"]


def test_a_killed_writer_leaves_nothing_that_loads_and_the_next_one_cleans_up(tmp_path):
    """Killed at random moments while writing the same artefact over and over."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[2]); from conftest import ragged\n"
        "from rci.data import store; episodes = ragged([50] * 20)\n"
        "while True: store.write(sys.argv[1], episodes); print('.', flush=True)"
    )
    tests = os.path.dirname(os.path.dirname(__file__))
    target = tmp_path / "episodes"
    rng = np.random.default_rng(0)
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", code, target, tests], stdout=subprocess.PIPE)
        writer.stdout.readline()  # at least one was written
        time.sleep(rng.uniform(0, 0.05))
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        assert len(store.read(target)) == 20  # whichever moment it was
    store.write(target, ragged([2]))
    assert [p.name for p in tmp_path.iterdir()] == ["episodes"]


def test_a_manifest_cannot_point_out_of_its_folder(saved):
    arrays = json.loads((saved / "manifest.json").read_text())["arrays"]
    for name in ("../secret", "/etc/passwd", "..", ""):
        rewrite(saved, arrays={**arrays, name: arrays["obs"]})
        with pytest.raises(RciError, match="is not the name of an array"):
            store.read(saved)
    rewrite(saved, arrays=arrays, format="1")
    with pytest.raises(RciError, match="not one of ours"):
        store.read(saved)
