"""Redistributors in NumPy, step by step: what each has learned to say of an episode so far.

What is fitted is a function (state, features) -> (score, state); the state of a new episode is None, and the features
of a step are its observation and action, or what it led to. The score is that of `rci.redistribution.score`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rci.data.record import Array
from rci.deploy.attention import Past, stepwise
from rci.deploy.layers import Net, Weights, mlp, normaliser, part, sigmoid

Score = Callable[[Any, Array], tuple[float, Any]]
Cell = Callable[[Any, Array], tuple[Array, Any]]  # (state, input) -> (output, state)
LOWEST = -7.0  # the least log-survival of one step in `traces`


class Scorer(NamedTuple):
    """make(weights, config) -> Score.

    `of_sum` turns the sum of the scores so far into the predicted episodic cost; without it every score is such a
    prediction. `ahead`: the features of a step are the observation that it led to, not its own with its action.
    """

    make: Callable[[Weights, Mapping[str, Any]], Score]
    of_sum: Net | None = None
    ahead: bool = False


def lstm(weights: Weights) -> Cell:
    """A long short-term memory cell, gates in the order input, forget, cell, output."""
    input_weight, hidden_weight, bias = (weights[n] for n in ("input_weight", "hidden_weight", "bias"))
    size = len(hidden_weight)

    def advance(state: Any, x: Array) -> tuple[Array, Any]:
        hidden, cell = state or (np.zeros(size, np.float32), np.zeros(size, np.float32))
        gate = x @ input_weight + bias + hidden @ hidden_weight
        entry, forget, new, out = (
            gate[:size],
            gate[size : 2 * size],
            gate[2 * size : 3 * size],
            gate[3 * size :],
        )
        cell = sigmoid(forget) * cell + sigmoid(entry) * np.tanh(new)
        hidden = sigmoid(out) * np.tanh(cell)
        return hidden, (hidden, cell)

    return advance


def reduced_lstm(weights: Weights) -> Cell:
    """The cell of RUDDER's authors, which can only add."""
    input_weight, input_bias = weights["input_weight"], weights["input_bias"]
    gate_weight, gate_bias = weights["gate_weight"], weights["gate_bias"]

    def advance(state: Any, x: Array) -> tuple[Array, Any]:
        cell = np.zeros(len(gate_bias), np.float32) if state is None else state
        gate = sigmoid(np.tanh(cell) @ gate_weight + gate_bias)
        cell = cell + gate * np.tanh(x @ input_weight + input_bias)
        return np.tanh(cell), cell

    return advance


def gru(weights: Weights) -> Cell:
    """A gated recurrent unit, in the order reset, update, candidate."""
    input_weight, hidden_weight, bias = (weights[n] for n in ("input_weight", "hidden_weight", "bias"))

    def advance(state: Any, x: Array) -> tuple[Array, Any]:
        hidden = np.zeros(len(hidden_weight), np.float32) if state is None else state
        reset, keep, new = np.split(x @ input_weight + bias, 3)
        past_reset, past_keep, past_new = np.split(hidden @ hidden_weight, 3)
        candidate = np.tanh(new + sigmoid(reset + past_reset) * past_new)
        share = sigmoid(keep + past_keep)
        hidden = share * hidden + (np.float32(1.0) - share) * candidate
        return hidden, hidden

    return advance


def attention(weights: Weights, heads: int, window: int) -> Cell:
    """Causal attention over the last steps, of which it keeps keys and values."""
    network = stepwise(weights, heads, window)

    def advance(state: Any, x: Array) -> tuple[Array, Any]:
        past: list[Past] = list(state or ())
        return network(past, x), past

    return advance


def rudder(weights: Weights, config: Mapping[str, Any]) -> Score:
    """The episodic cost that a recurrent cell predicts from the steps so far."""
    cell = {"lstm": lstm, "reduced": reduced_lstm}[config["cell"]](part(weights, "cell"))
    return _with_memory(weights, cell, lambda answer: answer)


def transformer(weights: Weights, config: Mapping[str, Any]) -> Score:
    """The same, predicted by attention."""
    cell = attention(part(weights, "transformer"), config["heads"], config["window"])
    return _with_memory(weights, cell, lambda answer: answer)


def traces(weights: Weights, config: Mapping[str, Any]) -> Score:
    """Minus the logarithm of the chance of surviving the step."""
    return _with_memory(weights, gru(part(weights, "cell")), lambda answer: -LOWEST * sigmoid(answer))


def potential(weights: Weights, config: Mapping[str, Any]) -> Score:
    """The danger of the state that the step has led to."""
    scale, body = normaliser(part(weights, "normalise")), mlp(part(weights, "body"))

    def score(state: Any, features: Array) -> tuple[float, Any]:
        return float(body(scale(features)[None])[0, 0]), None

    return score


def violation_chance(total: Array) -> Array:
    """1 - exp(-total): the chance of a violation that a sum of costs, -log P(safe), stands for."""
    return np.asarray(-np.expm1(-total))


SCORERS: dict[str, Scorer] = {
    "potential": Scorer(potential, ahead=True),
    "rudder": Scorer(rudder),
    "traces": Scorer(traces, violation_chance),
    "transformer": Scorer(transformer),
}


def _with_memory(weights: Weights, cell: Cell, finish: Net) -> Score:
    """Normalised features -> cell -> one number."""
    scale, head = normaliser(part(weights, "normalise")), mlp(part(weights, "head"))

    def score(state: Any, features: Array) -> tuple[float, Any]:
        output, state = cell(state, scale(features))
        return float(finish(head(output[None])[0, 0])), state

    return score
