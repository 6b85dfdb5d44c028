"""The normal numbers that JAX draws for a seed, without JAX.

Policies that choose among candidates draw these from a seed. Other numbers would be other candidates, and so another
policy than the one that was evaluated. Bits are equal to JAX's, numbers up to the rounding of a logarithm.
"""

from __future__ import annotations

import math

import numpy as np

from rci.data.record import Array, check_seed

PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
# Giles, "Approximating the erfinv function", 2010: powers of w - 2.5 and of sqrt(w) - 3, the highest first.
CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip


def normal(seed: int, shape: tuple[int, ...]) -> Array:
    """jax.random.normal(jax.random.key(seed), shape) in float32."""
    drawn = bits((0, check_seed(seed) & 0xFFFFFFFF), math.prod(shape)).reshape(shape)
    return np.float32(math.sqrt(2.0)) * inverse_error_function(open_interval(drawn))


def bits(key: tuple[int, int], count: int) -> Array:
    """So many random words of 32 bits: the two halves of threefry2x32 at 0, 1, 2, ..., one folded into the other."""
    number = np.arange(count, dtype=np.uint64)
    high, low = threefry(key, (number >> np.uint64(32)).astype(np.uint32), number.astype(np.uint32))
    return high ^ low


def threefry(key: tuple[int, int], high: Array, low: Array) -> tuple[Array, Array]:
    """Twenty rounds of Threefry-2x32. Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011."""
    keys = [np.uint32(word) for word in (key[0], key[1], key[0] ^ key[1] ^ PARITY)]
    high, low = high + keys[0], low + keys[1]
    for round_ in range(5):
        for distance in ROTATIONS[round_ % 2]:
            high = high + low
            low = (low << np.uint32(distance)) | (low >> np.uint32(32 - distance))
            low = high ^ low
        high = high + keys[(round_ + 1) % 3]
        low = low + keys[(round_ + 2) % 3] + np.uint32(round_ + 1)
    return high, low


def open_interval(words: Array) -> Array:
    """Random words as numbers in (-1, 1): the upper 23 bits are the mantissa of a number in [1, 2)."""
    unit = ((words >> np.uint32(9)) | np.uint32(0x3F800000)).view(np.float32) - np.float32(1.0)
    lowest = np.nextafter(np.float32(-1.0), np.float32(0.0))
    return np.maximum(lowest, unit * (np.float32(1.0) - lowest) + lowest)


def inverse_error_function(x: Array) -> Array:
    """The number whose error function is x, in float32."""
    w = -np.log1p(-x * x)
    near = w < 5.0
    place = np.where(near, w - np.float32(2.5), np.sqrt(w) - np.float32(3.0)).astype(np.float32)
    total = np.where(near, np.float32(CENTRE[0]), np.float32(TAIL[0]))
    for one, other in zip(CENTRE[1:], TAIL[1:]):
        total = np.where(near, np.float32(one), np.float32(other)) + total * place
    return total * x
