from types import SimpleNamespace

import numpy as np
import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.data.types import Episodes, Oracle, Policy, SavedModel
from rci.evaluation import evaluate, record_policy, score_episodes
from rci.evaluation.metrics import channel_violations


def constant_policy(action) -> Policy:
    """Presses on in one direction, a little less the further to the right it is."""

    def step(seed, memory, obs):
        return (np.asarray(action, np.float32) * (1.0 - 0.2 * obs[:, :1])).astype(np.float32), memory

    return Policy(SavedModel("by hand", {}, {}), {"obs_size": 4}, step=step)


def test_returns_until_the_first_violation_by_hand():
    episodes = Episodes(**{**ragged([3, 2]).arrays(), "reward": np.array([1.0, 2.0, 4.0, 8.0, 16.0])})
    oracle = Oracle(np.array([0, 1, 1, 0, 0], bool), np.zeros(5), episodes.lengths, episodes.hash)
    scores = score_episodes(episodes, oracle)
    assert scores.returns.tolist() == [7.0, 24.0]
    assert scores.returns_until_stop.tolist() == [3.0, 24.0]
    assert scores.first_violation.tolist() == [1, -1]


def test_channels_by_hand():
    """Three episodes: only the first kind of danger, then both though never at once, then none."""
    arrays = ragged([2, 2, 1], obs_size=2).arrays()
    after = [[1, 0], [0, 0], [0, 1], [1, 0], [0, 0]]  # what is seen after each step
    arrays["obs"] = np.array([[9, 9], *after[:2], [9, 9], *after[2:4], [9, 9], after[4]], np.float32)
    task = SimpleNamespace(
        channels={"near": lambda obs: obs[..., 0] == 1, "off": lambda obs: obs[..., 1] == 1}
    )
    first, ever = channel_violations(task, Episodes(**arrays))
    assert first.tolist() == [[True, False], [False, True], [False, False]]
    assert ever.tolist() == [[True, False], [True, True], [False, False]]


def test_a_task_with_channels_is_scored_by_channel(monkeypatch):
    monkeypatch.setattr("rci.evaluation.metrics.BATCH", 3)

    def swerve(seed, memory, obs):
        return np.tile(np.array([0.0, 0.3], np.float32), (len(obs), 1)), memory

    policy = Policy(SavedModel("by hand", {}, {}), {"obs_size": 35}, step=swerve)
    scores = evaluate(policy, "highway-two", episodes=5, seed=2)
    first, ever = scores.info["channel_violation_rate"], scores.info["channel_any_rate"]
    assert list(first) == list(ever) == ["proximity", "road"]
    assert ever["road"] == 1.0  # nobody stays on the road who steers to the right all the time
    assert all(first[name] <= ever[name] for name in first)
    assert max(first.values()) <= scores.violation_rate <= sum(first.values())
    assert "channel_violation_rate" not in evaluate(constant_policy([0, 0]), "point", 2).info


def test_straight_ahead_hits_the_hazard_and_standing_still_does_not():
    fast, still = (
        evaluate(constant_policy(a), "point", episodes=60, seed=1) for a in ([1.0, 0.0], [-1.0, 0.0])
    )
    assert fast.violation_rate > 0.2
    assert still.violation_rate == 0.0
    assert fast.mean_return > still.mean_return


def test_an_episode_is_the_same_in_any_batch(monkeypatch):
    policy = constant_policy([0.5, 0.2])
    whole = evaluate(policy, "point", episodes=25, seed=4)
    monkeypatch.setattr("rci.evaluation.metrics.BATCH", 7)
    parts = evaluate(policy, "point", episodes=25, seed=4)
    assert np.array_equal(whole.returns, parts.returns)
    assert np.array_equal(whole.first_violation, parts.first_violation)


def test_progress_and_horizon():
    shares = []
    scores = evaluate(constant_policy([0, 0]), "point", 5, 0, shares.append, horizon=3)
    assert shares == [1.0]
    assert scores.lengths.tolist() == [3] * 5


def test_bad_input():
    with pytest.raises(RciError, match="at least one episode"):
        evaluate(constant_policy([0, 0]), "point", episodes=0)
    narrow = Policy(SavedModel("by hand", {}, {}), {"obs_size": 3})
    with pytest.raises(RciError, match="trained on 3 features, but 'point' has 4"):
        evaluate(narrow, "point", 5)
    with pytest.raises(RciError, match="unknown task"):
        record_policy(constant_policy([0, 0]), "pointt", 1, 0)


def test_policies_are_chosen_by_other_episodes_than_those_that_are_reported():
    policy = constant_policy([0.3, 0.1])
    chosen_by, reported = (evaluate(policy, "point", 4, purpose=name) for name in ("selection", "evaluation"))
    assert not np.intersect1d(chosen_by.returns, reported.returns).size
    assert np.array_equal(reported.returns, evaluate(policy, "point", 4).returns)
    with pytest.raises(RciError, match="unknown purpose of an evaluation 'select'. Did you mean 'selection'"):
        evaluate(policy, "point", 4, purpose="select")
