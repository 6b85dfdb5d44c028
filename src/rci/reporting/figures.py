"""Every picture of the report, rendered, with the words that go with it."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import matplotlib.style
import numpy as np
from matplotlib.figure import Figure

from rci.data.types import Episodes
from rci.reporting import (
    critic_figures,
    dataset_figures,
    field_figures,
    film_figures,
    outcome_figures,
    redistribution_figures,
)
from rci.reporting.contents import ReportInput
from rci.reporting.map_figures import Maps, share_colours
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


@dataclass(frozen=True)
class Picture:
    """A rendered figure: its file name without ending, its description for those who do not see it, its caption.

    `section`: where it belongs, on a page that places figures by it.
    """

    name: str
    alt: str
    caption: str
    svg: bytes
    png: bytes
    figure: Figure = field(compare=False, repr=False)
    section: str = ""

    @property
    def pdf(self) -> bytes:
        """The figure for a paper. It is made when asked for: it takes as long as the others, and few need it."""
        pdf = io.BytesIO()
        with matplotlib.style.context(["default", STYLE]):
            # Without dates, the same figure gives the same bytes.
            dateless = {"CreationDate": None, "Creator": None, "Producer": None}
            self.figure.savefig(pdf, format="pdf", metadata=dateless)
        return pdf.getvalue()

    def files(self) -> dict[str, bytes]:
        """The picture in every format, by file name."""
        return {f"{self.name}.pdf": self.pdf, f"{self.name}.svg": self.svg, f"{self.name}.png": self.png}


def render(name: str, alt: str, caption: str, build: Callable[[], Figure]) -> Picture:
    """Draw a figure in the house style. The same figure gives the same bytes: no dates, no random identifiers."""
    with matplotlib.style.context(["default", STYLE]):
        figure = build()
        svg, png = io.BytesIO(), io.BytesIO()
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
        figure.set_layout_engine("none")  # the parts have found their places: no need to look again
        figure.savefig(png, format="png", dpi=PNG_DOTS_PER_INCH, metadata={"Software": None})
    return Picture(name, alt, caption, svg.getvalue(), png.getvalue(), figure)


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
                + "."
                + _known_danger(report),
                "Each point is a method at one budget. Across: the violation rate with its 95% interval; up: the mean "
                "return with its standard error over seeds."
                + (
                    " Broken line: what is possible when the danger is known; drivers trained online with the truth, "
                    "from one who is blind to it to the most careful one."
                    if report.reference
                    else ""
                ),
                partial(outcome_figures.trade_off, rows, style, report.reference),
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
    if report.ladders:
        pictures.append(
            render(
                "ladder",
                "Chance of a violation over the threshold of a policy: "
                + "; ".join(
                    f"{ladder.method} from {percent(ladder.bound[0])} to {percent(ladder.bound[-1])}"
                    for ladder in report.ladders
                )
                + ".",
                "What the logs alone say of one training at every threshold (line: estimate; shade: up to its bound), "
                "and what the tests said later of those policies that were tested (points).",
                partial(outcome_figures.ladder, report.ladders, style),
            )
        )
    return pictures


def _known_danger(report: ReportInput) -> str:
    """What drivers who know the danger do, for those who cannot see the figure."""
    told = "; ".join(
        f"{known.driver} returns {number(known.mean_return)} at {percent(known.violation_rate)}"
        for known in report.reference
    )
    return f" Drivers who know the danger: {told}." if told else ""


def task_views(report: ReportInput) -> tuple[Any, ...]:
    """The sides from which the paths of this report are drawn."""
    task = _task(report)
    return () if task is None else task.views


def path_pictures(report: ReportInput) -> list[Picture]:
    """Rollouts over the task's world, for each method at its tightest and its loosest budget."""
    views = task_views(report)
    if not views:
        return []
    pictures: list[Picture] = []
    for name, look in method_looks(report).items():
        own = [(row, recorded) for row, recorded in _rollouts(report) if row.method == name]
        for row, recorded in own[:1] + own[1:][-1:]:
            pictures.append(
                render(
                    f"paths-{len(pictures) + 1:02d}-{_slug(name)}",
                    f"Paths of {len(recorded)} rollouts of {_named(row)}, which violates in {_rate(row)} of its "
                    "evaluation episodes.",
                    "",
                    partial(outcome_figures.paths, views, row, recorded, look),
                )
            )
    return pictures


