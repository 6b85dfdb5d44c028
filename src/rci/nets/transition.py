"""A network of one step of the world: from an observation and an action to a density of what is seen next.

An observation is a table, one's own row first, then a row for each car, obstacle or person, zeros for nobody; an
observation in any other shape is one row. One's own row moves by a mixture of Gaussians, so that "left or right" and a
thruster that may or may not fire can be said. All other rows move by one and the same function of a row, beside the
first one and what is around; each may also be gone. What a step earned and whether it ended is read from what is seen
*after* it: where danger begins is then a sharp line in what is seen, and not smeared by what might have happened.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from rci.nets.dense import Mlp, rows_of
from rci.nets.mixture import Parts

LOG_DEVIATION_RANGE = (-5.0, 2.0)
# Deviations. Gaussians are widened by rare events that are not theirs, and over a hundred steps that adds up.
NOISE_LIMIT = 1.0
FIRST_SPREAD, FIRST_LOG_DEVIATION = 0.3, -0.5
FIRST_STAY, FIRST_END = 3.0, -4.0  # logits: at first rows stay, and steps end nothing


class TransitionNet(eqx.Module):
    """Of a table [B, rows, f] and an action [B, a]: how one's own row moves, then the others, then the outcome."""

    around: Mlp
    own: Mlp
    other: Mlp
    around_after: Mlp
    reward: Mlp
    ends: Mlp
    own_parts: tuple[int, int] = eqx.field(static=True)  # how many, and of how many numbers
    other_parts: tuple[int, int] = eqx.field(static=True)

    def __init__(
        self,
        key: jax.Array,
        features: int,
        action_size: int,
        motions: tuple[int, int],
        ends: int,
        hidden: int,
        parts: tuple[int, int] = (16, 3),
    ) -> None:
        """motions: how many numbers make a motion, of one's own row and of another; ends: logits; parts: Gaussians."""
        keys, f, seen = jax.random.split(key, 6), features, hidden // 2
        self.own_parts, self.other_parts = zip(parts, motions)
        self.around = Mlp(keys[0], (2 * f + action_size, seen, seen))
        own, other = (_first_motion(count, size) for count, size in zip(parts, motions))
        self.own = Mlp(keys[1], (f + action_size + seen, hidden, hidden, len(own)), 0.1, own)
        other = jnp.append(other, FIRST_STAY)
        self.other = Mlp(keys[2], (3 * f + action_size + seen, hidden, hidden, len(other)), 0.1, other)
        self.around_after = Mlp(keys[3], (2 * f + action_size, seen, seen))
        self.reward = Mlp(keys[4], (2 * f + action_size + seen, hidden, hidden, 1))
        self.ends = Mlp(
            keys[5], (f + action_size + seen, hidden, hidden, ends), 0.1, jnp.full(ends, FIRST_END)
        )

    def context(self, table: jax.Array, action: jax.Array) -> jax.Array:
        """What all rows together mean for the next step, [B, h]."""
        return _strongest(self.around, table, action)

    def own_motion(self, table: jax.Array, action: jax.Array, context: jax.Array) -> Parts:
        """[B, k]."""
        return _parts(self.own(jnp.concatenate([table[:, 0], action, context], axis=-1)), *self.own_parts)

    def other_motion(
        self, table: jax.Array, action: jax.Array, context: jax.Array, own_after: jax.Array
    ) -> tuple[Parts, jax.Array]:
        """[B, rows - 1, k], and logits that they stay. What is seen of them depends on where oneself is afterwards."""
        others = table[:, 1:]
        first, *rest = (_by_row(x, others.shape[1]) for x in (table[:, 0], own_after, action, context))
        out = self.other(jnp.concatenate([first, others, *rest], axis=-1))
        return _parts(out[..., :-1], *self.other_parts), out[..., -1]

    def outcome(self, after: jax.Array, action: jax.Array, before: jax.Array) -> jax.Array:
        """What is read off a step that led to `after`: the reward and logits, [B, 1 + ends].

        before: one's own row [B, f]. An end is read from what is seen after it alone: of a motion that was never
        recorded anything might be said.
        """
        seen = [after[:, 0], action, _strongest(self.around_after, after, action)]
        reward = self.reward(jnp.concatenate([after[:, 0] - before, *seen], axis=-1))
        return jnp.concatenate([reward, self.ends(jnp.concatenate(seen, axis=-1))], axis=-1)


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
