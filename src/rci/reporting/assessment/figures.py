"""Figures of an assessment: policies with their intervals, and episodes with what the policy would have done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from rci.data.risk.estimates import Interval, PolicyEstimate
from rci.reporting.assessment.contents import AssessmentInput, JudgedPolicy, Shown
from rci.reporting.figures.axes import name_rows, percent_tick, ticks
from rci.reporting.figures.films import cost_limit
from rci.reporting.figures.palette import DANGER, DANGER_INK, FAINT, INK, LOOKS, QUIET, SIGNED, sheet

POLICY = LOOKS["rci"]
ROW, PANEL, STRIP = 0.34, 0.66, 0.2  # inches
Pick = Callable[[PolicyEstimate], Interval]


def stop_rates(content: AssessmentInput) -> Figure:
    """The chance of a stop of every policy with its interval, beside the logs and the budget."""
    figure, axes = _rows(
        "Stopped runs, estimated", content, lambda one: one.stop, lambda one: one.logged_stop
    )
    axes.axvline(content.budget, color=DANGER, linewidth=1.1, linestyle=(0, (3, 1.5)), zorder=2)
    axes.text(
        content.budget, 0.99, " budget", transform=axes.get_xaxis_transform(), fontsize=7.5, color=DANGER_INK,
        va="top",
    )  # fmt: skip
    axes.set_xlim(0.0, 1.02)
    axes.xaxis.set_major_formatter(percent_tick)
    return figure


def returns(content: AssessmentInput) -> Figure:
    """What every policy earns in an episode with its interval, beside the logs."""
    figure, _ = _rows("Return, estimated", content, lambda one: one.earned, lambda one: one.logged_earned)
    return figure


def opinions(content: AssessmentInput) -> Figure:
    """The chance of a stop of the chosen policy by each method, and by all together."""
    estimate = content.chosen.estimate
    lines = [("together", estimate.stop), *estimate.methods.items()]
    figure = sheet(0.75 + ROW * len(lines))
    axes = figure.add_subplot(title=f"The policy {content.chosen.name}, by method")
    for y, (_, each) in enumerate(lines):
        color = POLICY.color if y == 0 else QUIET
        _interval(axes, y, each, color, heavy=y == 0)
    axes.axvline(content.budget, color=DANGER, linewidth=1.1, linestyle=(0, (3, 1.5)), zorder=2)
    axes.set(xlim=(0.0, 1.02), ylim=(len(lines) - 0.5, -0.5))
    axes.set_yticks(range(len(lines)), [name for name, _ in lines])
    axes.xaxis.set_major_formatter(percent_tick)
    name_rows(axes)
    return figure


def difference(content: AssessmentInput, shown: Shown) -> Figure:
    """An episode: what was seen, and what was done there beside what the policy would have done."""
    actions = shown.recorded.shape[1]
    figure, panels = _panels(content, shown, actions + len(shown.signals))
    for k, axes in enumerate(panels[:actions]):
        edges = np.arange(shown.steps + 1)
        axes.stairs(shown.recorded[:, k], edges, color=INK, linewidth=1.0, baseline=None, label="recorded")
        axes.stairs(
            shown.policy[:, k], edges, color=POLICY.color, linewidth=1.4, baseline=None, label="the policy"
        )
        _name(axes, content.action_names[k])
    panels[0].legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=7.5, borderaxespad=0.1)
    _signals(shown, panels[actions:])
    return figure


def stopped_episode(content: AssessmentInput, shown: Shown) -> Figure:
    """An episode that was stopped: the cost of each step as a strip, the risk of the monitor, and what was seen."""
    heights = [STRIP, PANEL, *[PANEL] * len(shown.signals)]
    figure, (strip, risk, *rest) = _panels(content, shown, len(heights), heights)
    limit = cost_limit([shown.cost])
    root = np.sign(shown.cost) * np.sqrt(np.abs(shown.cost) / limit)
    strip.imshow(
        root[None], extent=(0, shown.steps, 0, 1), aspect="auto", cmap=SIGNED, vmin=-1, vmax=1, interpolation="none"
    )  # fmt: skip
    strip.set(yticks=[])
    strip.grid(False)
    _name(strip, "step cost")
    risk.plot(np.arange(1, shown.steps + 1), shown.risk, color=POLICY.color, linewidth=1.3)
    risk.axhline(content.watching.level, color=DANGER, linewidth=0.9, linestyle=(0, (3, 1.5)))
    alarm = np.flatnonzero(shown.risk > content.watching.level)
    if len(alarm):
        risk.axvline(alarm[0] + 1, color=DANGER, linewidth=0.9)
        risk.text(
            alarm[0] + 1, 1.02, "alarm", transform=risk.get_xaxis_transform(), fontsize=7.5, color=DANGER_INK
        )
    _name(risk, "risk of a stop")
    _signals(shown, rest)
    return figure


def _rows(heading: str, content: AssessmentInput, pick: Pick, logged: Pick) -> tuple[Figure, Axes]:
    """A line for the logs and for every policy, with intervals."""
    lines: list[tuple[str, Interval, JudgedPolicy | None]] = [
        ("the logs", logged(content.chosen.estimate), None)
    ]
    lines += [(one.name, pick(one.estimate), one) for one in content.policies]
    figure = sheet(0.8 + ROW * len(lines))
    axes = figure.add_subplot(title=heading)
    for y, (_, each, policy) in enumerate(lines):
        chosen = policy is not None and policy.chosen
        _interval(axes, y, each, INK if policy is None else POLICY.color, heavy=chosen)
    axes.axvline(lines[0][1].estimate, color=FAINT, linewidth=1.0, zorder=1)
    axes.set_ylim(len(lines) - 0.5, -0.5)
    axes.set_yticks(range(len(lines)), [name for name, _, _ in lines])
    for text, (_, _, policy) in zip(axes.get_yticklabels(), lines):
        text.set(color=INK if policy is None else POLICY.ink, fontsize=8.5)
        text.set_fontweight("bold" if policy is not None and policy.chosen else "normal")
    name_rows(axes)
    ticks(axes.xaxis, 5)
    return figure, axes


def _interval(axes: Axes, y: float, each: Interval, color: str, heavy: bool) -> None:
    axes.plot([each.low, each.high], [y, y], color=color, linewidth=4.0 if heavy else 2.0, alpha=0.55)
    axes.plot(each.estimate, y, "o", color=color, markeredgecolor="white", markersize=7.5 if heavy else 6.0)


def _panels(
    content: AssessmentInput, shown: Shown, count: int, heights: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """Panels below each other over the time of an episode; the stop is its right end, where there was one."""
    sizes = [PANEL] * count if heights is None else list(heights)
    figure = sheet(sum(sizes) + 0.24 * count + 0.75)
    panels: list[Axes] = list(np.atleast_1d(figure.subplots(count, 1, sharex=True, height_ratios=sizes)))
    seconds = content.step_seconds
    length = f"{shown.steps} steps" if seconds is None else f"{shown.steps * seconds:.1f} s"
    figure.suptitle(
        f"{shown.name[:1].upper()}{shown.name[1:]}: {'stopped after' if shown.stopped else 'never stopped,'} {length}",
        x=0.01, ha="left", fontsize=9.5, fontweight="bold", color=INK,
    )  # fmt: skip
    for axes in panels:
        ticks(axes.yaxis, 3)
        axes.grid(axis="y")
        axes.spines["bottom"].set_visible(axes is panels[-1])
        axes.tick_params(axis="x", length=2.5 if axes is panels[-1] else 0)
        if shown.stopped:
            axes.axvline(shown.steps, color=DANGER, linewidth=1.6)
    panels[-1].set_xlim(0, shown.steps * 1.005)
    ticks(panels[-1].xaxis, 6, integer=True)
    if seconds is None:
        panels[-1].set_xlabel("step")
    else:
        panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{round(step * seconds, 6):g}"))
        panels[-1].set_xlabel("seconds")
    return figure, panels


def _signals(shown: Shown, panels: Sequence[Axes]) -> None:
    for (name, values), axes in zip(shown.signals.items(), panels):
        axes.plot(np.arange(len(values)), values, color=QUIET, linewidth=1.1)
        _name(axes, name)


def _name(axes: Axes, name: str) -> None:
    """The name of a panel above it, where it needs no room beside."""
    axes.set_title(name, fontsize=8.0, fontweight="normal", color=QUIET, pad=2.5)
