"""The reference of a task as reports and studies show it: read from its rows, and policies held against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from rci.data.record import fitting
from rci.evaluation.reference import Ruler, possible_at, reference_points, ruler, share_of_way
from rci.pipeline.results.rows import RESULTS, Row, read_rows
from rci.reporting.run.contents import KnownDanger

Pair = tuple[float, float]  # mean return and violation rate


def rows_file(task: str) -> Path:
    """Where the rows of a task's reference are kept, seen from the folder that one works in."""
    return RESULTS / f"reference-{task}.json"


def known_rows(file: Path) -> list[Row]:
    """The rows of a file that are about the task as it is; of those that differ in settings alone, the newest."""
    rows = [row for row in read_rows(file) if not row.get("world")]
    with fitting(str(file)):
        return list({(row["driver"], row["price"], row["seed"]): row for row in rows}.values())


def known_ruler(rows: Sequence[Row]) -> Ruler | None:
    """What policies of a task are measured by; None where nobody measured what is possible."""
    with fitting("the rows of the reference"):
        return ruler(reference_points(rows)) if rows else None


def known_rulers(tasks: Iterable[str]) -> dict[str, Ruler]:
    """Those of all tasks that have one in the folder that one works in."""
    found = {task: known_ruler(known_rows(rows_file(task))) for task in tasks}
    return {task: measure for task, measure in found.items() if measure is not None}


def known_points(measure: Ruler | None) -> tuple[KnownDanger, ...]:
    """The drivers of a ruler, from the one that violates most to the safest."""
    names = KnownDanger.__annotations__
    points = () if measure is None else sorted(measure.frontier, key=lambda point: -point.violation_rate)
    return tuple(KnownDanger(**{k: v for k, v in point._asdict().items() if k in names}) for point in points)


def shares(
    measure: Ruler | None, policy: Sequence[Pair], reward_only: Sequence[Pair]
) -> tuple[float | None, float | None]:
    """What is possible at a method's return, and its share of the way from reward-only; both over seeds."""
    if measure is None:
        return None, None
    own = _mean(policy)
    way = share_of_way(measure, own, _mean(reward_only)) if reward_only else None
    return possible_at(measure, own[0]), way


def _mean(pairs: Sequence[Pair]) -> Pair:
    gain, rate = np.mean(pairs, axis=0)
    return float(gain), float(rate)
