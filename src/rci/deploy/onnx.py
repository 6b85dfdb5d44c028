"""A trained policy as an ONNX file, for machines without Python.

    rci.export_onnx(policy, "policy.onnx")

Input `obs`: raw observations, float32 [batch, ...]; output `action`: float32 [batch, a], in the units of the log. The
batch may have any size. Policies that choose among candidates draw these from a seed: they are constants of the file,
the same for every observation, and the same that `policy.act(obs, seed)` looks at.

A policy with a memory (cdt) has an input and an output more for each part of it: hand `next_token` back as `token` and
so on. What the memory is at the start of an episode stands in the file's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from rci.data.artefacts.models import Policy
from rci.data.disk.files import replacing
from rci.data.errors import RciError
from rci.data.extras import require_extra
from rci.data.record import Array, check_seed, expect
from rci.data.store import versions
from rci.deploy.onnx_graph import (
    FLOAT,
    Graph,
    Weights,
    committee,
    gaussian,
    mixture,
    mixture_draws,
    mixture_log_density,
    mlp,
    normalise,
    pair_mlp,
    part,
    transformer,
)
from rci.nets.attention import window_bias

OPSET = 17  # of 2022: the first with layer normalisation
IR_VERSION = 8
BOOL = 9  # the number of bool among ONNX's types


class Model(NamedTuple):
    """What a method's graph is made from."""

    weights: Weights
    config: dict[str, Any]  # of the learner
    behaviour: dict[str, Any]
    seed: int


def export_onnx(policy: Policy, path: str | Path, seed: int = 0) -> Path:
    """Write `policy` as an ONNX model. It acts as `policy.act(obs, seed)` does, to about 1e-6.

    The metadata say where it comes from: method, budget, hash of the data, statistics of the observations, version.
    """
    expect(Policy, policy=policy)
    seed = check_seed(seed)
    if Path(path).suffix.lower() != ".onnx":  # an earlier export is replaced, but nothing else
        raise RciError(f"the name of an ONNX file ends in .onnx, got {path}.")
    require_extra("onnx", "writing ONNX files")
    import onnx
    from onnx import helper

    saved = policy.model
    if saved.method not in GRAPHS:
        raise RciError(
            f"{saved.method!r} cannot be written as ONNX. Those that can: {', '.join(sorted(GRAPHS))}."
        )
    weights = {name: np.asarray(array) for name, array in saved.arrays.items()}
    model = Model(weights, saved.config["config"], saved.config["behaviour"], seed)
    shape = [int(size) for size in policy.info.get("obs_shape", [policy.info["obs_size"]])]
    actions = int(policy.info["action_size"])
    graph, memory = Graph(), _memory(policy)
    obs = "obs" if len(shape) == 1 else graph.add("Flatten", "obs", axis=1)
    scaling = part(weights, "behaviour.scaling")
    action = GRAPHS[saved.method](graph, normalise(graph, obs, part(scaling, "obs")), model)
    reached = graph.add("Mul", action, graph.constant(scaling["action_reach"]))
    graph.add("Add", reached, graph.constant(scaling["action_centre"]), outputs=["action"])
    tensor = partial(_tensor, helper.make_tensor_value_info)
    built = helper.make_graph(
        graph.nodes,
        "policy",
        [tensor("obs", np.float32, shape), *(tensor(k, v.dtype, v.shape) for k, v in memory.items())],
        [
            tensor("action", np.float32, [actions]),
            *(tensor(f"next_{k}", v.dtype, v.shape) for k, v in memory.items()),
        ],
        graph.constants,
    )
    file = helper.make_model(built, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="rci")
    file.ir_version, file.producer_version = IR_VERSION, versions()["rci"]
    helper.set_model_props(file, _metadata(policy, seed, memory))
    onnx.checker.check_model(file, full_check=True)
    with replacing(path, overwrite=True) as temporary:
        temporary.write_bytes(file.SerializeToString())
    return Path(path)


def clone(graph: Graph, obs: str, model: Model) -> str:
    """bc and bc-safe: tanh of a network."""
    return graph.add("Tanh", mlp(graph, obs, part(model.weights, "network")))


def mode_of(name: str, graph: Graph, obs: str, model: Model) -> str:
    """cpq and coptidice: the action of the mean of a Gaussian actor, which is stored under `name`."""
    return graph.add("Tanh", gaussian(graph, obs, part(model.weights, name))[0])


def bcq_lagrangian(graph: Graph, obs: str, model: Model) -> str:
    """Decoded candidates, each nudged, and the one with the highest Q - sum of lambda * cost."""
    candidate, _ = _proposals(graph, obs, model)
    turn = graph.add("Tanh", pair_mlp(graph, obs, candidate, part(model.weights, "networks.actor")))
    nudged = graph.add("Add", candidate, graph.add("Mul", turn, graph.constant(model.weights["hyper.nudge"])))
    action = graph.add("Clip", nudged, graph.constant(-1.0), graph.constant(1.0))
    return _best(graph, obs, action, model)


