"""Ragged episodes as padded blocks with a mask."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rci.data.record import Array
from rci.data.types import Episodes, Labels


class Sequences(NamedTuple):
    """Episodes cut at their stops and padded to one length. mask[i, t] is 1 where episode i has a step t.

    The arrays are numpy's where they are made and JAX's where a network is trained on them.
    """

    obs: Any  # [N, T, features], what was seen before each action
    action: Any  # [N, T, ...]
    mask: Any  # [N, T] float32
    cost: Any  # [N] episodic cost


def pad(flat: Array, offset: Array, lengths: Array, size: int | None = None) -> Array:
    """[rows, ...] -> [N, T, ...]: rows offset[i] .. offset[i] + lengths[i], then zeros up to the longest."""
    size = int(lengths.max()) if size is None else size
    step = np.arange(size)
    valid = step < lengths[:, None]
    rows = np.where(valid, offset[: len(lengths), None] + step, 0)
    block = flat[rows]
    block[~valid] = 0
    return block


def sequences(episodes: Episodes, labels: Labels) -> Sequences:
    """Everything a redistributor may see, in float32. Labels must be of these episodes."""
    labels.check_parent(episodes)
    kept = labels.kept_lengths
    return Sequences(
        obs=_features(pad(episodes.obs, episodes.obs_offset, kept)),
        action=_features(pad(episodes.action, episodes.step_offset, kept)),
        mask=(np.arange(int(kept.max())) < kept[:, None]).astype(np.float32),
        cost=labels.cost.astype(np.float32),
    )


def flatten(block: Array, lengths: Array) -> Array:
    """[N, T] -> [sum(lengths)]: the inverse of `pad`."""
    return block[np.arange(block.shape[1]) < lengths[:, None]]


def _features(block: Array) -> Array:
    return block.reshape(*block.shape[:2], -1).astype(np.float32)
