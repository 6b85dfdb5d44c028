"""Artefacts in a store that many share: a folder, an object store, memory."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rci.data import store
from rci.data.errors import RciError
from rci.data.store import Provenance
from rci.data.types import Labels
from rci.engines.engine import Engine
from rci.engines.object_store import ObjectStore, address_of
from rci.pipeline.companions import oracle_of
from rci.pipeline.jobs import Job
from rci.pipeline.run_jobs import run_jobs

KEY = "0" * 64


@pytest.fixture(params=["folder", "memory", "s3"])
def shared(request, tmp_path):
    if request.param == "s3":
        request.getfixturevalue("object_server")
    name = request.node.name.partition("[")[0]
    places = {"folder": str(tmp_path / "store"), "memory": f"memory://{name}", "s3": f"s3://rci-tests/{name}"}
    return ObjectStore(places[request.param])


@pytest.fixture
def artefact(tmp_path):
    labels = Labels(np.array([2, -1]), np.array([1.0, 0.0]), np.array([4, 5]), "e" * 64)
    return store.write(tmp_path / "labels", labels, Provenance({"a": 1}, 3))


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_what_was_put_comes_back_bit_for_bit(shared, artefact, tmp_path):
    content = shared.put(artefact)
    assert content == address_of(artefact)
    assert shared.put(artefact) == content  # again does no harm
    assert shared.get(content, tmp_path / "back")
    assert files(tmp_path / "back") == files(artefact)
    assert not shared.get("1" * 64, tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_keys_say_what_came_of_work(shared):
    assert shared.outputs(KEY) is None
    shared.note(KEY, {"output": "a" * 64})
    assert shared.outputs(KEY) == {"output": "a" * 64}


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"output": 3}', b'{"output": "../../etc"}', b"\xff"])
def test_a_torn_or_foreign_key_counts_as_missing(tmp_path, text):
    shared = ObjectStore(str(tmp_path))
    shared.note(KEY, {"output": "a" * 64})
    (tmp_path / "keys" / f"{KEY}.json").write_bytes(text)
    assert shared.outputs(KEY) is None


@pytest.mark.parametrize(
    "damage", ["torn array", "changed array", "lost array", "torn manifest", "another's"]
)
def test_a_damaged_object_counts_as_missing_and_can_be_put_again(tmp_path, artefact, damage):
    shared = ObjectStore(str(tmp_path / "store"))
    content = shared.put(artefact)
    place = tmp_path / "store" / "objects" / content
    array = place / "cost.npy"
    if damage == "torn array":
        array.write_bytes(array.read_bytes()[:-3])
    elif damage == "changed array":
        array.write_bytes(array.read_bytes()[:-1] + b"\x07")
    elif damage == "lost array":
        array.unlink()
    elif damage == "torn manifest":
        (place / "manifest.json").write_text("{")
    else:
        other = store.write(
            tmp_path / "other", Labels(np.array([1]), np.array([1.0]), np.array([4]), "e" * 64)
        )
        shutil.rmtree(place)
        shutil.copytree(other, place)
    assert not shared.get(content, tmp_path / "back")
    assert not (tmp_path / "back").exists()
    shared.put(artefact)
    assert shared.get(content, tmp_path / "back")
    assert files(tmp_path / "back") == files(artefact)


def test_names_are_hashes_and_nothing_else(tmp_path, artefact):
    shared = ObjectStore(str(tmp_path / "store"))
    for name in ("../outside", "a/b", "", "A" * 64):
        with pytest.raises(RciError, match="is not a hash"):
            shared.get(name, tmp_path / "back")
        with pytest.raises(RciError, match="is not a hash"):
            shared.outputs(name)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense://x", "is not an address of a store"),
        ("s3://rci-tests-no-such-bucket/x", "cannot write to the store s3://rci-tests-no-such-bucket/x"),
        ("/proc/nowhere", "cannot write to the store /proc/nowhere"),
    ],
)
def test_a_store_that_cannot_be_written_to(url, said, artefact, object_server):
    with pytest.raises(RciError, match=said):
        ObjectStore(url).put(artefact)
    with pytest.raises(RciError, match=said):  # before anything is done for it
        run_jobs([], Engine(store=url), lambda *_: None)


def test_a_store_has_a_sign(shared):
    shared.prepare()
    shared.prepare()
    assert json.loads(shared._read("store.json")) == {"store": "rci", "version": 1}
    shared._write("store.json", b"{}")
    with pytest.raises(RciError, match=r"is a store of another version, or none"):
        shared.prepare()


def jobs(out: Path) -> list[Job]:
    recording = {"task_name": "point", "episodes": 20, "recipe": "mixed"}
    collect = Job("collect", "collect", recording, 0, {}, out / "episodes")
    rule = {"rule": "point", "noise": "clean"}
    return [
        collect,
        Job("label", "label", rule, 0, {"episodes": collect.output}, out / "labels", ("collect",)),
    ]


def tree(out: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(out)): file.read_bytes() for file in sorted(out.rglob("*")) if file.is_file()
    }


def test_what_one_run_did_another_does_not_do_again(shared, tmp_path, monkeypatch):
    if shared.url.startswith("memory"):
        pytest.skip("the memory of one process is no store for workers")
    monkeypatch.setenv("RCI_CACHE", str(tmp_path / "cache"))
    engine = Engine(workers=1, store=shared.url)
    plain, one, other = tmp_path / "plain", tmp_path / "one", tmp_path / "other"
    run_jobs(jobs(plain), Engine(workers=1), lambda *_: None)
    run_jobs(jobs(one), engine, lambda *_: None)
    took = {}
    run_jobs(jobs(other), engine, lambda task, share, seconds: took.update({task.name: seconds}))
    assert took == {"collect": None, "label": None}
    assert tree(one) == tree(other) == tree(plain)
    assert oracle_of(other / "episodes").is_dir()


def test_work_that_was_done_before_there_was_a_store_is_shared(tmp_path):
    engine = Engine(workers=1, store=str(tmp_path / "store"))
    run_jobs(jobs(tmp_path / "one"), Engine(workers=1), lambda *_: None)
    run_jobs(jobs(tmp_path / "one"), engine, lambda *_: None)
    took = {}
    run_jobs(jobs(tmp_path / "two"), engine, lambda task, share, seconds: took.update({task.name: seconds}))
    assert took == {"collect": None, "label": None}


def test_without_the_package_one_sentence_says_what_to_install(tmp_path):
    """In a process of its own: here fsspec is imported already."""
    script = (
        "import sys; sys.modules['fsspec'] = None\n"
        "from rci.engines.object_store import ObjectStore\n"
        f"ObjectStore({str(tmp_path)!r}).outputs('0' * 64)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ)
    )
    assert "pip install 'rci[store]'" in found.stderr.splitlines()[-1]


def test_the_key_file_is_plain_json(tmp_path):
    ObjectStore(str(tmp_path)).note(KEY, {"oracle": "b" * 64, "output": "a" * 64})
    assert json.loads((tmp_path / "keys" / f"{KEY}.json").read_text()) == {
        "oracle": "b" * 64,
        "output": "a" * 64,
    }
