"""Record episodes by a recipe: which behaviours, in which shares."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.data.types import Episodes, Oracle
from rci.tasks import get, observe_truth
from rci.tasks.rollout import COLLECTION, episode_seeds, record

BATCH = 512  # worlds that run at once


def collect(
    task_name: str,
    episodes: int = 1000,
    recipe: str = "mixed",
    seed: int = 0,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Episodes, Oracle]:
    """Record `episodes` of a task without stopping any, and the truth about them.

    The oracle is kept apart: labelers, evaluation and reports may read it; redistributors and learners may not.
    """
    task = get(task_name)
    if recipe not in task.recipes:
        raise unknown_name(f"recipe of {task_name}", recipe, task.recipes)
    if episodes < 1:
        raise RciError(f"at least one episode must be collected, got {episodes}.")
    shares = task.recipes[recipe]
    borders = np.rint(np.cumsum([0.0, *shares.values()]) * episodes).astype(int)
    parts, source = [], []
    for number, behaviour in enumerate(shares):
        for first in range(borders[number], borders[number + 1], BATCH):
            count = min(BATCH, borders[number + 1] - first)
            act = partial(task.behaviours[behaviour], np.random.default_rng([seed, COLLECTION, first]))
            seeds = episode_seeds(seed, COLLECTION, int(first), int(count))
            parts.append(record(task.make_vec(int(count)), act, seeds, task_name))
            source.append(np.full(count, number, np.int32))
            progress((first + count) / episodes)
    joined = join(parts, np.concatenate(source), tuple(shares), task_name)
    return joined, observe_truth(task, joined)


def join(parts: list[Episodes], source: np.ndarray, sources: tuple[str, ...], task: str) -> Episodes:
    """Several recordings as one dataset."""
    names = ("obs", "action", "reward", "lengths", "terminated", "truncated")
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Episodes(**arrays, source=source, sources=sources, task=task)
