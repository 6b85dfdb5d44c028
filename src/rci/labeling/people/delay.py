"""How late does a person press STOP, and where would they have pressed without that delay?

The model: a person who watches `pace` steps per second and reacts r seconds late presses at `stop + r pace`, give or
take. Paused, stepping by hand, the pace is 0 and so is the delay. So r shows in two ways:

- against episodes whose stop is known: `(pressed - known) / pace`, with weight `pace`;
- in episodes that the same person stopped twice, at different paces: `(s1 - s2) / (p1 - p2)`, with weight `|p1 - p2|`.

The estimate is the weighted median of these quotients, which is the r that leaves the least sum of absolute errors in
steps. A median, because a person now and then sees another danger and presses long before or after the known stop.
Weights, because what people press is a whole step: a quotient is only good to about 1 / pace seconds, so at slow paces
it is coarse, and without weights the estimate would sit on one of the few values that slow paces can give.

The limits: in simulations with one wild stop in ten the 95% interval holds the true delay in about 9 of 10 cases.
Moving a stop back by a whole number of steps adds an error of up to half a step. And reactions end where the episode
does: known stops close to the end make a person look faster than they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.labeling.people.answers import STOP, Answer
from rci.labeling.people.bootstrap import CONFIDENCE, RESAMPLES, SEED

LEAST_EPISODES = 5  # that a delay is estimated from
LEAST_PACE_DIFFERENCE = 0.5  # steps per second; closer paces say nothing beside the rounding to whole steps
GOLD, REPEATS = "gold", "repeats"
_BLOCKS = 20  # resamples are drawn in blocks, to spare memory


@dataclass(frozen=True)
class Delay:
    """A reaction delay in seconds with its 95% interval. Below 0: the person presses before the danger is there."""

    seconds: float
    low: float
    high: float
    stops: int  # that were used
    source: str  # gold or repeats


class Quotients(NamedTuple):
    """Delays that single stops, or pairs of stops, of one annotator show."""

    episode: Array
    seconds: Array
    weight: Array
    stops: int

    @property
    def enough(self) -> bool:
        return len(np.unique(self.episode)) >= LEAST_EPISODES


def estimate_delays(
    answers: Iterable[Answer], gold: Mapping[int, int], rate: float
) -> dict[str, Delay | None]:
    """The delay of every annotator, in the order of their names; None where too little is known (`why_no_delay`).

    gold: the known stop index of some episodes, -1 where they are safe. rate: steps per second of the recording,
    which stands in for a pace that nobody knows. Where known episodes and repetitions both suffice, the known
    episodes decide. Answers given with the inferred costs in sight are not reactions and do not count.
    """
    return {name: _estimate(stops, gold, rate) for name, stops in _stops_by_annotator(answers, rate).items()}


def why_no_delay(answers: Iterable[Answer], gold: Mapping[int, int], rate: float) -> dict[str, str]:
    """For every annotator without a delay, what is missing."""
    reasons = {}
    for name, stops in _stops_by_annotator(answers, rate).items():
        if _estimate(stops, gold, rate) is None:
            played, repeated = (
                len(np.unique(q.episode))
                for q in (gold_quotients(stops, gold, rate), repeat_quotients(stops, rate))
            )
            reasons[name] = (
                f"{name} stopped {played} known episodes while they played, and {repeated} episodes twice at different "
                f"paces; a reaction delay needs {LEAST_EPISODES} of either."
            )
    return reasons


def gold_quotients(stops: Sequence[Answer], gold: Mapping[int, int], rate: float) -> Quotients:
    """`(pressed - known) / pace`, weight `pace`, of the stops that were pressed while a known episode played."""
    used = [a for a in stops if gold.get(a.episode, -1) >= 0 and pace_of(a, rate) > 0]
    pace = _array([pace_of(a, rate) for a in used])
    late = _array([a.stop_index - gold[a.episode] for a in used]) / pace
    return Quotients(_array([a.episode for a in used]), late, pace, len(used))


def repeat_quotients(stops: Sequence[Answer], rate: float) -> Quotients:
    """`(s1 - s2) / (p1 - p2)` for every two stops of the same episode at different paces, weight `|p1 - p2|`."""
    by_episode: dict[int, list[Answer]] = {}
    for a in stops:
        by_episode.setdefault(a.episode, []).append(a)
    rows, used = [], set()
    for episode, own in by_episode.items():
        for one, other in combinations(own, 2):
            gap = pace_of(one, rate) - pace_of(other, rate)
            if abs(gap) >= LEAST_PACE_DIFFERENCE:
                rows.append((episode, (one.stop_index - other.stop_index) / gap, abs(gap)))
                used |= {one.item, other.item}
    episodes, seconds, weights = zip(*rows) if rows else ((), (), ())
    return Quotients(_array(episodes), _array(seconds), _array(weights), len(used))


def weighted_median(values: Array, weights: Array) -> Array:
    """Where half of the weight lies on either side; between two values if both will do. weights: [..., n].

    With equal weights it is the median.
    """
    order = np.argsort(values)
    values, below = values[order], np.cumsum(weights[..., order], axis=-1)
    half = below[..., -1:] / 2.0
    # The first value that at least, and the first that more than, half of the weight reaches up to.
    lower = np.argmax(below >= half, axis=-1)
    upper = np.argmax(below > half, axis=-1)
    return (values[lower] + values[upper]) / 2.0


def shift_back(answer: Answer, seconds: float, rate: float) -> int:
    """Where the annotator would have pressed without a delay: `stop - round(seconds pace)`, halves up, not below 0.

    Never later than they pressed: a person who presses too early has foreseen the danger instead of reacting to it.
    """
    if answer.verdict != STOP:
        return answer.stop_index
    steps = max(seconds, 0.0) * max(pace_of(answer, rate), 0.0)
    return max(answer.stop_index - math.floor(steps + 0.5), 0)


def without_delays(delays: Mapping[str, Delay | None], rate: float) -> Callable[[Answer], int]:
    """The stop index of an answer without its annotator's delay, where one is known."""
    _check_rate(rate)

    def stop_index(answer: Answer) -> int:
        delay = delays.get(answer.annotator)
        return answer.stop_index if delay is None else shift_back(answer, delay.seconds, rate)

    return stop_index


