"""Which threshold keeps which budget: policies at many thresholds, tried in models of the world.

A ladder of thresholds makes a ladder of policies that share their networks. Each is tried in several models of the
world (`world.py` beside this file), each fitted to its own draw of the episodes: where a few of them decide what is
dangerous, models disagree. All begin with first observations of episodes that had no part in the fit of the policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.record import Array
from rci.data.risk.thresholds import Ladder
from rci.learning.dataset import Dataset
from rci.learning.judging.simulation.world import Settings, draw_episodes, fit_world, moments_of, simulate
from rci.nets.dense import Committee
from rci.nets.keys import stage_key
from rci.nets.rows import RowCommittee

MODELS = 3
STEPS = 9_600  # simulated for each threshold in each model, unless that makes fewer episodes than FEWEST
FEWEST, MOST = 32, 200  # episodes for each threshold in each model
FITTING_SHARE = 0.4  # of the time
MARGIN = 1.64  # standard errors: a one-sided bound of 95%
HAZARDS = (0.01, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
QUANTILES = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.995)
SEEN = 8192  # recorded actions from which thresholds of costs of no known scale are taken


def calibrate(
    act_at: Callable[[Any, jax.Array, jax.Array], jax.Array],
    actor: Any,
    data: Dataset,
    lengths: Array,
    apart: Array,
    hazard: bool,
    rows: int,
    seed: int,
    progress: Callable[[float], None] = lambda share: None,
    settings: Settings | None = None,
) -> Ladder:
    """Try the policy at every rung.

    act_at(actor, thresholds [M, K], obs [B, d]) -> what the policy does under each threshold, [B, M, a]. lengths: kept
    transitions of each episode; apart: which episodes had no part in the fit, [N]; hazard: whether costs are chances,
    so that the usual thresholds fit; rows: of how many an observation is made, 0 = a flat vector. With models of no
    updates nothing is tried, and nothing is promised.
    """
    settings = settings or Settings()
    thresholds = (*(HAZARDS if hazard else _quantiles(actor.critic, data, lengths, apart)), math.inf)
    channels = data.label_cost.shape[-1]
    if settings.updates == 0:
        return untried(thresholds, channels)
    moments = moments_of(data, rows)
    steps = int(lengths.max())
    count = min(MOST, max(FEWEST, STEPS // steps))
    costs, returns = [], []
    for member in range(MODELS):
        key = jax.random.fold_in(stage_key(seed, "calibrate"), member)
        rng = np.random.default_rng([seed, member])
        drawn = jnp.asarray(draw_episodes(rng, lengths), jnp.int32)
        part = partial(_part, progress, member / MODELS, FITTING_SHARE / MODELS)
        net = fit_world(moments, drawn, key, settings, part)
        # All thresholds are tried from the same first observations, with the same luck.
        first = data.obs[np.asarray(data.initial)[rng.choice(np.flatnonzero(apart), count)]]
        tried = []
        for rung, threshold in enumerate(thresholds):
            limit = jnp.full(channels, threshold, jnp.float32)
            tried.append(simulate(act_at, steps, actor, limit, net, moments, first, jax.random.clone(key)))
            done = FITTING_SHARE + (1 - FITTING_SHARE) * (rung + 1) / len(thresholds)
            progress((member + done) / MODELS)
        costs.append(np.stack([np.asarray(cost, np.float64) for cost, _ in tried], axis=1))
        returns.append([float(earned.mean()) for _, earned in tried])
    stops = np.clip(np.stack(costs), 0.0, 1.0)  # [models, episodes, M, K]
    unit = float(actor.behaviour.scaling.reward_unit)
    return Ladder(
        np.array(thresholds),
        stops.mean(axis=(0, 1)),
        upper_bound(stops),
        unit * np.mean(returns, axis=0),
    )


def untried(thresholds: Sequence[float], channels: int) -> Ladder:
    """A ladder whose rungs nobody tried: for all that is known, every policy on it may violate always."""
    certain = np.ones((len(thresholds), channels))
    return Ladder(np.array(thresholds), certain, certain, np.zeros(len(thresholds)))


def upper_bound(stops: Array) -> Array:
    """What the chance of a stop is not believed to exceed, from [models, episodes, M, K]: [M, K].

    The estimate and 1.64 standard errors: of as many episodes with one stop and one safe end added, so that no stop
    in a hundred proves little, and of the models, which disagree.
    """
    models, episodes = stops.shape[:2]
    count, estimate = models * episodes, stops.mean(axis=(0, 1))
    share = (count * estimate + 1) / (count + 2)
    over_episodes = np.sqrt(share * (1 - share) / count)
    over_models = stops.mean(axis=1).std(axis=0)
    return np.minimum(estimate + MARGIN * np.hypot(over_episodes, over_models), 1.0)


def _part(progress: Callable[[float], None], first: float, length: float, share: float) -> None:
    progress(first + length * share)


def _quantiles(
    critic: Committee | RowCommittee, data: Dataset, lengths: Array, apart: Array
) -> tuple[float, ...]:
    """Thresholds for costs of no known scale: what the critics say of actions that were recorded."""
    chosen = np.flatnonzero(np.repeat(apart, lengths))[:SEEN]
    obs, action = data.obs[data.row[chosen]], data.action[chosen]
    cost = np.maximum.reduce([np.asarray(out[:, 1:]) for out in critic(obs, action)])
    return tuple(np.unique(np.quantile(cost, QUANTILES).astype(np.float32)).astype(float).tolist())
