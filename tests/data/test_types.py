import tracemalloc

import numpy as np
import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.data.types import Episode, Episodes, Labels, Oracle, Scores, StepCosts, Transitions, first_true


def arrays_of(episodes: Episodes) -> dict:
    return {**episodes.arrays(), "task": "x"}


def test_episode_views_the_right_rows():
    episodes = ragged([2, 1, 3])
    assert len(episodes) == 3
    assert episodes.lengths.tolist() == [2, 1, 3]
    assert np.array_equal(episodes[1].obs, episodes.obs[3:5])
    assert np.array_equal(episodes[1].action, episodes.action[2:3])
    assert np.array_equal(episodes[-1].reward, episodes.reward[3:6])
    assert sum(len(e.action) for e in episodes) == 6
    with pytest.raises(RciError, match=r"several are episodes\.take"):
        episodes[0:1]
    with pytest.raises(IndexError):
        episodes[3]


def test_from_list_is_the_inverse_of_iterating():
    episodes = ragged([2, 1, 3])
    again = Episodes.from_list(list(episodes))
    for name, array in episodes.arrays().items():
        assert np.array_equal(array, again.arrays()[name]), name


def test_taking_episodes_keeps_their_rows_in_the_order_asked_for():
    named = {"source": np.array([0, 1, 0, 1]), "sources": ("a", "b")}
    episodes = Episodes(**{**arrays_of(ragged([2, 1, 3, 4])), **named})
    taken = episodes.take([3, 0, 1])
    assert taken.lengths.tolist() == [4, 2, 1]
    assert (taken.task, taken.sources, taken.source.tolist()) == ("x", ("a", "b"), [1, 0, 1])
    for new, old in enumerate([3, 0, 1]):
        for one, other in zip(taken[new], episodes[old]):
            assert np.array_equal(one, other)
    assert episodes.take(np.arange(4)).hash == episodes.hash
    assert episodes.take([1]).obs.tolist() == episodes.obs[3:5].tolist()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([], "no episodes to take"),
        (2, "no episodes to take"),
        ([0, 3], "no episode 3: they are numbered 0 to 2"),
        ([-1], "no episode -1"),
        ([1, 0, 1], "episode 1 is taken more than once"),
        ([True, False, True], "by their numbers, got bool; np.flatnonzero"),
        ([0.0, 1.0], "by their numbers, got float64"),
    ],
)
def test_episodes_that_cannot_be_taken(index, message):
    with pytest.raises(RciError, match=message):
        ragged([2, 1, 3]).take(index)


def test_memory_is_about_the_bytes_of_the_numbers():
    """Building episodes copies nothing, and checking them makes no temporary of their size."""
    obs, action, reward = np.ones((50_500, 35), np.float32), np.ones((50_000, 2), np.float32), np.ones(50_000)
    ends, lengths = np.ones(500, bool), np.full(500, 100)
    tracemalloc.start()
    episodes = Episodes(obs, action, reward, lengths, ends, ~ends)
    assert np.shares_memory(episodes.obs, obs)
    assert tracemalloc.get_traced_memory()[1] < 0.05 * obs.nbytes
    tracemalloc.stop()


