"""Runs in three parts: to learn from, to choose by, and to judge what was chosen."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episodes, Labels
from rci.formats.tables.mapping import SINGLE

PARTS = ("fit", "selection", "held-out")
LEAST_RUNS = 8  # stopped ones, and safe ones: with fewer, a part has one or two of a kind


def runs_of(episodes: Episodes) -> Array:
    """[N]: which run each episode is of, numbered from 0; every episode is one, where no key says otherwise.

    A run that a recorder lost for a while is several episodes of one name.
    """
    named = run_key(episodes)
    if named is None:
        return np.arange(len(episodes))
    keys = [episodes.keys[name] for name in ("file", named) if name in episodes.keys]
    return np.unique(np.array(keys), axis=1, return_inverse=True)[1].ravel()


def run_key(episodes: Episodes) -> str | None:
    """The key that names the run of an episode, None if there is none.

    It has one of the usual names, or differs for most episodes: what many share is a robot or a driver.
    """
    for name, values in episodes.keys.items():
        if name not in ("file", "time") and (
            name.lower() in SINGLE["episode"] or 2 * len(set(values)) > len(episodes)
        ):
            return name
    return None


def split_runs(
    run: ArrayLike, stopped: ArrayLike, selection: float, held_out: float, seed: int
) -> dict[str, Array]:
    """The numbers of the episodes of each part, all episodes of a run in the same one.

    Runs in which somebody pressed STOP are dealt out apart from the others, so that every part has its share of both.
    """
    run, stopped = np.asarray(run), np.asarray(stopped, bool)
    runs = np.unique(run)
    ever_stopped = np.isin(runs, run[stopped])
    rng = np.random.default_rng([seed, len(runs)])
    dealt: dict[str, list[Array]] = {name: [] for name in PARTS}
    for kind in (True, False):
        mine = rng.permutation(runs[ever_stopped == kind])
        counts = [max(1, round(share * len(mine))) for share in (selection, held_out)]
        first, second = np.cumsum(counts)
        for name, part in zip(PARTS, (mine[second:], mine[:first], mine[first:second])):
            dealt[name].append(part)
    return {name: np.flatnonzero(np.isin(run, np.concatenate(parts))) for name, parts in dealt.items()}


def taken(episodes: Episodes, labels: Labels, chosen: Array) -> tuple[Episodes, Labels]:
    """Some episodes with their labels, as a dataset of their own."""
    part = episodes.take(chosen)
    return part, Labels(
        labels.stop_index[chosen], labels.cost[chosen], part.lengths, part.hash, labels.channels
    )


def judged_runs(
    episodes: Episodes, labels: Labels, part: str, selection: float, held_out: float, seed: int
) -> tuple[Episodes, Labels, Array]:
    """The logs that a policy is judged by on a part, and [N] which of them the trials begin as.

    Whatever is judged on the held-out runs may look at all; what chooses looks at no held-out run.
    """
    parts = split_runs(runs_of(episodes), labels.stopped, selection, held_out, seed)
    if part == PARTS[-1]:
        seen = np.arange(len(episodes))
    else:
        seen = np.sort(np.concatenate([parts["fit"], parts[part]]))
        episodes, labels = taken(episodes, labels, seen)
    return episodes, labels, np.isin(seen, parts[part])


def check_logs(episodes: Episodes, labels: Labels) -> list[str]:
    """Refuse logs from which nothing can be concluded; sentences about what is odd in logs that will do."""
    runs, stopped = runs_of(episodes), labels.stopped
    count = len(np.unique(runs))
    if count == 1:
        raise RciError(
            "these logs hold one run, and what may happen in others cannot be known from it; give all runs at once, or "
            "name the column that says which run a row is of (episode = 'run' in the mapping)."
        )
    if not stopped.any():
        raise RciError(
            f"none of the {count} runs was stopped, so the logs say nothing about danger; name the column with the "
            "stops (stop = 'estop' in the mapping), or label the runs with rci serve."
        )
    if stopped.all():
        raise RciError(
            f"every one of the {count} runs was stopped, so the logs show no safe behaviour to learn; add runs that "
            "nobody stopped, and see that the stop column is true in the row of a stop alone."
        )
    _refuse_constants(episodes)
    several = len(np.unique(runs[stopped])), len(np.setdiff1d(runs, runs[stopped]))
    if min(several) < LEAST_RUNS:
        raise RciError(
            f"the logs have {several[0]} stopped and {several[1]} safe runs, and at least {LEAST_RUNS} of each are "
            "needed, to learn from some and to judge by others; record more of the rarer kind."
        )
    return _constants(episodes)


def _refuse_constants(episodes: Episodes) -> None:
    if not np.issubdtype(episodes.action.dtype, np.floating):
        raise RciError(
            f"the actions are {episodes.action.dtype}, but policies choose among continuous ones; convert amounts to "
            "float32. Choices among a few actions are not supported."
        )
    if _still(episodes.obs).all():
        raise RciError(
            "the observations are the same in every row, so nothing can be told from them; name the columns that vary "
            "(obs = [...] in the mapping)."
        )
    if _still(episodes.action).all():
        raise RciError(
            "the actions never vary, so the logs show no choice that a policy could make; name the columns of what was "
            "commanded (action = [...] in the mapping), or record runs in which something else was done."
        )


def _constants(episodes: Episodes) -> list[str]:
    """A sentence about single numbers that never vary."""
    notes = []
    for what, where in (("obs", "signals"), ("action", "actions")):
        still = np.flatnonzero(_still(getattr(episodes, what)))
        if len(still):
            names = episodes.labels_of(what)  # type: ignore[arg-type]
            several = len(still) > 1
            notes.append(
                f"{', '.join(names[i] for i in still)} {'are' if several else 'is'} the same in every row: nothing is "
                f"learned of {'these' if several else 'this'} {where if several else where[:-1]}, and what happens "
                f"when {'they vary' if several else 'it varies'} is unknown; leave {'them' if several else 'it'} out "
                f"of {what} in the mapping."
            )
    return notes


def _still(rows: Array) -> Array:
    """[features]: whether a number is the same in every row."""
    flat = np.asarray(rows).reshape(len(rows), -1)
    still: Array = (flat == flat[0]).all(axis=0)
    return still
