import numpy as np
import pytest
from conftest import ragged

from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Labels, StepCosts
from rci.redistribution import REDISTRIBUTORS, redistribute, score
from rci.redistribution.ensemble import member_seed

CHANNELS = ("near", "road")


@pytest.fixture(scope="module")
def logged():
    episodes = ragged([6, 3, 5, 4, 7, 2, 5, 6, 4, 3, 8, 5], seed=3)
    stop = np.array([2, 1, 3, -1, 4, -1, 2, -1, 3, -1, 5, 0])
    cost = np.zeros((12, 2))
    cost[[0, 1, 2, 6], 0] = 1.0
    cost[[4, 8, 10, 11, 1], 1] = 0.5  # episode 1 is stopped for both reasons
    return episodes, Labels.for_episodes(episodes, stop, cost, CHANNELS)


def test_every_channel_sums_to_its_own_cost(logged):
    episodes, labels = logged
    for method in ("rudder", "sparse", "uniform"):
        options = {"epochs": 2, "hidden": 4} if method == "rudder" else {}
        costs = redistribute(episodes, labels, method, **options)
        assert costs.channels == CHANNELS
        assert costs.cost.shape == (int(labels.kept_lengths.sum()), 2)
        assert [c.shape for c in costs.per_episode()] == [(n, 2) for n in labels.kept_lengths]
        assert np.abs(costs.sums() - labels.cost).max() <= 1e-12


def test_a_channel_is_decomposed_as_if_it_were_alone(logged):
    """Safe in one channel and stopped by another: the episode is a short safe one there."""
    episodes, labels = logged
    both = redistribute(episodes, labels, "rudder", seed=2, epochs=2, hidden=4)
    columns = np.concatenate(score(both, episodes))
    assert columns.shape == (int(episodes.lengths.sum()), 2)
    assert set(both.info["by_channel"]) == set(CHANNELS)
    assert {name.split(".")[1] for name in both.model.arrays} == {"0", "1"}
    first = np.diff(columns[: episodes.lengths[0], 0], prepend=0.0)
    assert both.per_episode()[0][:-1, 0] == pytest.approx(first[:2])


def test_they_survive_the_disk(logged, tmp_path):
    episodes, labels = logged
    costs = redistribute(episodes, labels, "rudder", epochs=1, hidden=4, members=2, pessimism=0.5)
    assert costs.spread.shape == costs.cost.shape
    again = store.read(store.write(tmp_path / "costs", costs))
    assert (again.hash, again.channels) == (costs.hash, CHANNELS)
    same = store.read(store.write(tmp_path / "labels", labels))
    assert (same.hash, same.channels) == (labels.hash, CHANNELS)
    assert np.array_equal(same.cost, labels.cost)


def test_a_channel_that_never_fires_cannot_be_learned(logged):
    episodes, labels = logged
    silent = labels.cost.copy()
    silent[:, 0] += silent[:, 1]
    silent[:, 1] = 0.0
    one = Labels.for_episodes(episodes, labels.stop_index, np.minimum(silent, 1.0), CHANNELS)
    with pytest.raises(RciError, match="none of the 12 episodes was stopped for 'road'"):
        redistribute(episodes, one, "rudder")
    assert redistribute(episodes, one, "sparse").sums()[:, 1].tolist() == [0.0] * 12


def test_bad_channels(logged):
    episodes, labels = logged
    with pytest.raises(RciError, match="a single channel needs no name"):
        Labels.for_episodes(episodes, labels.stop_index, labels.cost[:, :1], ("near",))
    with pytest.raises(RciError, match="channels must have different names"):
        Labels.for_episodes(episodes, labels.stop_index, labels.cost, ("near", "near"))
    with pytest.raises(RciError, match="one cost in each of 2 channels for each of 12 episodes"):
        Labels.for_episodes(episodes, labels.stop_index, None, CHANNELS)
    none = labels.cost.copy()
    none[0] = 0.0
    with pytest.raises(RciError, match=r"episode 0: .* in \(0, 1\] in some channel where there is one"):
        Labels.for_episodes(episodes, labels.stop_index, none, CHANNELS)
    costs = redistribute(episodes, labels, "sparse")
    broken = costs.cost.copy()
    broken[0, 1] += 0.1
    with pytest.raises(RciError, match="episode 0, road: step costs sum to 0.1, but its episodic cost is 0"):
        StepCosts(broken, costs.lengths, labels.cost, True, "x", labels.hash, channels=CHANNELS)
    with pytest.raises(RciError, match="one number for each of .* kept steps in 2 channels"):
        StepCosts(costs.cost[:, 0], costs.lengths, labels.cost, True, "x", labels.hash, channels=CHANNELS)
    with pytest.raises(RciError, match="spread of step costs is a deviation"):
        StepCosts(
            costs.cost,
            costs.lengths,
            labels.cost,
            True,
            "x",
            labels.hash,
            channels=CHANNELS,
            spread=-costs.cost,
        )
    with pytest.raises(
        RciError, match="unit of step costs must be one of cost, log-survival, score, got 'dB'"
    ):
        StepCosts(
            costs.cost, costs.lengths, labels.cost, True, "x", labels.hash, channels=CHANNELS, unit="dB"
        )


def test_the_shelf_is_complete():
    shelf = "rudder transformer rrd grd traces hazard rlsf uniform sparse oracle"
    assert set(shelf.split()) <= set(REDISTRIBUTORS)


def test_figures_of_channels_are_averaged_where_they_are_told(logged):
    from dataclasses import replace

    costs = redistribute(*logged, "sparse")
    told = replace(costs, info={"by_channel": {"near": {"x": 1.0, "y": 2}, "road": {"x": None}}})
    assert (told.figure("x"), told.figure("y"), told.figure("z")) == (1.0, 2.0, None)
    assert replace(costs, info={"x": 2}).figure("x") == 2.0


def test_channels_are_fitted_with_seeds_of_their_own(logged):
    """The same first weights in every channel would make their errors alike."""
    options = {"epochs": 1, "hidden": 4, "learning_rate": 0.0}
    arrays = redistribute(*logged, "rrd", **options).model.arrays
    name = "network.body.weights.0"
    assert not np.array_equal(arrays[f"0.0.0.{name}"], arrays[f"0.1.0.{name}"])


def test_an_ensemble_averages_its_figures_in_every_channel(logged):
    options = {"epochs": 1, "hidden": 4}
    alone = [redistribute(*logged, "rrd", seed=member_seed(0, m), **options) for m in range(2)]
    both = redistribute(*logged, "rrd", members=2, **options)
    for channel in CHANNELS:
        expected = np.mean([member.info["by_channel"][channel]["quality"] for member in alone])
        assert both.info["by_channel"][channel]["quality"] == pytest.approx(expected)
