"""Fully connected networks. Written on batches, because one large matrix product is what a CPU does best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp

T = TypeVar("T")


def rows_of(vector: jax.Array, like: jax.Array) -> jax.Array:
    """[features] -> the shape of `like`, every row the same. Explicit, because silent promotion hides mistakes."""
    return jnp.broadcast_to(vector, like.shape)


def affine(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """x @ weight + bias on the last axis."""
    product = x @ weight
    return product + rows_of(bias, product)


def in_blocks(function: Callable[[jax.Array], T], rows: jax.Array, size: int) -> T:
    """function(rows), some rows at a time: what lies between fits into a cache.

    Every answer of the function has an axis for the rows in front. The last block is filled up with first rows.
    """
    count = len(rows)
    if count <= size:
        return function(rows)
    blocks = -(-count // size)
    filled = rows[jnp.arange(blocks * size) % count].reshape(blocks, size, *rows.shape[1:])
    answers = jax.lax.map(function, filled)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:count], answers)


class Mlp(eqx.Module):
    """Affine maps with ReLU between them. Input [..., sizes[0]], output [..., sizes[-1]].

    A small `last_scale` makes a new network answer about `last_bias` whatever its key, 0 if not given.
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]

    def __init__(
        self,
        key: jax.Array,
        sizes: Sequence[int],
        last_scale: float = 1.0,
        last_bias: jax.Array | None = None,
    ) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        weights = [first_weight(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:])]
        self.weights = (*weights[:-1], last_scale * weights[-1])
        biases = [jnp.zeros(size) for size in sizes[1:]]
        self.biases = (*biases[:-1], biases[-1] if last_bias is None else last_bias)

    def __call__(self, x: jax.Array) -> jax.Array:
        for weight, bias in zip(self.weights[:-1], self.biases[:-1]):
            x = jax.nn.relu(affine(x, weight, bias))
        return affine(x, self.weights[-1], self.biases[-1])


class PairMlp(eqx.Module):
    """A network of an observation and an action, [..., outputs].

    obs [..., d] may have fewer axes than action [..., n, a]: then every one of the n actions is paired with the
    same observation, whose share of the first layer is computed once instead of n times.
    """

    obs_weight: jax.Array
    action_weight: jax.Array
    bias: jax.Array
    rest: Mlp

    def __init__(
        self,
        key: jax.Array,
        obs_size: int,
        action_size: int,
        sizes: Sequence[int],
        last_scale: float = 1.0,
        last_bias: jax.Array | None = None,
    ) -> None:
        first_key, rest_key = jax.random.split(key)
        joint = first_weight(first_key, obs_size + action_size, sizes[0])
        self.obs_weight, self.action_weight = joint[:obs_size], joint[obs_size:]
        self.bias = jnp.zeros(sizes[0])
        self.rest = Mlp(rest_key, sizes, last_scale, last_bias)

    def __call__(self, obs: jax.Array, action: jax.Array) -> jax.Array:
        from_obs = affine(obs, self.obs_weight, self.bias)
        if action.ndim > obs.ndim:
            from_obs = from_obs[..., None, :]
        return self.rest(jax.nn.relu(from_obs + action @ self.action_weight))


class Committee(eqx.Module):
    """Several networks of an observation and an action, told apart only by how they began: [..., outputs] each.

    Their first layers are one matrix, because one wide product is faster than several narrow ones.
    """

    obs_weight: jax.Array  # [d, members * hidden]
    action_weight: jax.Array
    bias: jax.Array
    rest: tuple[Mlp, ...]

    def __init__(
        self,
        key: jax.Array,
        obs_size: int,
        action_size: int,
        sizes: Sequence[int],
        members: int,
        last_scale: float = 1.0,
        last_bias: jax.Array | None = None,
    ) -> None:
        nets = [
            PairMlp(k, obs_size, action_size, sizes, last_scale, last_bias)
            for k in jax.random.split(key, members)
        ]
        self.obs_weight = jnp.concatenate([net.obs_weight for net in nets], axis=1)
        self.action_weight = jnp.concatenate([net.action_weight for net in nets], axis=1)
        self.bias = jnp.concatenate([net.bias for net in nets])
        self.rest = tuple(net.rest for net in nets)

    def member(self, index: int) -> PairMlp:
        """One of them, by itself."""
        width = len(self.bias) // len(self.rest)
        own = slice(index * width, (index + 1) * width)
        rest = self.rest[index]
        sizes = (width, *(len(bias) for bias in rest.biases))
        blank = PairMlp(jax.random.key(0), len(self.obs_weight), len(self.action_weight), sizes)
        parts = self.obs_weight[:, own], self.action_weight[:, own], self.bias[own], rest
        return eqx.tree_at(lambda net: (net.obs_weight, net.action_weight, net.bias, net.rest), blank, parts)

    def __len__(self) -> int:
        return len(self.rest)

    def lead(self) -> Committee:
        """A committee of the first member alone."""
        width = len(self.bias) // len(self.rest)
        first = self.obs_weight[:, :width], self.action_weight[:, :width], self.bias[:width], self.rest[:1]
        return eqx.tree_at(lambda c: (c.obs_weight, c.action_weight, c.bias, c.rest), self, first)

    def __call__(self, obs: jax.Array, action: jax.Array) -> tuple[jax.Array, ...]:
        from_obs = affine(obs, self.obs_weight, self.bias)
        if action.ndim > obs.ndim:
            from_obs = from_obs[..., None, :]
        hidden = jnp.split(jax.nn.relu(from_obs + action @ self.action_weight), len(self.rest), axis=-1)
        return tuple(rest(h) for rest, h in zip(self.rest, hidden))


class Normaliser(eqx.Module):
    """Shifts and scales features to mean 0 and standard deviation 1; constant ones are only shifted."""

    mean: jax.Array
    scale: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return (x - rows_of(self.mean, x)) / rows_of(self.scale, x)


def normaliser(mean: jax.Array, deviation: jax.Array) -> Normaliser:
    """A normaliser from the statistics of a dataset."""
    return Normaliser(jnp.asarray(mean), jnp.where(deviation > 1e-6, deviation, 1.0))


def first_weight(key: jax.Array, inputs: int, outputs: int) -> jax.Array:
    """What a layer begins with: outputs as large as inputs, on average."""
    return jax.random.normal(key, (inputs, outputs)) * (1.0 / inputs) ** 0.5
