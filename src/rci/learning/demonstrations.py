"""What a person drove, as something to learn from, and how often which steps are drawn.

Steps fall into pools, and a batch draws a pool by its share and then any step of it. Weights are numbers of the data:
to change one compiles nothing again.

- demonstrations: segments that a person drove, as transitions without a stop
- the window before a stop: the last steps that the machine drove before somebody took over. Liu et al., "Robot Learning
  on the Job: Human-in-the-Loop Autonomy and Learning During Deployment" (Sirius), 2023, draws what a person drove often
  and the window hardly ever: weights of 10 and 0.1, and 15 steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from rci.data.artefacts.labels import by_channel
from rci.data.errors import RciError
from rci.data.record import Array, expect
from rci.data.types import Episodes, Labels, StepCosts, Transitions
from rci.learning.dataset import Pools, pools_of


@dataclass(frozen=True)
class Emphasis:
    """How often steps are drawn, against those that the machine drove before anything was wrong."""

    demonstration_weight: float = 1.0  # of a step that a person drove
    window: int = 0  # how many steps before a stop have a weight of their own, the last one included
    window_weight: float = 0.1  # of one of them

    def __post_init__(self) -> None:
        if not 0 < self.demonstration_weight < math.inf:
            raise RciError(f"demonstration_weight must be more than 0, got {self.demonstration_weight}.")
        if self.window < 0:
            raise RciError(f"window must not be negative, got {self.window}; 0 weighs all steps alike.")
        if not 0 <= self.window_weight < math.inf:
            raise RciError(f"window_weight must be at least 0, got {self.window_weight}.")


def emphasis_of(settings: object) -> Emphasis:
    """The weights among other settings; those of a learner that weighs nothing are alike."""
    names = [field.name for field in fields(Emphasis)]
    return Emphasis(**{name: getattr(settings, name) for name in names if hasattr(settings, name)})


def refuse_useless(options: Sequence[str], demonstrations: object) -> None:
    """A weight of demonstrations that are not there would be ignored."""
    if demonstrations is None and "demonstration_weight" in options:
        raise RciError("there are no demonstrations to weigh: give them, or leave out demonstration_weight.")


def check_demonstrations(demonstrations: Episodes, episodes: Episodes) -> None:
    """Refuse what a person drove with other sensors or another wheel."""
    expect(Episodes, demonstrations=demonstrations)
    for name in ("obs", "action"):
        wanted, given = (getattr(each, name).shape[1:] for each in (episodes, demonstrations))
        if wanted != given:
            raise RciError(
                f"the {name} of demonstrations must have the shape of that of the episodes, {wanted}, got {given}."
            )
    if not np.issubdtype(demonstrations.action.dtype, np.floating):
        raise RciError(
            f"the actions of demonstrations are {demonstrations.action.dtype}; convert them to float32."
        )


def with_demonstrations(transitions: Transitions, demonstrations: Episodes, labels: Labels) -> Transitions:
    """The transitions, and after them those that a person drove: no cost, no stop. labels: of the former."""
    count = len(demonstrations)
    nothing = Labels(
        np.full(count, -1),
        np.zeros(by_channel((count,), labels.channels)),
        demonstrations.lengths,
        demonstrations.hash,
        labels.channels,
    )
    shown = Transitions.build(demonstrations, nothing, no_costs(nothing))
    before = len(transitions.obs)
    parts = {name: (getattr(transitions, name), getattr(shown, name)) for name in vars(transitions)}
    for name in ("row", "initial"):
        parts[name] = parts[name][0], parts[name][1] + before
    return Transitions(**{name: np.concatenate(both) for name, both in parts.items()})


def pools_for(emphasis: Emphasis, logged: Transitions, demonstrated: int, chosen: Array) -> Pools | None:
    """The pools of transitions, those of demonstrations behind the logged ones; None where all are drawn alike.

    demonstrated: how many a person drove. chosen: which episodes are learned from, [N]; others are kept apart.
    """
    lengths, last = logged.lengths, np.flatnonzero(logged.last)
    if not demonstrated and not emphasis.window:
        return None
    to_come = np.repeat(last, lengths) - np.arange(len(logged))
    window = np.repeat(logged.stopped[last] > 0, lengths) & (to_come < emphasis.window)
    here = np.repeat(chosen, lengths)
    rows = [
        np.flatnonzero(here & ~window),
        np.flatnonzero(here & window),
        np.arange(len(logged), len(logged) + demonstrated),
    ]
    weights = [1.0, emphasis.window_weight, emphasis.demonstration_weight]
    some = [i for i in range(len(rows)) if len(rows[i]) and weights[i] > 0]
    if not some:
        raise RciError(
            f"every step that the machine drove lies within the window of {emphasis.window} before a stop, and none of "
            "them is to be drawn: there is nothing left to learn from."
        )
    return pools_of([rows[i] for i in some], [weights[i] for i in some])


def named_demonstrations(demonstrations: Episodes | None, emphasis: Emphasis) -> dict[str, Any]:
    """What a manifest says of demonstrations and weights: nothing where there are none and all steps are alike."""
    shown = {} if demonstrations is None else {"demonstrations_hash": demonstrations.hash}
    return {**shown, "emphasis": asdict(emphasis)} if shown or emphasis.window else {}


def no_costs(labels: Labels) -> StepCosts:
    """Zeros, where nothing is learned from costs or there are none."""
    kept = labels.kept_lengths
    return StepCosts(
        cost=np.zeros(by_channel((int(kept.sum()),), labels.channels)),
        lengths=kept,
        episodic_cost=labels.cost,
        return_equivalent=False,
        method="none",
        labels_hash=labels.hash,
        channels=labels.channels,
    )
