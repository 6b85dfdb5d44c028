"""Labelers: a task's rule, any callable, or stop indices that somebody else decided on."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rci.data.errors import RciError
from rci.data.record import expect
from rci.data.types import Episode, Episodes, Labels, first_true
from rci.labeling.people.tables import MISSING, grade, is_empty, read_rows, whole_number
from rci.tasks import get
from rci.tasks.base import check_observations

EMPTY_FILE = "where nobody pressed STOP, it still has the line `episode,stop_index`."
Answer = (
    int | tuple[int, float] | None
)  # where an episode was stopped, perhaps with how bad it was; None: nowhere
Labeler = str | Callable[[Episode], Answer] | Sequence[Answer] | Mapping[int, Answer]


def label(episodes: Episodes, labeler: Labeler, severity: ArrayLike | None = None) -> Labels:
    """Ask `labeler` for the first unsafe transition of each episode.

    labeler: the name of a task, whose rule is then applied; a callable(episode) -> stop index or None; a sequence of
    stop indices, one per episode, with -1 or None where nobody pressed STOP; or a mapping from episode to stop index.
    Instead of a stop index, (stop index, severity) grades the stop.
    severity: cost of each stop in (0, 1], 1 if not given. A task with several kinds of danger says which of them
    stopped the episode: one column of costs each; a single severity grades them all.
    """
    expect(Episodes, episodes=episodes)
    if isinstance(labeler, Mapping):
        unknown = [i for i in labeler if i not in range(len(episodes))]
        if unknown:
            raise RciError(f"there is no episode {unknown[0]!r}: they are numbered 0 to {len(episodes) - 1}.")
        labeler = [labeler.get(i) for i in range(len(episodes))]
    if isinstance(labeler, str):
        return rule_labels(episodes, labeler, severity)
    if callable(labeler):
        answers: Sequence[Answer] = [labeler(episode) for episode in episodes]
    else:
        answers = labeler
    if len(answers) != len(episodes):
        raise RciError(f"there are {len(episodes)} episodes, but {len(answers)} stop indices.")
    if any(isinstance(answer, tuple) for answer in answers):
        if severity is not None:
            raise RciError("severity is given twice: with the stops and as an argument.")
        severity = [_grade(answer, i) for i, answer in enumerate(answers)]
        answers = [answer[0] if isinstance(answer, tuple) else answer for answer in answers]
    stops = [_stop_index(answer, i) for i, answer in enumerate(answers)]
    return Labels.for_episodes(episodes, np.array(stops, np.int64), severity)


def rule_labels(episodes: Episodes, task_name: str, severity: ArrayLike | None = None) -> Labels:
    """Stop at the first transition after which the task's rule calls the observation unsafe, and say why."""
    task = get(task_name)
    check_observations(task, episodes)
    after = episodes.obs[episodes.next_rows]
    stop = first_true(task.unsafe(after), episodes.lengths)
    if not task.channels:
        return Labels.for_episodes(episodes, stop, severity)
    # A row per episode: what was seen after its stop, or, where there is none, after its first step, which is safe.
    seen = after[episodes.step_offset[:-1] + np.maximum(stop, 0)]
    fired = np.stack([rule(seen) for rule in task.channels.values()], axis=-1).astype(np.float64)
    graded = np.asarray(1.0 if severity is None else severity, np.float64)
    if graded.shape not in ((), stop.shape, fired.shape):
        raise RciError(
            f"severity must be one number, or have shape {stop.shape} or {fired.shape}, got {graded.shape}."
        )
    graded = graded[:, None] if graded.ndim == 1 else graded
    return Labels.for_episodes(episodes, stop, fired * graded, tuple(task.channels))


def read_stops(path: str | Path, episodes: int) -> list[Answer]:
    """Stop indices from a CSV or JSONL file with the columns `episode` and `stop_index`, and perhaps `severity`.

    Episodes that the file does not name were not stopped. An empty stop index, null or -1 say so too. A severity
    that is missing or empty is 1.
    """
    stops: list[Answer] = [-1] * episodes
    named: set[int] = set()
    for line, row in read_rows(Path(path), "stop indices", EMPTY_FILE):
        where = f"{path}, line {line}"
        if MISSING in (row.get("episode", MISSING), row.get("stop_index", MISSING)):
            got = ", ".join(str(name) for name, value in row.items() if value is not MISSING)
            raise RciError(f"{where}: needs `episode` and `stop_index`, got {got}.")
        episode = whole_number(row["episode"], f"{where}: episode")
        if not 0 <= episode < episodes:
            raise RciError(f"{where}: episode must be 0 to {episodes - 1}, got {episode}.")
        if episode in named:
            raise RciError(f"{where}: episode {episode} is labelled twice.")
        named.add(episode)
        if is_empty(row["stop_index"]):
            continue
        stop = whole_number(row["stop_index"], f"{where}: stop_index")
        graded = row.get("severity", MISSING)
        if graded is MISSING or is_empty(graded) or stop < 0:
            stops[episode] = stop
        else:
            stops[episode] = stop, grade(graded, f"{where}: severity")
    return stops


def _grade(answer: Answer, episode: int) -> float:
    """The severity that comes with an answer; 1 where none does."""
    if not isinstance(answer, tuple):
        return 1.0
    if len(answer) != 2:
        raise RciError(f"the label of episode {episode} must be (stop index, severity), got {answer!r}.")
    stop, severity = answer
    return 1.0 if stop is None or stop == -1 else grade(severity, f"the severity of episode {episode}")


def _stop_index(answer: Any, episode: int) -> int:
    try:
        if isinstance(answer, bool | np.bool_):  # an answer to another question: whether, not where
            raise TypeError
        return -1 if answer is None else operator.index(answer)
    except TypeError:
        raise RciError(
            f"the stop index of episode {episode} must be a whole number or None, got {answer!r}."
        ) from None
