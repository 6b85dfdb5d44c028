"""The pieces of an assessment: parts of the runs, the choice among policies, the time that is left."""

import math

import numpy as np
import pytest
from conftest import ragged

from rci.data.risk.estimates import Interval, PolicyEstimate, Support
from rci.data.types import Episodes, Labels
from rci.engines.engine import Step
from rci.pipeline.assessing import time_left
from rci.pipeline.assessing.choice import choose_policy
from rci.pipeline.assessing.parts import PARTS, check_logs, judged_runs, runs_of, split_runs
from rci.pipeline.assessing.plan import policy_names
from rci.pipeline.assessing.settings import assess_config
from rci.pipeline.jobs import Job


def judged(low: float, high: float, earned: float, outside: float = 0.1) -> PolicyEstimate:
    stop = Interval((low + high) / 2, low, high)
    gain = Interval(earned, earned - 1, earned + 1)
    support = Support(outside, outside, 0.0, 20.0)
    return PolicyEstimate(
        stop, gain, {"models": stop}, support, Interval(0.5, 0.4, 0.6), gain, 100, 0.9, low, high
    )


def with_keys(episodes: Episodes, **keys: list[str]) -> Episodes:
    return Episodes(**{name: getattr(episodes, name) for name in Episodes.stored}, keys=keys)


def test_parts_share_out_stopped_and_safe_runs_and_keep_runs_together():
    run = np.repeat(np.arange(40), 2)  # two episodes of each run
    stopped = np.zeros(80, bool)
    stopped[:40:4] = True  # ten runs of which one episode was stopped
    parts = split_runs(run, stopped, 0.2, 0.3, seed=1)
    assert sorted(np.concatenate([parts[name] for name in PARTS]).tolist()) == list(range(80))
    assert [len(parts[name]) for name in PARTS] == [40, 16, 24]
    assert [int(stopped[parts[name]].sum()) for name in PARTS] == [5, 2, 3]
    for name in PARTS:
        assert not np.isin(run[parts[name]], run[np.setdiff1d(np.arange(80), parts[name])]).any()
    again = split_runs(run, stopped, 0.2, 0.3, seed=1)
    assert all(np.array_equal(parts[name], again[name]) for name in PARTS)
    other = split_runs(run, stopped, 0.2, 0.3, seed=2)
    assert not all(np.array_equal(parts[name], other[name]) for name in PARTS)


def test_what_chooses_looks_at_no_held_out_run():
    episodes = ragged([4] * 40)
    labels = Labels.for_episodes(episodes, np.where(np.arange(40) % 2, 2, -1))
    parts = split_runs(np.arange(40), labels.stopped, 0.2, 0.3, seed=0)
    seen, own, begins = judged_runs(episodes, labels, "selection", 0.2, 0.3, seed=0)
    own.check_parent(seen)
    firsts = seen.obs[seen.obs_offset[:-1], 0]
    assert not np.isin(firsts, episodes.obs[episodes.obs_offset[parts["held-out"]], 0]).any()
    assert np.array_equal(firsts[begins], episodes.obs[episodes.obs_offset[parts["selection"]], 0])
    whole, _, begins = judged_runs(episodes, labels, "held-out", 0.2, 0.3, seed=0)
    assert whole is episodes
    assert np.flatnonzero(begins).tolist() == parts["held-out"].tolist()


def test_runs_are_named_by_their_keys():
    episodes = ragged([3, 3, 3])
    assert runs_of(episodes).tolist() == [0, 1, 2]
    named = with_keys(episodes, robot=["a", "a", "a"], run=["r2", "r1", "r2"])
    assert runs_of(named).tolist() == [1, 0, 1]


def test_single_numbers_that_never_vary_are_pointed_out():
    episodes = ragged([4] * 20)
    obs = np.array(episodes.obs)
    obs[:, 1] = 7.0
    still = Episodes(obs, *(getattr(episodes, name) for name in Episodes.stored[1:]))
    labels = Labels.for_episodes(still, np.where(np.arange(20) % 2, 2, -1))
    (note,) = check_logs(still, labels)
    assert note.startswith("obs 1 is the same in every row")
    assert "leave it out of obs" in note


def test_the_policy_that_earns_most_of_those_fit_is_chosen():
    budgets = {"2%": 0.02, "5%": 0.05, "none": math.inf}
    found = {"2%": judged(0.0, 0.02, 1.0), "5%": judged(0.0, 0.04, 2.0), "none": judged(0.3, 0.5, 9.0)}
    assert choose_policy(found, budgets, 0.05) == "5%"
    assert choose_policy(found, budgets, 0.03) == "2%"
    assert choose_policy({**found, "5%": judged(0.0, 0.04, 2.0, outside=0.6)}, budgets, 0.05) == "2%"


def test_without_one_that_is_fit_the_safest_is_chosen():
    budgets = {"2%": 0.02, "5%": 0.05, "none": math.inf}
    found = {"2%": judged(0.1, 0.3, 1.0), "5%": judged(0.1, 0.2, 0.0), "none": judged(0.3, 0.5, 9.0)}
    assert choose_policy(found, budgets, 0.05) == "5%"
    alike = {**found, "2%": judged(0.1, 0.195, 1.0)}
    assert choose_policy(alike, budgets, 0.05) == "5%"
    assert choose_policy(alike, budgets, 0.02) == "2%"


def test_policies_are_named_by_their_budgets():
    config = assess_config(["budgets=[0.2,0.02]"])
    assert policy_names(config, 0.05) == {"2%": 0.02, "5%": 0.05, "20%": 0.2, "no budget": math.inf}
    assert list(policy_names(config, 0.2)) == ["2%", "20%", "no budget"]
    assert list(policy_names(config, 0.025)) == ["2%", "2.5%", "20%", "no budget"]


def test_time_left(monkeypatch, tmp_path):
    clock = [0.0]
    monkeypatch.setattr(time_left.time, "monotonic", lambda: clock[0])
    jobs = [Job(name, "learn", {}, 0, {}, tmp_path / name) for name in "abcd"]
    heard, told = [], []
    left = time_left.TimeLeft(jobs, lambda *news: heard.append(news), lambda *word: told.append(word))
    left(Step("a"), 1.0, None)  # of an earlier run: says nothing of the pace
    assert told == [(1, 4, math.inf)]
    clock[0] = 30.0
    left(Step("b"), 0.5, 30.0)
    assert left.seconds_left() == pytest.approx(150.0)  # half a job in 30 seconds, and two and a half to come
    clock[0] = 60.0
    left(Step("b"), 1.0, 60.0)
    left(Step("elsewhere"), 1.0, 1.0)
    assert told[1:] == [(2, 4, pytest.approx(120.0))]
    assert len(heard) == 4
