"""Curves of the paper's experiments: budgets and what came of them, frontiers, violations over labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from rci.reporting.contents import KnownDanger
from rci.reporting.palette import FAINT, KNOWN, QUIET, ROUND, Look, sheet
from rci.reporting.paper_bar_figures import percent_tick
from rci.reporting.paper_contents import (
    MATCHED_SHARE,
    Frontier,
    Setting,
    budget_share,
    matched_at,
    setting_names,
)
from rci.reporting.summary import number

PANEL_WIDTH, PANEL_HEIGHT = 3.3, 2.9  # inches
PANELS_ABREAST = 3
LEGEND_COLUMNS = 5
REWARD_ONLY = "reward-only"
Looks = Mapping[str, Look]


def calibration(frontiers: Sequence[Frontier], style: Looks) -> Figure:
    """Realised violation rate against the budget asked for, one panel per setting; small marks are policies."""
    asked = [
        (
            one,
            [
                (share, p.violation_rate)
                for p in one.policies
                if (share := budget_share(p.budget)) is not None
            ],
        )
        for one in frontiers
    ]
    asked = [(one, pairs) for one, pairs in asked if pairs]
    figure, panels = _panels([one.setting for one, _ in asked])
    for setting, axes in panels.items():
        own = [(one.method, pairs) for one, pairs in asked if one.setting == setting]
        right = 1.06 * max(share for _, pairs in own for share, _ in pairs)
        top = 1.06 * max(right, *(rate for _, pairs in own for _, rate in pairs))
        axes.fill_between([0, right], [0, right], 0, color="#f1f3f6", linewidth=0, zorder=0)
        axes.plot([0, right], [0, right], color=FAINT, linewidth=1.0, zorder=1)
        axes.text(0.98 * right, 0.03 * top, "budget kept", color=QUIET, fontsize=7.5, ha="right")
        for method, pairs in own:
            look = style[method]
            shares = sorted({share for share, _ in pairs})
            means = [float(np.mean([rate for other, rate in pairs if other == share])) for share in shares]
            axes.plot(*zip(*pairs), look.marker, color=look.color, markersize=3.0, alpha=0.45, linewidth=0)
            _line(axes, shares, means, look)
        axes.set(xlim=(0.0, right), ylim=(-0.02 * top, top), xlabel="budget asked for")
        axes.xaxis.set_major_formatter(FuncFormatter(percent_tick))
        axes.yaxis.set_major_formatter(FuncFormatter(percent_tick))
        _tidy(axes)
    next(iter(panels.values())).set_ylabel("violation rate")
    _legend(figure, [one.method for one, _ in asked], style)
    return figure


def frontier(
    frontiers: Sequence[Frontier], style: Looks, references: Mapping[str, Sequence[KnownDanger]] | None = None
) -> Figure:
    """Return against violation rate: a curve for what each method reaches, a mark for each of its policies.

    references: what is possible when the danger is known, by task.
    """
    references = references or {}
    figure, panels = _panels([one.setting for one in frontiers])
    for setting, axes in panels.items():
        for one in (one for one in frontiers if one.setting == setting):
            look = style[one.method]
            rates, returns = [p.violation_rate for p in one.policies], [p.mean_return for p in one.policies]
            axes.plot(rates, returns, look.marker, color=look.color, markersize=2.8, alpha=0.35, linewidth=0)
            if one.method != REWARD_ONLY:
                axes.plot(
                    [rate for _, rate in one.curve],
                    [gain for gain, _ in one.curve],
                    color=look.color,
                    linewidth=1.6,
                    zorder=3,
                )
        if known := references.get(setting.task, ()):
            rates, returns = [one.violation_rate for one in known], [one.mean_return for one in known]
            axes.plot(
                rates, returns, KNOWN.marker, linestyle=(0, (4, 2)), color=KNOWN.color, markersize=7, zorder=5
            )
        axes.set_xlim(left=min(-0.01, axes.get_xlim()[0]))
        axes.set_xlabel("violation rate")
        axes.xaxis.set_major_formatter(FuncFormatter(percent_tick))
        _tidy(axes)
    next(iter(panels.values())).set_ylabel("mean return")
    marks = {}
    if any(one.method == REWARD_ONLY for one in frontiers):
        look = style[REWARD_ONLY]
        marks[REWARD_ONLY] = Line2D([], [], marker=look.marker, color=look.color, linestyle="", markersize=5)
    if any(setting.task in references for setting in panels):
        marks["danger known"] = Line2D(
            [], [], marker=KNOWN.marker, color=KNOWN.color, linestyle="", markersize=8
        )
    _legend(figure, [one.method for one in frontiers if one.method != REWARD_ONLY], style, marks)
    return figure


def label_efficiency(frontiers: Sequence[Frontier], style: Looks) -> Figure:
    """Violation rate at the matched return over the number of labelled episodes, for the longest training."""
    known = [
        one for one in frontiers if one.method != REWARD_ONLY and matched_at(one, MATCHED_SHARE) is not None
    ]
    longest = {
        task: max(f.setting.updates for f in known if f.setting.task == task) for task in _tasks(known)
    }
    shown = [one for one in known if one.setting.updates == longest[one.setting.task]]
    settings = [one.setting._replace(labelled=0) for one in shown]
    titles = _titles(settings)
    figure, panels = _panels(settings)
    for setting, axes in panels.items():
        own = [one for one in shown if one.setting._replace(labelled=0) == setting]
        methods = list(dict.fromkeys(one.method for one in own))
        counts = sorted({one.setting.labelled for one in own})
        for place, method in enumerate(methods):
            # Marks of one count stand side by side, so that their errors can be told apart.
            aside = 1.0 + 0.04 * (place - (len(methods) - 1) / 2)
            line = sorted((one.setting.labelled, one) for one in own if one.method == method)
            reached = [(count * aside, matched_at(one, MATCHED_SHARE)) for count, one in line]
            pairs = [(x, found.violation) for x, found in reached if found is not None]
            for x, violation in pairs:
                error = violation.error or 0.0
                ends = [violation.mean - error, violation.mean + error]
                axes.plot([x, x], ends, color=style[method].color, linewidth=1.0, alpha=0.8)
            _line(axes, [x for x, _ in pairs], [violation.mean for _, violation in pairs], style[method])
        target = next(m.target for m in own[0].matched if m.share == MATCHED_SHARE)
        axes.set_xscale("log")
        axes.set_xticks(counts, [f"{count:,}" for count in counts])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("labelled episodes")
        axes.set_title(f"{titles[setting]}, at a return of {number(target)}")
        axes.yaxis.set_major_formatter(FuncFormatter(percent_tick))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
        axes.grid(axis="y")
    next(iter(panels.values())).set_ylabel("violation rate")
    _legend(figure, [one.method for one in shown], style)
    return figure


def _tasks(frontiers: Sequence[Frontier]) -> list[str]:
    return list(dict.fromkeys(one.setting.task for one in frontiers))


def _panels(settings: Sequence[Setting]) -> tuple[Figure, dict[Setting, Axes]]:
    """A panel for each setting, named by its task and by what else differs."""
    titles = _titles(settings)
    unique = list(titles)
    stories, abreast = math.ceil(len(unique) / PANELS_ABREAST), min(len(unique), PANELS_ABREAST)
    figure = sheet(PANEL_HEIGHT * stories, width=max(PANEL_WIDTH * abreast, 4.2))
    drawn = figure.subplots(stories, abreast, squeeze=False).ravel()
    for spare in drawn[len(unique) :]:
        spare.set_axis_off()
    panels = dict(zip(unique, drawn))
    for setting, axes in panels.items():
        axes.set_title(titles[setting])
    return figure, panels


def _titles(settings: Sequence[Setting]) -> dict[Setting, str]:
    """The task of each setting and what else differs."""
    names = setting_names(list(dict.fromkeys(settings)), leave_out=("task", "labelled", "updates"))
    return {
        setting: ", ".join(part for part in (setting.task, name) if part) for setting, name in names.items()
    }


def _line(axes: Axes, x: Sequence[float], y: Sequence[float], look: Look) -> None:
    axes.plot(
        x, y, color=look.color, marker=look.marker, markersize=5.5, markeredgecolor="white", markeredgewidth=0.7,
        linewidth=1.4, zorder=3,
    )  # fmt: skip


def _legend(
    figure: Figure, methods: Sequence[str], style: Looks, others: Mapping[str, Line2D] | None = None
) -> None:
    handles = {
        method: Line2D([], [], color=look.color, marker=look.marker, markersize=5.0, linewidth=1.4)
        for method, look in style.items()
        if method in methods
    }
    handles |= others or {}
    columns = math.ceil(
        len(handles) / math.ceil(len(handles) / LEGEND_COLUMNS)
    )  # rows of about the same length
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def _tidy(axes: Axes) -> None:
    axes.grid(True)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
