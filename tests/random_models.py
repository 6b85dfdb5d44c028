"""Policies and redistributors with random numbers for weights: all that acting needs, without any training.

Every array is filled, also those that training leaves near zero, so that none can be forgotten without a trace.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from conftest import sparse_costs

from rci.data.batch import Sequences
from rci.data.types import Labels, Policy, SavedModel, StepCosts
from rci.learning import LEARNERS, restore_policy
from rci.learning.behaviour import Config as BehaviourConfig
from rci.learning.behaviour import template
from rci.learning.policy_functions import blank_actor
from rci.nets.arrays import to_arrays
from rci.redistribution import REDISTRIBUTORS

POSITIVE = ("scale", "action_reach", "gain", "multiplier", "reward_unit")


def random_policy(
    method: str,
    channels: int = 1,
    obs_shape: tuple[int, ...] = (5,),
    actions: int = 2,
    seed: int = 0,
    **options: Any,
) -> Policy:
    """A policy of a learner with these settings."""
    entry = LEARNERS[method]
    config = entry.config(**options)
    model = BehaviourConfig(hidden=24, rows=options.get("rows"))
    sizes = {"obs_size": int(np.prod(obs_shape)), "action_size": actions}
    behaviour = template(*sizes.values(), model if entry.proposes else None)
    numbers = {**entry.hyper()._asdict(), "threshold": np.full(channels, 0.1), "audited": np.ones(channels)}
    hyper = entry.hyper(**{name: numbers[name] for name in entry.hyper._fields})
    traced = jax.tree.map(lambda x: np.asarray(x, np.float32), hyper)
    blank = jax.eval_shape(partial(blank_actor, entry.make(config), traced, channels), behaviour)
    arrays = fill(blank, seed) | {
        f"hyper.{k}": v for k, v in traced._asdict().items() if hasattr(blank, "hyper")
    }
    settings = {
        "config": asdict(config),
        "behaviour": {**asdict(model), **sizes} if entry.proposes else sizes,
        "channels": channels,
    }
    info = {
        **sizes,
        "obs_shape": list(obs_shape),
        "budget": "0.1",
        "threshold": "0.1",
        "costs_hash": "c0ffee",
    }
    return restore_policy(Policy(SavedModel(method, settings, arrays), info))


def random_costs(
    method: str, labels: Labels, sizes: tuple[int, int], folds: int = 1, **options: Any
) -> StepCosts:
    """Step costs that come with models of a redistributor, which have nothing to do with them."""
    entry = REDISTRIBUTORS[method]
    config, channels = entry.config(**options), labels.channel_cost.shape[1]
    obs, action = (np.zeros((1, 1, size), np.float32) for size in sizes)
    one = Sequences(obs, action, np.ones((1, 1), np.float32), np.zeros(1, np.float32))
    state = jax.eval_shape(entry.make(config).init, jax.random.key(0), one)
    shape = {"members": 2, "channels": channels, "folds": folds}
    arrays = fill([[[state] * folds for _ in range(channels)] for _ in range(2)], seed=3)
    settings = {**asdict(config), "obs_size": sizes[0], "action_size": sizes[1], **shape}
    return replace(sparse_costs(labels), method=method, model=SavedModel(method, settings, arrays))


def fill(blank: Any, seed: int) -> dict[str, np.ndarray]:
    """Random numbers in the shapes of a pytree; those of a matrix are smaller the more of them are added up."""
    rng = np.random.default_rng(seed)
    shapes = to_arrays(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), blank))
    arrays = {}
    for name, zero in shapes.items():
        drawn = rng.normal(size=zero.shape) * (len(zero) ** -0.5 if zero.ndim > 1 else 0.3)
        arrays[name] = (np.abs(drawn) + 0.5 if name.endswith(POSITIVE) else drawn).astype(zero.dtype)
    return arrays
