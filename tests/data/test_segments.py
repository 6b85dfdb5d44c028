"""Runs with takeovers, cut by hand."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ragged

import rci
from rci.data.errors import RciError
from rci.data.segments import FIRST_STEP, RUN, cut, rows_in


def drives(*runs, terminated=None, truncated=None, keys=None):
    """Runs written as who drives at each step, such as "mmhhm", and their takeovers."""
    plain = dict(ragged([len(run) for run in runs]).arrays())
    for name, flags in (("terminated", terminated), ("truncated", truncated)):
        plain[name] = np.zeros(len(runs), bool) if flags is None else np.array(flags, bool)
    episodes = rci.Episodes(**plain, keys=keys or {})
    human = np.array([who == "h" for run in runs for who in run])
    return episodes, rci.Takeovers.from_flags(episodes, human)


def places(segments):
    """(run, first step, length) of each."""
    return [
        (int(run), int(first), int(length))
        for run, first, length in zip(segments.keys[RUN], segments.keys[FIRST_STEP], segments.lengths)
    ]


CASES = [
    # runs, machine segments, their stops, human segments
    (["mmhhm"], [(0, 0, 2), (0, 4, 1)], [1, -1], [(0, 2, 2)]),
    (["hhm"], [(0, 2, 1)], [-1], [(0, 0, 2)]),  # at step 0: no machine step was stopped by it
    (["mmh"], [(0, 0, 2)], [1], [(0, 2, 1)]),  # never handed back
    (["mhmhm"], [(0, 0, 1), (0, 2, 1), (0, 4, 1)], [0, 0, -1], [(0, 1, 1), (0, 3, 1)]),
    (["hh", "mm"], [(1, 0, 2)], [-1], [(0, 0, 2)]),  # a whole run by a person
    (["mh", "hm"], [(0, 0, 1), (1, 1, 1)], [0, -1], [(0, 1, 1), (1, 0, 1)]),  # from one run to the next
    (["mm", "mhh"], [(0, 0, 2), (1, 0, 1)], [-1, 0], [(1, 1, 2)]),
]


@pytest.mark.parametrize(("runs", "machine", "stops", "human"), CASES)
def test_cuts_by_hand(runs, machine, stops, human):
    episodes, takeovers = drives(*runs)
    found = cut(episodes, takeovers)
    assert places(found.machine) == machine
    assert found.labels.stop_index.tolist() == stops
    assert places(found.human) == human
    found.labels.check_parent(found.machine)


def test_takeovers_back_to_back_are_one_human_segment():
    episodes, _ = drives("mmmmm")
    two = rci.Takeovers(np.array([0, 0]), np.array([1, 3]), np.array([3, 4]), episodes.lengths, episodes.hash)
    found = cut(episodes, two)
    assert places(found.human) == [(0, 1, 3)]
    assert places(found.machine) == [(0, 0, 1), (0, 4, 1)]


def test_three_flags_stay_three():
    episodes, takeovers = drives(
        "mmh", "mhm", "hm", terminated=[True, False, False], truncated=[False, True, False]
    )
    machine, labels, human = cut(episodes, takeovers)
    # mm | m, m | m: the first two were stopped, the third ran into the time limit, the fourth broke off.
    assert labels.stopped.tolist() == [True, True, False, False]
    assert machine.terminated.tolist() == [False] * 4
    assert machine.truncated.tolist() == [False, False, True, False]
    # h, h, h: the environment ended the first one while the person drove; the others handed back.
    assert human.terminated.tolist() == [True, False, False]
    assert human.truncated.tolist() == [False] * 3


def test_every_step_joins_back():
    keys = {"robot": ["r1", "r2", "r3"]}
    episodes, takeovers = drives("mhhmm", "hhh", "mmhmh", keys=keys)
    found = cut(episodes, takeovers)
    human = np.zeros(int(episodes.lengths.sum()), bool)
    seen = np.zeros(len(human), int)
    for part, drove in ((found.machine, False), (found.human, True)):
        rows = rows_in(episodes, part)
        assert (episodes.action[rows] == part.action).all()
        assert (episodes.reward[rows] == part.reward).all()
        assert (episodes.obs[episodes.next_rows[rows]] == part.obs[part.next_rows]).all()
        assert (episodes.obs[episodes.next_rows[rows] - 1] == part.obs[part.next_rows - 1]).all()
        assert part.keys["robot"] == [keys["robot"][int(run)] for run in part.keys[RUN]]
        human[rows] = drove
        seen[rows] += 1
    assert (seen == 1).all()
    assert rci.Takeovers.from_flags(episodes, human).hash == takeovers.hash


def test_segments_survive_the_store(tmp_path):
    found = cut(*drives("mmhhm"))
    rci.save(found.human, tmp_path / "human")
    assert places(rci.load(tmp_path / "human")) == [(0, 2, 2)]


def test_what_cannot_be_cut():
    episodes, takeovers = drives("mmhhm")
    with pytest.raises(RciError, match="another dataset"):
        cut(drives("mmmmh")[0].take([0]), drives("mhm")[1])
    with pytest.raises(RciError, match="every step of these episodes"):
        cut(*drives("hh", "h"))
    with pytest.raises(RciError, match="nobody took over"):
        cut(*drives("mm", "m"))
    with pytest.raises(RciError, match="must be of type Takeovers"):
        cut(episodes, episodes)
    machine = cut(episodes, takeovers).machine
    again = rci.Takeovers.from_flags(machine, np.array([True, False, False]))
    with pytest.raises(RciError, match="segments already"):
        cut(machine, again)
    with pytest.raises(RciError, match="not segments"):
        rows_in(episodes, episodes)
    with pytest.raises(RciError, match="was cut from others"):
        rows_in(drives("mm")[0], machine)
