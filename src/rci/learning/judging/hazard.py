"""Fitted-Q evaluation of the stop itself: the chance that an episode is stopped from a step on, under a policy.

Le et al., "Batch Policy Learning under Constraints", 2019, Algorithm 3, with three differences:

- The value is a chance: a sigmoid, fitted by cross-entropy to targets within [0, 1]. Nothing has to be cut off.
- How far the episode has come is an input, so that a time limit ends the chance exactly and no discount is needed.
- Critics first learn what became of the recorded episodes, and go on from there to the policy: a chance would else
  creep back from the stop one step in every so many updates.

Several critics are fitted at once, each to its own draw of the episodes, so that their differences are those of a
bootstrap by episode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from rci.data.record import Array
from rci.learning.dataset import Dataset
from rci.learning.judging.simulation.world import draw_episodes
from rci.learning.losses import cost_continues, hazard_target, joint_cross_entropy, soft_update
from rci.nets.dense import PairMlp
from rci.nets.keys import stage_key

PIECE = 4096  # steps that are looked at in one compiled call
RECORDED_SHARE = 0.3  # of the updates: towards what became of the recorded episodes
FIRST_LOGIT = -2.0


class Settings(NamedTuple):
    """How critics are fitted."""

    updates: int = 3_000
    batch_size: int = 128
    hidden: int = 64
    learning_rate: float = 1e-3
    target_rate: float = 0.05


class Steps(NamedTuple):
    """Recorded steps as critics see them."""

    obs: jax.Array  # [observations, d + 1]: the last number is how far the episode has come
    row: jax.Array  # [N]: the observation before
    action: jax.Array  # [N, a]
    stopped: jax.Array  # [N]
    last: jax.Array  # [N]
    outcome: jax.Array  # [N]: 1 where the episode was stopped in the end


def steps_of(data: Dataset, lengths: Array, steps: int) -> Steps:
    """Recorded steps, with how far their episodes have come of so many steps."""
    counts = lengths + 1
    place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    come = jnp.asarray(2.0 * place / steps - 1.0, jnp.float32)[:, None]
    stopped = np.asarray(data.stopped)
    ends = np.cumsum(lengths) - 1
    return Steps(
        jnp.concatenate([data.obs, come], axis=1),
        data.row,
        data.action,
        data.stopped,
        data.last,
        jnp.asarray(np.repeat(stopped[ends], lengths), jnp.float32),
    )


def stop_target(stopped: jax.Array, last: jax.Array, ahead: jax.Array) -> jax.Array:
    """1 at a stop, 0 at another end, else the chance of a stop after the next step: all [B]."""
    on = cost_continues(last) * ahead
    return hazard_target(stopped[:, None], stopped, on[:, None])[:, 0]


def fit_chances(
    steps: Steps,
    action: Array,
    lengths: Array,
    members: int,
    seed: int,
    settings: Settings,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Array, Array]:
    """Chances of a stop by each critic: after recorded actions [M, N], and at all observations [M, observations].

    action: what the policy does at each observation, [observations, a], in the networks' own scale.
    """
    keys = jax.random.split(stage_key(seed, "chances"), members)
    rng = np.random.default_rng([seed, 3])
    # As many steps for every critic, so that they are fitted in one go; of draws with fewer, some count twice.
    drawn = np.stack([np.resize(draw_episodes(rng, lengths), len(steps.row)) for _ in range(members)])
    chosen = jnp.asarray(action, jnp.float32)
    critics = _fit(settings, keys, steps, chosen, jnp.asarray(drawn, jnp.int32))
    progress(1.0)
    after = _in_pieces(critics, steps.obs[steps.row], steps.action)
    return after, _in_pieces(critics, steps.obs, chosen)


@partial(jax.jit, static_argnums=0)
def _fit(settings: Settings, keys: jax.Array, steps: Steps, action: jax.Array, drawn: jax.Array) -> PairMlp:
    """The slow networks of all members."""
    optimise = optax.adam(settings.learning_rate)
    switch = int(RECORDED_SHARE * settings.updates)

    def loss(online: PairMlp, index: jax.Array, target: jax.Array) -> jax.Array:
        logit = online(steps.obs[steps.row[index]], steps.action[index])
        return joint_cross_entropy([logit], target[:, None])

    def update(i: jax.Array, carry: Any, key: jax.Array, drawn: jax.Array) -> Any:
        online, slow, state = carry
        draw_key = jax.random.fold_in(key, i)
        index = drawn[jax.random.randint(draw_key, (settings.batch_size,), 0, len(drawn))]
        after = steps.row[index] + 1
        ahead = jax.nn.sigmoid(slow(steps.obs[after], action[after])[:, 0])
        aim = stop_target(steps.stopped[index], steps.last[index], ahead)
        target = jnp.where(i < switch, steps.outcome[index], aim)
        change, state = optimise.update(jax.grad(loss)(online, index, target), state)
        online = eqx.apply_updates(online, change)
        moved = jax.tree.map(lambda t, o: soft_update(t, o, settings.target_rate), slow, online)
        return online, moved, state

    def member(key: jax.Array, drawn: jax.Array) -> PairMlp:
        init_key, key = jax.random.split(key)
        sizes, layers = (steps.obs.shape[1], action.shape[1]), (settings.hidden, settings.hidden)
        net = PairMlp(init_key, *sizes, (*layers, 1), last_scale=0.1)
        net = eqx.tree_at(lambda n: n.rest.biases[-1], net, jnp.full(1, FIRST_LOGIT))
        begun = net, net, optimise.init(net)
        return jax.lax.fori_loop(0, settings.updates, lambda i, c: update(i, c, key, drawn), begun)[1]

    return jax.vmap(member)(keys, drawn)


def _in_pieces(critics: PairMlp, obs: jax.Array, action: jax.Array) -> Array:
    """[M, n], in pieces of one size."""
    rows = np.arange(-(-len(obs) // PIECE) * PIECE) % len(obs)
    pieces = [
        np.asarray(_chances(critics, obs[rows[i : i + PIECE]], action[rows[i : i + PIECE]]), np.float64)
        for i in range(0, len(rows), PIECE)
    ]
    return np.concatenate(pieces, axis=1)[:, : len(obs)]


@jax.jit
def _chances(critics: PairMlp, obs: jax.Array, action: jax.Array) -> jax.Array:
    return jax.vmap(lambda net: jax.nn.sigmoid(net(obs, action)[:, 0]))(critics)
