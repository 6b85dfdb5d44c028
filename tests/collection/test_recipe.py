"""Which behaviours record how many episodes, demonstrators included."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import rci
from rci.collection import ppo
from rci.collection.demonstrators import train_demonstrators
from rci.collection.recipe import collect, needs_demonstrators, split_shares
from rci.data.errors import RciError
from rci.tasks import TASKS, point

SMALL = ppo.Config(
    total_steps=768, num_envs=4, rollout_length=64, epochs=1, minibatches=2, hidden=(8,), checkpoints=3
)


@pytest.fixture(scope="module")
def demonstrators():
    return train_demonstrators("point", 0, SMALL)


def test_the_share_of_ppo_is_split_evenly():
    assert split_shares({"ppo": 0.6, "random": 0.4}, ["ppo-1", "ppo-2", "ppo-3"]) == pytest.approx(
        {"ppo-1": 0.2, "ppo-2": 0.2, "ppo-3": 0.2, "random": 0.4}
    )
    assert split_shares({"seeker": 0.5, "random": 0.5}, []) == {"seeker": 0.5, "random": 0.5}


def test_every_checkpoint_records_its_share(demonstrators, monkeypatch):
    recipes = {**point.TASK.recipes, "half": {"ppo": 0.5, "random": 0.5}}
    monkeypatch.setitem(TASKS, "point", replace(point.TASK, recipes=recipes))
    episodes, oracle = collect("point", 30, "half", 1, demonstrators)
    assert episodes.sources == ("ppo-1", "ppo-2", "ppo-3", "random")
    assert np.bincount(episodes.source).tolist() == [5, 5, 5, 15]
    oracle.check_parent(episodes)
    assert collect("point", 30, "half", 1, demonstrators)[0].hash == episodes.hash
    assert collect("point", 30, "half", 2, demonstrators)[0].hash != episodes.hash


def test_who_needs_demonstrators():
    assert needs_demonstrators("point", "ppo")
    assert not needs_demonstrators("point", "mixed")
    with pytest.raises(RciError, match="unknown recipe of point 'pp'. Did you mean 'ppo'"):
        needs_demonstrators("point", "pp")


def test_demonstrators_are_trained_if_none_are_given(demonstrators, monkeypatch):
    quick = partial(train_demonstrators, config=SMALL)
    monkeypatch.setattr("rci.collection.demonstrators.train_demonstrators", quick)
    shares = []
    episodes, _ = rci.collect("point", 9, "ppo", seed=0, progress=shares.append)
    monkeypatch.undo()
    assert episodes.hash == rci.collect("point", 9, "ppo", seed=0, demonstrators=demonstrators)[0].hash
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_demonstrators_that_are_of_no_use(demonstrators):
    other = replace(demonstrators, info={**demonstrators.info, "task": "highway"})
    with pytest.raises(
        RciError, match="were trained on 'highway', but episodes of 'point' are to be recorded"
    ):
        collect("point", 3, "ppo", 0, other)
    with pytest.raises(RciError, match="'mixed' of 'point' needs no demonstrators; those that do are ppo"):
        collect("point", 3, "mixed", 0, demonstrators)
    with pytest.raises(RciError, match="demonstrators must be of type Demonstrators, got str"):
        collect("point", 3, "ppo", 0, "ppo")
    with pytest.raises(RciError, match="at least one episode must be collected, got 0"):
        collect("point", 0, "ppo")
