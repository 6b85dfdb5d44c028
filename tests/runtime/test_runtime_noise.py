import jax
import numpy as np
import pytest

from rci.data.errors import RciError
from rci.deploy.noise import bits, inverse_error_function, normal, threefry

SEEDS = [0, 1, 12345, 2**31 - 1, -7]


@pytest.mark.parametrize("seed", SEEDS)
def test_bits_are_those_of_jax(seed):
    drawn = np.asarray(jax.random.bits(jax.random.key(seed), (301,)))
    assert np.array_equal(bits((0, seed & 0xFFFFFFFF), 301), drawn)


@pytest.mark.parametrize("seed", SEEDS)
def test_normal_numbers_are_those_of_jax(seed):
    drawn = np.asarray(jax.random.normal(jax.random.key(seed), (400, 50)))
    own = normal(seed, (400, 50))
    assert own.dtype == np.float32
    assert np.abs(own).max() > 3.6  # the tails of the approximation are there
    assert np.abs(own - drawn).max() < 1e-6


def test_threefry_gives_the_published_words():
    """The known answers of Salmon et al. for Threefry-2x32 with 20 rounds."""
    for key, counter, expected in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        found = threefry(key, *(np.array([word], np.uint32) for word in counter))
        assert [int(word[0]) for word in found] == list(expected)


def test_the_inverse_error_function_by_hand():
    known = {0.0: 0.0, 0.5: 0.476936276, -0.5: -0.476936276, 0.9999: 2.751063906}
    found = inverse_error_function(np.array(list(known), np.float32))
    assert found == pytest.approx(list(known.values()), rel=2e-5)


@pytest.mark.parametrize("seed", [2**31, -(2**31), 0.5, "zero", None])
def test_a_seed_that_jax_would_refuse_is_refused(seed):
    with pytest.raises(RciError, match="a seed is a whole number"):
        normal(seed, (2,))
