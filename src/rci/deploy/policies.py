"""Policies in NumPy: for every learner what `act` does in its file, from the arrays that it saved.

A policy that was loaded here answers as `rci.load` would, up to rounding: the same networks, and for those that choose
among candidates the same candidates. Where two candidates are worth the same up to rounding, either may be taken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rci.data.artefacts.models import Policy, SavedModel
from rci.data.errors import RciError
from rci.data.record import Array, fitting
from rci.data.store import read
from rci.deploy import attention
from rci.deploy.layers import (
    Weights,
    committee,
    gaussian_actor,
    mixture,
    mixture_draws,
    mixture_log_density,
    mlp,
    normaliser,
    pair_mlp,
    part,
    sigmoid,
)
from rci.deploy.noise import normal

Act = Callable[[int, Any, Array], tuple[Array, Any]]  # (seed, memory, obs [B, d]) -> (action [B, a], memory)
PIECE = 64  # observations whose candidates are judged at once: what lies between fits into a cache


def load(folder: str | Path, verify: bool = True) -> Policy:
    """A trained policy from its artefact folder. It acts as `rci.load(folder)` does, without JAX."""
    policy = read(folder, Policy.kind, verify)
    with fitting(str(folder)):
        acting = act_with(policy)
        action = acting.act(policy.model.arrays["behaviour.scaling.obs.mean"])  # before somebody relies on it
        if not np.isfinite(action).all():
            raise RciError(f"{folder} holds a policy whose actions are not finite; train it again.")
    return acting


def act_with(policy: Policy) -> Policy:
    """A policy that acts with NumPy, from one that holds weights."""
    model = policy.model
    if model.method not in METHODS:
        raise RciError(
            f"{model.method!r} cannot act without JAX. Those that can: {', '.join(sorted(METHODS))}."
        )
    weights = {name: np.array(array) for name, array in model.arrays.items()}  # not memory-mapped any more
    memory, act = METHODS[model.method](model, weights)
    scaling = part(weights, "behaviour.scaling")
    scale, centre, reach = normaliser(part(scaling, "obs")), scaling["action_centre"], scaling["action_reach"]

    def step(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        action, memory = act(seed, memory, scale(obs))
        return centre + reach * action, memory

    return replace(policy, memory=memory, step=step, revive=act_with)


def clone(model: SavedModel, weights: Weights) -> tuple[Any, Act]:
    """bc and bc-safe: tanh of a network."""
    net = mlp(part(weights, "network"))
    return (), lambda seed, memory, obs: (np.tanh(net(obs)), memory)


def mode_of(name: str) -> Callable[[SavedModel, Weights], tuple[Any, Act]]:
    """cpq and coptidice: the action of the mean of a Gaussian actor, which is stored under `name`."""

    def make(model: SavedModel, weights: Weights) -> tuple[Any, Act]:
        actor = gaussian_actor(part(weights, name))
        return (), lambda seed, memory, obs: (np.tanh(actor(obs)[0]), memory)

    return make


def bcq_lagrangian(model: SavedModel, weights: Weights) -> tuple[Any, Act]:
    """Decoded candidates, each nudged, and the one with the highest Q - sum of lambda * cost."""
    propose, _ = _behaviour(model, weights)
    nudge = pair_mlp(part(weights, "networks.actor"))
    limit = weights["hyper.nudge"]
    value = _value(model, weights)

    def act(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        def choose(obs: Array) -> Array:
            candidate = propose(seed, obs)
            action = np.clip(candidate + limit * np.tanh(nudge(obs, candidate)), -1.0, 1.0)
            return _best(value(obs, action), action)

        return _in_pieces(choose, obs), memory

    return (), act


def feasible(model: SavedModel, weights: Weights) -> tuple[Any, Act]:
    """Of the proposals below the threshold the one with the highest Q + weight * log b, else the least dangerous."""
    propose, log_density = _behaviour(model, weights)
    critics = committee(part(weights, "critic"))
    threshold = weights["hyper.threshold"]
    actions = len(weights["behaviour.scaling.action_centre"])
    weight = weights["hyper.likelihood_weight"] / np.float32(actions)
    hazard = model.config["config"]["head"] != "linear"

    def act(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        def choose(obs: Array) -> Array:
            action = propose(seed, obs)
            answers = np.stack(critics(obs, action))
            value = answers[..., 0].min(axis=0)
            cost = answers[..., 1:].max(axis=0)  # a sigmoid keeps the order
            if log_density is not None:
                value = value + weight * log_density(obs, action)
            excess = ((sigmoid(cost) if hazard else cost) - threshold).max(axis=-1)
            allowed = excess < 0
            value = np.where(allowed, value, -np.inf)
            return _best(np.where(allowed.any(axis=-1, keepdims=True), value, -excess), action)

        return _in_pieces(choose, obs), memory

    return (), act


def bear_lagrangian(model: SavedModel, weights: Weights) -> tuple[Any, Act]:
    """Draws of the actor, and the one with the highest Q - sum of lambda * Q_c."""
    actor = gaussian_actor(part(weights, "networks.actor"))
    shape = (model.config["config"]["test_candidates"], len(weights["behaviour.scaling.action_centre"]))
    value = _value(model, weights)
    noise = lru_cache(maxsize=8)(lambda seed: normal(seed, shape))

    def act(seed: int, memory: Any, obs: Array) -> tuple[Array, Any]:
        def choose(obs: Array) -> Array:
            mean, log_deviation = actor(obs)
            action = np.tanh(mean[:, None] + np.exp(log_deviation)[:, None] * noise(seed))
            return _best(value(obs, action), action)

        return _in_pieces(choose, obs), memory

    return (), act


class Memory(NamedTuple):
    """What a decision transformer remembers of an episode; see `rci.learning.methods.cdt`."""

    token: Array  # [T, features]
    taken: Array  # []: how many steps
    to_go: Array  # [1 + K]
    before: Array  # [a]


def cdt(model: SavedModel, weights: Weights) -> tuple[Any, Act]:
    """What was done by those who went on to earn and to cost as much as is still asked for."""
    settings = model.config["config"]
    trunk = attention.whole(part(weights, "network.trunk"), settings["heads"])
    action_head = mlp(part(weights, "network.action_head"))
    signal_head = pair_mlp(part(weights, "network.signal_head"))
    to_go_scale = normaliser(part(weights, "to_go_scale"))
    signal_mean, signal_scale = weights["signal_scale.mean"], weights["signal_scale.scale"]
    features = len(weights["network.trunk.embedding_weight"])
    actions = len(weights["behaviour.scaling.action_centre"])
    blank = Memory(
        np.zeros((settings["context"], features), np.float32),
        np.zeros((), np.int32),
        weights["target"],
        np.zeros(actions, np.float32),
    )

    def act(seed: int, memory: Memory, obs: Array) -> tuple[Array, Memory]:
        token = np.array(memory.token)  # a copy: memories are values, not places
        full = memory.taken >= token.shape[1]
        token[full] = np.roll(token[full], -1, axis=1)
        row, place = np.arange(len(obs)), np.minimum(memory.taken, token.shape[1] - 1)
        token[row, place] = np.concatenate([to_go_scale(memory.to_go), obs, memory.before], axis=-1)
        feature = trunk(token)[row, place]
        action = np.tanh(action_head(feature))
        estimate = signal_head(feature, action[:, None])[:, 0]
        left = memory.to_go - (signal_mean + signal_scale * estimate)
        return action, Memory(token, memory.taken + 1, left, action)

    return blank, act


METHODS: dict[str, Callable[[SavedModel, Weights], tuple[Any, Act]]] = {
    "bc": clone,
    "bc-safe": clone,
    "bcq-lagrangian": bcq_lagrangian,
    "bear-lagrangian": bear_lagrangian,
    "cdt": cdt,
    "coptidice": mode_of("actor"),
    "cpq": mode_of("networks.actor"),
    "feasible": feasible,
}


def _behaviour(
    model: SavedModel, weights: Weights
) -> tuple[Callable[[int, Array], Array], Callable[[Array, Array], Array] | None]:
    """What the behaviour model proposes, (seed, obs [B, d]) -> [B, n, a], and its log density where it has one."""
    settings, count = model.config["behaviour"], model.config["config"]["test_candidates"]
    if settings["model"] == "vae":
        own = part(weights, "behaviour.model.decoder")
        decode, shape = pair_mlp(own), (count, len(own["action_weight"]))
        latent = _clipped_draws(shape, settings["latent_limit"])
        return lambda seed, obs: np.tanh(decode(obs, latent(seed))), None
    parts = mixture(part(weights, "behaviour.model.density"), settings["components"])
    noise = _clipped_draws((count, settings["action_size"]), settings["noise_limit"])
    place = (np.arange(count, dtype=np.float32) + np.float32(0.5)) / np.float32(count)

    def propose(seed: int, obs: Array) -> Array:
        return mixture_draws(parts(obs), place, noise(seed))

    return propose, lambda obs, action: mixture_log_density(parts(obs), action)


def _clipped_draws(shape: tuple[int, ...], limit: float) -> Callable[[int], Array]:
    """Normal draws of a seed, kept: an episode asks for the same ones at every step."""
    reach = np.float32(limit)
    return lru_cache(maxsize=8)(lambda seed: np.clip(normal(seed, shape), -reach, reach))


def _value(model: SavedModel, weights: Weights) -> Callable[[Array, Array], Array]:
    """Q - sum of lambda * cost of actions [B, n, a]: [B, n]; the cost is that of a step where a network estimates it.

    With a hinge, what is over the threshold has a fixed price.
    """
    reward_critic = committee(part(weights, "networks.reward_critic"))
    reward_weight, cost_weight = weights["hyper.reward_pessimism"], 1 - weights["hyper.cost_pessimism"]
    multiplier = weights["multiplier"]
    if own := part(weights, "networks.step_cost"):
        step_cost = pair_mlp(own)
    else:
        cost_critic = committee(part(weights, "networks.cost_critic"))

        def step_cost(obs: Array, action: Array) -> Array:
            return _soft_minimum(cost_critic(obs, action), cost_weight)

    def value(obs: Array, action: Array) -> Array:
        reward_q = _soft_minimum(reward_critic(obs, action), reward_weight)[..., 0]
        if model.config["config"].get("pricing") == "hinge":
            over = np.maximum(step_cost(obs, action) - weights["hyper.threshold"], 0.0)
            return np.asarray(reward_q - weights["hyper.hinge_price"] * over.sum(axis=-1))
        return np.asarray(reward_q - (multiplier * step_cost(obs, action)).sum(axis=-1))

    return value


def _soft_minimum(critics: list[Array], weight: Array) -> Array:
    """weight * min + (1 - weight) * max of the critics."""
    low, high = critics[0], critics[0]
    for other in critics[1:]:
        low, high = np.minimum(low, other), np.maximum(high, other)
    return np.asarray(weight * low + (1 - weight) * high)


def _best(value: Array, action: Array) -> Array:
    """The action [B, n, a] with the highest value [B, n]; the first one wins a tie."""
    return np.asarray(action[np.arange(len(value)), value.argmax(axis=-1)])


def _in_pieces(choose: Callable[[Array], Array], obs: Array) -> Array:
    """Actions for many observations, some at a time."""
    if len(obs) <= PIECE:
        return choose(obs)
    return np.concatenate([choose(obs[first : first + PIECE]) for first in range(0, len(obs), PIECE)])