def feasible(graph: Graph, obs: str, model: Model) -> str:
    """Of the proposals below the threshold the one with the highest Q + weight * log b, else the least dangerous."""
    last = graph.constant([2], np.int64)
    action, likelihood = _proposals(graph, obs, model)
    answers = committee(graph, obs, action, part(model.weights, "critic"))
    ends = (graph.constant([end], np.int64) for end in (0, 1))
    first = graph.add("Slice", _extreme(graph, "Min", answers), *ends, last)
    value = graph.add("Squeeze", first, last)
    if likelihood is not None:
        actions = len(model.weights["behaviour.scaling.action_centre"])
        weight = graph.constant(model.weights["hyper.likelihood_weight"] / np.float32(actions))
        value = graph.add("Add", value, graph.add("Mul", likelihood, weight))
    threshold = model.weights["hyper.threshold"]
    ends = (graph.constant([end], np.int64) for end in (1, 1 + len(threshold)))
    cost = graph.add("Slice", _extreme(graph, "Max", answers), *ends, last)
    if model.config["head"] != "linear":
        cost = graph.add("Sigmoid", cost)
    over = graph.add("Sub", cost, graph.constant(threshold))
    excess = graph.add("ReduceMax", over, axes=[2], keepdims=0)
    allowed = graph.add("Less", excess, graph.constant(0.0))
    some = graph.add("ReduceMax", graph.add("Cast", allowed, to=FLOAT), axes=[1], keepdims=1)
    kept = graph.add("Where", allowed, value, graph.constant(-np.inf))
    score = graph.add("Where", graph.add("Cast", some, to=BOOL), kept, graph.add("Neg", excess))
    return _taken(graph, score, action)


def bear_lagrangian(graph: Graph, obs: str, model: Model) -> str:
    """Draws of the actor, and the one with the highest Q - sum of lambda * Q_c."""
    mean, log_deviation = gaussian(graph, obs, part(model.weights, "networks.actor"))
    axis = graph.constant([1], np.int64)
    mean = graph.add("Unsqueeze", mean, axis)
    deviation = graph.add("Unsqueeze", graph.add("Exp", log_deviation), axis)
    noise = graph.constant(_normal(model, len(model.weights["behaviour.scaling.action_centre"])))
    action = graph.add("Tanh", graph.add("Add", mean, graph.add("Mul", deviation, noise)))
    return _best(graph, obs, action, model)


def cdt(graph: Graph, obs: str, model: Model) -> str:
    """The new token behind those of the memory, the action of its place, and what is left to earn and to cost."""
    weights, steps, heads = model.weights, model.config["context"], model.config["heads"]
    one, last_two = graph.constant([1], np.int64), graph.constant([1, 2], np.int64)
    to_go = normalise(graph, "to_go", part(weights, "to_go_scale"))
    new = graph.add("Concat", to_go, obs, "before", axis=-1)
    start, end = graph.constant([0], np.int64), graph.constant([steps], np.int64)
    oldest, others = (graph.add("Slice", "token", *span, one) for span in ((start, one), (one, end)))
    rolled = graph.add("Concat", others, oldest, axis=1)
    full = graph.add("GreaterOrEqual", "taken", graph.constant(steps, np.int32))
    token = graph.add("Where", graph.add("Unsqueeze", full, last_two), rolled, "token")
    place = graph.add("Min", "taken", graph.constant(steps - 1, np.int32))
    column = graph.add("Unsqueeze", place, one)
    here = graph.add("Equal", column, graph.constant(np.arange(steps)[None], np.int32))
    here = graph.add("Unsqueeze", here, graph.constant([2], np.int64))
    token = graph.add("Where", here, graph.add("Unsqueeze", new, one), token, outputs=["next_token"])
    bias = np.asarray(window_bias(steps, steps, heads))[None, :, :, steps:]
    feature = transformer(graph, token, part(weights, "network.trunk"), steps, heads, bias)
    index = graph.add("Cast", column, to=_element(np.int64))
    feature = graph.add("GatherND", feature, index, batch_dims=1)
    action = graph.add(
        "Tanh", mlp(graph, feature, part(weights, "network.action_head")), outputs=["next_before"]
    )
    pair = graph.add("Unsqueeze", action, one)
    estimate = pair_mlp(graph, feature, pair, part(weights, "network.signal_head"))
    estimate = graph.add("Squeeze", estimate, one)
    size, mean = (graph.constant(weights[f"signal_scale.{name}"]) for name in ("scale", "mean"))
    spent = graph.add("Add", mean, graph.add("Mul", size, estimate))
    graph.add("Sub", "to_go", spent, outputs=["next_to_go"])
    graph.add("Add", "taken", graph.constant(1, np.int32), outputs=["next_taken"])
    return action


GRAPHS: dict[str, Callable[[Graph, str, Model], str]] = {
    "bc": clone,
    "bc-safe": clone,
    "bcq-lagrangian": bcq_lagrangian,
    "bear-lagrangian": bear_lagrangian,
    "cdt": cdt,
    "coptidice": partial(mode_of, "actor"),
    "cpq": partial(mode_of, "networks.actor"),
    "feasible": feasible,
}


