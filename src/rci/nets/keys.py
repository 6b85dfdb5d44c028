"""Random keys that differ between stages even where the seed is the same."""

from __future__ import annotations

import zlib

import jax
import numpy as np


def stage_key(seed: int, stage: str) -> jax.Array:
    """The key of one use of a seed. Two stages with the same seed must not draw the same numbers."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(stage.encode()))


def derived_seed(seed: int, *place: int) -> int:
    """A seed of its own for a place among equals, such as a member or a channel; no two places share one."""
    return int(np.random.SeedSequence(seed, spawn_key=place).generate_state(1)[0] >> 1)
