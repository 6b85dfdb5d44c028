"""A network of one step of the world: from an observation and an action to a density of what is seen next.

An observation is a table, one's own row first, then a row for each car, obstacle or person, zeros for nobody; an
observation that is no table is one row. One's own row moves by a mixture of Gaussians, so that "left or right" and a
thruster that may or may not fire can be said. All other rows move by one and the same function of a row, beside the
first one and what is around; each may also be gone. What a step earned and whether it ended is told of what is seen
*after* it: where danger begins is then a sharp line in what is seen, and not smeared by what might have happened.
"""

from __future__ import annotations

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rci.nets.dense import Mlp, rows_of
from rci.nets.mixture import Parts

LOG_DEVIATION_RANGE = (-5.0, 2.0)
NOISE_LIMIT = 2.0  # deviations; the rare far draw of every step adds up over a drive
FIRST_SPREAD, FIRST_LOG_DEVIATION = 0.3, -0.5
FIRST_STAY, FIRST_END = 3.0, -4.0  # logits: at first rows stay, and steps end nothing


class Motion(NamedTuple):
    """How the rows move, in units of how much they usually do."""

    own: Parts  # [B, k]
    other: Parts  # [B, rows - 1, k]
    stay: jax.Array  # [B, rows - 1]: logits


class TransitionNet(eqx.Module):
    """table [B, rows, f], action [B, a] -> Motion; and the outcome of what is seen after it."""

    around: Mlp
    own: Mlp
    other: Mlp
    around_after: Mlp
    outcome_net: Mlp
    own_parts: int = eqx.field(static=True)
    other_parts: int = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        features: int,
        action_size: int,
        outcomes: int,
        hidden: int,
        parts: tuple[int, int] = (16, 3),
    ) -> None:
        """outcomes: how many numbers are told of a step, the reward and logits; parts: Gaussians of own and others."""
        keys, f, seen = jax.random.split(key, 5), features, hidden // 2
        self.own_parts, self.other_parts = parts
        self.around = Mlp(keys[0], (2 * f + action_size, seen, seen))
        own, other = (_first_motion(count, f) for count in parts)
        self.own = Mlp(keys[1], (f + action_size + seen, hidden, hidden, len(own)), 0.1, own)
        other = jnp.append(other, FIRST_STAY)
        self.other = Mlp(keys[2], (2 * f + action_size + seen, hidden, hidden, len(other)), 0.1, other)
        self.around_after = Mlp(keys[3], (3 * f + action_size, seen, seen))
        start = jnp.append(jnp.zeros(1), jnp.full(outcomes - 1, FIRST_END))
        self.outcome_net = Mlp(keys[4], (2 * f + action_size + seen, hidden, hidden, outcomes), 0.1, start)

    def __call__(self, table: jax.Array, action: jax.Array) -> Motion:
        features, others = table.shape[-1], table[:, 1:]
        first, context = table[:, 0], _strongest(self.around, table, action)
        own = self.own(jnp.concatenate([first, action, context], axis=-1))
        wide = [_by_row(x, others.shape[1]) for x in (first, action, context)]
        other = self.other(jnp.concatenate([wide[0], others, *wide[1:]], axis=-1))
        return Motion(
            _parts(own, self.own_parts, features),
            _parts(other[..., :-1], self.other_parts, features),
            other[..., -1],
        )

    def outcome(self, after: jax.Array, action: jax.Array, moved: jax.Array) -> jax.Array:
        """What is told of a step that led to `after`; moved: one's own motion [B, f]. [B, outcomes]."""
        side = jnp.concatenate([moved, action], axis=-1)
        context = _strongest(self.around_after, after, side)
        return self.outcome_net(jnp.concatenate([after[:, 0], side, context], axis=-1))


def sample(key: jax.Array, parts: Parts) -> jax.Array:
    """A draw of each mixture, [..., f]."""
    which_key, noise_key = jax.random.split(key)
    which = jax.random.categorical(which_key, parts.log_weight)[..., None, None]
    mean, log_deviation = (
        jnp.take_along_axis(each, which, axis=-2)[..., 0, :] for each in (parts.mean, parts.log_deviation)
    )
    noise = jax.random.normal(noise_key, mean.shape)
    return mean + jnp.exp(log_deviation) * jnp.clip(noise, -NOISE_LIMIT, NOISE_LIMIT)


def _strongest(net: Mlp, table: jax.Array, side: jax.Array) -> jax.Array:
    """The strongest answers over the rows, each seen beside the first one: [B, rows, f], [B, s] -> [B, h]."""
    seen = jnp.concatenate([rows_of(table[:, :1], table), table, _by_row(side, table.shape[1])], axis=-1)
    there = jnp.any(table != 0, axis=-1, keepdims=True)
    return jnp.max(jax.nn.relu(net(seen)) * there, axis=1)


def _by_row(x: jax.Array, rows: int) -> jax.Array:
    """[B, d] -> [B, rows, d]."""
    return jnp.broadcast_to(x[:, None], (len(x), rows, x.shape[-1]))


def _first_motion(count: int, features: int) -> jax.Array:
    """Where outputs begin: even weights, means that differ whatever the key, the same widths, no common motion."""
    mean = FIRST_SPREAD * np.random.default_rng(0).normal(size=count * features)
    width = np.full(count * features, FIRST_LOG_DEVIATION)
    return jnp.asarray(np.concatenate([np.zeros(count), mean, width, np.zeros(features)]), jnp.float32)


def _parts(out: jax.Array, count: int, features: int) -> Parts:
    """Outputs [..., count (1 + 2 f) + f] as Gaussians.

    All means have a motion in common, so that none of them has to learn it alone: without it, one model in two let an
    arm jump by what another part of the mixture was for.
    """
    weight, mean, width, common = jnp.split(
        out, [count, count * (1 + features), count * (1 + 2 * features)], axis=-1
    )
    shape = (*out.shape[:-1], count, features)
    mean = mean.reshape(shape)
    return Parts(
        jax.nn.log_softmax(weight),
        mean + rows_of(common[..., None, :], mean),
        jnp.clip(width.reshape(shape), *LOG_DEVIATION_RANGE),
    )
