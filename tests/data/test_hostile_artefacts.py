"""Artefacts and settings that somebody made to do harm: each is refused in one sentence, and nothing is run."""

import json
import os
import random
import struct

import numpy as np
import pytest
from conftest import ragged
from random_models import random_policy

import rci
from rci.data import store
from rci.data.artefacts.models import Policy, SavedModel
from rci.data.errors import RciError, printable
from rci.data.record import content_digest
from rci.data.toml import parse_toml
from rci.formats.tables.mapping import read_mapping
from rci.pipeline.config import load_config
from rci.pipeline.results.rows import read_rows


@pytest.fixture
def saved(tmp_path):
    return store.write(tmp_path / "a", ragged([3, 2]))


def forge(folder, change, own_hash=True):
    """Change a manifest as its author could: with the right checksums."""
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["checksum"]
    change(manifest)
    if own_hash:
        digests = {name: entry["sha256"] for name, entry in manifest["arrays"].items()}
        manifest["hash"] = content_digest(manifest["kind"], digests, manifest["meta"])
    manifest["checksum"] = store._checksum(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_a_forged_manifest_is_still_a_manifest(saved):
    forge(saved, lambda manifest: manifest["provenance"].update(seed=7))
    assert len(rci.load(saved)) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.update(arrays=[1]), "no table of arrays"),
        (lambda m: m.pop("arrays"), "no table of arrays"),
        (lambda m: m["arrays"].update({"../../obs": m["arrays"]["obs"]}), "not the name of an array"),
        (lambda m: m["arrays"].update({"/etc/passwd": m["arrays"]["obs"]}), "not the name of an array"),
        (lambda m: m["arrays"].update(obs=3), "needs shape, dtype and sha256"),
        (lambda m: m["arrays"]["obs"].pop("sha256"), "needs shape, dtype and sha256"),
        (lambda m: m.update(hash="../../../../tmp/x"), "has no hash"),
        (lambda m: m.pop("hash"), "has no hash"),
        (lambda m: m.update(meta=[1]), "no meta and provenance"),
        (lambda m: m.update(provenance=None), "no meta and provenance"),
        (lambda m: m["provenance"].update(parents={"episodes": [1]}), "must be tables"),
        (lambda m: m.update(kind=["episodes"]), "not one of ours"),
        (lambda m: m["arrays"]["obs"].update(shape=[10**15, 3]), "should be"),
    ],
)
def test_a_forged_manifest_is_refused(saved, change, message):
    forge(saved, change, own_hash=False)
    with pytest.raises(RciError, match=message):
        rci.load(saved)
    assert not store.is_current(saved, "")


def test_what_a_record_does_not_know_is_no_argument_for_it(saved):
    forge(saved, lambda manifest: manifest["meta"].update(evil=1))
    with pytest.raises(RciError, match="does not hold what it should"):
        rci.load(saved)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"format": NaN}', "1" * 5000])
