"""The numbers of the report: one row per table line, and the sentence at the top."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from rci.data.record import Array
from rci.data.types import StepCosts
from rci.reporting.figures.palette import Look, looks
from rci.reporting.numbers import tightness
from rci.reporting.run.contents import ChannelResult, Contrast, MethodResult, ReportInput

BASELINES = ("reward-only", "sparse", "uniform", "hazard", "oracle")


IDLE = 0.05  # of reward-only's return: who keeps no more hardly earns more than random actions


class ChannelRow(NamedTuple):
    """One kind of danger under one method at one budget, over its seeds."""

    channel: str
    asked: str
    threshold: float
    multiplier: float | None
    violation_rate: float
    violation_low: float
    violation_high: float
    budget_kept: str


class ResultRow(NamedTuple):
    """One method at one budget. Errors are standard errors over seeds, None where there is one seed only."""

    method: str
    budget: float  # an allowed share of episodes; infinite for none, nan for a percentile and for budgets of channels
    asked: str  # the budget in the user's words
    threshold: float | None  # what the cost critic was compared with
    seeds: int
    episodes: int
    violation_rate: float
    violation_low: float
    violation_high: float
    budget_kept: str  # by every seed's policy, in every channel: yes, no, undecided; empty where no share was asked for
    mean_return: float
    return_error: float | None
    return_until_violation: float
    until_violation_error: float | None
    multiplier: float | None
    seed_violation_rates: tuple[float, ...]
    seed_returns: tuple[float, ...]
    contrast: Contrast | None
    channels: tuple[ChannelRow, ...] = ()
    possible: float | None = None
    share_of_way: float | None = None
    return_kept: float | None = None  # share of reward-only's return, counted from that of random actions
    idle: bool = False  # earns hardly more than random actions: safe because it does nothing


class CostRow(NamedTuple):
    """One set of step costs: do they sum to the episodic costs, and how good was the model behind them."""

    method: str
    return_equivalent: bool
    largest_gap: float
    negative_share: float
    first_step: float | None  # mean cost of the first step of a stopped episode; None where none was stopped
    held_out_accuracy: float | None
    calibration_error: float | None
    quality: float | None
    epochs: float | None


class SourceRow(NamedTuple):
    """The episodes that one behaviour recorded."""

    source: str
    episodes: int
    stopped_share: float
    mean_length: float
    mean_return: float


class DatasetFacts(NamedTuple):
    """The dataset in a few numbers."""

    episodes: int
    steps: int
    kept_steps: int
    stopped: int
    stopped_share: float
    mean_return: float
    mean_length: float


def method_looks(report: ReportInput) -> dict[str, Look]:
    """The look of every method of the report, in the order in which they are shown."""
    return looks({*report.costs, *(result.method for result in report.results)})


def result_rows(report: ReportInput) -> list[ResultRow]:
    """The results, methods in their fixed order and budgets from tight to loose."""
    order = list(method_looks(report))
    return sorted(
        held_against_idling([result_row(result) for result in report.results], random_return(report)),
        key=lambda row: (
            order.index(row.method),
            tightness(row.asked if math.isnan(row.budget) else row.budget),
        ),
    )


def random_return(report: ReportInput) -> float | None:
    """What random actions earned in the recording; None where there are none."""
    return next((row.mean_return for row in source_rows(report) if row.source == "random"), None)


def held_against_idling(rows: Sequence[ResultRow], floor: float | None) -> list[ResultRow]:
    """With what is left of reward-only's return, above what random actions earn (0 where that is not known)."""
    least = floor or 0.0
    blind = next((row.mean_return for row in rows if row.method == "reward-only"), -math.inf)
    if blind <= least:  # nobody to compare with
        return list(rows)
    kept = [(row.mean_return - least) / (blind - least) for row in rows]
    return [
        row._replace(return_kept=share, idle=floor is not None and share <= IDLE)
        for row, share in zip(rows, kept)
    ]


def cost_rows(report: ReportInput) -> list[CostRow]:
    """The step costs, methods in their fixed order."""
    return [_cost_row(name, report.costs[name]) for name in method_looks(report) if name in report.costs]


def dataset_facts(report: ReportInput) -> DatasetFacts:
    """What was recorded and how much of it was stopped."""
    episodes, labels = report.episodes, report.labels
    return DatasetFacts(
        episodes=len(episodes),
        steps=int(episodes.lengths.sum()),
        kept_steps=int(labels.kept_lengths.sum()),
        stopped=int(labels.stopped.sum()),
        stopped_share=float(labels.stopped.mean()),
        mean_return=float(recorded_returns(report).mean()),
        mean_length=float(episodes.lengths.mean()),
    )


