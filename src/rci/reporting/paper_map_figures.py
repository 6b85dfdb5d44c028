"""Maps of the paper's experiments: who wins for how many labels and updates, and redistributors by learners."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from rci.data.record import Array
from rci.reporting.palette import HEAT, INK, SIGNED, sheet
from rci.reporting.paper_bar_figures import percent_tick
from rci.reporting.paper_contents import MATCHED_SHARE, Frontier, Outcome, Setting, matched_ratio
from rci.reporting.summary import number, percent

METHOD, REWARD_ONLY = "rci", "reward-only"
RIVALS = ("sparse", "hazard", "traces", "uniform")  # first; others behind, by name
FURTHEST = 3.0  # doublings at which colours end
UNKNOWN = "#eceef1"


def when_it_pays(frontiers: Sequence[Frontier]) -> Figure:
    """Violation rate of rci at the matched return divided by that of another method, by labels and updates."""
    tasks, rivals = pays_panels(frontiers)
    found = {(one.setting, one.method): one for one in frontiers}
    labelled = {
        task: sorted({f.setting.labelled for f in frontiers if f.setting.task == task}) for task in tasks
    }
    updates = {
        task: sorted({f.setting.updates for f in frontiers if f.setting.task == task}) for task in tasks
    }
    rows, columns = max(map(len, labelled.values())), max(map(len, updates.values()))
    figure = sheet(
        len(tasks) * (0.75 + 0.36 * rows) + 0.2, width=len(rivals) * max(0.62 * columns + 0.3, 2.0) + 1.3
    )
    panels = figure.subplots(len(tasks), len(rivals), squeeze=False)
    shades = Normalize(-FURTHEST, FURTHEST, clip=True)
    for line, task in zip(panels, tasks):
        base = [f.setting for f in frontiers if f.setting.task == task]
        for axes, rival in zip(line, rivals):
            ratios = [
                [_ratio(found, base, rival, count, steps) for steps in updates[task]]
                for count in labelled[task]
            ]
            values = np.array([[_doublings(ratio) for ratio in row] for row in ratios])
            texts = [[_times(ratio) for ratio in row] for row in ratios]
            image = _heatmap(axes, values, texts, SIGNED, shades)
            axes.set_xticks(range(len(updates[task])), [_thousands(n) for n in updates[task]])
            axes.set_yticks(range(len(labelled[task])), [f"{n:,}" for n in labelled[task]])
            axes.set(title=f"{task}: {METHOD} / {rival}", xlabel="updates")
        line[0].set_ylabel("labelled episodes")
    bar = figure.colorbar(image, ax=panels, shrink=0.8, aspect=25, pad=0.02)
    ticks = [-3, -2, -1, 0, 1, 2, 3]
    bar.set_ticks(ticks, labels=["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    bar.outline.set_visible(False)
    bar.set_label("ratio of violation rates")
    return figure


def pays_panels(frontiers: Sequence[Frontier]) -> tuple[list[str], list[str]]:
    """The tasks, and the methods that rci is held against."""
    tasks = list(dict.fromkeys(one.setting.task for one in frontiers))
    others = {one.method for one in frontiers} - {METHOD, REWARD_ONLY}
    return tasks, [name for name in RIVALS if name in others] + sorted(others - set(RIVALS))


def grid(outcomes: Sequence[Outcome]) -> Figure:
    """Violation rate, as colour, and return of every redistributor with every learner; a panel for each task."""
    outcomes = [one for one in outcomes if one.method != REWARD_ONLY]
    tasks = list(dict.fromkeys(one.setting.task for one in outcomes))
    learners = list(dict.fromkeys(one.setting.learner for one in outcomes))
    methods = list(dict.fromkeys(one.method for one in outcomes))
    found = {(one.setting.task, one.method, one.setting.learner): one for one in outcomes}
    figure = sheet(0.5 + len(tasks) * (0.4 + 0.4 * len(methods)), width=max(0.9 * len(learners) + 1.9, 4.2))
    panels = figure.subplots(len(tasks), 1, sharex=True, squeeze=False)[:, 0]
    shades = Normalize(0.0, max(max(one.violation.mean for one in outcomes), 0.01))
    for axes, task in zip(panels, tasks):
        cells = [[found.get((task, method, learner)) for learner in learners] for method in methods]
        values = np.array([[math.nan if one is None else one.violation.mean for one in row] for row in cells])
        texts = [["–" if one is None else _cell(one) for one in row] for row in cells]
        image = _heatmap(axes, values, texts, HEAT, shades)
        axes.set_yticks(range(len(methods)), methods)
        axes.set_title(task)
    panels[-1].set_xticks(range(len(learners)), [name.replace("-", "-\n", 1) for name in learners])
    bar = figure.colorbar(image, ax=panels, shrink=0.9, aspect=20 * len(tasks), pad=0.02, format=percent_tick)
    bar.outline.set_visible(False)
    bar.set_label("violation rate")
    return figure


def _cell(outcome: Outcome) -> str:
    return f"{percent(outcome.violation.mean)}\n{number(outcome.mean_return.mean)}"


def _ratio(
    found: dict[tuple[Setting, str], Frontier],
    base: Sequence[Setting],
    rival: str,
    labelled: int,
    updates: int,
) -> float | None:
    """The ratio in one cell; None where one of the two is missing."""
    setting = base[0]._replace(labelled=labelled, updates=updates)
    ours, theirs = found.get((setting, METHOD)), found.get((setting, rival))
    return None if ours is None or theirs is None else matched_ratio(ours, theirs, MATCHED_SHARE)


def _times(ratio: float | None) -> str:
    """A ratio in the two digits that a cell has room for."""
    if ratio is None:
        return "–"
    return (
        f"×{number(ratio)}"
        if ratio == 0.0 or math.isinf(ratio)
        else f"×{ratio:.{1 if ratio >= 10.0 else 2}f}"
    )


def _doublings(ratio: float | None) -> float:
    """The logarithm of a ratio to the base 2, at most so far that colours can tell."""
    if ratio is None:
        return math.nan
    if ratio == 0.0 or math.isinf(ratio):
        return math.copysign(FURTHEST, ratio - 1.0)
    return min(max(math.log2(ratio), -FURTHEST), FURTHEST)


def _heatmap(
    axes: Axes, values: Array, texts: Sequence[Sequence[str]], colours: Colormap, shades: Normalize
) -> AxesImage:
    """Cells with their numbers in them, dark on light and light on dark; what is not known is grey."""
    axes.set_facecolor(UNKNOWN)
    image = axes.imshow(np.ma.masked_invalid(values), cmap=colours, norm=shades, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        shade = (1.0, 1.0, 1.0) if math.isnan(value) else colours(shades(value))[:3]
        dark = float(np.dot(shade, (0.299, 0.587, 0.114))) < 0.5
        axes.text(
            column, row, texts[row][column], ha="center", va="center", fontsize=7.5, color="white" if dark else INK
        )  # fmt: skip
    edges = [np.arange(n + 1) - 0.5 for n in values.shape]
    axes.hlines(edges[0], -0.5, values.shape[1] - 0.5, color="white", linewidth=1.5)
    axes.vlines(edges[1], -0.5, values.shape[0] - 0.5, color="white", linewidth=1.5)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return image


def _thousands(count: int) -> str:
    return f"{count // 1000}k" if count >= 1000 and count % 1000 == 0 else f"{count:,}"
