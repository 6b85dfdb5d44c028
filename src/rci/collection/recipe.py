"""Record episodes by a recipe: which behaviours, in which shares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import numpy as np

from rci.data.errors import RciError, unknown_name
from rci.data.record import expect
from rci.data.types import Demonstrators, Episodes, Oracle
from rci.tasks import get, observe_truth
from rci.tasks.base import BehaviourPolicy
from rci.tasks.rollout import COLLECTION, episode_seeds, record

BATCH = 512  # worlds that run at once
PPO = "ppo"  # the share of a recipe that demonstrators record, each checkpoint as much as the others


def collect(
    task_name: str,
    episodes: int = 1000,
    recipe: str = "mixed",
    seed: int = 0,
    demonstrators: Demonstrators | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> tuple[Episodes, Oracle]:
    """Record `episodes` of a task without stopping any, and the truth about them.

    demonstrators: what records the recipe's share of PPO; trained on the spot, with this seed, if not given.

    The oracle is kept apart: labelers, evaluation and reports may read it; redistributors and learners may not.
    """
    task = get(task_name)
    trained = needs_demonstrators(task_name, recipe)
    if episodes < 1:
        raise RciError(f"at least one episode must be collected, got {episodes}.")
    if demonstrators is not None:
        check_demonstrators(demonstrators, task_name, recipe)
    elif trained:
        from rci.collection.demonstrators import train_demonstrators

        demonstrators = train_demonstrators(task_name, seed, progress=lambda share: progress(share / 2))
        progress = partial(_second_half, progress)
    learned = _behaviours(demonstrators)
    behaviours = {**task.behaviours, **learned}
    shares = split_shares(task.recipes[recipe], learned)
    borders = np.rint(np.cumsum([0.0, *shares.values()]) * episodes).astype(int)
    parts, source = [], []
    for number, behaviour in enumerate(shares):
        for first in range(borders[number], borders[number + 1], BATCH):
            count = min(BATCH, borders[number + 1] - first)
            act = partial(behaviours[behaviour], np.random.default_rng([seed, COLLECTION, first]))
            seeds = episode_seeds(seed, COLLECTION, int(first), int(count))
            parts.append(record(task.make_vec(int(count)), act, seeds, task_name))
            source.append(np.full(count, number, np.int32))
            progress((first + count) / episodes)
    joined = Episodes.joined(parts, np.concatenate(source), tuple(shares), task_name)
    return joined, observe_truth(task, joined)


def needs_demonstrators(task_name: str, recipe: str) -> bool:
    """Whether a recipe of a task has a share of PPO."""
    recipes = get(task_name).recipes
    if recipe not in recipes:
        raise unknown_name(f"recipe of {task_name}", recipe, recipes)
    return PPO in recipes[recipe]


def check_demonstrators(demonstrators: Demonstrators, task_name: str, recipe: str) -> None:
    """Refuse demonstrators of another task, or for a recipe that has no use for them."""
    expect(Demonstrators, demonstrators=demonstrators)
    if demonstrators.info["task"] != task_name:
        raise RciError(
            f"these demonstrators were trained on {demonstrators.info['task']!r}, but episodes of {task_name!r} are to "
            "be recorded."
        )
    if not needs_demonstrators(task_name, recipe):
        raise RciError(f"the recipe {recipe!r} of {task_name!r} needs no demonstrators; {_users(task_name)}.")


def split_shares(shares: Mapping[str, float], learned: Collection[str]) -> dict[str, float]:
    """A recipe with its share of PPO split evenly over the learned behaviours."""
    split: dict[str, float] = {}
    for behaviour, share in shares.items():
        names = learned if behaviour == PPO else [behaviour]
        split |= dict.fromkeys(names, share / len(names))
    return split


def _behaviours(demonstrators: Demonstrators | None) -> dict[str, BehaviourPolicy]:
    if demonstrators is None:
        return {}
    from rci.collection.demonstrators import behaviours  # which loads JAX, and not every recipe needs it

    return behaviours(demonstrators)


def _users(task_name: str) -> str:
    names = [name for name, shares in get(task_name).recipes.items() if PPO in shares]
    return f"those that do are {', '.join(names)}" if names else "no recipe of this task does"


def _second_half(progress: Callable[[float], None], share: float) -> None:
    progress((1 + share) / 2)
