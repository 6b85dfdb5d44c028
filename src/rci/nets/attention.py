"""Causal attention over a window of the past, without any notion of absolute time.

A step attends to itself and to at most `window - 1` steps before it, and how far back a step lies counts, not which
step it is. Work and memory grow with T * window instead of T * T: the sequence is cut into blocks as long as the
window, so that everything a block may attend to lies in it and in the block before it.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp

from rci.nets.dense import Mlp, affine, rows_of

WIDENING = 2  # hidden units of a block's dense network for each of its features


def alibi_slopes(heads: int) -> jax.Array:
    """[heads]: 2^(-8 h / heads), h = 1 .. heads. What one step of distance takes off a score; every head its own."""
    return 2.0 ** (-8.0 * jnp.arange(1, heads + 1) / heads)


def window_bias(length: int, window: int, heads: int) -> jax.Array:
    """[heads, length, 2 * length]: minus slope * distance, or minus infinity where a query may not look.

    Queries are a block of `length` steps, keys the block before it and then the same block. Distances 0 to
    window - 1 are seen, so that nothing of the future is, and length >= window - 1 misses nothing.
    """
    distance = length + jnp.arange(length)[:, None] - jnp.arange(2 * length)[None, :]
    seen = (distance >= 0) & (distance < window)
    return jnp.where(seen[None], -alibi_slopes(heads)[:, None, None] * distance[None], -jnp.inf)


def local_attention(query: jax.Array, key: jax.Array, value: jax.Array, window: int) -> jax.Array:
    """softmax_u(q[t] . k[u] / sqrt(D) - slope * (t - u)) v[u] over t - window < u <= t. All [B, T, heads, D].

    Zeros fill up the last block and are cut off again. They lie in the future of every real step.
    """
    batch, steps, heads, width = query.shape
    length = min(window, steps)
    count = -(-steps // length)
    filler = ((0, 0), (0, count * length - steps), (0, 0), (0, 0))

    def blocks(x: jax.Array) -> jax.Array:
        return jnp.pad(x, filler).reshape(batch, count, length, heads, width)

    def with_previous(x: jax.Array) -> jax.Array:
        before = jnp.pad(x[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))
        return jnp.concatenate([before, x], axis=2)

    query, key, value = blocks(query), blocks(key), blocks(value)
    bias = window_bias(length, window, heads)
    if count == 1:  # the only block has none before it
        bias = bias[None, :, :, length:]
    else:
        key, value = with_previous(key), with_previous(value)
        bias = jnp.stack([bias] * count).at[0, :, :, :length].set(-jnp.inf)
    logit = jnp.einsum("bnqhd,bnkhd->bnhqk", query, key) * width**-0.5 + bias[None]
    mixed = jnp.einsum("bnhqk,bnkhd->bnqhd", jax.nn.softmax(logit, axis=-1), value)
    return mixed.reshape(batch, count * length, heads, width)[:, :steps]


class LayerNorm(eqx.Module):
    """gain * (x - mean) / sqrt(variance + 1e-5) + bias, over the features of each step. [..., features]."""

    gain: jax.Array
    bias: jax.Array

    def __init__(self, features: int) -> None:
        self.gain, self.bias = jnp.ones(features), jnp.zeros(features)

    def __call__(self, x: jax.Array) -> jax.Array:
        mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
        scaled = (x - mean) / jnp.sqrt(variance + 1e-5)
        return rows_of(self.gain, x) * scaled + rows_of(self.bias, x)


class AttentionBlock(eqx.Module):
    """x + attention(norm(x)), then x + dense(norm(x)). Input and output [B, T, features]."""

    attention_norm: LayerNorm
    input_weight: jax.Array  # [features, 3 * features]: queries, keys, values, each split into heads
    output_weight: jax.Array  # [features, features]
    dense_norm: LayerNorm
    dense: Mlp
    heads: int = eqx.field(static=True)
    window: int = eqx.field(static=True)

    def __init__(self, key: jax.Array, features: int, heads: int, window: int) -> None:
        input_key, output_key, dense_key = jax.random.split(key, 3)
        scale = features**-0.5
        self.attention_norm, self.dense_norm = LayerNorm(features), LayerNorm(features)
        self.input_weight = scale * jax.random.normal(input_key, (features, 3 * features))
        self.output_weight = scale * jax.random.normal(output_key, (features, features))
        self.dense = Mlp(dense_key, (features, WIDENING * features, features))
        self.heads, self.window = heads, window

    def __call__(self, x: jax.Array) -> jax.Array:
        joint = self.attention_norm(x) @ self.input_weight
        query, key, value = jnp.split(joint.reshape(*x.shape[:2], 3 * self.heads, -1), 3, axis=2)
        x = x + local_attention(query, key, value, self.window).reshape(x.shape) @ self.output_weight
        return x + self.dense(self.dense_norm(x))


class Transformer(eqx.Module):
    """Causal attention blocks, normalised before each. Input [B, T, features], output [B, T, hidden].

    The output at step t depends on the inputs t - layers * (window - 1) .. t only, and not on t: the same inputs later
    in a sequence give the same output, except that the first steps of a sequence have less to look back at.
    """

    embedding_weight: jax.Array  # [features, hidden]
    embedding_bias: jax.Array  # [hidden]
    blocks: tuple[AttentionBlock, ...]
    norm: LayerNorm

    def __init__(
        self, key: jax.Array, features: int, hidden: int, heads: int, layers: int, window: int
    ) -> None:
        first, *rest = jax.random.split(key, 1 + layers)
        self.embedding_weight = features**-0.5 * jax.random.normal(first, (features, hidden))
        self.embedding_bias = jnp.zeros(hidden)
        self.blocks = tuple(AttentionBlock(k, hidden, heads, window) for k in rest)
        self.norm = LayerNorm(hidden)

    def __call__(self, x: jax.Array) -> jax.Array:
        x = affine(x, self.embedding_weight, self.embedding_bias)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
