"""A policy tried in models of the world: how often it is stopped there, and where it goes.

Any policy can be tried, also one with a memory: it is asked step by step, in all models at once. Stops, ends and time
limits are not drawn but weighed: their chances are added up, times the chance to come so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.artefacts.models import Policy
from rci.data.record import Array
from rci.learning.dataset import Dataset, Scaling
from rci.learning.judging.simulation.world import (
    REWARD,
    STOPPED,
    TERMINATED,
    Moments,
    Settings,
    advance,
    draw_episodes,
    fit_world,
    moments_of,
)
from rci.nets.dense import rows_of
from rci.nets.keys import stage_key
from rci.nets.transition import TransitionNet


class Worlds(NamedTuple):
    """Models of the world, each fitted to its own draw of the episodes."""

    nets: TransitionNet  # every array with an axis for the models in front
    moments: Moments
    limits: Array  # [T]: the chance that a time limit ends an episode after each step, if nothing else has


class Trial(NamedTuple):
    """What became of E episodes in M models."""

    stop: Array  # [M, E]: the chance of a stop
    earned: Array  # [M, E]: until the stop or the end
    obs: Array  # [T, M * E, d]: what was seen, in the networks' own scale
    action: Array  # [T, M * E, a]: likewise
    running: Array  # [T, M * E]: the chance that the episode still runs then


def fit_worlds(
    data: Dataset,
    lengths: Array,
    limits: Array,
    rows: int,
    models: int,
    seed: int,
    settings: Settings,
    progress: Callable[[float], None] = lambda share: None,
) -> Worlds:
    """Models of recorded steps. lengths: kept transitions of each episode; rows: see `moments_of`."""
    moments, nets = moments_of(data, rows), []
    for member in range(models):
        rng = np.random.default_rng([seed, member])
        drawn = jnp.asarray(draw_episodes(rng, lengths), jnp.int32)
        key = jax.random.fold_in(stage_key(seed, "estimate"), member)

        def part(share: float, member: int = member) -> None:
            progress((member + share) / models)

        nets.append(fit_world(moments, drawn, key, settings, part))
    return Worlds(jax.tree.map(_stacked, *nets), moments, limits)


def limit_hazards(lengths: Array, limited: Array) -> Array:
    """The chance at each step that a time limit ends an episode that has come so far, [T]; at the last step it is 1.

    lengths: of the episodes, as far as they went; limited: which of them neither a stop nor an end of the task ended.
    Kaplan and Meier 1958: of those that came so far, the share that ended then.
    """
    last = int(lengths.max())
    ended = np.bincount(lengths[limited], minlength=last + 1)[1:]
    begun = np.array([np.count_nonzero(lengths >= t) for t in range(1, last + 1)])
    hazard = ended / begun
    hazard[-1] = 1.0
    return hazard


def try_policy(policy: Policy, worlds: Worlds, scaling: Scaling, first: Array, seed: int) -> Trial:
    """Episodes of the policy from first observations [E, d] on, in every model. first: in the networks' own scale."""
    models, count = len(jax.tree.leaves(worlds.nets)[0]), len(first)
    shape = worlds.moments.obs.shape[1:]
    obs = jnp.tile(jnp.asarray(first), (models, 1))
    memory = policy.begin(len(obs))
    keys = jax.random.split(stage_key(seed, "trial"), (len(worlds.limits), models))
    running, stop, earned = (np.zeros(len(obs)) for _ in range(3))
    running += 1.0
    seen, did, there = [], [], []
    for t, limit in enumerate(worlds.limits):
        answer, memory = policy.step(0, memory, np.asarray(_outside(scaling, obs)))  # type: ignore[misc]
        action = scaling.encode_action(jnp.asarray(answer, jnp.float32))
        seen.append(np.asarray(obs))
        did.append(np.asarray(action))
        there.append(running.copy())
        table = obs.reshape(models, count, *shape)
        after, out = _advance(worlds.nets, worlds.moments, keys[t], table, action.reshape(models, count, -1))
        outputs = np.asarray(out, np.float64).reshape(len(obs), -1)
        ends, stops = (1.0 / (1.0 + np.exp(-outputs[:, k])) for k in (TERMINATED, STOPPED))
        earned += running * outputs[:, REWARD]
        stop += running * stops
        running *= (1.0 - stops) * (1.0 - ends) * (1.0 - limit)
        obs = after.reshape(len(obs), -1)
    unit = float(worlds.moments.reward_unit) * float(scaling.reward_unit)
    return Trial(
        np.clip(stop, 0.0, 1.0).reshape(models, count),
        (unit * earned).reshape(models, count),
        np.stack(seen),
        np.stack(did),
        np.stack(there),
    )


@jax.jit
def _outside(scaling: Scaling, obs: jax.Array) -> jax.Array:
    """Observations as they are recorded."""
    return obs * rows_of(scaling.obs.scale, obs) + rows_of(scaling.obs.mean, obs)


@jax.jit
def _advance(
    nets: TransitionNet, moments: Moments, keys: jax.Array, table: jax.Array, action: jax.Array
) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(advance, (0, None, 0, 0, 0))(nets, moments, keys, table, action)


def _stacked(*arrays: jax.Array) -> jax.Array:
    return jnp.asarray(np.stack([np.asarray(array) for array in arrays]))
