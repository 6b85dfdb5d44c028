"""In which order episodes are shown, with episodes mixed in whose answer is known, and some shown a second time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.data.record import Array

ORDERS = ("sequential", "random", "uncertain")
GOLD_EVERY = 10  # one item in so many is a gold one, until all have had their turn
REPEAT_AFTER = (20, 60)  # items between the two showings of an episode, where the queue is long enough

Item = tuple[int, int]  # which episode, and how often it had been shown before


@dataclass(frozen=True)
class Order:
    """How a queue is made. All annotators have the same one, so that their answers can be compared early."""

    name: str = "sequential"
    seed: int = 0
    gold: tuple[int, ...] = ()  # episodes whose answer is known
    repeats: float = 0.0  # share of the episodes that are shown twice
    uncertainty: Array | None = None  # of each episode, for the order `uncertain`

    def __post_init__(self) -> None:
        if self.name not in ORDERS:
            raise unknown_name("order", self.name, ORDERS)
        if not 0 <= self.repeats <= 1:
            raise RciError(f"the share of repeated episodes must be 0 to 1, got {self.repeats}.")
        if (self.name == "uncertain") != (self.uncertainty is not None):
            raise RciError(
                "the order 'uncertain' needs how uncertain each episode is, and no other order does."
            )


def make_queue(order: Order, episodes: int) -> list[Item]:
    """Every episode once, some of them twice."""
    rng = np.random.default_rng(order.seed)
    gold = set(order.gold)
    shown = [int(i) for i in _base(order, episodes, rng) if i not in gold]
    queue = _mix(shown, list(rng.permutation(np.array(order.gold, np.int64))), rng)
    return _repeat(queue, round(order.repeats * len(queue)), rng)


def _base(order: Order, episodes: int, rng: np.random.Generator) -> Sequence[int]:
    if order.name == "random":
        return list(rng.permutation(episodes))
    if order.uncertainty is not None:
        if len(order.uncertainty) != episodes:
            raise RciError(f"there are {episodes} episodes, but {len(order.uncertainty)} uncertainties.")
        return list(np.argsort(-order.uncertainty, kind="stable"))
    return range(episodes)


def _mix(shown: list[int], gold: list[int], rng: np.random.Generator) -> list[int]:
    """One gold episode in each run of GOLD_EVERY items, at a place that cannot be guessed; left ones at the end."""
    queue: list[int] = []
    for start in range(0, len(shown), GOLD_EVERY - 1):
        run = shown[start : start + GOLD_EVERY - 1]
        if gold:
            run.insert(int(rng.integers(len(run) + 1)), int(gold.pop()))
        queue += run
    return queue + [int(i) for i in gold]


def _repeat(queue: list[int], count: int, rng: np.random.Generator) -> list[Item]:
    low = min(REPEAT_AFTER[0], len(queue) // 3)
    high = max(low + 1, min(REPEAT_AFTER[1], len(queue) // 2))
    early = len(queue) - low  # from here on a second showing would come too soon
    again = rng.choice(early, min(count, early), replace=False)
    positions = [(float(place), (episode, 0)) for place, episode in enumerate(queue)]
    positions += [(float(i + rng.integers(low, high)) + 0.5, (queue[i], 1)) for i in again]
    return [item for _, item in sorted(positions)]
