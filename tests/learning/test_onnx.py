"""Policies act as ONNX models as they do with JAX."""

import json
import sys

import numpy as np
import pytest
from random_models import random_policy

import rci
from rci.data.errors import RciError
from rci.data.types import Policy, SavedModel
from rci.deploy.onnx import GRAPHS
from rci.learning import LEARNERS

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

CASES = [
    ("bc", {}),
    ("bc-safe", {}),
    ("coptidice", {"channels": 2}),
    ("cpq", {}),
    ("bcq-lagrangian", {"obs_shape": (5, 1)}),
    ("bcq-lagrangian", {"channels": 2, "variant": "penalised", "critics": 1}),
    ("bcq-lagrangian", {"channels": 2, "critics": 3, "test_candidates": 7}),
    ("bcq-lagrangian", {"pricing": "hinge"}),
    ("feasible", {}),
    ("feasible", {"channels": 2, "head": "linear", "critics": 1, "test_candidates": 7}),
    ("feasible", {"rows": 5, "channels": 2}),
    ("bear-lagrangian", {"channels": 2}),
    ("cdt", {"context": 4, "hidden": 16, "channels": 2}),
]


def observations(rows, seed=1):
    return np.random.default_rng(seed).normal(size=(rows, 5)).astype(np.float32)


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def first_memory(model, rows):
    """The inputs of a policy with a memory at the start of episodes; none for the others."""
    told = json.loads(model.get_modelmeta().custom_metadata_map.get("memory", "{}"))
    types = {"tensor(float)": np.float32, "tensor(int32)": np.int32}
    return {
        entry.name: np.repeat(np.array(told[entry.name], types[entry.type])[None], rows, axis=0)
        for entry in model.get_inputs()[1:]
    }


def test_all_that_can_be_exported_are_compared():
    assert {method for method, _ in CASES} == set(GRAPHS) <= set(LEARNERS)


@pytest.mark.parametrize(("method", "options"), CASES, ids=str)
def test_actions_are_those_of_jax(method, options, tmp_path):
    policy = random_policy(method, **options)
    path = rci.export_onnx(policy, tmp_path / "policy.onnx", seed=11)
    onnx.checker.check_model(str(path), full_check=True)
    model = session(path)
    assert model.get_inputs()[0].name == "obs"
    assert model.get_outputs()[0].name == "action"
    shape = options.get("obs_shape", (5,))
    for rows in (300, 1):
        obs = observations(rows)
        given = {"obs": obs.reshape(rows, *shape), **first_memory(model, rows)}
        found, expected = model.run(["action"], given)[0], policy.act(obs, seed=11)
        assert found.shape == expected.shape
        odd = np.abs(found - expected).max(axis=1) > 1e-5  # see the same test of the runtime
        assert odd.sum() <= (1 if "lagrangian" in method and rows > 1 else 0)


def test_a_memory_is_handed_from_step_to_step(tmp_path):
    policy = random_policy("cdt", context=4, hidden=16)
    model = session(rci.export_onnx(policy, tmp_path / "policy.onnx"))
    inputs, memory = first_memory(model, 6), policy.begin(6)
    names = [entry.name for entry in model.get_outputs()]
    assert set(names) == {"action", *(f"next_{name}" for name in inputs)}
    for step in range(11):
        obs = observations(6, seed=step)
        expected, memory = policy.step(0, memory, obs)
        answer = dict(zip(names, model.run(names, {"obs": obs, **inputs})))
        assert np.abs(answer["action"] - expected).max() < 1e-5, step
        inputs = {name: answer[f"next_{name}"] for name in inputs}


def test_a_file_says_where_it_comes_from(tmp_path):
    policy = random_policy("bcq-lagrangian")
    told = session(rci.export_onnx(policy, tmp_path / "a.onnx", seed=4)).get_modelmeta().custom_metadata_map
    assert told["method"] == "bcq-lagrangian"
    assert told["budget"] == "0.1"
    assert told["dataset_hash"] == "c0ffee"
    assert told["policy_hash"] == policy.hash
    assert told["rci_version"] == rci.__version__
    assert json.loads(told["seed"]) == 4
    scaling = policy.model.arrays
    assert json.loads(told["obs_mean"]) == scaling["behaviour.scaling.obs.mean"].tolist()
    assert json.loads(told["obs_scale"]) == scaling["behaviour.scaling.obs.scale"].tolist()
    one, two = (rci.export_onnx(policy, tmp_path / name).read_bytes() for name in ("b.onnx", "c.onnx"))
    assert one == two


def test_what_cannot_be_exported_is_refused(tmp_path, monkeypatch):
    with pytest.raises(RciError, match="'by hand' cannot be written as ONNX. Those that can: bc, bc-safe"):
        rci.export_onnx(Policy(SavedModel("by hand", {}, {}), {"obs_size": 4}), tmp_path / "a.onnx")
    with pytest.raises(RciError, match="policy must be of type Policy"):
        rci.export_onnx("policy", tmp_path / "a.onnx")
    policy = random_policy("bc")
    with pytest.raises(RciError, match=r"ends in \.onnx, got .*log\.csv"):
        rci.export_onnx(policy, tmp_path / "log.csv")
    for seed in (2**40, 0.5):
        with pytest.raises(RciError, match="a seed is a whole number"):
            rci.export_onnx(policy, tmp_path / "a.onnx", seed=seed)
        with pytest.raises(RciError, match="a seed is a whole number"):
            policy.act(np.zeros(policy.info["obs_size"]), seed=seed)
    with pytest.raises(RciError, match="cannot write"):
        rci.export_onnx(policy, "/dev/null/a.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(RciError, match=r"pip install 'rci\[onnx\]'"):
        rci.export_onnx(policy, tmp_path / "a.onnx")
    assert list(tmp_path.iterdir()) == []
