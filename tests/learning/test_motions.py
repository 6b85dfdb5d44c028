"""Who became whom, and laws of motion, by hand."""

import numpy as np
import pytest

from rci.learning.judging.simulation.motions import frame_of, match_rows, present


def test_rows_that_change_places_go_and_come():
    """Three cars: the first two swap places, the third is gone and another one has come."""
    rng = np.random.default_rng(0)
    before = rng.uniform(1, 2, (200, 3, 2)) + 10.0 * np.arange(3)[None, :, None]
    after = before + rng.normal(0, 0.1, before.shape)
    after[0] = after[0, [1, 0, 2]]
    after[0, 2] = (90.0, 90.0)
    after[1, 2] = 0.0
    before[2, 0] = 0.0
    became = match_rows(before, before, after)
    assert became[:4].tolist() == [[1, 0, -1], [0, 1, -1], [-1, 1, 2], [0, 1, 2]]
    assert (became[4:] == np.arange(3)).all()


def test_what_is_expected_tells_rows_apart():
    """Two cars that pass each other: by place each is where the other was, by its speed it is itself."""
    speed = np.array([1.0, -1.0])
    place = np.array([[0.0, 1.0]] * 100)
    before = np.stack([place + 5.0, np.tile(speed, (100, 1))], axis=-1)
    after = before + np.array([1.0, 0.0]) * speed[:, None]
    after = after[:, ::-1]  # sorted by place
    rng = np.random.default_rng(1)
    after = after + rng.normal(0, 0.01, after.shape)
    expected = before + np.array([1.0, 0.0]) * speed[:, None]
    known = np.tile([1, 0], (100, 1))
    assert (match_rows(before, expected, after, known) == [1, 0]).all()


def test_nobody_is_matched_where_nobody_is():
    nobody = np.zeros((5, 2, 3))
    assert (match_rows(nobody, nobody, nobody) == -1).all()
    assert match_rows(np.zeros((5, 0, 3)), np.zeros((5, 0, 3)), np.zeros((5, 0, 3))).shape == (5, 0)
    assert present(np.array([[0.0, 0.0], [0.0, 1.0]])).tolist() == [False, True]


def test_a_frame_keeps_copies_and_speeds_together():
    """Place follows speed, and a third feature is a copy of the place: one number tells a motion."""
    rng = np.random.default_rng(2)
    seen = rng.normal(size=(500, 3)).astype(np.float32)
    push = rng.normal(size=500)
    moved = 0.5 * seen[:, 1] + 0.1 * push
    change = np.stack([moved, push, moved], axis=-1).astype(np.float32)
    frame = frame_of(seen, change)
    assert frame.axes.shape == (1, 3)
    motion = np.asarray(frame.encode(seen, change))
    assert motion.std() == pytest.approx(1.0, abs=0.01)
    np.testing.assert_allclose(frame.decode(seen, motion), change, atol=1e-5)
    # Whatever is drawn, the copy stays a copy, and the place follows the speed.
    other = np.asarray(frame.decode(seen, rng.normal(size=(500, 1)).astype(np.float32)))
    np.testing.assert_allclose(other[:, 0], other[:, 2], atol=1e-5)
    np.testing.assert_allclose(other[:, 0], 0.5 * seen[:, 1] + 0.1 * other[:, 1], atol=1e-4)


def test_frames_of_nothing_and_of_what_never_moves():
    none = frame_of(np.zeros((0, 4)), np.zeros((0, 2)))
    assert none.axes.shape == (0, 2)
    still = frame_of(np.ones((10, 4), np.float32), np.zeros((10, 2), np.float32))
    assert still.axes.shape == (0, 2)
    assert not np.asarray(still.decode(np.ones((3, 4), np.float32), np.zeros((3, 0), np.float32))).any()