def space_pictures(report: ReportInput) -> list[Picture]:
    """The rollouts of each method at its tightest budget in three dimensions, where the task can draw them."""
    task = _task(report)
    if task is None or task.space is None:
        return []
    return [
        render(
            f"space-{place:02d}-{_slug(row.method)}",
            f"Paths of {len(recorded)} rollouts of {_named(row)} in three dimensions.",
            _named(row),
            partial(task.space, [episode.obs for episode in recorded]),
        )
        for place, (row, recorded) in enumerate(_tightest_rollouts(report), start=1)
    ]


def policy_film_pictures(report: ReportInput) -> list[Picture]:
    """The first rollout of each method at its tightest budget, as a film strip; all in one scale of time."""
    task = _task(report)
    if task is None or task.scene is None:
        return []
    first = [(row, recorded[0]) for row, recorded in _tightest_rollouts(report)]
    span = max((len(episode.reward) for _, episode in first), default=0)
    pictures: list[Picture] = []
    for row, episode in first:
        unsafe = np.append(False, np.asarray(task.unsafe(episode.obs[1:]), bool))
        film = film_figures.Film("", episode.obs, span, task.scene, unsafe, task.step_seconds)
        moments = np.flatnonzero(unsafe)
        end = f"unsafe at {film.clock(int(moments[0]))}" if len(moments) else "never unsafe"
        told = f"{_named(row).replace(' at', ',')}: return {number(float(episode.reward.sum()))}, {end}"
        pictures.append(
            render(
                f"rollout-{len(pictures) + 1:02d}-{_slug(row.method)}",
                f"Frames of one rollout with its rewards and its distance to danger. {told}.",
                "",
                partial(
                    film_figures.policy_film,
                    film._replace(title=told),
                    episode,
                    method_looks(report)[row.method],
                    task.distance(episode.obs[1:]),
                    _danger(task),
                ),
            )
        )
    return pictures


def film_pictures(report: ReportInput) -> list[Picture]:
    """The sampled episodes as film strips, with the step costs of every method under them."""
    task = _task(report)
    if task is None or task.scene is None:
        return []
    labels, seconds, picked = (
        report.labels,
        task.step_seconds,
        redistribution_figures.sampled_episodes(report.labels),
    )
    names = [name for name in method_looks(report) if name in report.costs]
    costs = {name: np.split(report.costs[name].total, report.costs[name].step_offset[1:-1]) for name in names}
    limit = film_figures.cost_limit([costs[name][episode] for name in names for episode in picked])
    pictures = []
    for place, episode in enumerate(picked, start=1):
        steps, stopped = int(labels.kept_lengths[episode]), bool(labels.stopped[episode])
        recorded = report.episodes.step_offset[episode] + np.arange(steps)
        film = film_figures.Film(
            title="",
            obs=report.episodes[episode].obs[: steps + 1],
            span=steps,
            scene=task.scene,
            unsafe=np.append(False, report.oracle.unsafe[recorded]),
            seconds=seconds,
            stop=steps if stopped else None,
        )
        end = f"stopped after {steps} steps" if stopped else f"never stopped, {steps} steps"
        title = f"Episode {episode}: {end}" + ("" if seconds is None else f", {film.clock(steps)}")
        sums = ", ".join(f"{name} sums to {film_figures.total(costs[name][episode])}" for name in names)
        pictures.append(
            render(
                f"film-{place}",
                f"Frames of an episode with its step costs and its distance to danger. {title}. {sums}.",
                "",
                partial(
                    film_figures.cost_film,
                    film._replace(title=title),
                    {name: costs[name][episode] for name in names},
                    method_looks(report),
                    limit,
                    report.oracle.distance[recorded],
                    _danger(task),
                ),
            )
        )
    return pictures


def critic_pictures(report: ReportInput) -> list[Picture]:
    """The cost critics over the task's world, as one figure."""
    task, order = _task(report), list(method_looks(report))
    if task is None or task.probe is None or not report.critic_maps:
        return []
    maps = sorted(report.critic_maps, key=lambda entry: order.index(entry.method))
    ranges = ", ".join(
        f"{entry.method}{f' for {entry.channel}' if entry.channel else ''} from "
        f"{number(float(entry.value.min()))} to {number(float(entry.value.max()))}"
        for entry in maps
    )
    probe = task.probe()
    return [
        render(
            "critics",
            f"Maps of the cost that the critic of each method expects: {ranges}.",
            "Darker means a higher expected cost. Inside the black line the state is truly unsafe."
            + (
                " Where no channel is named, the cost is the sum over all of them."
                if report.labels.channels
                else ""
            )
            + _colours(maps),
            partial(
                critic_figures.critic_maps,
                maps,
                probe,
                method_looks(report),
                np.asarray(task.distance(probe.obs)),
                _danger(task),
            ),
        )
    ]


