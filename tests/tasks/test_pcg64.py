"""The compiled generator against numpy's own, draw for draw."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from rci.tasks.highway.physics import pcg64
from rci.tasks.highway.physics.observation import shuffle_rows
from rci.tasks.highway.physics.pcg64 import new_stream, pack

DRAWS = 20_000
compiled = numba.njit(error_model="numpy", _nrt=False)


@compiled
def fill_raw(stream, out):
    for k in range(len(out)):
        out[k] = pcg64.next_64(stream)


@compiled
def fill_uniform(stream, low, width, out):
    for k in range(len(out)):
        out[k] = pcg64.uniform(stream, low, width)


@compiled
def fill_choice(stream, count, out):
    for k in range(len(out)):
        out[k] = pcg64.choice(stream, count)


@compiled
def fill_interval(stream, largest, out):
    for k in range(len(out)):
        out[k] = pcg64.interval(stream, largest)


@compiled
def fill_mixed(stream, kinds, counts, out):
    """What a reset does: whole numbers between fractions."""
    for k in range(len(out)):
        out[k] = pcg64.choice(stream, counts[k]) if kinds[k] else pcg64.uniform(stream, 3.5, 1.0)


@compiled
def products(a, b, out):
    for k in range(len(out)):
        out[k] = pcg64.multiply_high(a[k], b[k])


def numpys(seed: int | None) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**64 + 3])
def test_streams_are_default_rngs(seed: int) -> None:
    stream, out = new_stream(seed), np.zeros(DRAWS, np.uint64)
    fill_raw(stream, out)
    bits = np.random.PCG64(np.random.SeedSequence(seed))
    assert np.array_equal(out, bits.random_raw(DRAWS))
    assert np.array_equal(stream, pack(bits.state))


def test_without_a_seed_streams_differ() -> None:
    first, second = new_stream(None), new_stream(None)
    assert first.shape == (pcg64.STREAM_SIZE,)
    assert first.dtype == np.uint64
    assert not np.array_equal(first, second)


def test_upper_half_of_a_product() -> None:
    rng = numpys(0)
    edges = np.array([0, 1, 2**32 - 1, 2**32, 2**63, 2**64 - 1], np.uint64)
    a = np.concatenate([np.repeat(edges, 6), rng.integers(0, 2**64, 3000, np.uint64)])
    b = np.concatenate([np.tile(edges, 6), rng.integers(0, 2**64, 3000, np.uint64)])
    out = np.zeros(len(a), np.uint64)
    products(a, b, out)
    assert out.tolist() == [int(x) * int(y) >> 64 for x, y in zip(a, b)]


@pytest.mark.parametrize("state", [0, 1, 2**64 - 1, 2**64, 2**128 - 1, 2**127 + 2**63])
def test_carries_at_the_edges_of_the_state(state: int) -> None:
    bits = np.random.PCG64(0)
    bits.state = {**bits.state, "state": {"state": state, "inc": 2**128 - 1}}
    stream, out = pack(bits.state), np.zeros(50, np.uint64)
    fill_raw(stream, out)
    assert np.array_equal(out, bits.random_raw(50))


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.9, 1.1), (21.0, 24.0), (3.5, 4.5), (-7.25, 1e6)])
def test_uniform(low: float, high: float) -> None:
    stream, out = new_stream(7), np.zeros(DRAWS)
    fill_uniform(stream, low, high - low, out)
    assert np.array_equal(out, numpys(7).uniform(low, high, DRAWS))


REJECTING = 3_000_000_000  # three draws in ten are refused


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 1000, 2**31 + 1, REJECTING, 2**32 - 1])
def test_choice(count: int) -> None:
    draws = 4000
    stream, out, rng = new_stream(count), np.zeros(draws, np.int64), numpys(count)
    fill_choice(stream, count, out)
    assert out.tolist() == [rng.choice(count) if count < 10 else rng.integers(count) for _ in range(draws)]
    assert np.array_equal(stream, pack(rng.bit_generator.state))


def test_a_choice_among_billions_rejects() -> None:
    """So that the loop is known to be tested: more than one 32-bit word per number is used."""
    stream, out = new_stream(0), np.zeros(1000, np.int64)
    fill_choice(stream, REJECTING, out)
    plain = new_stream(0)
    fill_choice(plain, 4, np.zeros(1000, np.int64))
    assert not np.array_equal(stream, plain)


def test_a_choice_among_one_draws_nothing() -> None:
    stream, out, rng = new_stream(3), np.ones(10, np.int64), numpys(3)
    before = stream.copy()
    fill_choice(stream, 1, out)
    assert not out.any()
    assert np.array_equal(stream, before)
    assert [rng.choice(1) for _ in range(10)] == [0] * 10
    assert np.array_equal(pack(rng.bit_generator.state), before)


def test_halves_wait_while_whole_draws_pass() -> None:
    chooser = np.random.default_rng(99)
    kinds, counts = chooser.random(DRAWS) < 0.4, chooser.choice([1, 2, 3, 4, 6, REJECTING], DRAWS)
    stream, out, rng = new_stream(5), np.zeros(DRAWS), numpys(5)
    fill_mixed(stream, kinds, counts, out)
    expected = [
        rng.integers(count) if whole else rng.uniform(3.5, 4.5) for whole, count in zip(kinds, counts)
    ]
    assert out.tolist() == expected
    assert np.array_equal(stream[:5], pack(rng.bit_generator.state)[:5])


def test_a_waiting_half_is_packed() -> None:
    rng = numpys(8)
    rng.choice(4)
    stream = pack(rng.bit_generator.state)
    assert stream[4] == 1
    out = np.zeros(101, np.int64)
    fill_choice(stream, 4, out)
    assert out.tolist() == [rng.choice(4) for _ in range(101)]


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9, 26])
@pytest.mark.parametrize("spare", [False, True])
def test_shuffling_rows(rows: int, spare: bool) -> None:
    """The first row is the ego's and stays."""
    rng = numpys(rows)
    if spare:
        rng.choice(3)
    stream = pack(rng.bit_generator.state)
    for _ in range(300):
        ours = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        theirs = ours.copy()
        shuffle_rows(stream, ours)
        rng.shuffle(theirs[1:])
        assert np.array_equal(ours, theirs)
    assert np.array_equal(stream, pack(rng.bit_generator.state))


@pytest.mark.parametrize("largest", [1, 2, 3, 4, 7, 8, 100, 2**16, 2**31])
def test_intervals_stay_within(largest: int) -> None:
    out = np.zeros(2000, np.int64)
    fill_interval(new_stream(2), largest, out)
    assert out.min() >= 0
    assert out.max() <= largest
    if largest <= 8:
        assert set(out.tolist()) == set(range(largest + 1))  # a value missing: less than 1e-90
