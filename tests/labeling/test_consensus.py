import numpy as np
import pytest
from conftest import ragged

from rci.data.errors import RciError
from rci.data.types import Episodes
from rci.labeling.people.answers import SAFE, STOP, UNSURE, Answer, fold
from rci.labeling.people.consensus import UNRESOLVED, consensus, lower_median, resolve
from rci.labeling.people.delay import Delay, without_delays


def votes(*episodes: str) -> list[Answer]:
    """Votes about episodes from 0 on, a word for each annotator: a stop index, - safe, ? unsure, . no answer."""
    answers = []
    for i, words in enumerate(episodes):
        for name, word in zip("abcdefg", words.split()):
            if word == ".":
                continue
            verdict = {"-": SAFE, "?": UNSURE}.get(word, STOP)
            answers.append(Answer(name, i, verdict, int(word) if verdict == STOP else -1))
    return answers


TABLE = votes(
    "3 5 - ?",  # stop 2 : 1
    "- - 4",  # safe 2 : 1
    "3 -",  # tie
    "? ?",  # nobody knows
    "",  # nobody came
    "9 2 . 4",  # stop 3 : 0
    "7",  # stop 1 : 0
    "- - - -",  # safe 4 : 0
    "1 2 - - 3",  # stop 3 : 2
    "? -",  # safe 1 : 0
)


def test_the_majority_decides():
    found = consensus(TABLE, 10)
    assert found.stop_index.tolist() == [3, -1, -2, -2, -2, 4, 7, -1, 2, -1]
    assert found.stop.tolist() == [2, 1, 1, 0, 0, 3, 1, 0, 3, 0]
    assert found.safe.tolist() == [1, 2, 1, 0, 0, 0, 0, 4, 2, 1]
    assert found.unsure.tolist() == [1, 0, 0, 2, 0, 0, 0, 0, 0, 1]
    assert found.unresolved.tolist() == [2, 3, 4]
    assert len(found) == 10


@pytest.mark.parametrize(
    ("quorum", "stops"),
    [
        (1, [3, -1, -2, -2, -2, 4, 7, -1, 2, -1]),  # as the majority
        (2, [3, -1, -2, -2, -2, 4, -2, -1, 2, -2]),
        (3, [-2, -2, -2, -2, -2, 4, -2, -1, 2, -2]),
        (4, [-2, -2, -2, -2, -2, -2, -2, -1, -2, -2]),
    ],
)
def test_a_quorum_must_say_the_same(quorum, stops):
    assert consensus(TABLE, 10, quorum).stop_index.tolist() == stops


def test_a_quorum_on_both_sides_is_a_tie_or_the_larger_one():
    assert consensus(votes("1 2 - -", "1 2 - - -"), 2, quorum=2).stop_index.tolist() == [UNRESOLVED, -1]


def test_the_lower_of_two_in_the_middle():
    assert [lower_median(v) for v in ([4], [9, 4], [9, 1, 4], [8, 9, 1, 4])] == [4, 4, 4, 4]


def test_one_vote_each_that_of_the_first_showing_and_a_review_replaces_it():
    first = [Answer("a", 0, STOP, 4), Answer("b", 0, STOP, 6), Answer("c", 0, SAFE)]
    again = [Answer(name, 0, SAFE, showing=n) for name in "abc" for n in (1, 2)]
    assert consensus([*first, *again], 1).stop_index.tolist() == [4]
    review = [Answer("a", 0, SAFE, review=True)]
    standing = fold([*first, *again, *review])
    counting = [answer for one in standing.values() for answer in one.answers()]
    assert consensus(counting, 1).stop_index.tolist() == [-1]
    assert consensus([*first, *again, *review], 1).stop_index.tolist() == [-1]  # the same without the fold


