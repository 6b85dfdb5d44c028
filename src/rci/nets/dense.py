"""Fully connected networks. Written on batches, because one large matrix product is what a CPU does best."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp


def rows_of(vector: jax.Array, like: jax.Array) -> jax.Array:
    """[features] -> the shape of `like`, every row the same. Explicit, because silent promotion hides mistakes."""
    return jnp.broadcast_to(vector, like.shape)


def affine(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """x @ weight + bias on the last axis."""
    product = x @ weight
    return product + rows_of(bias, product)


class Mlp(eqx.Module):
    """Affine maps with ReLU between them. Input [..., sizes[0]], output [..., sizes[-1]].

    A small `last_scale` makes a new network answer about 0 whatever its key.
    """

    weights: tuple[jax.Array, ...]
    biases: tuple[jax.Array, ...]

    def __init__(self, key: jax.Array, sizes: Sequence[int], last_scale: float = 1.0) -> None:
        keys = jax.random.split(key, len(sizes) - 1)
        weights = [_lecun(k, i, o) for k, i, o in zip(keys, sizes[:-1], sizes[1:])]
        self.weights = (*weights[:-1], last_scale * weights[-1])
        self.biases = tuple(jnp.zeros(size) for size in sizes[1:])

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
        self, key: jax.Array, obs_size: int, action_size: int, sizes: Sequence[int], last_scale: float = 1.0
    ) -> None:
        first_key, rest_key = jax.random.split(key)
        joint = _lecun(first_key, obs_size + action_size, sizes[0])
        self.obs_weight, self.action_weight = joint[:obs_size], joint[obs_size:]
        self.bias = jnp.zeros(sizes[0])
        self.rest = Mlp(rest_key, sizes, last_scale)

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
    ) -> None:
        nets = [PairMlp(k, obs_size, action_size, sizes, last_scale) for k in jax.random.split(key, members)]
        self.obs_weight = jnp.concatenate([net.obs_weight for net in nets], axis=1)
        self.action_weight = jnp.concatenate([net.action_weight for net in nets], axis=1)
        self.bias = jnp.concatenate([net.bias for net in nets])
        self.rest = tuple(net.rest for net in nets)

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


def _lecun(key: jax.Array, inputs: int, outputs: int) -> jax.Array:
    return jax.random.normal(key, (inputs, outputs)) * (1.0 / inputs) ** 0.5
