"""How rows of observations move: who became whom, and in which numbers a motion is best described."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rci.data.record import Array
from rci.nets.dense import rows_of

SAME = 4.0  # a row that changed by more, in units of the usual change and on average over features, is another one
STRIKING = 8.0  # more of a change in one feature does not count as more
SLIGHT = 0.05  # deviations of features: no error that is less tells rows apart
STILL = 1e-4  # deviations of features: what varies by less does not vary


class Frame(NamedTuple):
    """In which numbers motions are described: what a linear law leaves over, along the axes in which it varies.

    Positions follow velocities, and some features are copies of others. A model that moved each feature by itself would
    tear them apart, a little in every step.
    """

    law: jax.Array  # [inputs + 1, f]: what moves by the law alone
    axes: jax.Array  # [m, f]: one unit along each axis
    inverse: jax.Array  # [f, m]

    def encode(self, seen: jax.Array, change: jax.Array) -> jax.Array:
        """seen [..., inputs], change [..., f] -> [..., m]."""
        return (change - self.lawful(seen)) @ self.inverse

    def decode(self, seen: jax.Array, motion: jax.Array) -> jax.Array:
        """The reverse."""
        return self.lawful(seen) + motion @ self.axes

    def lawful(self, seen: jax.Array) -> jax.Array:
        """How much moves by the law alone."""
        moved = seen @ self.law[:-1]
        return moved + rows_of(self.law[-1], moved)


def frame_of(seen: Array, change: Array) -> Frame:
    """The frame of recorded motions [N, f], of what was seen before them [N, inputs]."""
    f = change.shape[-1]
    if len(change) == 0:
        return Frame(jnp.zeros((seen.shape[-1] + 1, f)), jnp.zeros((0, f)), jnp.zeros((f, 0)))
    inputs = np.column_stack([seen, np.ones(len(seen))]).astype(np.float64)
    law = np.linalg.lstsq(inputs, change.astype(np.float64), rcond=None)[0]
    rest = change - inputs @ law
    spread, axes = np.linalg.eigh(rest.T @ rest / len(rest))
    unit, axes = np.sqrt(np.maximum(spread, 0.0)), axes.T
    unit, axes = unit[unit > STILL], axes[unit > STILL]
    numbers = law, unit[:, None] * axes, (axes / unit[:, None]).T
    return Frame(*(jnp.asarray(number, jnp.float32) for number in numbers))


def frame_of_matches(beside: Array, others: Array, later: Array, became: Array) -> Frame:
    """The frame of rows [N, n, f] that became others, of what was seen beside them [N, n, inputs]."""
    step, slot = np.nonzero(became >= 0)
    return frame_of(beside[step, slot], later[step, became[step, slot]] - others[step, slot])


def match_rows(before: Array, expected: Array, after: Array, became: Array | None = None) -> Array:
    """Which row each row has become one step later, -1 where it is gone or never was: [N, n, f] thrice -> [N, n].

    expected: where the rows of `before` are expected. Rows may change places. Of all pairs the nearest are matched
    first, features counted in units of how far they usually are from what is expected: in the matches that are known,
    or in rows that keep their place.
    """
    count, n, _ = before.shape
    here, there = present(before), present(after)
    if became is None:
        became = np.where(here & there, np.arange(n), -1)
    step, slot = np.nonzero(became >= 0)
    if len(step) == 0:
        return became
    error = np.abs(after[step, became[step, slot]] - expected[step, slot])
    usual = np.sqrt([np.mean(column[column <= np.quantile(column, 0.9)] ** 2) for column in error.T])
    weight = np.where(usual > 0, 1.0 / np.hypot(usual, SLIGHT), 0.0)
    apart = np.zeros((count, n, n), np.float32)
    for k in np.flatnonzero(weight):
        apart += np.minimum(np.abs(expected[:, :, None, k] - after[:, None, :, k]) * weight[k], STRIKING)
    apart /= max(1, int(np.count_nonzero(weight)))
    apart[~(here[:, :, None] & there[:, None])] = np.inf
    became, every = np.full((count, n), -1), np.arange(count)
    for _ in range(n):
        old, new = np.divmod(apart.reshape(count, -1).argmin(axis=1), n)
        close = np.flatnonzero(apart[every, old, new] < SAME)
        became[close, old[close]] = new[close]
        apart[close, old[close]] = np.inf
        apart[close, :, new[close]] = np.inf
    return became


def present(rows: Any) -> Any:
    """Which rows are somebody: [..., f] -> [...]."""
    return (rows != 0).any(axis=-1)
