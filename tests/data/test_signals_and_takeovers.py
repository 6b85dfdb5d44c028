"""Names and units of signals, keys of episodes, and who drove when."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ragged

import rci
from rci.data.errors import RciError

NAMED = rci.Signals((rci.Signal("x", "m"), rci.Signal("y", "m"), rci.Signal("mode")), rate=10.0)


def named(lengths=(3, 2)):
    plain = ragged(list(lengths))
    arrays = plain.arrays()
    return rci.Episodes(**arrays, signals=NAMED, keys={"run": ["a", "b"], "robot": ["r1", "r1"]})


def test_names_and_keys_survive_the_store_and_a_choice_of_episodes(tmp_path):
    episodes = named()
    rci.save(episodes, tmp_path / "episodes")
    back = rci.load(tmp_path / "episodes")
    assert back.signals == NAMED
    assert back.keys == {"run": ["a", "b"], "robot": ["r1", "r1"]}
    assert back.hash == episodes.hash
    assert back.labels_of("obs") == ["x [m]", "y [m]", "mode"]
    assert back.labels_of("action") == ["action 0", "action 1"]
    assert back.take([1]).keys["run"] == ["b"]
    assert back.take([1]).signals == NAMED


def test_episodes_without_names_are_what_they_were():
    assert ragged([3]).meta() == {"task": "", "sources": []}
    assert ragged([3]).labels_of("obs") == ["obs 0", "obs 1", "obs 2"]


def test_wrong_names_and_keys_are_refused():
    arrays = ragged([3]).arrays()
    with pytest.raises(RciError, match="2 signals of obs are named, but there are 3"):
        rci.Episodes(**arrays, signals=rci.Signals((rci.Signal("x"), rci.Signal("y"))))
    with pytest.raises(RciError, match="are called 'x'"):
        rci.Signals((rci.Signal("x"), rci.Signal("x")))
    with pytest.raises(RciError, match="needs a name"):
        rci.Signals((rci.Signal(""),))
    with pytest.raises(RciError, match="positive number of steps"):
        rci.Signals(rate=0.0)
    with pytest.raises(RciError, match="2 keys 'run' for 1 episodes"):
        rci.Episodes(**arrays, keys={"run": ["a", "b"]})


def test_takeovers_by_hand(tmp_path):
    episodes = ragged([4, 3])
    human = np.array([0, 1, 1, 0, 1, 0, 1], bool)
    took = rci.Takeovers.from_flags(episodes, human)
    assert took.episode.tolist() == [0, 1, 1]
    assert took.begin.tolist() == [1, 0, 2]
    assert took.end.tolist() == [3, 1, 3]
    assert (took.flags() == human).all()
    assert repr(took) == "Takeovers(3 in 2 of 2 episodes, 4 steps driven by a person)"
    rci.save(took, tmp_path / "takeovers")
    assert rci.load(tmp_path / "takeovers").hash == took.hash
    with pytest.raises(RciError, match="another dataset"):
        took.check_parent(ragged([4, 3], seed=1))


def test_nobody_and_everybody_drove():
    episodes = ragged([2, 2])
    assert len(rci.Takeovers.from_flags(episodes, np.zeros(4, bool))) == 0
    everything = rci.Takeovers.from_flags(episodes, np.ones(4, bool))
    assert everything.begin.tolist() == [0, 0]
    assert everything.end.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("episode", "begin", "end", "why"),
    [
        ([2], [0], [1], "no episode 2"),
        ([0], [2], [2], "nobody can have driven"),
        ([0], [0], [5], "nobody can have driven"),
        ([0, 0], [0, 1], [2, 3], "overlap"),
        ([0], [0, 1], [2, 3], "one episode, one begin"),
        ([0.5], [0], [1], "whole numbers"),
    ],
)
def test_impossible_takeovers_are_refused(episode, begin, end, why):
    episodes = ragged([4, 3])
    with pytest.raises(RciError, match=why):
        rci.Takeovers(np.array(episode), np.array(begin), np.array(end), episodes.lengths, episodes.hash)
