"""The networks of `rci.nets` in NumPy: a function from the named arrays of a network to a function of its inputs.

Everything stays in float32, as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from rci.data.record import Array

Weights = Mapping[str, Array]
Net = Callable[[Array], Array]


def part(weights: Weights, name: str) -> dict[str, Array]:
    """The arrays whose names begin with `name` and a dot, without that beginning."""
    return {key[len(name) + 1 :]: array for key, array in weights.items() if key.startswith(f"{name}.")}


def parts(weights: Weights, name: str) -> list[dict[str, Array]]:
    """part(weights, "name.0"), part(weights, "name.1") and so on, as many as there are."""
    count = len({key.split(".")[0] for key in part(weights, name)})
    return [part(weights, f"{name}.{i}") for i in range(count)]


def listed(weights: Weights, name: str) -> list[Array]:
    """The arrays "name.0", "name.1" and so on."""
    return [weights[f"{name}.{i}"] for i in range(len(part(weights, name)))]


def mlp(weights: Weights) -> Net:
    """Affine maps with ReLU between them: [rows, inputs] -> [rows, outputs]."""
    *inner, last = zip(listed(weights, "weights"), listed(weights, "biases"))

    def apply(x: Array) -> Array:
        for weight, bias in inner:
            x = relu(x @ weight + bias)
        return np.asarray(x @ last[0] + last[1])

    return apply


def pair_mlp(weights: Weights) -> Callable[[Array, Array], Array]:
    """A network of observations [B, d], each with n actions [B, n, a] or with the same n [n, a]: [B, n, outputs]."""
    answers = _of_pairs(weights, [mlp(part(weights, "rest"))])
    return lambda obs, action: answers(obs, action)[0]


def committee(weights: Weights) -> Callable[[Array, Array], list[Array]]:
    """The answers of several networks of observations and actions, each [B, n, outputs]; see `pair_mlp`."""
    if members := parts(weights, "members"):
        nets = [row_mlp(own) for own in members]
        return lambda obs, action: [net(obs, action) for net in nets]
    return _of_pairs(weights, [mlp(own) for own in parts(weights, "rest")])


def _of_pairs(weights: Weights, rest: list[Net]) -> Callable[[Array, Array], list[Array]]:
    """The observation's share of the first layer is computed once for all of its actions."""
    obs_weight, action_weight, bias = (weights[name] for name in ("obs_weight", "action_weight", "bias"))
    width = len(bias) // len(rest)

    def apply(obs: Array, action: Array) -> list[Array]:
        from_obs = (obs @ obs_weight + bias)[:, None]
        from_action = action.reshape(-1, action.shape[-1]) @ action_weight
        hidden = relu(from_obs + from_action.reshape(*action.shape[:-1], -1))
        rows = hidden.reshape(-1, hidden.shape[-1])
        answers = [net(rows[:, i * width : (i + 1) * width]) for i, net in enumerate(rest)]
        return [answer.reshape(*hidden.shape[:2], -1) for answer in answers]

    return apply