def test_stops_are_moved_before_the_median_is_taken():
    """a presses 4 steps late (0.4 s at 10 per second), b at pace 0 and c not at all: 12 - 4, 9 and 20."""
    answers = [
        Answer("a", 0, STOP, 12, pace=10.0),
        Answer("b", 0, STOP, 9, pace=0.0),
        Answer("c", 0, STOP, 20, pace=10.0),
    ]
    late = Delay(0.4, 0.3, 0.5, 9, "gold")
    shift = without_delays({"a": late, "b": late, "c": None}, rate=5.0)
    assert consensus(answers, 1).stop_index.tolist() == [12]
    assert consensus(answers, 1, shift=shift).stop_index.tolist() == [9]
    assert consensus(answers[::2], 1, shift=shift).stop_index.tolist() == [8]


def test_bad_votes():
    with pytest.raises(RciError, match="from 1 on, got 0"):
        consensus(TABLE, 10, quorum=0)
    with pytest.raises(RciError, match="a answered about episode 9, but the episodes are numbered 0 to 8"):
        consensus([Answer("a", 9, SAFE)], 9)


def test_no_answers_at_all():
    assert consensus([], 3).unresolved.tolist() == [0, 1, 2]


def dataset() -> Episodes:
    recorded = ragged([12] * 10)
    return Episodes(
        **{**recorded.arrays(), "source": np.arange(10), "sources": tuple("abcdefghij"), "task": "x"}
    )


def test_episodes_without_a_label_are_refused():
    with pytest.raises(
        RciError,
        match=r"3 of 10 episodes have no label \(episode 2, 3, 4\): .*--missing drop.*--missing safe",
    ):
        resolve(consensus(TABLE, 10), dataset())
    with pytest.raises(RciError, match=r"10 of 10 episodes have no label \(episode 0, 1, 2, 3, 4, \.\.\.\)"):
        resolve(consensus([], 10), dataset())


def test_episodes_without_a_label_are_dropped():
    episodes = dataset()
    kept, labels = resolve(consensus(TABLE, 10), episodes, "drop")
    assert kept.source.tolist() == [0, 1, 5, 6, 7, 8, 9]
    assert (kept.task, kept.sources) == ("x", episodes.sources)
    assert labels.stop_index.tolist() == [3, -1, 4, 7, -1, 2, -1]
    labels.check_parent(kept)
    with pytest.raises(RciError, match="none of the 10 episodes has a label"):
        resolve(consensus([], 10), episodes, "drop")


def test_episodes_without_a_label_count_as_safe():
    episodes = dataset()
    same, labels = resolve(consensus(TABLE, 10), episodes, "safe")
    assert same is episodes
    assert labels.stop_index.tolist() == [3, -1, -1, -1, -1, 4, 7, -1, 2, -1]
    assert labels.cost.sum() == 4
    with pytest.raises(RciError, match="none of the 10 episodes has a label"):
        resolve(consensus([], 10), episodes, "safe")


@pytest.mark.parametrize("missing", ["refuse", "drop", "safe"])
def test_where_every_episode_has_a_label_the_dataset_stays_as_it_is(missing):
    episodes = ragged([5, 4])
    same, labels = resolve(consensus(votes("3", "-"), 2), episodes, missing)
    assert same is episodes
    assert labels.stop_index.tolist() == [3, -1]


def test_what_does_not_fit_together():
    with pytest.raises(RciError, match="about 10 episodes, but the dataset has 2"):
        resolve(consensus(TABLE, 10), ragged([5, 4]))
    with pytest.raises(
        RciError, match="unknown way to treat episodes without a label 'dorp'. Did you mean 'drop'"
    ):
        resolve(consensus(TABLE, 10), dataset(), "dorp")
    with pytest.raises(RciError, match="episode 0 has 3 steps, so its stop index must be"):
        resolve(consensus(votes("3"), 1), ragged([3]))
    with pytest.raises(RciError, match="consensus must be of type Consensus, got Episodes"):
        resolve(ragged([5]), consensus(votes("3"), 1))
