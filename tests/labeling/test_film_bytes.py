"""The bytes of a film, as the page reads them."""

from __future__ import annotations

import json
import struct

import hypothesis.extra.numpy as shapes
import numpy as np
import pytest
from film_reader import parse_film
from hypothesis import given, settings
from hypothesis import strategies as st

from rci.data.errors import RciError
from rci.labeling.server.film_bytes import film_bytes
from rci.tasks.film import KINDS, Film

FACTS = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1e6, 1e6) | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
ONE = [{"name": "a", "shape": [2]}]
ARRAYS = st.dictionaries(
    st.text(max_size=6),
    shapes.arrays(
        np.float32,
        shapes.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=4),
        elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
    ),
    max_size=3,
)


@settings(deadline=None, derandomize=True, database=None)
@given(kind=st.sampled_from(KINDS), facts=FACTS, arrays=ARRAYS)
def test_what_is_sent_arrives(kind: str, facts: dict, arrays: dict) -> None:
    data = film_bytes(Film(kind, facts, arrays))
    film = parse_film(data)
    assert (film.kind, film.facts) == (kind, facts)
    assert list(film.arrays) == list(arrays)
    for name, array in arrays.items():
        assert film.arrays[name].tolist() == array.tolist()
        assert film.arrays[name].shape == array.shape
    assert (4 + struct.unpack_from("<I", data)[0]) % 4 == 0


def test_the_bytes_by_hand() -> None:
    data = film_bytes(Film("road", {"lanes": 4}, {"travelled": np.array([[1.0, -2.0]])}))
    header = b'{"kind":"road","facts":{"lanes":4},"arrays":[{"name":"travelled","shape":[1,2]}]}'
    padded = header + b" " * 3
    assert len(padded) == 84
    assert data == b"\x54\0\0\0" + padded + b"\0\0\x80\x3f" + b"\0\0\0\xc0"


def test_any_order_in_memory_and_any_type_of_number() -> None:
    given = np.asfortranarray(np.arange(6.0).reshape(2, 3))[:, ::-1]
    film = parse_film(
        film_bytes(Film("signals", {}, {"a": given, "b": np.array([True, False]), "c": np.arange(3)}))
    )
    assert film.arrays["a"].tolist() == [[2, 1, 0], [5, 4, 3]]
    assert film.arrays["b"].tolist() == [1, 0]
    assert film.arrays["c"].dtype == np.float32


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_numbers_that_a_page_cannot_draw_are_refused(value: float) -> None:
    with pytest.raises(RciError, match="'obs' of a film holds numbers that are not finite or too large"):
        film_bytes(Film("signals", {}, {"obs": np.array([0.0, value])}))


def with_header(header: object, numbers: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 4)
    return struct.pack("<I", len(text)) + text + numbers


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x01", "only 1 bytes"),
        (b"\xff\xff\xff\xff{}", "cannot be 4294967295 bytes long"),
        (b"\x03\0\0\0{} ", "cannot be 3 bytes long"),
        (b"\x04\0\0\0\xff\xfe..", "must be JSON"),
        (with_header([]), "must be JSON"),
        (with_header({"kind": "opera", "facts": {}, "arrays": []}), "must be JSON"),
        (
            with_header({"kind": "road", "facts": {}, "arrays": [{"name": "a", "shape": [-1]}]}),
            "must be JSON",
        ),
        (with_header({"kind": "road", "facts": {}, "arrays": ONE}, b"1234"), "breaks off in 'a'"),
        (with_header({"kind": "road", "facts": {}, "arrays": []}, b"1234"), "4 bytes more"),
    ],
)
def test_bytes_that_are_no_film_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(RciError, match=reason):
        parse_film(data)
