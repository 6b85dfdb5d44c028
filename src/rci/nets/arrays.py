"""Networks as named arrays and back, so that they can be stored without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import jax
import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array

T = TypeVar("T")


def to_arrays(tree: Any) -> dict[str, Array]:
    """Every array of a pytree under the path that leads to it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {_name(path): np.asarray(leaf) for path, leaf in leaves}


def from_arrays(template: T, arrays: Mapping[str, Array]) -> T:
    """A pytree of the template's structure, filled from named arrays of the template's shapes."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    expected = {_name(path): tuple(leaf.shape) for path, leaf in leaves}
    found = {name: tuple(np.shape(array)) for name, array in arrays.items()}
    if expected != found:
        name = next(n for n in {**expected, **found} if expected.get(n) != found.get(n))
        raise RciError(
            f"the stored network does not fit: {name!r} should be {expected.get(name, 'absent')}, "
            f"is {found.get(name, 'absent')}."
        )
    filled = [jax.numpy.asarray(np.asarray(arrays[_name(path)])) for path, _ in leaves]
    return jax.tree_util.tree_unflatten(structure, filled)


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")