def test_json_that_no_honest_program_writes(saved, tmp_path, text):
    (saved / "manifest.json").write_text(text)
    with pytest.raises(RciError, match="not readable JSON"):
        rci.load(saved)
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(RciError, match="rows"):
        read_rows(tmp_path / "rows.json")


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000, "a = " + "{b=" * 5000, "a." * 5000 + "b = 1", "['a'" + ".'b,'" * 99]
)
def test_toml_that_is_nested_too_deeply(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(RciError, match=r"a\.toml.*(nested too deeply|more than 64 parts)"):
        read_mapping(tmp_path / "a.toml")
    with pytest.raises(RciError, match=r"a\.toml.*(nested too deeply|more than 64 parts)"):
        load_config("point", "quick", tmp_path / "a.toml", [], None)


def test_honest_toml_passes():
    numbers = ",".join(f"{i}.5" for i in range(500))
    text = f"a.b.c = [{numbers}]\nd = 'one. two. three.'\n"
    assert parse_toml(text) == {"a": {"b": {"c": [i + 0.5 for i in range(500)]}}, "d": "one. two. three."}


SHAPED = "{'descr': '<f4', 'fortran_order': False, 'shape': %s}"


@pytest.mark.parametrize(
    "header",
    [
        SHAPED % "(1000000000000000, 3)",
        SHAPED % f"({10**30},)",
        SHAPED % "(9223372036854775807, 2)",
        SHAPED % "(-7, 3)",
        SHAPED % "(True,)",
        SHAPED.replace("<f4", "|O") % "(7,)",
        SHAPED.replace("<f4", "<U2147483647") % "(7,)",
        "(" * 5000,
        "-" * 9000 + "1",
        "__import__('os').system('true')",
        "[]",
    ],
)
def test_a_header_that_no_honest_program_writes(saved, header):
    text = header.encode() + b"\n"
    (saved / "obs.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(84))
    with pytest.raises(RciError, match="'obs' (cannot be read|should be)"):
        rci.load(saved)


def test_an_archive_is_no_array(saved):
    np.savez(saved / "archive.npz", obs=np.zeros((7, 3)))
    (saved / "archive.npz").rename(saved / "obs.npy")
    with pytest.raises(RciError, match="it is an archive"):
        rci.load(saved)


@pytest.mark.parametrize("name", ["obs.npy", "manifest.json"])
def test_a_link_out_of_the_folder_is_not_followed(saved, tmp_path, name):
    os.rename(saved / name, tmp_path / "secret")
    (saved / name).symlink_to(tmp_path / "secret")
    with pytest.raises(RciError, match=f"{name} is a link that leads out of"):
        rci.load(saved, verify=False)
    (saved / name).unlink()
    os.rename(tmp_path / "secret", saved / "kept")
    (saved / name).symlink_to("kept")
    (tmp_path / "alias").symlink_to(saved)
    assert len(rci.load(tmp_path / "alias")) == 2


@pytest.mark.parametrize(
    "config", [{}, {"config": {"no_such": 1}}, {"config": {"hidden": "x"}}, {"config": []}, {"behaviour": 3}]
)
def test_a_policy_with_settings_of_nothing_is_refused(tmp_path, config):
    honest = random_policy("bc")
    store.write(tmp_path / "honest", honest)
    assert rci.load(tmp_path / "honest").step is not None
    forged = {} if not config else {**honest.model.config, **config}
    store.write(tmp_path / "a", Policy(SavedModel("bc", forged, honest.model.arrays), honest.info))
    with pytest.raises(RciError, match="do not fit together|not fit"):
        rci.load(tmp_path / "a")


def test_a_policy_without_its_arrays_is_refused_without_jax_too(tmp_path):
    honest = random_policy("bc")
    store.write(tmp_path / "a", Policy(SavedModel("bc", honest.model.config, {}), honest.info))
    with pytest.raises(RciError, match="do not fit together"):
        rci.runtime.load(tmp_path / "a")
    forged = Policy(SavedModel(["bc"], {}, {}), {})
    store.write(tmp_path / "b", forged)
    with pytest.raises(RciError, match="the name of a method"):
        rci.runtime.load(tmp_path / "b")


def test_an_error_has_nothing_that_a_terminal_obeys():
    error = RciError("unknown column '\x1b]0;owned\x07\u202egpj.exe\udc80', not Füße\n\tas expected")
    assert str(error) == ("unknown column '\\x1b]0;owned\\x07\\u202egpj.exe\\udc80', not Füße\n\tas expected")
    assert printable(str(error)) == str(error)


def test_random_manifests_are_read_or_refused(saved):
    """Whatever is changed in a manifest whose checksums are right, nothing but RciError comes out."""
    draw = random.Random(5)
    text = (saved / "manifest.json").read_text()
    refused = 0
    for _ in range(300):
        (saved / "manifest.json").write_text(text)
        forge(saved, lambda manifest: _mutate(draw, manifest), own_hash=False)
        try:
            rci.load(saved)
        except RciError:
            refused += 1
    assert refused > 100


def _mutate(draw, table):
    key = draw.choice(sorted(table) if isinstance(table, dict) else range(len(table)))
    inner = table[key]
    if isinstance(inner, dict | list) and inner and draw.random() < 0.7:
        return _mutate(draw, inner)
    table[key] = draw.choice([None, [], {}, "x", "../x", -1, 10**30, 1.5, True, [1], {"a": [1]}, np.pi])
    return None
