import json
import os

import jax
import jax.numpy as jnp
import pytest
from typer.testing import CliRunner

from rci.benchmarks import learning as measured
from rci.benchmarks.simulators import bench_table
from rci.cli.main import app
from rci.learning import LEARNERS


def test_products_are_counted_by_hand():
    square, row = jnp.ones((4, 4)), jnp.ones((3, 4))

    def loop(x):
        return jax.lax.fori_loop(0, 5, lambda i, y: jax.nn.relu(y @ square), x)

    def either(x):
        return jax.lax.cond(x.sum() > 0, lambda y: y @ square @ square, lambda y: y, x)

    one = 2 * 3 * 4 * 4
    for function, flop in ((lambda x: x @ square, one), (loop, 5 * one), (either, 2 * one), (jnp.sin, 0)):
        assert measured.product_flop(jax.make_jaxpr(function)(row).jaxpr) == flop
    batched = jax.vmap(lambda x: x @ square)
    assert measured.product_flop(jax.make_jaxpr(batched)(jnp.ones((7, 3, 4))).jaxpr) == 7 * one
    # where there is no loop, XLA counts the same and adds what stands between the products
    gradient = jax.grad(lambda w: jnp.sum((row @ w) ** 2))
    products = measured.product_flop(jax.make_jaxpr(gradient)(square).jaxpr)
    assert products == 2 * one
    assert products <= jax.jit(gradient).lower(square).cost_analysis()["flops"] <= 1.5 * products


def test_learners_are_measured_against_the_matrix_product(monkeypatch):
    for name in set(LEARNERS) - {"bcq-lagrangian"}:
        monkeypatch.delitem(LEARNERS, name)
    for name, value in {"ROUNDS": 1, "EPISODES": 4, "STEPS": 3, "CHUNK": 2}.items():
        monkeypatch.setattr(measured, name, value)
    monkeypatch.setattr(measured, "TABLES", [])
    monkeypatch.setattr(measured, "OSRL", {})  # the same sizes, so that there is less to compile
    before = jax.config.jax_compilation_cache_dir
    rows = list(measured.bench_learn(seconds=0.01, cores=2))
    assert jax.config.jax_compilation_cache_dir == before
    names = ["sgemm", "bcq-lagrangian, sizes of OSRL", "bcq-lagrangian", "bcq-lagrangian"]
    assert [row["name"] for row in rows] == names
    speed, hourly = rows[2:]
    assert speed["config"]["hidden"] == 128
    assert speed["ratio"] == pytest.approx(speed["value"] / speed["reference"])
    assert speed["limit"] == pytest.approx(rows[0]["value"] / speed["config"]["GFLOP/update"])
    assert speed["share_of_limit"] == pytest.approx(speed["value"] / speed["limit"])
    # four critics of (35 + 2) x 128 x 128: of a batch of 256 three times, at 10 candidates and an actor's besides
    assert 0.1 < speed["config"]["GFLOP/update"] < 5
    assert hourly["unit"] == "policies/h"
    seconds = 10_000 / speed["value"] + hourly["config"]["cached_compile_s"]
    assert hourly["value"] == pytest.approx(2 * 3600 / seconds)
    json.dumps(rows, allow_nan=False)
    assert "| bcq-lagrangian | 128 | 256 |" in bench_table(rows)


def test_the_command_prints_json(monkeypatch):
    monkeypatch.setattr(measured, "bench_learn", lambda seconds, cores: iter([{"name": "x", "cores": cores}]))
    monkeypatch.setattr("rci.engines.cores.prepare_process", lambda: None)
    result = CliRunner().invoke(app, ["bench", "learn", "--json"])
    assert json.loads(result.stdout) == [{"name": "x", "cores": len(os.sched_getaffinity(0))}]
    assert CliRunner().invoke(app, ["bench", "learn", "--seconds", "0"]).exit_code == 2
