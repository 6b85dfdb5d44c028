"""Transitions on the device, scaled once, and indexed from inside compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.record import Array
from rci.data.types import Transitions
from rci.nets.dense import Normaliser, normaliser, rows_of


class Scaling(NamedTuple):
    """How observations and actions of the outside world become the networks' own, and back."""

    obs: Normaliser
    action_centre: jax.Array
    action_reach: jax.Array
    reward_unit: jax.Array  # []: a reward of this size is 1 to the networks

    def encode_action(self, action: jax.Array) -> jax.Array:
        """The range seen in the data becomes [-1, 1]."""
        reach = jnp.where(self.action_reach > 0, self.action_reach, 1.0)
        return (action - rows_of(self.action_centre, action)) / rows_of(reach, action)

    def decode_action(self, action: jax.Array) -> jax.Array:
        """[-1, 1] becomes the range seen in the data."""
        return rows_of(self.action_centre, action) + rows_of(self.action_reach, action) * action


class Pools(NamedTuple):
    """Transitions in pools, of which a batch draws one by its share and then any of its members."""

    row: jax.Array  # [M]: transitions, pool after pool
    first: jax.Array  # [C]: where each pool begins
    size: jax.Array  # [C]
    until: jax.Array  # [C]: the shares of the pools so far, the last one is 1


class Dataset(NamedTuple):
    """Scaled transitions; the next observation of row r is row r + 1.

    Observations after a stop are not among them. What is still to come in the recording, `reward_to_go` and
    `cost_to_go`, is undiscounted, this transition included.
    """

    obs: jax.Array
    row: jax.Array
    action: jax.Array
    reward: jax.Array
    cost: jax.Array  # [rows, K]: one column per channel, one in all where they have no names
    terminated: jax.Array
    truncated: jax.Array
    stopped: jax.Array
    last: jax.Array
    initial: jax.Array
    step: jax.Array  # [rows]: how many transitions of its episode come before it
    left: jax.Array  # [rows]: how many of them come after it
    reward_to_go: jax.Array
    cost_to_go: jax.Array  # [rows, K]
    cost_range: jax.Array  # [2, K]: the lowest and the highest cost_to_go
    label_cost: jax.Array  # [rows, K]: the episodic cost as it was labelled, at the last transition
    within: jax.Array  # 1 where the whole episode kept the budget
    proposal: jax.Array | None = None  # [observations, P, a]: what the behaviour might do at each
    fitted: jax.Array | None = None  # transitions that a batch is drawn from, where some are kept apart
    pools: Pools | None = None  # the same, where some of them are drawn more often than others


class Batch(NamedTuple):
    """B transitions with candidate actions, n of them after the transition, and B0 initial states with theirs."""

    obs: jax.Array  # [B, d]
    action: jax.Array  # [B, a]
    reward: jax.Array  # [B]
    cost: jax.Array  # [B, K]
    label_cost: jax.Array  # [B, K]
    cost_range: jax.Array  # [2, K], of all data
    model: Any  # the behaviour model whose like is trained alongside, or None
    next_obs: jax.Array  # [B, d]
    terminated: jax.Array  # [B]
    truncated: jax.Array  # [B]
    stopped: jax.Array  # [B]
    last: jax.Array  # [B]
    candidate: jax.Array  # [B, m, a]
    next_candidate: jax.Array  # [B, n, a]
    cost_candidate: (
        jax.Array | None
    )  # [B, n, a]: those of the cost target, where it does not share the reward's
    initial_obs: jax.Array  # [B0, d]
    initial_candidate: jax.Array  # [B0, n, a]
    ahead: Ahead | None = None  # where the cost target looks further than one step


class Ahead(NamedTuple):
    """What was recorded of the cost over several steps, and what is there to go on from."""

    cost: jax.Array  # [B, K]: the sum over the steps
    obs: jax.Array  # [B, d]: after the last of them
    on: jax.Array  # [B]: 0 where the episode is over by then


def flat_features(array: Array) -> Array:
    """[rows, ...] -> [rows, features] in float32."""
    return np.asarray(array, np.float32).reshape(len(array), -1)


