"""Runs in which a person took over, cut into what the machine drove and what the person drove.

A run becomes machine segments, each stopped by a takeover or not, and human segments, which are never stopped. Three
things can end a segment, and they stay apart:

- a takeover: the label of a machine segment; its stop index is the last step before the person drives
- the environment or the time limit: `terminated` and `truncated` of the segment that was driven then
- handing back: a human segment that breaks off, without a flag

Both segments hold the observation at which the wheel changes hands: one ends with it, the other begins with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rci.data.artefacts.episodes import Episodes, rows_of
from rci.data.artefacts.labels import Labels
from rci.data.artefacts.takeovers import Takeovers
from rci.data.errors import RciError
from rci.data.record import Array, expect

RUN, FIRST_STEP = (
    "cut from",
    "first step",
)  # keys of segments: the number of the run, and where in it they begin


class Segments(NamedTuple):
    """What the machine drove with the labels of it, and what a person drove."""

    machine: Episodes
    labels: Labels  # of `machine`
    human: Episodes


def cut(episodes: Episodes, takeovers: Takeovers) -> Segments:
    """The segments of all runs, in their order; `rows_in` says where their steps stand in the runs."""
    expect(Episodes, episodes=episodes)
    expect(Takeovers, takeovers=takeovers)
    takeovers.check_parent(episodes)
    for name in (RUN, FIRST_STEP):
        if name in episodes.keys:
            raise RciError(f"these episodes have the key {name!r}: they are segments already.")
    human, offset = takeovers.flags(), episodes.step_offset
    if not human.any():
        raise RciError("nobody took over in any of these episodes, so there is nothing to cut.")
    if human.all():
        raise RciError("a person drove in every step of these episodes: there is nothing that a machine did.")
    begins = np.flatnonzero(np.diff(human, prepend=~human[:1]) | np.isin(np.arange(len(human)), offset))
    ends = np.append(begins[1:], len(human))
    run = np.searchsorted(offset, begins, side="right") - 1
    by_machine = ~human[begins]
    machine = _segments(episodes, run[by_machine], begins[by_machine], ends[by_machine])
    taken_over = ends[by_machine] < offset[run[by_machine] + 1]  # who drives on is a person
    labels = Labels.for_episodes(machine, np.where(taken_over, machine.lengths - 1, -1))
    return Segments(
        machine, labels, _segments(episodes, run[~by_machine], begins[~by_machine], ends[~by_machine])
    )


def rows_in(episodes: Episodes, segments: Episodes) -> Array:
    """For each step of segments, end to end, the row of the same step in the runs that they were cut from."""
    missing = [name for name in (RUN, FIRST_STEP) if name not in segments.keys]
    if missing:
        raise RciError(f"these episodes are not segments: they have no key {missing[0]!r}.")
    run, first = (np.array([int(key) for key in segments.keys[name]]) for name in (RUN, FIRST_STEP))
    inside = (run >= 0) & (run < len(episodes)) & (first >= 0)
    inside &= first + segments.lengths <= episodes.lengths[np.where(inside, run, 0)]
    for i in np.flatnonzero(~inside)[:1]:
        raise RciError(
            f"segment {i} is of steps {first[i]} to {first[i] + segments.lengths[i] - 1} of run {run[i]}, which these "
            "episodes do not have: it was cut from others."
        )
    return rows_of(episodes.step_offset[run] + first, segments.lengths)


def _segments(episodes: Episodes, run: Array, begins: Array, ends: Array) -> Episodes:
    """Steps begins[k] to ends[k] - 1 of the flat arrays, which are of run[k]."""
    lengths, last = ends - begins, ends == episodes.step_offset[run + 1]
    steps = rows_of(begins, lengths)
    first = begins - episodes.step_offset[run]
    joined = {name: [keys[i] for i in run] for name, keys in episodes.keys.items()}
    return Episodes(
        obs=episodes.obs[rows_of(begins + run, lengths + 1)],
        action=episodes.action[steps],
        reward=episodes.reward[steps],
        lengths=lengths,
        terminated=episodes.terminated[run] & last,
        truncated=episodes.truncated[run] & last,
        source=np.asarray(episodes.source)[run],
        task=episodes.task,
        sources=episodes.sources,
        signals=episodes.signals,
        keys={**joined, RUN: [str(i) for i in run], FIRST_STEP: [str(step) for step in first]},
    )
