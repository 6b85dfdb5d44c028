"""Networks as nodes of an ONNX graph: what `rci.nets` computes, in operators that every runtime knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rci.data.record import Array
from rci.nets.gaussian import LOG_DEVIATION_RANGE
from rci.nets.mixture import HALF_LOG_TWO_PI
from rci.nets.mixture import LOG_DEVIATION_RANGE as MIXTURE_LOG_DEVIATION_RANGE

Weights = Mapping[str, Array]
FLOAT = 1  # the number of float32 among ONNX's types


class Graph:
    """Nodes in the order in which they were added, and the constants that they use. A value is known by its name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """A number or an array that is part of the model."""
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def add(self, operator: str, *inputs: str, outputs: Sequence[str] = (), **attributes: Any) -> str:
        """Apply an operator; the name of its result, or of its first one."""
        from onnx import helper

        names = list(outputs) or [f"value_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0]


def part(weights: Weights, name: str) -> dict[str, Array]:
    """The arrays whose names begin with `name` and a dot, without that beginning."""
    return {key[len(name) + 1 :]: array for key, array in weights.items() if key.startswith(f"{name}.")}


def affine(graph: Graph, x: str, weight: Array, bias: Array) -> str:
    """x @ weight + bias on the last axis."""
    return graph.add("Add", graph.add("MatMul", x, graph.constant(weight)), graph.constant(bias))


def mlp(graph: Graph, x: str, weights: Weights) -> str:
    """Affine maps with ReLU between them."""
    count = len(part(weights, "weights"))
    for i in range(count):
        x = affine(graph, x, weights[f"weights.{i}"], weights[f"biases.{i}"])
        if i < count - 1:
            x = graph.add("Relu", x)
    return x


def first_layer(graph: Graph, obs: str, action: str, weights: Weights) -> str:
    """obs [B, d] with each of its actions [B, n, a] or [n, a], through the first layer: [B, n, hidden]."""
    from_obs = affine(graph, obs, weights["obs_weight"], weights["bias"])
    from_obs = graph.add("Unsqueeze", from_obs, graph.constant([1], np.int64))
    from_action = graph.add("MatMul", action, graph.constant(weights["action_weight"]))
    return graph.add("Relu", graph.add("Add", from_obs, from_action))


def pair_mlp(graph: Graph, obs: str, action: str, weights: Weights) -> str:
    """A network of observations and actions: [B, n, outputs]."""
    return mlp(graph, first_layer(graph, obs, action, weights), part(weights, "rest"))


def committee(graph: Graph, obs: str, action: str, weights: Weights) -> list[str]:
    """Several of them, whose first layers are one; or of rows, each by itself."""
    if members := part(weights, "members"):
        count = len({name.split(".")[0] for name in members})
        return [row_mlp(graph, obs, part(members, str(i)), action) for i in range(count)]
    hidden = first_layer(graph, obs, action, weights)
    count = len({name.split(".")[0] for name in part(weights, "rest")})
    if count == 1:
        return [mlp(graph, hidden, part(weights, "rest.0"))]
    width = len(weights["bias"]) // count
    names = [f"{hidden}_{i}" for i in range(count)]
    graph.add("Split", hidden, graph.constant([width] * count, np.int64), outputs=names, axis=-1)
    return [mlp(graph, name, part(weights, f"rest.{i}")) for i, name in enumerate(names)]


def row_mlp(graph: Graph, obs: str, weights: Weights, action: str | None = None) -> str:
    """A network of observations that are tables, flat: [B, outputs], or with actions [B, n, a]: [B, n, outputs]."""
    one, features = graph.constant([1], np.int64), len(weights["obs_weight"]) // 2
    row = graph.add("Reshape", obs, graph.constant([0, -1, features], np.int64))  # 0: as many as there are
    first_row = graph.add("Slice", row, graph.constant([0], np.int64), one, one)
    first_row = graph.add("Expand", first_row, graph.add("Shape", row))
    size = graph.add("ReduceMax", graph.add("Abs", row), axes=[2], keepdims=1)
    there = graph.add("Cast", graph.add("Greater", size, graph.constant(0.0)), to=FLOAT)
    hidden = affine(
        graph, graph.add("Concat", first_row, row, axis=2), weights["obs_weight"], weights["bias"]
    )
    if action is not None:
        from_action = graph.add("MatMul", action, graph.constant(weights["action_weight"]))
        from_action = graph.add("Unsqueeze", from_action, graph.constant([-2], np.int64))
        hidden = graph.add("Add", graph.add("Unsqueeze", hidden, one), from_action)
        there = graph.add("Unsqueeze", there, one)
    seen = affine(graph, graph.add("Relu", hidden), weights["row_weight"], weights["row_bias"])
    seen = graph.add("Mul", graph.add("Relu", seen), there)
    return mlp(graph, graph.add("ReduceMax", seen, axes=[-2], keepdims=0), part(weights, "rest"))


def gaussian(graph: Graph, obs: str, weights: Weights) -> tuple[str, str]:
    """Mean and log deviation of a Gaussian actor before tanh, [B, a] each."""
    answer = mlp(graph, obs, part(weights, "net"))
    size = len(part(weights, "net.biases")[str(len(part(weights, "net.biases")) - 1)]) // 2
    names = [f"{answer}_mean", f"{answer}_deviation"]
    graph.add("Split", answer, graph.constant([size, size], np.int64), outputs=names, axis=-1)
    low, high = (graph.constant(end) for end in LOG_DEVIATION_RANGE)
    return names[0], graph.add("Clip", names[1], low, high)


def mixture(graph: Graph, obs: str, weights: Weights, components: int) -> tuple[str, str, str]:
    """Log weights [B, k], means and log deviations [B, k, a] of a conditional mixture of Gaussians."""
    net = part(weights, "net")
    by_rows = "row_weight" in net
    answer = row_mlp(graph, obs, net) if by_rows else mlp(graph, obs, net)
    biases = part(net, "rest.biases" if by_rows else "biases")
    rest = (len(biases[str(len(biases) - 1)]) - components) // 2
    names = [f"{answer}_{name}" for name in ("weight", "mean", "deviation")]
    graph.add("Split", answer, graph.constant([components, rest, rest], np.int64), outputs=names, axis=-1)
    shape = graph.constant([0, components, rest // components], np.int64)  # 0: as many as there are
    mean, deviation = (graph.add("Reshape", name, shape) for name in names[1:])
    low, high = (graph.constant(end) for end in MIXTURE_LOG_DEVIATION_RANGE)
    return graph.add("LogSoftmax", names[0], axis=-1), mean, graph.add("Clip", deviation, low, high)


def mixture_draws(graph: Graph, parts: tuple[str, str, str], components: int, draws: Array) -> str:
    """Actions [B, n, a] from draws [n, 1 + a]: a place among the weights, and normal ones."""
    last = graph.constant([2], np.int64)
    ends = graph.add("CumSum", graph.add("Exp", parts[0]), graph.constant(1, np.int64))
    borders = graph.constant([0], np.int64), graph.constant([components - 1], np.int64)
    inner = graph.add("Slice", ends, *borders, graph.constant([1], np.int64))
    inner = graph.add("Unsqueeze", inner, graph.constant([1], np.int64))  # [B, 1, k - 1]
    passed = graph.add("Greater", graph.constant(draws[None, :, :1]), inner)
    number = graph.add("Cast", passed, to=FLOAT)
    index = graph.add("ReduceSum", number, last, keepdims=1)
    chosen = graph.add("Equal", index, graph.constant(np.arange(components)[None, None]))
    chosen = graph.add("Cast", chosen, to=FLOAT)  # [B, n, k]
    mean, log_deviation = (graph.add("MatMul", chosen, each) for each in parts[1:])
    spread = graph.add("Mul", graph.add("Exp", log_deviation), graph.constant(draws[None, :, 1:]))
    return graph.add("Clip", graph.add("Add", mean, spread), graph.constant(-1.0), graph.constant(1.0))


def mixture_log_density(graph: Graph, parts: tuple[str, str, str], action: str, actions: int) -> str:
    """log of the density at actions [B, n, a]: [B, n]."""
    one, two, three = (graph.constant([axis], np.int64) for axis in (1, 2, 3))
    mean, log_deviation = (graph.add("Unsqueeze", each, one) for each in parts[1:])  # [B, 1, k, a]
    apart = graph.add("Sub", graph.add("Unsqueeze", action, two), mean)
    z = graph.add("Div", apart, graph.add("Exp", log_deviation))
    square = graph.add("ReduceSum", graph.add("Mul", z, z), three, keepdims=0)
    width = graph.add("ReduceSum", log_deviation, three, keepdims=0)
    shift = graph.add("Sub", graph.add("Unsqueeze", parts[0], one), width)
    each = graph.add("Add", graph.add("Mul", square, graph.constant(-0.5)), shift)
    total = graph.add("ReduceLogSumExp", each, axes=[2], keepdims=0)
    return graph.add("Sub", total, graph.constant(HALF_LOG_TWO_PI * actions))


def normalise(graph: Graph, x: str, weights: Weights) -> str:
    """(x - mean) / scale."""
    centred = graph.add("Sub", x, graph.constant(weights["mean"]))
    return graph.add("Div", centred, graph.constant(weights["scale"]))


def layer_norm(graph: Graph, x: str, weights: Weights) -> str:
    """Mean 0 and deviation 1 over the last axis, then gain and bias."""
    scale = graph.constant(weights["gain"]), graph.constant(weights["bias"])
    return graph.add("LayerNormalization", x, *scale, axis=-1, epsilon=1e-5)


def transformer(graph: Graph, x: str, weights: Weights, steps: int, heads: int, bias: Array) -> str:
    """Causal attention on [B, steps, features]. bias [1, heads, steps, steps]: what distance takes off a score."""
    x = affine(graph, x, weights["embedding_weight"], weights["embedding_bias"])
    width = weights["embedding_weight"].shape[1]
    count = len({name.split(".")[0] for name in part(weights, "blocks")})
    split = graph.constant([0, steps, heads, width // heads], np.int64)  # 0: as many as there are
    join = graph.constant([0, steps, width], np.int64)
    scale, distance = graph.constant((width // heads) ** -0.5), graph.constant(bias)
    for i in range(count):
        block = part(weights, f"blocks.{i}")
        joint = graph.add(
            "MatMul",
            layer_norm(graph, x, part(block, "attention_norm")),
            graph.constant(block["input_weight"]),
        )
        names = [f"{joint}_{name}" for name in ("query", "key", "value")]
        graph.add("Split", joint, graph.constant([width] * 3, np.int64), outputs=names, axis=-1)
        query, key, value = (
            graph.add("Transpose", graph.add("Reshape", name, split), perm=order)
            for name, order in zip(names, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        )
        logit = graph.add("Add", graph.add("Mul", graph.add("MatMul", query, key), scale), distance)
        mixed = graph.add("MatMul", graph.add("Softmax", logit, axis=-1), value)
        mixed = graph.add("Reshape", graph.add("Transpose", mixed, perm=[0, 2, 1, 3]), join)
        x = graph.add("Add", x, graph.add("MatMul", mixed, graph.constant(block["output_weight"])))
        dense = mlp(graph, layer_norm(graph, x, part(block, "dense_norm")), part(block, "dense"))
        x = graph.add("Add", x, dense)
    return layer_norm(graph, x, part(weights, "norm"))
