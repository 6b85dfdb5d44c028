"""numpy's PCG64 generator, on six whole numbers per world, so that a batch of resets draws what numpy would draw.

A stream is [state high, state low, increment high, increment low, has a spare half, spare half]: the 128-bit state
and increment of `numpy.random.PCG64`, and the upper half of a 64-bit draw that waits to serve the next 32-bit one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rci.data.record import Array
from rci.tasks.highway.physics.compiled import equation

STREAM_SIZE = 6
LOW_HALF = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIER_HIGH = np.uint64(0x2360ED051FC65DA4)
MULTIPLIER_LOW = np.uint64(0x4385DF649FCCF645)
ZERO, ONE = np.uint64(0), np.uint64(1)
DOUBLE_SHIFT, DOUBLE_UNIT = np.uint64(11), 1.0 / 9007199254740992.0  # a double has 53 bits


def new_stream(seed: int | None) -> Array:
    """The stream of `numpy.random.default_rng(seed)`; without a seed, one of the system's own entropy."""
    return pack(np.random.PCG64(np.random.SeedSequence(seed)).state)


def pack(state: Mapping[str, Any]) -> Array:
    """The state of a numpy PCG64 as a stream."""
    mask = (1 << 64) - 1
    inner = state["state"]
    numbers = [inner["state"] >> 64, inner["state"] & mask, inner["inc"] >> 64, inner["inc"] & mask]
    return np.array([*numbers, state["has_uint32"], state["uinteger"]], np.uint64)


@equation
def multiply_high(a, b):
    """The upper 64 bits of the 128-bit product of two 64-bit numbers."""
    a_low, a_high, b_low, b_high = a & LOW_HALF, a >> HALF, b & LOW_HALF, b >> HALF
    middle = a_high * b_low + ((a_low * b_low) >> HALF)
    carry = (a_low * b_high + (middle & LOW_HALF)) >> HALF
    return a_high * b_high + (middle >> HALF) + carry


@equation
def next_64(stream):
    """Advance: state <- state * multiplier + increment; then xor the halves and rotate by the top six bits."""
    high, low = stream[0], stream[1]
    product_high = multiply_high(low, MULTIPLIER_LOW) + high * MULTIPLIER_LOW + low * MULTIPLIER_HIGH
    product_low = low * MULTIPLIER_LOW
    new_low = product_low + stream[3]
    carry = ONE if new_low < product_low else ZERO
    new_high = product_high + stream[2] + carry
    stream[0], stream[1] = new_high, new_low
    turn = new_high >> np.uint64(58)
    mixed = new_high ^ new_low
    return (mixed >> turn) | (mixed << ((np.uint64(64) - turn) & np.uint64(63)))


@equation
def next_32(stream):
    """The lower half of a draw, or the upper half that the last one left over."""
    if stream[4] != ZERO:
        stream[4] = ZERO
        return stream[5]
    draw = next_64(stream)
    stream[4] = ONE
    stream[5] = draw >> HALF
    return draw & LOW_HALF


@equation
def uniform(stream, low, width):
    """`Generator.uniform(low, low + width)`."""
    return low + width * ((next_64(stream) >> DOUBLE_SHIFT) * DOUBLE_UNIT)


@equation
def choice(stream, count):
    """`Generator.choice(count)`: Lemire's bounded draw. A choice among one draws nothing."""
    if count == 1:
        return 0
    bound = np.uint64(count)
    product = next_32(stream) * bound
    if (product & LOW_HALF) < bound:
        threshold = (LOW_HALF - (bound - ONE)) % bound
        while (product & LOW_HALF) < threshold:
            product = next_32(stream) * bound
    return np.int64(product >> HALF)


@equation
def interval(stream, largest):
    """A whole number 0 .. largest as `Generator.shuffle` draws it: mask, and reject what is too large."""
    bound = np.uint64(largest)
    mask = bound
    for shift in (1, 2, 4, 8, 16):
        mask |= mask >> np.uint64(shift)
    draw = next_32(stream) & mask
    while draw > bound:
        draw = next_32(stream) & mask
    return np.int64(draw)
