"""The pictures of a run's results, of what was recorded, and of where its cost went, with the words for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from rci.reporting.figures import episodes, outcomes, recorded
from rci.reporting.figures.picture import Picture, render
from rci.reporting.numbers import interval, number, percent
from rci.reporting.run.contents import ReportInput
from rci.reporting.run.rows import ResultRow, dataset_facts, main_method, method_looks, result_rows
from rci.reporting.run.task_pictures import danger_distance, named


def result_pictures(report: ReportInput) -> list[Picture]:
    """Violation rate and return of each method at each budget."""
    rows, style = result_rows(report), method_looks(report)
    if not rows:
        return []
    return [
        render(
            "violation-rates",
            "Bars of the violation rate by method: "
            f"{_listed(rows, lambda row: f'{percent(row.violation_rate)} ({interval(row)})')}.",
            "Share of evaluation episodes with at least one unsafe step. Lines: 95% Clopper-Pearson intervals; dots: "
            "single seeds; broken lines: the budget asked for.",
            partial(outcomes.violation_bars, rows, style),
        ),
        render(
            "returns",
            f"Dots of the mean return by method: {_listed(rows, lambda row: number(row.mean_return))}.",
            "Mean return over full episodes. Lines: standard error over seeds; small dots: single seeds; broken line: "
            "the return where nothing is constrained.",
            partial(outcomes.return_dots, rows, style),
        ),
    ]


def trade_off_pictures(report: ReportInput) -> list[Picture]:
    """What safety costs in return, and whether budgets come true."""
    rows, style = result_rows(report), method_looks(report)
    limited = [row for row in rows if math.isfinite(row.budget)]
    pictures = []
    if rows:
        points = [f"{named(row)} returns {number(row.mean_return)} at {_rate(row)}" for row in rows]
        possible = (
            " Broken line: what is possible when the danger is known; drivers trained online with the truth, from one "
            "who is blind to it to the most careful one."
        )
        picture = render(
            "trade-off",
            "Mean return against violation rate, one line per method over its budgets: "
            f"{'; '.join(points)}.{_known_danger(report)}",
            "Each point is a method at one budget. Across: the violation rate with its 95% interval; up: the mean "
            f"return with its standard error over seeds.{possible if report.reference else ''}",
            partial(outcomes.trade_off, rows, style, report.reference),
        )
        pictures.append(picture)
    if limited:
        picture = render(
            "budgets",
            f"Violation rate against the budget asked for: {_listed(limited, _rate)}.",
            "A method that keeps its budgets stays in the shaded half; one that uses them fully lies on the line.",
            partial(outcomes.budget_calibration, limited, style),
        )
        pictures.append(picture)
    if report.ladders:
        ranges = [
            f"{one.method} from {percent(one.bound[0])} to {percent(one.bound[-1])}" for one in report.ladders
        ]
        picture = render(
            "ladder",
            f"Chance of a violation over the threshold of a policy: {'; '.join(ranges)}.",
            "What the logs alone say of one training at every threshold (line: estimate; shade: up to its bound), "
            "and what the tests said later of those policies that were tested (points).",
            partial(outcomes.ladder, report.ladders, style),
        )
        pictures.append(picture)
    return pictures


def demonstrator_pictures(report: ReportInput) -> list[Picture]:
    """How the policies that recorded the data were trained."""
    if report.demonstrators is None:
        return []
    curve, checkpoints = report.demonstrators["curve"], report.demonstrators["checkpoints"]
    if not curve["steps"]:
        return []
    picture = render(
        "demonstrators",
        f"Training of the demonstrators over {curve['steps'][-1]:,.0f} environment steps: return from "
        f"{number(curve['return'][0])} to {number(curve['return'][-1])}, violation rate from "
        f"{percent(curve['violation_rate'][0])} to {percent(curve['violation_rate'][-1])}.",
        "Return and violation rate of the demonstrators while they were trained for reward alone. Dots: the "
        f"{len(checkpoints)} checkpoints that recorded the data.",
        partial(recorded.training_curve, report.demonstrators),
    )
    return [picture]


def episode_pictures(report: ReportInput) -> list[Picture]:
    """Where the cost went in three episodes."""
    method, danger = main_method(report.costs), danger_distance(report)
    rows = ["the sparse cost"] + ([f"the cost by {method}"] if method else []) + ["the distance to danger"]
    return [
        render(
            f"episode-{place}",
            f"Episode {episode} over its {report.labels.kept_lengths[episode]} kept steps, "
            f"{'stopped' if report.labels.stopped[episode] else 'never stopped'}: {', '.join(rows)}.",
            "",
            partial(episodes.redistributed_episode, report, episode, method, danger),
        )
        for place, episode in enumerate(episodes.sampled_episodes(report.labels), start=1)
    ]


def redistributor_pictures(report: ReportInput) -> list[Picture]:
    """How good the model behind the main method's costs is on episodes that it never saw."""
    method = main_method(report.costs)
    if method is None:
        return []
    info, look = report.costs[method].info, method_looks(report)[method]
    # With channels there is one curve of losses for each, and no room for all; calibration is that of all together.
    train, held_out = (info.get(name) or [] for name in ("train_loss", "held_out_loss"))
    calibration, pictures = episodes.pooled(info), []
    if calibration is not None:
        pairs = [f"{percent(row[0])} predicted and {percent(row[1])} observed" for row in calibration]
        picture = render(
            "calibration",
            f"Reliability plot of {method} on held-out episodes: {', '.join(pairs)}.",
            "Predictions from every prefix of the held-out episodes, grouped by what was predicted. On the line, "
            "predictions come true; larger dots hold more of them.",
            partial(episodes.reliability_plot, calibration, look),
        )
        pictures.append(picture)
    if train or held_out:
        losses = (("training loss", train), ("held-out loss", held_out))
        ranges = [f"{name} from {number(loss[0])} to {number(loss[-1])}" for name, loss in losses if loss]
        picture = render(
            "losses",
            f"Loss of {method} over epochs: {'; '.join(ranges)}.",
            "Loss on the episodes trained on and on those held out, which decide when to stop.",
            partial(episodes.loss_curves, train, held_out, look),
        )
        pictures.append(picture)
    return pictures


def dataset_pictures(report: ReportInput) -> list[Picture]:
    """Lengths and returns of the recorded episodes."""
    facts = dataset_facts(report)
    stopped = f"{facts.stopped} of {facts.episodes} episodes were stopped"
    return [
        render(
            "lengths",
            f"Histogram of kept episode lengths; {stopped}.",
            "Steps that remain of each episode once the stop has cut it.",
            partial(recorded.length_histogram, report),
        ),
        render(
            "recorded-returns",
            f"Histogram of returns of the recorded episodes, {number(facts.mean_return)} on average; {stopped}.",
            "Returns over the full recording, before any stop.",
            partial(recorded.return_histogram, report),
        ),
    ]


def _known_danger(report: ReportInput) -> str:
    """What drivers who know the danger do, for those who cannot see the figure."""
    drivers = "; ".join(
        f"{driver.driver} returns {number(driver.mean_return)} at {percent(driver.violation_rate)}"
        for driver in report.reference
    )
    return f" Drivers who know the danger: {drivers}." if drivers else ""


def _rate(row: ResultRow) -> str:
    return percent(row.violation_rate)


def _listed(rows: Sequence[ResultRow], value: Callable[[ResultRow], str]) -> str:
    return ", ".join(f"{named(row)} {value(row)}" for row in rows)
