"""Causal attention over a window of the past, of one step at a time or of a whole window."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rci.data.record import Array
from rci.deploy.layers import Net, Weights, layer_norm, mlp, part, parts

Past = tuple[Array, Array]  # keys and values of the last steps, [K, heads, width] each


def slopes(heads: int) -> Array:
    """[heads]: 2^(-8 h / heads), h = 1 .. heads. What one step of distance takes off a score."""
    return (2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)).astype(np.float32)


def attend(query: Array, key: Array, value: Array, distance: Array) -> Array:
    """softmax(q . k / sqrt(D) - slope * distance) v, where distance [Q, K] is not negative.

    query [..., Q, heads, D]; key and value [..., K, heads, D]; result [..., Q, heads, D].
    """
    heads, width = query.shape[-2:]
    seen = np.where(distance >= 0, -slopes(heads)[:, None, None] * distance, -np.inf).astype(np.float32)
    query, key, value = (np.swapaxes(x, -3, -2) for x in (query, key, value))
    logit = query @ np.swapaxes(key, -1, -2) * np.float32(width**-0.5) + seen
    weight = np.exp(logit - logit.max(axis=-1, keepdims=True))
    return np.swapaxes(weight / weight.sum(axis=-1, keepdims=True) @ value, -3, -2)


def whole(weights: Weights, heads: int) -> Net:
    """A transformer whose window is as long as its input: [B, T, features] -> [B, T, hidden]."""
    embed, blocks, norm = _trunk(weights)

    def apply(x: Array) -> Array:
        x = embed(x)
        step = np.arange(x.shape[1])
        distance = step[:, None] - step[None]
        for own in blocks:
            query, key, value = own.split(x, heads)
            x = own.finish(x, attend(query, key, value, distance))
        return norm(x)

    return apply


def stepwise(weights: Weights, heads: int, window: int) -> Callable[[list[Past], Array], Array]:
    """The same for one step after the other: (past, [features]) -> [hidden]. `past` gets the step's keys and values."""
    embed, blocks, norm = _trunk(weights)

    def apply(past: list[Past], x: Array) -> Array:
        x = embed(x[None])
        for i, own in enumerate(blocks):
            query, *new = own.split(x, heads)
            if len(past) > i:
                new = [np.concatenate([old[1 - window :], one])[-window:] for old, one in zip(past[i], new)]
            past[i : i + 1] = [(new[0], new[1])]
            distance = np.arange(len(new[0]) - 1, -1, -1)[None]
            x = own.finish(x, attend(query, *past[i], distance))
        return np.asarray(norm(x)[0])

    return apply


class Block:
    """x + attention(norm(x)), then x + dense(norm(x)), on [..., T, features], the attention being done outside."""

    def __init__(self, weights: Weights) -> None:
        self.attention_norm = layer_norm(part(weights, "attention_norm"))
        self.dense_norm = layer_norm(part(weights, "dense_norm"))
        self.dense = mlp(part(weights, "dense"))
        self.input_weight, self.output_weight = weights["input_weight"], weights["output_weight"]

    def split(self, x: Array, heads: int) -> list[Array]:
        """Queries, keys and values of each step, [..., T, heads, width]."""
        joint = self.attention_norm(x) @ self.input_weight
        return np.split(joint.reshape(*x.shape[:-1], 3 * heads, -1), 3, axis=-2)

    def finish(self, x: Array, mixed: Array) -> Array:
        """The output of the block from what its attention saw."""
        x = x + mixed.reshape(x.shape) @ self.output_weight
        return np.asarray(x + self.dense(self.dense_norm(x)))


def _trunk(weights: Weights) -> tuple[Net, list[Block], Net]:
    weight, bias = weights["embedding_weight"], weights["embedding_bias"]
    blocks = [Block(own) for own in parts(weights, "blocks")]
    return lambda x: np.asarray(x @ weight + bias), blocks, layer_norm(part(weights, "norm"))
