"""Imperfect supervisors, as changes to clean labels. All draws come from one seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rci.data.errors import unknown_name
from rci.data.record import Array
from rci.data.types import Episodes, Labels

SHIFTS = np.array([-15, -10, -5, 0, 5, 10, 15])  # steps. Paper: Section V-A, Noisy labels
FLIPPED_SHARE = 0.2  # of all episodes. Paper: Section V-A, Adversarial labels


@dataclass(frozen=True)
class Reaction:
    """A person who answers late: delay = shortest + lognormal(median, spread), and sometimes not at all."""

    shortest: float = 1.0  # steps
    median: float = 2.0  # steps beyond the shortest
    spread: float = 0.5  # standard deviation of the logarithm
    miss: float = 0.05  # chance that an unsafe episode is not stopped


HUMAN = Reaction()
LATE = 10  # steps: two seconds on the highway


def shift_stops(rng: np.random.Generator, stop: Array, lengths: Array) -> Array:
    """`noisy`: every stop moves by a uniform draw of SHIFTS, kept inside the recording."""
    moved = np.clip(stop + rng.choice(SHIFTS, len(stop)), 0, lengths - 1)
    return np.where(stop >= 0, moved, stop)


def flip_labels(rng: np.random.Generator, stop: Array, lengths: Array) -> Array:
    """`adversarial`: a fifth of all episodes change sides; a new stop falls on a uniformly random step."""
    flipped = np.zeros(len(stop), bool)
    flipped[rng.choice(len(stop), round(FLIPPED_SHARE * len(stop)), replace=False)] = True
    anywhere = rng.integers(0, lengths)
    return np.where(flipped, np.where(stop >= 0, -1, anywhere), stop)


def react_late(rng: np.random.Generator, stop: Array, lengths: Array, reaction: Reaction = HUMAN) -> Array:
    """`human`: the stop comes a reaction time later, or never. Too late for the recording: at its last step."""
    beyond = reaction.median * np.exp(reaction.spread * rng.standard_normal(len(stop)))
    delay = np.rint(reaction.shortest + beyond).astype(np.int64)
    missed = rng.random(len(stop)) < reaction.miss
    late = np.minimum(stop + delay, lengths - 1)
    return np.where(stop >= 0, np.where(missed, -1, late), stop)


def come_late(rng: np.random.Generator, stop: Array, lengths: Array) -> Array:
    """`late`: every stop comes a fixed time after the danger. Too late for the recording: at its last step."""
    return np.where(stop >= 0, np.minimum(stop + LATE, lengths - 1), stop)


NOISES: dict[str, Callable[[np.random.Generator, Array, Array], Array]] = {
    "noisy": shift_stops,
    "adversarial": flip_labels,
    "human": react_late,
    "late": come_late,
}


def corrupt(episodes: Episodes, labels: Labels, noise: str, seed: int = 0) -> Labels:
    """The labels that a supervisor of kind `noise` would have given instead. A moved stop keeps its severity."""
    labels.check_parent(episodes)
    if noise == "clean":
        return labels
    if noise not in NOISES:
        raise unknown_name("label noise", noise, [*NOISES, "clean"])
    rng = np.random.default_rng(seed)
    stop = NOISES[noise](rng, labels.stop_index, labels.lengths)
    # An episode that was safe and is stopped now has no reason for it: any channel, by chance.
    columns = labels.channel_cost.shape[1]
    invented = np.eye(columns)[rng.integers(0, columns, len(stop))]
    severity = np.where(labels.stopped[:, None], labels.channel_cost, invented).reshape(labels.cost.shape)
    return Labels.for_episodes(episodes, stop, severity, labels.channels)