def row_mlp(weights: Weights) -> Callable[..., Array]:
    """A network of observations that are tables, flat, [B, rows * f]: [B, outputs], or with actions [B, n, outputs].

    Each row beside the first one, the strongest answer counts, rows of zeros are not seen; see `rci.nets.rows`.
    """
    obs_weight, bias, row_weight, row_bias = (
        weights[name] for name in ("obs_weight", "bias", "row_weight", "row_bias")
    )
    rest = mlp(part(weights, "rest"))

    def apply(obs: Array, action: Array | None = None) -> Array:
        row = obs.reshape(len(obs), -1, len(obs_weight) // 2)
        there = np.any(row != 0, axis=-1, keepdims=True)
        pair = np.concatenate([np.broadcast_to(row[:, :1], row.shape), row], axis=-1)
        hidden = pair @ obs_weight + bias  # [B, rows, h]
        if action is not None:
            from_action = action.reshape(-1, action.shape[-1]) @ weights["action_weight"]
            hidden = hidden[:, None] + from_action.reshape(*action.shape[:-1], 1, -1)
            there = there[:, None]
        seen = relu(relu(hidden).reshape(-1, hidden.shape[-1]) @ row_weight + row_bias)
        pooled = (seen.reshape(hidden.shape) * there).max(axis=-2)
        answer = rest(pooled.reshape(-1, pooled.shape[-1]))
        return answer.reshape(*pooled.shape[:-1], -1)

    return apply


def gaussian_actor(weights: Weights) -> Callable[[Array], tuple[Array, Array]]:
    """Mean and log deviation of a normal draw before tanh, [B, a] each."""
    net = mlp(part(weights, "net"))

    def apply(obs: Array) -> tuple[Array, Array]:
        mean, log_deviation = np.split(net(obs), 2, axis=-1)
        return mean, np.clip(log_deviation, -5.0, 1.0)

    return apply


class MixtureParts(NamedTuple):
    """The k Gaussians at each of B observations; see `rci.nets.mixture`."""

    log_weight: Array  # [B, k]
    mean: Array  # [B, k, a]
    log_deviation: Array  # [B, k, a]


def mixture(weights: Weights, components: int) -> Callable[[Array], MixtureParts]:
    """A conditional mixture of Gaussians over actions: obs [B, d] -> its parts."""
    own = part(weights, "net")
    net = row_mlp(own) if "row_weight" in own else mlp(own)

    def apply(obs: Array) -> MixtureParts:
        out = net(obs)
        weight, rest = out[:, :components], out[:, components:].reshape(len(out), 2, components, -1)
        high = weight.max(axis=-1, keepdims=True)
        log_sum = high + np.log(np.exp(weight - high).sum(axis=-1, keepdims=True))
        return MixtureParts(weight - log_sum, rest[:, 0], np.clip(rest[:, 1], -4.0, 1.0))

    return apply


def mixture_draws(parts: MixtureParts, place: Array, noise: Array) -> Array:
    """Actions from places among the weights [n] and normal draws [n, a]: [B, n, a]."""
    ends = np.cumsum(np.exp(parts.log_weight), axis=-1)[:, None, :-1]
    index = (place[None, :, None] > ends).sum(axis=-1)[..., None]
    mean, log_deviation = (np.take_along_axis(each, index, axis=1) for each in parts[1:])
    return np.clip(mean + np.exp(log_deviation) * noise, -1.0, 1.0)


def mixture_log_density(parts: MixtureParts, action: Array) -> Array:
    """log of the density at actions: [B, n, a] -> [B, n]."""
    z = (action[:, :, None] - parts.mean[:, None]) * np.exp(-parts.log_deviation)[:, None]
    shift = parts.log_weight - parts.log_deviation.sum(axis=-1)
    each = np.float32(-0.5) * (z * z).sum(axis=-1) + shift[:, None]
    high = each.max(axis=-1)
    constant = np.float32(0.9189385 * action.shape[-1])
    return np.asarray(high + np.log(np.exp(each - high[..., None]).sum(axis=-1)) - constant)


def normaliser(weights: Weights) -> Net:
    """Features to mean 0 and deviation 1."""
    mean, scale = weights["mean"], weights["scale"]
    return lambda x: np.asarray((x - mean) / scale)


def layer_norm(weights: Weights) -> Net:
    """gain * (x - mean) / sqrt(variance + 1e-5) + bias, over the last axis."""
    gain, bias = weights["gain"], weights["bias"]

    def apply(x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        return np.asarray(gain * (centred / np.sqrt(variance + np.float32(1e-5))) + bias)

    return apply


def relu(x: Array) -> Array:
    """max(x, 0), in place: what is handed over is not used again."""
    return np.maximum(x, 0.0, out=x)


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), through tanh, which cannot overflow."""
    return np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1.0))
