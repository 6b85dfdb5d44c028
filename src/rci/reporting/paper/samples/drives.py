"""The paper's figure of three sampled drives: where the cost of their labels went."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from rci.data.errors import RciError
from rci.data.types import Episodes, Labels, StepCosts
from rci.reporting.comparison.figures import cost_columns, episodes_of
from rci.reporting.figures.films import total
from rci.reporting.figures.palette import looks
from rci.reporting.figures.picture import Picture, render
from rci.tasks import get, observe_truth

SHORTEST = 10  # steps; in fewer there is little to distribute
STOPPED, SAFE = 2, 1  # episodes shown of each kind


def redistribution_samples(
    episodes: Episodes, labels: Labels, costs: Mapping[str, StepCosts], seed: int = 0
) -> Picture:
    """Two stopped drives and a safe one: the label, the step costs of each method, and the nearest vehicle."""
    labels.check_parent(episodes)
    for own in costs.values():
        own.check_parent(labels)
    task, picked = get("highway"), draw_episodes(labels, seed)
    sums = "; ".join(
        f"{name} {', '.join(total(cost) for cost in episodes_of(own, picked))}" for name, own in costs.items()
    )
    return render(
        "redistribution-samples",
        f"Label, step costs and distance to the nearest vehicle in drives {', '.join(map(str, picked))}. Sums of their "
        f"step costs: {sums}.",
        f"Cost inference on three drives, drawn with seed {seed}: two that were stopped and a safe one, of at least "
        f"{SHORTEST} steps. Top: the label, a single cost at the step of the stop. Middle: step costs of "
        f"{' and '.join(costs)}. Bottom: the normalised distance to the nearest vehicle; at {task.danger_distance:g} "
        "(broken line) and below, a step is unsafe. Drives end at their first unsafe step.",
        partial(
            cost_columns,
            picked,
            labels,
            costs,
            looks(costs),
            observe_truth(task, episodes),
            task.danger_distance,
            f"distance to the nearest vehicle, unsafe up to {task.danger_distance:g}",
        ),
    )


def draw_episodes(labels: Labels, seed: int) -> list[int]:
    """Two stopped episodes, the shorter one first, and a safe one, drawn from those that are long enough to show."""
    rng, long = np.random.default_rng(seed), labels.kept_lengths >= SHORTEST
    picked: list[int] = []
    for word, kind, wanted in (("stopped", labels.stopped, STOPPED), ("safe", ~labels.stopped, SAFE)):
        group = np.flatnonzero(kind & long)
        if len(group) < wanted:
            raise RciError(
                f"of the {word} episodes {len(group)} have at least {SHORTEST} steps, but the sample needs {wanted}."
            )
        drawn = rng.choice(group, wanted, replace=False)
        picked += drawn[np.argsort(labels.kept_lengths[drawn], kind="stable")].tolist()
    return picked
