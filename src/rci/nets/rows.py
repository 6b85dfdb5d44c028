"""Networks of observations that are rows of one kind: one's own state first, then the other cars, obstacles or people.

A dense network has to learn for every row anew what a car ahead means, and knows nothing of a second car ahead if the
logs had few moments with two. Here one function looks at each row beside the first one, and the strongest answer
counts: what is learned from any row holds for all. Zaheer et al., "Deep Sets", 2017; beside the first row as in Leurent
and Mercat, "Social Attention for Autonomous Decision-Making in Dense Traffic", 2019.

A row of zeros is padding and is not seen. The order of the rows behind the first one is not seen either: stacked frames
do not form such a table. A bias for every place, tried on the highway, brought back much of what rows had won.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp

from rci.nets.dense import Mlp, affine, first_weight, rows_of


class RowMlp(eqx.Module):
    """A network of an observation of n rows, flat: [..., n * f], and where it takes one an action, [..., outputs].

    As with `PairMlp`, obs may have one axis less than action, [..., m, a]. sizes: of what is seen of a row, of the
    layers behind that, and the outputs.
    """

    obs_weight: jax.Array  # [2 f, h]
    action_weight: jax.Array | None  # [a, h]
    bias: jax.Array
    row_weight: jax.Array  # [h, h]
    row_bias: jax.Array
    rest: Mlp

    def __init__(
        self,
        key: jax.Array,
        rows: int,
        obs_size: int,
        action_size: int,
        sizes: Sequence[int],
        last_scale: float = 1.0,
        last_bias: jax.Array | None = None,
    ) -> None:
        first_key, row_key, rest_key = jax.random.split(key, 3)
        features = 2 * (obs_size // rows)
        joint = first_weight(first_key, features + action_size, sizes[0])
        self.obs_weight = joint[:features]
        self.action_weight = joint[features:] if action_size else None
        self.bias = jnp.zeros(sizes[0])
        self.row_weight = first_weight(row_key, sizes[0], sizes[0])
        self.row_bias = jnp.zeros(sizes[0])
        self.rest = Mlp(rest_key, sizes, last_scale, last_bias)

    def __call__(self, obs: jax.Array, action: jax.Array | None = None) -> jax.Array:
        row = obs.reshape(*obs.shape[:-1], -1, len(self.obs_weight) // 2)
        own = rows_of(row[..., :1, :], row)
        there = jnp.any(row != 0, axis=-1, keepdims=True)
        hidden = affine(jnp.concatenate([own, row], axis=-1), self.obs_weight, self.bias)
        if action is not None and self.action_weight is not None:
            if action.ndim > obs.ndim:
                hidden, there = hidden[..., None, :, :], there[..., None, :, :]
            hidden = hidden + (action @ self.action_weight)[..., None, :]
        seen = jax.nn.relu(affine(jax.nn.relu(hidden), self.row_weight, self.row_bias))
        return self.rest(jnp.max(seen * there, axis=-2))


class RowCommittee(eqx.Module):
    """Several networks of rows and an action, told apart only by how they began: [..., outputs] each."""

    members: tuple[RowMlp, ...]

    def __init__(
        self,
        key: jax.Array,
        rows: int,
        obs_size: int,
        action_size: int,
        sizes: Sequence[int],
        members: int,
        last_scale: float = 1.0,
        last_bias: jax.Array | None = None,
    ) -> None:
        self.members = tuple(
            RowMlp(k, rows, obs_size, action_size, sizes, last_scale, last_bias)
            for k in jax.random.split(key, members)
        )

    def member(self, index: int) -> RowMlp:
        """One of them."""
        return self.members[index]

    def __len__(self) -> int:
        return len(self.members)

    def __call__(self, obs: jax.Array, action: jax.Array) -> tuple[jax.Array, ...]:
        return tuple(net(obs, action) for net in self.members)