def test_a_recording_may_break_off_without_a_flag():
    """Its last transition is still the last one, so no cost is looked for behind it."""
    episodes = Episodes(**{**arrays_of(ragged([2, 3])), "terminated": np.zeros(2, bool)})
    labels = Labels.for_episodes(episodes, [-1, -1])
    transitions = Transitions.build(episodes, labels, costs_for(labels, np.zeros(5)))
    assert transitions.last.tolist() == [False, True, False, False, True]
    assert not (transitions.terminated | transitions.truncated | transitions.stopped).any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lengths": np.array([], int)}, "no episodes"),
        ({"lengths": np.array([2, 0, 3])}, "episode 1 has 0 steps"),
        ({"lengths": np.array([2.0, 1.0, 3.0])}, "whole numbers"),
        ({"lengths": np.array([2, 1, 4])}, "obs must have 10 rows"),
        ({"terminated": np.array([0, 1, 0])}, "true/false flags"),
        ({"truncated": np.array([True])}, "truncated must have 3 rows"),
        ({"reward": np.zeros((6, 1))}, "one number per step"),
        ({"obs": np.zeros(9)}, r"\[rows, features\]"),
        ({"obs": np.array([["a"]] * 9)}, "must be numbers"),
        ({"source": np.array([0, 2, 0]), "sources": ("a", "b")}, "index into the 2 sources"),
    ],
)
def test_bad_episodes_say_what_was_expected(change, message):
    with pytest.raises(RciError, match=message):
        Episodes(**{**arrays_of(ragged([2, 1, 3])), **change})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("name", "row", "where"), [("obs", 4, "episode 1, step 1"), ("action", 5, "episode 2, step 2")]
)
def test_a_value_that_is_not_finite_is_named(bad, name, row, where):
    arrays = arrays_of(ragged([2, 1, 3]))
    arrays[name] = arrays[name].copy()
    arrays[name][row, 0] = bad
    with pytest.raises(RciError, match=f"{name} of {where} is not finite"):
        Episodes(**arrays)


def test_single_episodes_must_fit_together():
    good = ragged([2])[0]
    with pytest.raises(RciError, match="episode 1: 2 actions need 3 observations"):
        Episodes.from_list([good, good._replace(obs=good.obs[:2])])
    with pytest.raises(RciError, match="differ in the shape of obs"):
        Episodes.from_list([good, good._replace(obs=np.zeros((3, 7)))])
    with pytest.raises(RciError, match="no episodes"):
        Episodes.from_list([])


def test_single_episodes_must_be_episodes():
    good = ragged([2])[0]
    with pytest.raises(RciError, match="episode 0 must be an rci.Episode, got dict"):
        Episodes.from_list([good._asdict()])
    with pytest.raises(RciError, match="one flag for the whole episode, got an array"):
        Episodes.from_list([good._replace(terminated=np.zeros(2, bool))])


def test_integer_observations_are_kept_as_they_are():
    pixels = Episode(np.zeros((2, 4), np.uint8), np.zeros((1, 1)), np.zeros(1), True, False)
    assert Episodes.from_list([pixels]).obs.dtype == np.uint8


def test_a_stop_keeps_its_transition_and_drops_the_rest():
    episodes = ragged([3, 2])
    labels = Labels.for_episodes(episodes, [1, -1])
    assert labels.kept_lengths.tolist() == [2, 2]
    assert labels.cost.tolist() == [1.0, 0.0]
    graded = Labels.for_episodes(episodes, [1, -1], severity=[0.3, 0.9])
    assert graded.cost.tolist() == [0.3, 0.0]


@pytest.mark.parametrize(
    ("stops", "message"),
    [
        ([3, -1], "episode 0 has 3 steps, so its stop index must be -1 .* or 0 to 2, got 3"),
        ([-2, -1], "got -2"),
        ([0.5, -1.0], "whole numbers"),
        ([1], "for each of 2 episodes"),
    ],
)
def test_bad_stops(stops, message):
    with pytest.raises(RciError, match=message):
        Labels.for_episodes(ragged([3, 2]), stops)


@pytest.mark.parametrize("severity", [0.0, 1.5, -0.1, np.nan])
def test_severity_of_a_stop_is_between_0_and_1(severity):
    with pytest.raises(RciError, match="episode 0"):
        Labels.for_episodes(ragged([3]), [1], severity=[severity])


def costs_for(labels: Labels, cost, exact=True) -> StepCosts:
    return StepCosts(np.asarray(cost), labels.kept_lengths, labels.cost, exact, "by hand", labels.hash)


