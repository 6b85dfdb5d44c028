"""Random keys that differ between stages even where the seed is the same."""

from __future__ import annotations

import zlib

import jax


def stage_key(seed: int, stage: str) -> jax.Array:
    """The key of one use of a seed. Two stages with the same seed must not draw the same numbers."""
    return jax.random.fold_in(jax.random.key(seed), zlib.crc32(stage.encode()))