def _proposals(graph: Graph, obs: str, model: Model) -> tuple[str, str | None]:
    """What the behaviour model proposes, [B, n, a], and the log density there where it has one, [B, n]."""
    behaviour, weights = model.behaviour, model.weights
    if behaviour["model"] == "vae":
        decoder = part(weights, "behaviour.model.decoder")
        drawn = _normal(model, len(decoder["action_weight"]))
        latent = graph.constant(np.clip(drawn, -behaviour["latent_limit"], behaviour["latent_limit"]))
        return graph.add("Tanh", pair_mlp(graph, obs, latent, decoder)), None
    components, actions = behaviour["components"], behaviour["action_size"]
    drawn = _normal(model, actions)
    place = (np.arange(len(drawn), dtype=np.float32) + np.float32(0.5)) / np.float32(len(drawn))
    noise = np.clip(drawn, -behaviour["noise_limit"], behaviour["noise_limit"])
    parts = mixture(graph, obs, part(weights, "behaviour.model.density"), components)
    draws = np.concatenate([place[:, None], noise], axis=1)
    action = mixture_draws(graph, parts, components, draws)
    return action, mixture_log_density(graph, parts, action, actions)


def _extreme(graph: Graph, operator: str, answers: list[str]) -> str:
    """The lowest or the highest answer of several critics."""
    return answers[0] if len(answers) == 1 else graph.add(operator, *answers)


def _taken(graph: Graph, score: str, action: str) -> str:
    """The action of [B, n, a] with the highest score [B, n]; the first one wins a tie."""
    index = graph.add("ArgMax", score, axis=1, keepdims=1, select_last_index=0)
    return graph.add("GatherND", action, index, batch_dims=1)


def _best(graph: Graph, obs: str, action: str, model: Model) -> str:
    """The action of [B, n, a] with the highest Q - sum of lambda * cost; the first one wins a tie."""
    weights = model.weights
    pessimism = weights["hyper.reward_pessimism"]
    critics = committee(graph, obs, action, part(weights, "networks.reward_critic"))
    reward_q = graph.add("Squeeze", _soft_minimum(graph, critics, pessimism), graph.constant([2], np.int64))
    if step_cost := part(weights, "networks.step_cost"):
        cost = pair_mlp(graph, obs, action, step_cost)
    else:
        critics = committee(graph, obs, action, part(weights, "networks.cost_critic"))
        cost = _soft_minimum(graph, critics, 1 - weights["hyper.cost_pessimism"])
    if model.config.get("pricing") == "hinge":
        cost = graph.add("Relu", graph.add("Sub", cost, graph.constant(weights["hyper.threshold"])))
        priced = graph.add("Mul", cost, graph.constant(weights["hyper.hinge_price"]))
    else:
        priced = graph.add("Mul", cost, graph.constant(weights["multiplier"]))
    price = graph.add("ReduceSum", priced, graph.constant([2], np.int64), keepdims=0)
    return _taken(graph, graph.add("Sub", reward_q, price), action)


def _soft_minimum(graph: Graph, critics: list[str], weight: Any) -> str:
    """weight * min + (1 - weight) * max of the critics."""
    low = graph.add("Mul", graph.add("Min", *critics), graph.constant(weight))
    high = graph.add("Mul", graph.add("Max", *critics), graph.constant(1 - weight))
    return graph.add("Add", low, high)


def _normal(model: Model, size: int) -> Array:
    """What the policy draws for its candidates, [n, size]."""
    return np.asarray(jax.random.normal(jax.random.key(model.seed), (model.config["test_candidates"], size)))


def _memory(policy: Policy) -> dict[str, Array]:
    """The parts of a memory by name; none for a policy that has none."""
    parts = policy.memory._asdict() if hasattr(policy.memory, "_asdict") else {}
    return {name: np.asarray(value) for name, value in parts.items()}


def _tensor(make: Callable[..., Any], name: str, dtype: Any, shape: Any) -> Any:
    """An input or output with a free batch dimension."""
    return make(name, _element(dtype), ["batch", *shape])


def _element(dtype: Any) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _metadata(policy: Policy, seed: int, memory: dict[str, Array]) -> dict[str, str]:
    """Where the policy comes from, as text; numbers and lists as JSON."""
    scaling, info = part(policy.model.arrays, "behaviour.scaling"), policy.info
    facts = {
        "method": policy.model.method,
        "budget": info["budget"],
        "threshold": info["threshold"],
        "dataset_hash": info[
            "costs_hash"
        ],  # the step costs name their labels by hash, and these their episodes
        "policy_hash": policy.hash,
        "obs_shape": info.get("obs_shape", [info["obs_size"]]),
        "obs_mean": np.asarray(scaling["obs.mean"]).tolist(),
        "obs_scale": np.asarray(scaling["obs.scale"]).tolist(),
        "seed": seed,
        "rci_version": versions()["rci"],
        **({"memory": {name: value.tolist() for name, value in memory.items()}} if memory else {}),
    }
    return {name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items()}