def field_pictures(report: ReportInput) -> list[Picture]:
    """Where the policies push over the task's world, as one figure."""
    task, maps = _task(report), report.field_maps
    if task is None or task.probe is None or not maps:
        return []
    told = "; ".join(
        f"{entry.method}{'' if entry.budget == 'inf' else f' at budget {entry.budget}'}, values from "
        f"{number(float(entry.value.min()))} to {number(float(entry.value.max()))}"
        for entry in maps
    )
    probe = task.probe()
    return [
        render(
            "vector-fields",
            f"Arrows of the policies' actions over maps of what their critics expect: {told}.",
            "Arrows: where the action of the policy pushes, longer where it pushes harder, a dot where it does not. "
            "Colours: the expected return minus the multiplier times the expected cost; darker means more. "
            "Inside the black line the state is truly unsafe." + _colours(maps),
            partial(
                field_figures.vector_fields,
                maps,
                probe,
                method_looks(report),
                np.asarray(task.distance(probe.obs)),
                _danger(task),
            ),
        )
    ]


def demonstrator_pictures(report: ReportInput) -> list[Picture]:
    """How the policies that recorded the data were trained."""
    if report.demonstrators is None:
        return []
    curve, checkpoints = report.demonstrators["curve"], report.demonstrators["checkpoints"]
    if not curve["steps"]:
        return []
    return [
        render(
            "demonstrators",
            f"Training of the demonstrators over {curve['steps'][-1]:,.0f} environment steps: return from "
            f"{number(curve['return'][0])} to {number(curve['return'][-1])}, violation rate from "
            f"{percent(curve['violation_rate'][0])} to {percent(curve['violation_rate'][-1])}.",
            "Return and violation rate of the demonstrators while they were trained for reward alone. Dots: the "
            f"{len(checkpoints)} checkpoints that recorded the data.",
            partial(dataset_figures.training_curve, report.demonstrators),
        )
    ]


def episode_pictures(report: ReportInput) -> list[Picture]:
    """Where the cost went in three episodes."""
    method, task = main_method(report.costs), _task(report)
    rows = ["the sparse cost"] + ([f"the cost by {method}"] if method else []) + ["the distance to danger"]
    return [
        render(
            f"episode-{place}",
            f"Episode {episode} over its {report.labels.kept_lengths[episode]} kept steps, "
            f"{'stopped' if report.labels.stopped[episode] else 'never stopped'}: {', '.join(rows)}.",
            "",
            partial(redistribution_figures.redistributed_episode, report, episode, method, _danger(task)),
        )
        for place, episode in enumerate(redistribution_figures.sampled_episodes(report.labels), start=1)
    ]


def redistributor_pictures(report: ReportInput) -> list[Picture]:
    """How good the model behind the main method's costs is on episodes that it never saw."""
    method = main_method(report.costs)
    if method is None:
        return []
    info, look = report.costs[method].info, method_looks(report)[method]
    # With channels there is one curve of losses for each, and no room for all; calibration is that of all together.
    train, held_out = (info.get(k) or [] for k in ("train_loss", "held_out_loss"))
    table = redistribution_figures.pooled(info)
    calibration = [] if table is None else table.tolist()
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


def _task(report: ReportInput) -> Any:
    """The task of the report, None if it is a user's own."""
    from rci.tasks import TASKS

    return TASKS.get(report.task)


def _colours(maps: Maps) -> str:
    """A last sentence of the caption: how far the colours of several maps can be compared."""
    if len(maps) == 1:
        return ""
    if share_colours(maps):
        return " All maps share one range of colours."
    return " The critics differ so much in range that each has its own colours: compare shapes, not shades."


def _danger(task: Any) -> float:
    """The distance at and below which a state is unsafe."""
    return 0.0 if task is None else float(task.danger_distance)


def _rollouts(report: ReportInput) -> list[tuple[ResultRow, Episodes]]:
    """Rollouts in the order of the results; those of a user's own scores may be missing."""
    recorded = {
        (result.method, result_row(result).asked): result.rollouts
        for result in report.results
        if result.rollouts is not None
    }
    return [
        (row, recorded[row.method, row.asked])
        for row in result_rows(report)
        if (row.method, row.asked) in recorded
    ]


def _tightest_rollouts(report: ReportInput) -> list[tuple[ResultRow, Episodes]]:
    """The rollouts of each method at its tightest budget."""
    tightest: dict[str, tuple[ResultRow, Episodes]] = {}
    for row, recorded in _rollouts(report):
        tightest.setdefault(row.method, (row, recorded))
    return list(tightest.values())


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