def measure_scaling(transitions: Transitions, rows: int = 0) -> Scaling:
    """Mean and deviation of the observations that were acted on, range of the actions that were taken.

    rows: of how many an observation is made, where one network looks at each of them.
    """
    obs = flat_features(transitions.obs[transitions.row])
    action = flat_features(transitions.action)
    low, high = action.min(0), action.max(0)
    return Scaling(
        row_normaliser(obs, rows) if rows else normaliser(jnp.asarray(obs.mean(0)), jnp.asarray(obs.std(0))),
        jnp.asarray((low + high) / 2),
        jnp.asarray((high - low) / 2),
        jnp.asarray(_reward_unit(transitions)),
    )


def row_normaliser(obs: Array, rows: int) -> Normaliser:
    """Divide by the root mean square of a feature, the same for all rows but the first. obs: [B, rows * f].

    Nothing is shifted, so that rows of zeros, which are padding, stay zeros; they do not count in the mean.
    """
    table = np.asarray(obs, np.float64).reshape(len(obs), rows, -1)
    first, others = table[:, 0], table[:, 1:].reshape(-1, table.shape[-1])
    others = others[np.any(others != 0, axis=-1)]
    size = [
        np.sqrt(np.mean(each**2, axis=0)) if len(each) else np.zeros(table.shape[-1])
        for each in (first, others)
    ]
    scale = np.concatenate([size[0], np.tile(size[1], rows - 1)])
    return normaliser(jnp.zeros(len(scale)), jnp.asarray(scale, jnp.float32))


