"""Small datasets as other people write them."""

from __future__ import annotations

import h5py
import numpy as np
from conftest import ragged

from rci.data.types import Episodes, Labels, StepCosts


def sample(dtype: type = np.float32, obs_shape: tuple[int, ...] = (3,), one_hot: int = 0) -> Episodes:
    """Four episodes of 5, 1, 4 and 3 steps that end in all ways: by the task, by time, by both and by nothing."""
    rng = np.random.default_rng(1)
    action = rng.uniform(-1, 1, (13, 2)).astype(dtype)
    if one_hot:
        action = np.eye(one_hot, dtype=np.float32)[rng.integers(0, one_hot, 13)]
    return Episodes(
        obs=rng.normal(size=(17, *obs_shape)).astype(dtype),
        action=action,
        reward=rng.normal(size=13).astype(dtype),
        lengths=np.array([5, 1, 4, 3]),
        terminated=np.array([True, False, True, False]),
        truncated=np.array([False, True, True, False]),
    )


def judged(
    episodes: Episodes, stops: list[int], channels: tuple[str, ...] = (), grade: float = 1.0
) -> tuple[Labels, StepCosts]:
    """Stops, and costs that are no round numbers."""
    severity = np.full((len(stops), len(channels)), 0.75) if channels else np.full(len(stops), grade)
    labels = Labels.for_episodes(episodes, stops, severity, channels)
    kept = labels.kept_lengths
    cost = np.repeat((labels.cost.T / kept).T, kept, axis=0)
    return labels, StepCosts(cost, kept, labels.cost, True, "uniform", labels.hash, channels=channels)


def cut(episodes: Episodes, labels: Labels) -> Episodes:
    """What remains of episodes after the stops; an end that was cut off takes its flag with it."""
    whole = labels.kept_lengths == labels.lengths
    parts = [
        e._replace(obs=e.obs[: n + 1], action=e.action[:n], reward=e.reward[:n])
        for e, n in zip(episodes, labels.kept_lengths)
    ]
    joined = Episodes.from_list(parts)
    arrays = {
        **joined.arrays(),
        "terminated": episodes.terminated & whole,
        "truncated": episodes.truncated & whole,
    }
    return Episodes(**arrays)


def assert_same(found: Episodes, wanted: Episodes) -> None:
    """Equal in every bit, and of the same types."""
    for name in ("obs", "action", "reward", "lengths", "terminated", "truncated"):
        one, two = getattr(found, name), getattr(wanted, name)
        assert one.dtype == two.dtype, name
        assert one.shape == two.shape, name
        assert np.array_equal(one, two), name


def flat_columns(episodes: Episodes | None = None) -> dict[str, np.ndarray]:
    """DSRL's columns of episodes that all have a flag at their end."""
    episodes = ragged([4, 3, 5]) if episodes is None else episodes
    end = np.cumsum(episodes.lengths) - 1
    flags = {
        "terminals": np.zeros(len(episodes.reward), bool),
        "timeouts": np.zeros(len(episodes.reward), bool),
    }
    flags["terminals"][end] = episodes.terminated
    flags["timeouts"][end] = ~episodes.terminated
    return {
        "observations": episodes.obs[episodes.next_rows - 1],
        "next_observations": episodes.obs[episodes.next_rows],
        "actions": episodes.action,
        "rewards": episodes.reward,
        "costs": np.linspace(0, 1, len(episodes.reward), dtype=np.float32),
        **flags,
    }


def write_hdf5(path, columns):
    """A flat HDF5 file."""
    with h5py.File(path, "w") as file:
        for name, array in columns.items():
            file[name] = array
    return path