def test_step_costs_must_sum_to_the_episodic_cost():
    labels = Labels.for_episodes(ragged([3, 2]), [1, -1])
    good = costs_for(labels, [0.25, 0.75, 0.5, -0.5])
    assert [c.tolist() for c in good.per_episode()] == [[0.25, 0.75], [0.5, -0.5]]
    with pytest.raises(RciError, match="episode 1: step costs sum to 1e-05"):
        costs_for(labels, [0.25, 0.75, 0.5, -0.49999])
    assert costs_for(labels, [0.1, 0.1, 0.1, 0.1], exact=False).sums().tolist() == [0.2, 0.2]
    with pytest.raises(RciError, match="4 kept steps"):
        costs_for(labels, [1.0])
    with pytest.raises(RciError, match="step costs of episode 1, step 0 is not finite"):
        costs_for(labels, [0.25, 0.75, np.nan, 0.0])


def test_transitions_carry_three_separate_flags():
    episodes = Episodes(
        **{
            **arrays_of(ragged([3, 2, 2])),
            "terminated": np.array([True, True, False]),
            "truncated": np.array([False, False, True]),
        }
    )
    labels = Labels.for_episodes(episodes, [1, -1, 1])
    transitions = Transitions.build(episodes, labels, costs_for(labels, [0, 1, 0, 0, 0, 1.0]))
    assert transitions.row.tolist() == [0, 1, 4, 5, 7, 8]
    assert transitions.initial.tolist() == [0, 4, 7]
    # Cut before its end, the first episode loses its own flag; a stop on the last step keeps it.
    assert transitions.terminated.tolist() == [False, False, False, True, False, False]
    assert transitions.truncated.tolist() == [False] * 5 + [True]
    assert transitions.stopped.tolist() == [False, True, False, False, False, True]
    assert transitions.last.tolist() == [False, True] * 3
    assert np.array_equal(transitions.obs[transitions.row + 1][2], episodes[1].obs[1])


def test_labels_of_another_dataset_are_refused():
    one, other = ragged([3, 2], seed=0), ragged([3, 2], seed=1)
    labels = Labels.for_episodes(one, [1, -1])
    costs = costs_for(labels, [0, 1, 0, 0])
    with pytest.raises(RciError, match="belong to another dataset"):
        Transitions.build(other, labels, costs)
    with pytest.raises(RciError, match="belong to other labels"):
        Transitions.build(one, Labels.for_episodes(one, [-1, 1]), costs)


def test_first_true():
    flags = np.array([0, 1, 1, 0, 0, 1], bool)
    assert first_true(flags, np.array([3, 2, 1])).tolist() == [1, -1, 0]


def test_oracle_and_scores_check_their_shapes():
    with pytest.raises(RciError, match="oracle.unsafe"):
        Oracle(np.zeros(2, bool), np.zeros(3), np.array([3]), "")
    with pytest.raises(RciError, match="scores.returns must"):
        Scores(np.zeros(2), np.zeros(3), np.zeros(3, int), np.array([1, 1, 1]))
    with pytest.raises(RciError, match="scores.returns of episode 1, step 0 is not finite"):
        Scores(np.array([1.0, np.nan]), np.zeros(2), np.array([-1, -1]), np.array([9, 9]))
    with pytest.raises(RciError, match="episode 0 has 9 steps, so it cannot first violate at step 9"):
        Scores(np.zeros(1), np.zeros(1), np.array([9]), np.array([9]))
    scores = Scores(np.array([1.0, 2.0]), np.array([1.0, 0.0]), np.array([-1, 4]), np.array([9, 9]))
    assert (scores.violation_rate, scores.mean_return, scores.mean_return_until_stop) == (0.5, 1.5, 0.5)
    assert scores.violated.tolist() == [False, True]


def test_hash_is_of_the_content():
    assert ragged([2, 3]).hash == ragged([2, 3]).hash
    assert ragged([2, 3]).hash != ragged([2, 3], seed=1).hash
    assert ragged([2, 3]).hash != ragged([3, 2]).hash
