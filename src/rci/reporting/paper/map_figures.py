"""A map of where redistribution pays: by labels, their quality, horizon and length of training."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from rci.data.record import Array
from rci.reporting.figures.palette import INK, SIGNED, sheet
from rci.reporting.numbers import number
from rci.reporting.paper.contents import MATCHED_SHARE, Frontier, Setting, matched_ratio, setting_names

REWARD_ONLY, SPARSE = "reward-only", "sparse"
FURTHEST = 3.0  # doublings at which colours end
UNKNOWN = "#eceef1"


def when_it_pays(frontiers: Sequence[Frontier]) -> Figure:
    """Violation rate at the matched return divided by that of sparse: a panel for each method, a line for each kind of
    logs, a column for each length of training."""
    kinds, methods, updates = pays_panels(frontiers)
    found = {(one.setting, one.method): one for one in frontiers}
    names = setting_names([kind._replace(updates=0) for kind in kinds])
    figure = sheet(0.9 + 0.36 * len(kinds), width=len(methods) * max(0.62 * len(updates) + 0.3, 2.2) + 2.4)
    panels = figure.subplots(1, len(methods), squeeze=False, sharey=True)[0]
    shades = Normalize(-FURTHEST, FURTHEST, clip=True)
    for axes, method in zip(panels, methods):
        ratios = [
            [_ratio(found, kind._replace(updates=steps), method) for steps in updates] for kind in kinds
        ]
        values = np.array([[_doublings(ratio) for ratio in row] for row in ratios])
        texts = [[_times(ratio) for ratio in row] for row in ratios]
        image = _heatmap(axes, values, texts, SIGNED, shades)
        axes.set_xticks(range(len(updates)), [_thousands(n) for n in updates])
        axes.set_yticks(range(len(kinds)), [names[kind._replace(updates=0)] or kind.task for kind in kinds])
        axes.set(title=f"{method} / {SPARSE}", xlabel="updates")
    bar = figure.colorbar(image, ax=panels, shrink=0.8, aspect=25, pad=0.02)
    ticks = [-3, -2, -1, 0, 1, 2, 3]
    bar.set_ticks(ticks, labels=["1/8", "1/4", "1/2", "1", "2", "4", "8"])
    bar.outline.set_visible(False)
    bar.set_label("ratio of violation rates")
    return figure


def pays_panels(frontiers: Sequence[Frontier]) -> tuple[list[Setting], list[str], list[int]]:
    """The kinds of logs (with no number of updates), the methods that sparse is held against, and the lengths."""
    kinds = list(dict.fromkeys(one.setting._replace(updates=0) for one in frontiers))
    methods = list(dict.fromkeys(one.method for one in frontiers if one.method not in (SPARSE, REWARD_ONLY)))
    return kinds, methods, sorted({one.setting.updates for one in frontiers})


def _ratio(found: dict[tuple[Setting, str], Frontier], setting: Setting, method: str) -> float | None:
    """The ratio in one cell; None where one of the two is missing."""
    ours, theirs = found.get((setting, method)), found.get((setting, SPARSE))
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
    """The logarithm of a ratio to the base 2, at most so far that colours can show it."""
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
