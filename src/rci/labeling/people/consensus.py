"""One label per episode from what several annotators said, and what to do with episodes that have none.

Every annotator has one vote per episode: what they say about its first showing. `unsure` is counted, but decides
nothing. Where stop wins, the stop index is the median of those who said stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels
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
) -> Consensus:
    """The verdict of the majority on each of `episodes` episodes.

    quorum: how many annotators must say the same, who must also be more than those who say the other; without one,
    more than half of those who said stop or safe. shift: the stop index that an answer stands for, such as
    `delay.without_delays`. Where two answers are about the same item, the later one counts.
    """
    needed = 1 if quorum is None else quorum
    if needed < 1:
        raise RciError(f"a quorum is a number of annotators from 1 on, got {quorum}.")
    votes = {(a.annotator, a.episode): a for a in answers if a.showing == 0}
    count = {verdict: np.zeros(episodes, np.int64) for verdict in (STOP, SAFE, UNSURE)}
    stops: dict[int, list[int]] = {}
    for answer in votes.values():
        if not 0 <= answer.episode < episodes:
            raise RciError(
                f"{answer.annotator} answered about episode {answer.episode}, but the episodes are numbered 0 to "
                f"{episodes - 1}; are these answers about another dataset?"
            )
        count[answer.verdict][answer.episode] += 1
        if answer.verdict == STOP:
            stops.setdefault(answer.episode, []).append(shift(answer))
    stop_index = np.full(episodes, UNRESOLVED, np.int64)
    stop_index[(count[SAFE] >= needed) & (count[SAFE] > count[STOP])] = -1
    for episode in np.flatnonzero((count[STOP] >= needed) & (count[STOP] > count[SAFE])).tolist():
        stop_index[episode] = lower_median(stops[episode])
    return Consensus(stop_index, count[STOP], count[SAFE], count[UNSURE])


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
        return episodes, Labels.for_episodes(episodes, agreed.stop_index[labelled])
    return episodes, Labels.for_episodes(episodes, np.maximum(agreed.stop_index, -1))


def _no_label(without: Array, episodes: int, shown: int = 5) -> str:
    first = ", ".join(str(i) for i in without[:shown])
    more = ", ..." if len(without) > shown else ""
    return (
        f"{len(without)} of {episodes} episodes have no label (episode {first}{more}): let somebody answer them, lower "
        f"the quorum, leave them out (--missing {DROP}), or count them as not stopped (--missing {COUNT_AS_SAFE})."
    )
