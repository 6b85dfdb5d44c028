import numpy as np
import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.data.types import Labels
from rci.labeling import corrupt
from rci.labeling.noise import LATE, SHIFTS, Reaction, come_late, flip_labels, react_late, shift_stops

LENGTHS = np.full(5000, 50)
STOPS = np.where(np.arange(5000) % 2, 25, -1)


def test_noisy_moves_stops_by_the_papers_shifts_only():
    moved = shift_stops(np.random.default_rng(0), STOPS, LENGTHS)
    assert np.array_equal(moved == -1, STOPS == -1)
    shifts, counts = np.unique(moved[STOPS >= 0] - 25, return_counts=True)
    assert shifts.tolist() == SHIFTS.tolist()
    # 2,500 draws over 7 values: 4.5 standard deviations around 357, false alarm 5e-5 over all
    assert (np.abs(counts - 2500 / 7) < 4.5 * np.sqrt(2500 * 6 / 49)).all()


def test_noisy_stays_inside_the_recording():
    stops = np.array([0, 49, 3, -1] * 200)
    moved = shift_stops(np.random.default_rng(0), stops, np.full(800, 50))
    assert moved[stops == 0].min() == 0
    assert moved[stops == 49].max() == 49
    assert (moved[stops == -1] == -1).all()


def test_adversarial_flips_exactly_a_fifth():
    flipped = flip_labels(np.random.default_rng(0), STOPS, LENGTHS)
    changed = (flipped >= 0) != (STOPS >= 0)
    assert changed.sum() == 1000
    new = flipped[changed & (flipped >= 0)]
    assert new.min() >= 0
    assert new.max() <= 49
    assert np.array_equal(flipped[~changed], STOPS[~changed])
    # uniform over 50 steps: the mean of about 500 draws within 4.5 standard errors, false alarm 7e-6
    assert abs(new.mean() - 24.5) < 4.5 * np.sqrt((50**2 - 1) / 12 / len(new))


def test_human_stops_late_and_sometimes_not_at_all():
    late = react_late(np.random.default_rng(0), STOPS, LENGTHS, Reaction(1.0, 2.0, 0.5, 0.1))
    stopped = STOPS >= 0
    assert (late[~stopped] == -1).all()
    missed = late[stopped] == -1
    assert abs(missed.mean() - 0.1) < 4.5 * np.sqrt(0.09 / 2500)  # false alarm 7e-6
    delay = late[stopped][~missed] - 25
    assert delay.min() >= 1
    assert np.median(delay) == 3


def test_late_stops_come_ten_steps_later_and_at_the_last_step_at_most():
    rng = np.random.default_rng(0)
    stops, lengths = np.array([0, 25, 39, 40, 49, -1, 3]), np.array([50, 50, 50, 50, 50, 50, 8])
    assert LATE == 10
    assert come_late(rng, stops, lengths).tolist() == [10, 35, 49, 49, 49, -1, 7]
    assert rng.random() == np.random.default_rng(0).random()  # nothing is left to chance


def test_late_labels_of_episodes():
    episodes = ragged([40] * 4)
    labels = Labels.for_episodes(episodes, [20, 35, -1, 0])
    late = corrupt(episodes, labels, "late", seed=0)
    assert late.stop_index.tolist() == [30, 39, -1, 10]
    assert late.cost.tolist() == labels.cost.tolist()
    assert late.hash == corrupt(episodes, labels, "late", seed=1).hash


def test_corrupt_keeps_the_parent_and_the_seed_decides():
    episodes = ragged([40] * 30)
    labels = Labels.for_episodes(episodes, np.where(np.arange(30) % 2, 20, -1))
    one, same, other = (corrupt(episodes, labels, "noisy", seed) for seed in (1, 1, 2))
    assert one.hash == same.hash != other.hash
    assert one.episodes_hash == episodes.hash
    assert corrupt(episodes, labels, "clean") is labels
    with pytest.raises(RciError, match="unknown label noise 'nosy'. Did you mean 'noisy'"):
        corrupt(episodes, labels, "nosy")


def test_graded_severity_survives():
    episodes = ragged([40] * 30)
    labels = Labels.for_episodes(episodes, np.full(30, 20), severity=np.full(30, 0.3))
    assert set(corrupt(episodes, labels, "noisy").cost) == {0.3}
    assert set(corrupt(episodes, labels, "human").cost) <= {0.3, 0.0}


def test_channels_survive_noise():
    """A moved stop keeps its reasons; one that nobody had a reason for gets a channel by chance."""
    episodes = ragged([30] * 40)
    stop = np.where(np.arange(40) % 2, 20, -1)
    cost = np.where((stop >= 0)[:, None], [[0.0, 0.5]], 0.0)
    labels = Labels.for_episodes(episodes, stop, cost, ("near", "road"))
    moved = corrupt(episodes, labels, "noisy", seed=1)
    assert moved.channels == labels.channels
    assert np.array_equal(moved.cost, labels.cost)
    flipped = corrupt(episodes, labels, "adversarial", seed=1)
    new = flipped.stopped & ~labels.stopped
    assert new.any()
    assert np.array_equal(np.sort(flipped.cost[new], axis=1), np.tile([0.0, 1.0], (int(new.sum()), 1)))
