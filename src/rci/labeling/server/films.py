"""Which film of an episode a page shows: pictures if there are any, else what its task draws, else plain signals."""

from __future__ import annotations

from rci.data.errors import RciError
from rci.data.types import Episodes
from rci.labeling.server.image_files import PNG, is_picture, picture_of
from rci.labeling.server.pictures import Pictures
from rci.tasks.base import Task
from rci.tasks.film import Film
from rci.tasks.signal_film import SignalPlan, plan_signals, signal_film


def film_of(
    episodes: Episodes,
    i: int,
    task: Task | None,
    pictures: Pictures | None,
    plan: SignalPlan | None = None,
) -> Film:
    """The film of episode i.

    task: who draws it. It need not be the task that recorded the episodes: a road is drawn with any number of cars.
    plan: how signals are drawn, beside pictures or alone.
    """
    episode = episodes[i]
    facts, arrays = (plan.facts, plan.arrays(episode)) if plan is not None else ({}, {})
    if pictures is not None:
        width, height = pictures.size(i)
        return Film(
            "pictures", {"count": pictures.count(i), "width": width, "height": height, **facts}, arrays
        )
    if is_picture(episodes.obs):
        height, width = episodes.obs.shape[1:3]
        return Film(
            "pictures", {"count": len(episode.obs), "width": width, "height": height, **facts}, arrays
        )
    if task is not None and task.film is not None:
        return task.film(episode.obs)
    return signal_film(episode, plan or plan_signals(episodes))


def signals_of(episodes: Episodes, task: Task | None) -> SignalPlan | None:
    """Which signals are drawn, alone or beside a camera; None for the episodes of a task, which draws its own film."""
    if is_picture(episodes.obs):
        return plan_signals(episodes, ("action",))
    return None if task is not None and task.film is not None else plan_signals(episodes)


def picture_at(episodes: Episodes, i: int, index: int, pictures: Pictures | None) -> tuple[bytes, str]:
    """Picture `index` of episode i and its media type, for films of kind "pictures"."""
    if pictures is not None:
        return pictures.picture(i, index)
    obs = episodes[i].obs
    if not is_picture(episodes.obs):
        raise RciError("these episodes have no pictures.")
    if not 0 <= index < len(obs):
        raise RciError(f"episode {i} has the pictures 0 to {len(obs) - 1}, got {index}.")
    return picture_of(obs[index]), PNG