def to_device(
    transitions: Transitions, scaling: Scaling, within: Array | None = None, proposal: Array | None = None
) -> Dataset:
    """Scale everything once, so that an update only indexes.

    within: which episodes kept the budget, [N]; all if not given. proposal: see Dataset.
    """
    numbers: dict[str, Any] = {
        name: jnp.asarray(getattr(transitions, name), jnp.float32)
        for name in ("terminated", "truncated", "stopped", "last")
    }
    reward = np.asarray(transitions.reward, np.float64) / float(scaling.reward_unit)
    cost = np.asarray(transitions.cost, np.float64).reshape(len(transitions), -1)
    lengths = transitions.lengths
    cost_to_go = to_go(cost, lengths)
    kept = np.ones(len(lengths), bool) if within is None else within
    step = np.arange(len(transitions)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return Dataset(
        obs=scaling.obs(jnp.asarray(flat_features(transitions.obs[transitions.seen]))),
        row=jnp.asarray(np.arange(len(transitions)) + np.repeat(np.arange(len(lengths)), lengths), jnp.int32),
        action=scaling.encode_action(jnp.asarray(flat_features(transitions.action))),
        reward=jnp.asarray(reward, jnp.float32),
        cost=jnp.asarray(cost, jnp.float32),
        initial=jnp.asarray(np.cumsum(lengths + 1) - (lengths + 1), jnp.int32),
        step=jnp.asarray(step, jnp.int32),
        left=jnp.asarray(np.repeat(lengths, lengths) - 1 - step, jnp.int32),
        reward_to_go=jnp.asarray(to_go(reward, lengths), jnp.float32),
        cost_to_go=jnp.asarray(cost_to_go, jnp.float32),
        cost_range=jnp.asarray([cost_to_go.min(axis=0), cost_to_go.max(axis=0)], jnp.float32),
        label_cost=jnp.asarray(flat_features(transitions.label_cost)),
        within=jnp.asarray(np.repeat(kept, lengths), jnp.float32),
        # A memory-mapped array stays where it is: all processes that train on it share its pages.
        proposal=None if proposal is None else jax.device_put(proposal, may_alias=True),
        **numbers,
    )


def first_steps(data: Dataset) -> jax.Array:
    """The first transition of every episode, [N]: each episode before it has one observation more than transitions."""
    return data.initial - jnp.arange(len(data.initial))


def draw_fitted(key: jax.Array, data: Dataset, count: int) -> jax.Array:
    """Numbers of transitions to learn from, [count]: all alike, or by the shares of their pools."""
    if data.pools is None:
        rows = jnp.arange(len(data.row)) if data.fitted is None else data.fitted
        return rows[jax.random.randint(key, (count,), 0, len(rows))]
    pool_key, place_key = jax.random.split(key)
    pools = data.pools
    pool = jnp.searchsorted(pools.until, jax.random.uniform(pool_key, (count,)), side="right")
    pool = jnp.minimum(pool, len(pools.size) - 1)
    return pools.row[pools.first[pool] + jax.random.randint(place_key, (count,), 0, pools.size[pool])]


def pools_of(rows: Sequence[Array], weights: Sequence[float]) -> Pools:
    """Pools of transitions, none of them empty, each of whose members has this weight."""
    count = np.array([len(each) for each in rows])
    share = np.cumsum(count * np.asarray(weights, np.float64))
    return Pools(
        jnp.asarray(np.concatenate(rows), jnp.int32),
        jnp.asarray(np.cumsum(count) - count, jnp.int32),
        jnp.asarray(count, jnp.int32),
        jnp.asarray(share / share[-1], jnp.float32),
    )


def draw(key: jax.Array, data: Dataset, count: int, what: Literal["steps", "episodes"]) -> jax.Array:
    """Indices of transitions, [count]: all steps alike, or all episodes alike and then the steps of each.

    A stopped episode may be a few steps long and a safe one hundreds: with all steps alike, a batch hardly ever holds
    what came before a stop.
    """
    if what == "steps":
        return jax.random.randint(key, (count,), 0, len(data.row))
    episode_key, step_key = jax.random.split(key)
    first = first_steps(data)
    length = jnp.diff(first, append=len(data.row))
    episode = jax.random.randint(episode_key, (count,), 0, len(first))
    return first[episode] + jax.random.randint(step_key, (count,), 0, length[episode])


def look_ahead(data: Dataset, index: jax.Array, steps: jax.Array) -> tuple[Ahead, jax.Array]:
    """The recorded cost of so many steps from each transition on, [B], and the row of the observation after them.

    An episode that is over before that ends there. Undiscounted.
    """
    taken = jnp.minimum(steps, data.left[index] + 1)
    on = (steps <= data.left[index]).astype(jnp.float32)
    rest = data.cost_to_go[jnp.minimum(index + taken, len(data.row) - 1)] * on[:, None]
    after = data.row[index] + taken
    return Ahead(data.cost_to_go[index] - rest, data.obs[after], on), after


def held_out(episodes: int, share: float, seed: int) -> Array:
    """Which episodes are held out, at least one and never all: [N]."""
    count = min(max(1, round(share * episodes)), episodes - 1)
    chosen = np.zeros(episodes, bool)
    chosen[
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(0,))).permutation(episodes)[:count]
    ] = True
    return chosen


def transitions_of(chosen: Array, lengths: Array) -> jax.Array:
    """The numbers of the transitions of chosen episodes, [N] flags."""
    return jnp.asarray(np.flatnonzero(np.repeat(chosen, lengths)), jnp.int32)


def to_go(signal: Array, lengths: Array) -> Array:
    """The sum of a signal [rows] or [rows, K] from each transition to the end of its episode."""
    before = np.cumsum(signal, axis=0) - signal
    total = np.add.reduceat(signal, np.cumsum(lengths) - lengths, axis=0)
    start = before[np.cumsum(lengths) - lengths]
    return np.repeat(start + total, lengths, axis=0) - before


def _reward_unit(transitions: Transitions) -> np.float32:
    """How much the returns of episodes differ; where they do not, how large they are.

    Prices of a violation, and how fast they move, then mean the same whatever unit a task counts its rewards in.
    """
    reward = np.asarray(transitions.reward, np.float64)
    returns = np.add.reduceat(reward, np.cumsum(transitions.lengths) - transitions.lengths)
    size = np.abs(returns).mean()
    spread = returns.std()
    unit = spread if spread > 1e-6 * size else size
    return np.float32(unit if unit > 0 else 1.0)
