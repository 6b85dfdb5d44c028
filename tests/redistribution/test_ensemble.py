from dataclasses import replace

import numpy as np
import pytest
from conftest import ragged

from rci.data import store
from rci.data.errors import RciError
from rci.data.types import Labels
from rci.redistribution import combine, redistribute, score, transfer
from rci.redistribution.ensemble import Ensemble, mean_and_spread, member_seed, pessimistic, rescale_excess

QUICK = {"epochs": 2, "hidden": 4, "batch_size": 16}


@pytest.fixture(scope="module")
def logged():
    episodes = ragged([5, 1, 4, 7, 3, 6, 2, 5, 4, 8], seed=1)
    return episodes, Labels.for_episodes(episodes, [4, -1, 2, -1, 2, -1, 1, -1, 0, -1])


@pytest.fixture(scope="module")
def trio(logged):
    return redistribute(*logged, seed=5, members=3, **QUICK)


def test_mean_and_spread_by_hand():
    mean, spread = mean_and_spread(np.array([[0.1, 0.5], [0.3, 0.5], [0.8, 0.5]]))
    assert mean == pytest.approx([0.4, 0.5])
    assert spread == pytest.approx([np.sqrt((0.09 + 0.01 + 0.16) / 2), 0.0])


def test_rescaled_excess_by_hand():
    # two episodes: 0.6 + 0.9 - 0.3 = 1.2 should be 1: positives shrink by (1 + 0.3) / 1.5; the safe one has only
    # positive costs, so nothing is left of them
    cost = rescale_excess(np.array([0.6, -0.3, 0.9, 0.2, 0.1]), np.array([1.0, 0.0]), np.array([0, 3]))
    factor = 1.3 / 1.5
    assert cost == pytest.approx([0.6 * factor, -0.3, 0.9 * factor, 0.0, 0.0])


def test_an_episode_without_positive_costs_needs_no_rescaling():
    assert rescale_excess(np.array([0.0, 0.0]), np.array([0.0]), np.array([0])) == pytest.approx([0.0, 0.0])


def test_the_first_member_is_the_single_model():
    assert member_seed(7, 0) == 7
    seeds = {member_seed(seed, member) for seed in range(20) for member in range(20)}
    assert len(seeds) == 400


def test_an_ensemble_is_its_members_joined(logged, trio):
    alone = [redistribute(*logged, seed=member_seed(5, m), **QUICK) for m in range(3)]
    assert combine(alone).hash == trio.hash
    mean, spread = mean_and_spread(np.stack([member.cost for member in alone]))
    assert np.array_equal(trio.cost, mean)
    assert np.array_equal(trio.spread, spread)
    assert np.abs(trio.sums() - logged[1].cost).max() <= 1e-12
    assert trio.info["ensemble"]["members"] == 3
    assert trio.info["quality"] == pytest.approx(np.mean([m.info["quality"] for m in alone]))


def test_members_are_saved_and_score_together(logged, trio, tmp_path):
    again = store.read(store.write(tmp_path / "costs", trio))
    assert again.hash == trio.hash
    assert np.array_equal(again.spread, trio.spread)
    alone = [redistribute(*logged, seed=member_seed(5, m), **QUICK) for m in range(3)]
    expected = np.mean([np.concatenate(score(member, logged[0])) for member in alone], axis=0)
    assert np.concatenate(score(again, logged[0])) == pytest.approx(expected)


def test_pessimistic_costs_are_higher_where_members_disagree_and_still_exact(logged, trio):
    careful = redistribute(*logged, seed=5, members=3, pessimism=2.0, **QUICK)
    assert np.abs(careful.sums() - logged[1].cost).max() <= 1e-9
    assert np.array_equal(careful.spread, trio.spread)
    raised = trio.cost + 2.0 * trio.spread
    # negative ones stay, positive ones shrink by one factor per episode
    assert np.array_equal(careful.cost[raised < 0], raised[raised < 0])
    for own, all_of_it in zip(careful.per_episode(), np.split(raised, trio.step_offset[1:-1])):
        positive = all_of_it > 1e-9
        assert np.ptp(own[positive] / all_of_it[positive]) < 1e-9 if positive.any() else True


def test_without_a_promise_of_exact_sums_nothing_is_rescaled(trio):
    free = replace(trio, return_equivalent=False)
    assert pessimistic(free.cost, free.spread, 1.0, free) == pytest.approx(free.cost + free.spread)


def test_transferred_costs_are_exact_for_other_labels(logged, trio):
    episodes = ragged([6, 2, 3], seed=9)
    labels = Labels.for_episodes(episodes, [3, -1, 2], [0.5, 1.0, 1.0])
    moved = transfer(trio, episodes, labels)
    assert np.abs(moved.sums() - labels.cost).max() <= 1e-12
    assert moved.spread is not None
    assert moved.lengths.tolist() == [4, 2, 3]
    # all but the last step are differences of the mean prediction, as in the episodes that the models were fitted to
    expected = np.diff(score(trio, episodes)[0], prepend=0.0)
    assert moved.per_episode()[0][:-1] == pytest.approx(expected[:3])
    careful = transfer(trio, episodes, labels, pessimism=1.0)
    assert np.abs(careful.sums() - labels.cost).max() <= 1e-12
    assert np.array_equal(transfer(moved, episodes, labels).cost, moved.cost)


def test_what_cannot_be_joined_or_moved(logged, trio):
    episodes, labels = logged
    with pytest.raises(RciError, match="one method and of the same labels"):
        combine([redistribute(*logged, "uniform"), redistribute(*logged, "sparse")])
    with pytest.raises(RciError, match="members must be at least 1"):
        Ensemble(members=0)
    with pytest.raises(RciError, match="pessimism must be a number from 0 on, got -1"):
        Ensemble(members=2, pessimism=-1.0)
    with pytest.raises(RciError, match="set members to 2 or more"):
        redistribute(*logged, pessimism=1.0)
    with pytest.raises(RciError, match="unknown setting of sparse: 'members'|unknown setting"):
        redistribute(*logged, "sparse", members=2)
    cost = np.where(labels.stopped[:, None], [[1.0, 0.0]], 0.0)
    two = Labels.for_episodes(episodes, labels.stop_index, cost, ("a", "b"))
    with pytest.raises(RciError, match="costs must be of type StepCosts, got Episodes"):
        transfer(episodes, trio, labels)
    with pytest.raises(RciError, match="pessimism needs models that disagree"):
        transfer(redistribute(*logged, **QUICK), episodes, labels, pessimism=1.0)
    with pytest.raises(RciError, match="were distilled, and what distilled them is not kept"):
        transfer(redistribute(*logged, distil=True, distil_updates=2, **QUICK), episodes, labels)
    old = replace(trio, model=trio.model._replace(config={"hidden": 4, "obs_size": 3, "action_size": 2}))
    with pytest.raises(RciError, match="of an older version; redistribute again"):
        score(old, episodes)
    with pytest.raises(RciError, match=r"know the channels \[\], but these labels have \['a', 'b'\]"):
        transfer(trio, episodes, two)
