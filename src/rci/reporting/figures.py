"""Every picture of the report, rendered, with the words that go with it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import matplotlib.style
from matplotlib.figure import Figure

from rci.reporting import dataset_figures, outcome_figures, redistribution_figures
from rci.reporting.contents import ReportInput
from rci.reporting.palette import STYLE
from rci.reporting.summary import (
    ResultRow,
    dataset_facts,
    interval,
    main_method,
    method_looks,
    number,
    percent,
    result_row,
    result_rows,
)

PNG_DOTS_PER_INCH = 200


class Picture(NamedTuple):
    """A rendered figure: its file name without ending, its description for those who do not see it, its caption."""

    name: str
    alt: str
    caption: str
    svg: bytes
    png: bytes


def render(name: str, alt: str, caption: str, build: Callable[[], Figure]) -> Picture:
    """Draw a figure in the house style. The same figure gives the same bytes: no dates, no random identifiers."""
    with matplotlib.style.context(["default", STYLE]):
        figure = build()
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # the parts have found their places: no need to look again
        figure.savefig(png, format="png", dpi=PNG_DOTS_PER_INCH, metadata={"Software": None})
    return Picture(name, alt, caption, svg.getvalue(), png.getvalue())


def result_pictures(report: ReportInput) -> list[Picture]:
    """Violation rate and return of each method at each budget."""
    rows, style = result_rows(report), method_looks(report)
    if not rows:
        return []
    return [
        render(
            "violation-rates",
            f"Bars of the violation rate by method: {_listed(rows, _violations)}.",
            "Share of evaluation episodes with at least one unsafe step. Lines: 95% Clopper-Pearson intervals; dots: "
            "single seeds; broken lines: the budget asked for.",
            partial(outcome_figures.violation_bars, rows, style),
        ),
        render(
            "returns",
            f"Dots of the mean return by method: {_listed(rows, _return)}.",
            "Mean return over full episodes. Lines: standard error over seeds; small dots: single seeds; broken line: "
            "the return where nothing is constrained.",
            partial(outcome_figures.return_dots, rows, style),
        ),
    ]


def trade_off_pictures(report: ReportInput) -> list[Picture]:
    """What safety costs in return, and whether budgets come true."""
    rows, style = result_rows(report), method_looks(report)
    limited = [row for row in rows if math.isfinite(row.budget)]
    pictures = []
    if rows:
        pictures.append(
            render(
                "trade-off",
                "Mean return against violation rate, one line per method over its budgets: "
                + "; ".join(
                    f"{_named(row)} returns {number(row.mean_return)} at {_rate(row)}" for row in rows
                )
                + ".",
                "Each point is a method at one budget. Across: the violation rate with its 95% interval; up: the mean "
                "return with its standard error over seeds.",
                partial(outcome_figures.trade_off, rows, style),
            )
        )
    if limited:
        pictures.append(
            render(
                "budgets",
                f"Violation rate against the budget asked for: {_listed(limited, _rate)}.",
                "A method that keeps its budgets stays in the shaded half; one that uses them fully lies on the line.",
                partial(outcome_figures.budget_calibration, limited, style),
            )
        )
    return pictures


def path_pictures(report: ReportInput) -> list[Picture]:
    """Rollouts over the task's world, for each method at its tightest and its loosest budget."""
    from rci.tasks import TASKS

    task = TASKS.get(report.task)
    if task is None or task.draw is None or task.position is None:
        return []
    rollouts = {
        (result.method, result_row(result).asked): result.rollouts
        for result in report.results
        if result.rollouts is not None
    }
    rows = [row for row in result_rows(report) if (row.method, row.asked) in rollouts]
    pictures: list[Picture] = []
    for name, look in method_looks(report).items():
        own = [row for row in rows if row.method == name]
        for row in own[:1] + own[1:][-1:]:
            recorded = rollouts[row.method, row.asked]
            pictures.append(
                render(
                    f"paths-{len(pictures) + 1:02d}-{_slug(name)}",
                    f"Paths of {len(recorded)} rollouts of {_named(row)}, which violates in {_rate(row)} of its "
                    "evaluation episodes.",
                    "",
                    partial(outcome_figures.paths, task, row, recorded, look),
                )
            )
    return pictures


def episode_pictures(report: ReportInput) -> list[Picture]:
    """Where the cost went in three episodes."""
    method = main_method(report.costs)
    rows = ["the sparse cost"] + ([f"the cost by {method}"] if method else []) + ["the distance to danger"]
    return [
        render(
            f"episode-{place}",
            f"Episode {episode} over its {report.labels.kept_lengths[episode]} kept steps, "
            f"{'stopped' if report.labels.stopped[episode] else 'never stopped'}: {', '.join(rows)}.",
            "",
            partial(redistribution_figures.redistributed_episode, report, episode, method),
        )
        for place, episode in enumerate(redistribution_figures.sampled_episodes(report), start=1)
    ]


def redistributor_pictures(report: ReportInput) -> list[Picture]:
    """How good the model behind the main method's costs is on episodes that it never saw."""
    method = main_method(report.costs)
    if method is None:
        return []
    info, look = report.costs[method].info, method_looks(report)[method]
    calibration, train, held_out = (info.get(k) or [] for k in ("calibration", "train_loss", "held_out_loss"))
    pictures = []
    if calibration:
        pairs = ", ".join(
            f"{percent(row[0])} predicted and {percent(row[1])} observed" for row in calibration
        )
        pictures.append(
            render(
                "calibration",
                f"Reliability plot of {method} on held-out episodes: {pairs}.",
                "Predictions from every prefix of the held-out episodes, grouped by what was predicted. On the line, "
                "predictions come true; larger dots hold more of them.",
                partial(redistribution_figures.reliability_plot, calibration, look),
            )
        )
    if train or held_out:
        last = "; ".join(
            f"{name} from {number(loss[0])} to {number(loss[-1])}"
            for name, loss in (("training loss", train), ("held-out loss", held_out))
            if loss
        )
        pictures.append(
            render(
                "losses",
                f"Loss of {method} over epochs: {last}.",
                "Loss on the episodes trained on and on those held out, which decide when to stop.",
                partial(redistribution_figures.loss_curves, train, held_out, look),
            )
        )
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
            partial(dataset_figures.length_histogram, report),
        ),
        render(
            "recorded-returns",
            f"Histogram of returns of the recorded episodes, {number(facts.mean_return)} on average; {stopped}.",
            "Returns over the full recording, before any stop.",
            partial(dataset_figures.return_histogram, report),
        ),
    ]


def _named(row: ResultRow) -> str:
    return row.method if math.isinf(row.budget) else f"{row.method} at budget {row.asked}"


def _rate(row: ResultRow) -> str:
    return percent(row.violation_rate)


def _violations(row: ResultRow) -> str:
    return f"{percent(row.violation_rate)} ({interval(row)})"


def _return(row: ResultRow) -> str:
    return number(row.mean_return)


def _listed(rows: list[ResultRow], value: Callable[[ResultRow], str]) -> str:
    return ", ".join(f"{_named(row)} {value(row)}" for row in rows)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "method"
