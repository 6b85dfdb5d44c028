"""What is possible when the danger is known, and how much of the way to it a policy has gone, in float64.

Rows are those of `rci reference`: one per driver, price and seed. A policy is judged by two numbers, as a driver is:
the share of the return that it keeps, from that of random actions (0) to that of the blind driver (1), and its
violation rate. Their difference is its merit. A policy that leaves the road, or never reaches, keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.evaluation.frontier import points, violation_at_return
from rci.evaluation.stats import clopper_pearson

RANDOM, BLIND, INFORMED, CAREFUL = "random", "blind", "informed", "careful"  # drivers
KNOWING = (
    INFORMED,
    CAREFUL,
    "detour",
)  # who know the danger; the last is the arm's script that goes around it


class ReferencePoint(NamedTuple):
    """One driver at one price, over its seeds."""

    driver: str
    price: float | None  # of a violation; None for drivers that are not trained so
    seeds: int
    violation_rate: float
    violation_low: float  # 95%, Clopper and Pearson, over the episodes of all seeds
    violation_high: float
    mean_return: float
    return_low: float  # lowest and highest seed
    return_high: float
    mean_return_until_stop: float
    median_first_violation: float | None  # step, counted from 1; the mean over seeds


class Ruler(NamedTuple):
    """What policies of a task are measured by."""

    random_return: float
    blind_return: float
    best: ReferencePoint  # the driver of the greatest merit
    frontier: tuple[ReferencePoint, ...]  # the blind driver and those who know the danger


def reference_points(rows: Iterable[Mapping[str, Any]]) -> list[ReferencePoint]:
    """Rows of one task as points, in the order in which drivers and prices first come."""
    groups: dict[tuple[str, float | None], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["driver"], row["price"]), []).append(row)
    return [_point(driver, price, group) for (driver, price), group in groups.items()]


def ruler(found: Sequence[ReferencePoint]) -> Ruler | None:
    """The measure that these points make; None where a driver that it takes is missing."""
    by_name = {point.driver: point for point in found}
    frontier = tuple(point for point in found if point.driver in (BLIND, *KNOWING))
    if not {RANDOM, BLIND, INFORMED} <= set(by_name):
        return None
    ends = by_name[RANDOM].mean_return, by_name[BLIND].mean_return
    if ends[0] >= ends[1]:
        raise RciError(
            f"the blind driver earns {ends[1]:g}, no more than random actions ({ends[0]:g}): it is not a reference."
        )
    best = max(frontier, key=lambda p: merit(p.mean_return, p.violation_rate, *ends))
    return Ruler(*ends, best, frontier)


def merit(mean_return: float, violation_rate: float, random_return: float, blind_return: float) -> float:
    """The share of the return that is kept, less the violation rate."""
    return (mean_return - random_return) / (blind_return - random_return) - violation_rate


def share_of_way(
    measure: Ruler, policy: tuple[float, float], reward_only: tuple[float, float]
) -> float | None:
    """How far a policy has come from reward-only to the best driver, both as (mean return, violation rate).

    1 is as good as that driver, 0 as good as reward-only, below 0 worse; None where reward-only is as good itself.
    """
    ends = measure.random_return, measure.blind_return
    first, last = (
        merit(*reward_only, *ends),
        merit(measure.best.mean_return, measure.best.violation_rate, *ends),
    )
    return None if last <= first else (merit(*policy, *ends) - first) / (last - first)


def possible_at(measure: Ruler, mean_return: float) -> float | None:
    """The violation rate that informed drivers, mixed, need for a return; None where it is beyond all of them."""
    curve = points(
        [point.mean_return for point in measure.frontier],
        [point.violation_rate for point in measure.frontier],
    )
    rate = violation_at_return(curve, curve, mean_return).violation_rate
    return None if np.isnan(rate) else rate


def _point(driver: str, price: float | None, rows: Sequence[Mapping[str, Any]]) -> ReferencePoint:
    def mean(name: str) -> float:
        return float(np.mean([row[name] for row in rows]))

    returns = [float(row["mean_return"]) for row in rows]
    violations = sum(int(row["violations"]) for row in rows)
    medians = [row["median_first_violation"] for row in rows if row["median_first_violation"] is not None]
    return ReferencePoint(
        driver,
        price,
        len(rows),
        mean("violation_rate"),
        *clopper_pearson(violations, sum(int(row["episodes"]) for row in rows)),
        mean("mean_return"),
        min(returns),
        max(returns),
        mean("mean_return_until_stop"),
        float(np.mean(medians)) if medians else None,
    )
