import numpy as np
import pytest
from random_models import random_policy

from rci.benchmarks.deploy import bench_runtime

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("method", ["bc", "cdt"])
def test_both_ways_are_timed_and_compared(method):
    obs = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
    policy = random_policy(method, hidden=16)
    rows = bench_runtime(policy, obs, calls=10)
    assert [row["name"] for row in rows] == [f"{method}, numpy", f"{method}, onnx"]
    for row in rows:
        assert row["config"] == {"observations": 40, "calls": 10, "hidden": 16}
        assert 0 < row["parity_max_abs"] <= 1e-5
        assert row["differing"] == 0
        assert row["ratio"] == pytest.approx(row["reference"] / row["value"])


def test_actions_that_differ_are_counted():
    """Weights that only the way without JAX sees."""
    from dataclasses import replace

    policy = random_policy("bc", hidden=16)
    arrays = dict(policy.model.arrays)
    arrays["network.biases.2"] = arrays["network.biases.2"] + 1.0
    other = replace(policy, model=policy.model._replace(arrays=arrays))
    rows = bench_runtime(other, np.zeros((3, 5)), calls=1)
    assert [row["differing"] for row in rows] == [3, 3]