def pace_of(answer: Answer, rate: float) -> float:
    """Steps per second when the key was pressed; the recorded pace where nobody knows."""
    return rate if answer.pace is None else answer.pace


def _estimate(stops: Sequence[Answer], gold: Mapping[int, int], rate: float) -> Delay | None:
    by_gold = gold_quotients(stops, gold, rate)
    if by_gold.enough:
        return _measure(by_gold, GOLD)
    by_repeats = repeat_quotients(stops, rate)
    return _measure(by_repeats, REPEATS) if by_repeats.enough else None


def _measure(quotients: Quotients, source: str) -> Delay:
    """The weighted median, and its percentile bootstrap over episodes; each is drawn with all its quotients."""
    names, column = np.unique(quotients.episode, return_inverse=True)
    rng = np.random.default_rng(SEED)
    drawn = []
    for _ in range(_BLOCKS):
        times = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), RESAMPLES // _BLOCKS)
        drawn.append(weighted_median(quotients.seconds, quotients.weight * times[:, column]))
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(np.concatenate(drawn), [tail, 1.0 - tail])
    middle = float(weighted_median(quotients.seconds, quotients.weight))
    return Delay(middle, float(low), float(high), quotients.stops, source)


def _stops_by_annotator(answers: Iterable[Answer], rate: float) -> dict[str, list[Answer]]:
    _check_rate(rate)
    stops: dict[str, list[Answer]] = {}
    for a in answers:
        own = stops.setdefault(a.annotator, [])
        if a.verdict == STOP and not a.review:
            own.append(a)
    return dict(sorted(stops.items()))


def _check_rate(rate: float) -> None:
    if not 0 < rate < math.inf:
        raise RciError(f"the rate of a recording must be a number of steps per second above 0, got {rate!r}.")


def _array(values: Sequence[float]) -> Array:
    return np.asarray(values, np.float64)
