"""One label per episode from what several annotators said, and what to do with episodes that have none.

Every annotator has one vote per episode: what they say about its first showing. `unsure` is counted, but decides
nothing. Where stop wins, the stop index is the median of those who said stop, and so is the severity; the kinds of
danger are those that at least half of them named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, Takeovers
from rci.labeling.people.answers import SAFE, STOP, UNSURE, Answer

UNRESOLVED = -2  # in place of a stop index, where -1 is safe
REFUSE, DROP, COUNT_AS_SAFE = "refuse", "drop", "safe"
MISSING_WAYS = (REFUSE, DROP, COUNT_AS_SAFE)


@dataclass(frozen=True, eq=False)
class Consensus:
    """What annotators say together about each episode: a stop index, -1 safe, UNRESOLVED; and how many said what."""

    stop_index: Array
    stop: Array
    safe: Array
    unsure: Array
    severity: Array  # [N], or, by kind of danger, [N, K]; 0 without a stop
    kinds: tuple[str, ...] = ()

    @property
    def unresolved(self) -> Array:
        """Episodes without a label: nobody has an opinion, it is a tie, or the quorum is not reached."""
        return np.flatnonzero(self.stop_index == UNRESOLVED)

    def __len__(self) -> int:
        return len(self.stop_index)


def as_pressed(answer: Answer) -> int:
    """The stop index as it is."""
    return answer.stop_index


def consensus(
    answers: Iterable[Answer],
    episodes: int,
    quorum: int | None = None,
    shift: Callable[[Answer], int] = as_pressed,
    kinds: Sequence[str] = (),
) -> Consensus:
    """The verdict of the majority on each of `episodes` episodes.

    quorum: how many annotators must say the same, who must also be more than those who say the other; without one,
    more than half of those who said stop or safe. shift: the stop index that an answer stands for, such as
    `delay.without_delays`. kinds: of danger; every stop that counts must then name some. Where two answers are about
    the same item, the later one counts.
    """
    needed = 1 if quorum is None else quorum
    if needed < 1:
        raise RciError(f"a quorum is a number of annotators from 1 on, got {quorum}.")
    count = {verdict: np.zeros(episodes, np.int64) for verdict in (STOP, SAFE, UNSURE)}
    stops: dict[int, list[Answer]] = {}
    for answer in _votes(answers, episodes):
        count[answer.verdict][answer.episode] += 1
        if answer.verdict == STOP:
            stops.setdefault(answer.episode, []).append(answer)
    stop_index = np.full(episodes, UNRESOLVED, np.int64)
    stop_index[(count[SAFE] >= needed) & (count[SAFE] > count[STOP])] = -1
    for episode in np.flatnonzero((count[STOP] >= needed) & (count[STOP] > count[SAFE])).tolist():
        stop_index[episode] = lower_median(map(shift, stops[episode]))
    severity = np.zeros((episodes, len(kinds)) if kinds else episodes)
    for episode in np.flatnonzero(stop_index >= 0).tolist():
        severity[episode] = _severity(stops[episode], kinds)
    return Consensus(stop_index, count[STOP], count[SAFE], count[UNSURE], severity, tuple(kinds))


def takeovers_of(answers: Iterable[Answer], episodes: Episodes, quorum: int | None = None) -> Takeovers:
    """When a person drove, as annotators marked it: the steps that more than half of them marked, or `quorum` of them.

    Everybody counts who answered the episode, unsure or not; an imported answer only if it has takeovers. Takeovers
    that touch become one.
    """
    marked, asked = np.zeros(len(episodes.reward), np.int64), np.zeros(len(episodes), np.int64)
    for answer in _votes(answers, len(episodes)):
        if answer.takeovers or not answer.imported:
            asked[answer.episode] += 1
        start = episodes.step_offset[answer.episode]
        for begin, end in answer.takeovers:
            marked[start + begin : start + end] += 1
    needed = asked // 2 + 1 if quorum is None else np.full(len(episodes), quorum)
    return Takeovers.from_flags(episodes, marked >= np.repeat(needed, episodes.lengths))


def _votes(answers: Iterable[Answer], episodes: int) -> list[Answer]:
    """What everybody says of the first showing of each episode."""
    votes = {(a.annotator, a.episode): a for a in answers if a.showing == 0}
    for answer in votes.values():
        if not 0 <= answer.episode < episodes:
            raise RciError(
                f"{answer.annotator} answered about episode {answer.episode}, but the episodes are numbered 0 to "
                f"{episodes - 1}; are these answers about another dataset?"
            )
    return list(votes.values())


def _severity(stops: Sequence[Answer], kinds: Sequence[str]) -> float | Array:
    """How bad a stop was: the median, of two in the middle the higher; 0 for a kind of danger that few named."""
    grades = sorted(answer.severity for answer in stops)
    severity = grades[len(grades) // 2]
    if not kinds:
        return severity
    named = Counter(kind for answer in stops for kind in answer.kinds)
    if not named:
        raise RciError(
            f"{stops[0].annotator} stopped episode {stops[0].episode} without a kind of danger: let somebody answer it "
            "again, or count every stop alike (--no-kinds)."
        )
    enough = min(len(stops) / 2, max(named.values()))
    return np.array([severity if kind in named and named[kind] >= enough else 0.0 for kind in kinds])


def lower_median(values: Iterable[int]) -> int:
    """The middle one, and of two in the middle the lower: a stop that somebody pressed, and the more careful one."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]


def resolve(agreed: Consensus, episodes: Episodes, missing: str = REFUSE) -> tuple[Episodes, Labels]:
    """Labelled episodes. missing: what to do about episodes without a label.

    "refuse": raise an error. "drop": leave them out; the rest is a dataset of its own. "safe": count them as not
    stopped. That is dangerous: an episode nobody could judge, or about which annotators disagree, then teaches that
    what happens in it costs nothing.
    """
    expect(Consensus, consensus=agreed)
    expect(Episodes, episodes=episodes)
    if missing not in MISSING_WAYS:
        raise unknown_name("way to treat episodes without a label", missing, MISSING_WAYS)
    if len(agreed) != len(episodes):
        raise RciError(
            f"there are answers about {len(agreed)} episodes, but the dataset has {len(episodes)}."
        )
    without = agreed.unresolved
    if len(without) and missing == REFUSE:
        raise RciError(_no_label(without, len(episodes)))
    if len(without) == len(episodes):
        raise RciError(f"none of the {len(episodes)} episodes has a label; at least one is needed.")
    if len(without) and missing == DROP:
        labelled = np.flatnonzero(agreed.stop_index != UNRESOLVED)
        episodes = episodes.take(labelled)
        return episodes, _labels(episodes, agreed, labelled)
    return episodes, _labels(episodes, agreed, np.arange(len(episodes)))


def _labels(episodes: Episodes, agreed: Consensus, which: Array) -> Labels:
    stop = np.maximum(agreed.stop_index[which], -1)
    return Labels.for_episodes(episodes, stop, agreed.severity[which], agreed.kinds)


def _no_label(without: Array, episodes: int, shown: int = 5) -> str:
    first = ", ".join(str(i) for i in without[:shown])
    more = ", ..." if len(without) > shown else ""
    return (
        f"{len(without)} of {episodes} episodes have no label (episode {first}{more}): let somebody answer them, lower "
        f"the quorum, leave them out (--missing {DROP}), or count them as not stopped (--missing {COUNT_AS_SAFE})."
    )