def source_rows(report: ReportInput) -> list[SourceRow]:
    """The dataset by the behaviour that recorded it; sources without an episode are left out."""
    source = np.asarray(report.episodes.source)
    returns = recorded_returns(report)
    rows = []
    for i in np.unique(source).tolist():
        own = source == i
        rows.append(
            SourceRow(
                source=report.episodes.sources[i] if report.episodes.sources else "all episodes",
                episodes=int(own.sum()),
                stopped_share=float(report.labels.stopped[own].mean()),
                mean_length=float(report.episodes.lengths[own].mean()),
                mean_return=float(returns[own].mean()),
            )
        )
    return rows


def recorded_returns(report: ReportInput) -> Array:
    """The return of each recorded episode, stops ignored."""
    return np.add.reduceat(report.episodes.reward.astype(np.float64), report.episodes.step_offset[:-1])


def main_method(names: Iterable[str]) -> str | None:
    """The method that the report is about: rci, or else the first by name other than the baselines."""
    names = set(names)
    if "rci" in names:
        return "rci"
    return min(names - set(BASELINES), default=None)


def result_row(result: MethodResult) -> ResultRow:
    """The numbers of one method at one budget."""
    violated = np.concatenate([scores.violated for scores in result.scores])
    returns = tuple(scores.mean_return for scores in result.scores)
    until = tuple(scores.mean_return_until_stop for scores in result.scores)
    low, high = result.violation_interval
    budget = math.nan if result.budget is None else float(result.budget)
    channels = tuple(_channel_row(channel) for channel in result.channels)
    if channels:
        limited = [row for row, own in zip(channels, result.channels) if own.budget != math.inf]
        verdicts = {row.budget_kept for row in limited}
        # A percentile has no verdict, and without one for every limited channel there is none for all.
        verdict = next((word for word in ("no", "", "undecided", "yes") if word in verdicts), "")
    else:
        verdict = _verdict(budget, result.seed_intervals or (result.violation_interval,))
    return ResultRow(
        method=result.method,
        budget=budget,
        asked="none" if math.isinf(budget) else result.asked or f"{budget:.3g}",
        threshold=result.threshold,
        seeds=len(result.scores),
        episodes=len(violated),
        violation_rate=float(violated.mean()),
        violation_low=float(low),
        violation_high=float(high),
        budget_kept=verdict,
        mean_return=float(np.mean(returns)),
        return_error=_standard_error(returns),
        return_until_violation=float(np.mean(until)),
        until_violation_error=_standard_error(until),
        multiplier=float(np.mean(result.multipliers)) if result.multipliers else None,
        seed_violation_rates=tuple(scores.violation_rate for scores in result.scores),
        seed_returns=returns,
        contrast=result.contrast,
        channels=channels,
        possible=result.possible,
        share_of_way=result.share_of_way,
    )


def _verdict(budget: float | None, seeds: Sequence[tuple[float, float]]) -> str:
    """Whether a share was kept, from the interval of every seed's policy; nothing where no share was asked for."""
    if budget is None or not math.isfinite(budget):
        return ""
    if all(high <= budget for _, high in seeds):
        return "yes"
    return "no" if all(low > budget for low, _ in seeds) else "undecided"


def _channel_row(result: ChannelResult) -> ChannelRow:
    return ChannelRow(
        channel=result.channel,
        asked="none" if result.budget == math.inf else result.asked,
        threshold=result.threshold,
        multiplier=float(np.mean(result.multipliers)) if result.multipliers else None,
        violation_rate=float(np.mean(result.violation_rates)),
        violation_low=result.violation_interval[0],
        violation_high=result.violation_interval[1],
        budget_kept=_verdict(result.budget, result.seed_intervals),
    )


def _cost_row(name: str, costs: StepCosts) -> CostRow:
    return CostRow(
        method=name,
        return_equivalent=bool(costs.return_equivalent),
        largest_gap=float(np.abs(costs.sums() - costs.episodic_cost).max()),
        negative_share=float((costs.cost < 0).mean()),
        first_step=first_step_share(costs),
        held_out_accuracy=costs.figure("held_out_accuracy"),
        calibration_error=costs.figure("held_out_calibration_error"),
        quality=costs.figure("quality"),
        epochs=costs.figure("epochs"),
    )


def first_step_share(costs: StepCosts) -> float | None:
    """How much of the cost of a stopped episode lies on its first step, on average."""
    total = costs.episodic_cost.reshape(len(costs.lengths), -1).sum(axis=1)
    stopped = total > 0
    if not stopped.any():
        return None
    first = costs.cost[np.cumsum(costs.lengths) - costs.lengths].reshape(len(total), -1).sum(axis=1)
    return float(np.mean(first[stopped] / total[stopped]))


def _standard_error(values: tuple[float, ...]) -> float | None:
    return None if len(values) == 1 else float(np.std(values, ddof=1) / math.sqrt(len(values)))
