"""Film strips: a few moments of an episode as the task draws them and, under them in the same time, what it cost.

Moment k is observation k; step t leads from moment t to moment t + 1. Everything below the frames has moments on its
horizontal axis, so a step is an interval and an unsafe state a point in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import FuncNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from rci.data.record import Array
from rci.data.types import Episode
from rci.reporting.figures.axes import ticks
from rci.reporting.figures.episodes import draw_distance
from rci.reporting.figures.palette import DANGER, DANGER_INK, FAINT, INK, QUIET, SIGNED, Look
from rci.reporting.numbers import fixed, number

# Inches
WIDTH, LEFT, RIGHT = 10.0, 1.1, 1.35
TITLE, ABOVE, BELOW, LEAD, AXIS = 0.28, 0.17, 0.19, 0.16, 0.42
HEAT_ROW, CURVE, GAP = 0.19, 0.72, 0.14
FRAME_SHARE = 0.86  # of the room that a frame has
SUMS = 1.075  # where the column of sums ends, in widths of the time axis
MOST_FRAMES = {(False, False): 5, (True, False): 8, (True, True): 14}  # for wide, square and tall drawings


class Film(NamedTuple):
    """What a film strip shows above its rows, and the scale of its time."""

    title: str
    obs: Array  # [moments, ...]
    span: int  # the last moment of the axis: strips with one span can be compared
    scene: Callable[[Any, Array], None]
    unsafe: Array  # [moments], false at moment 0
    seconds: float | None = None  # per step; None where only steps are counted
    stop: int | None = None  # the moment at which somebody stopped the episode

    @property
    def last(self) -> int:
        return len(self.obs) - 1

    def clock(self, moment: float) -> str:
        if self.seconds is None:
            return f"step {moment:g}"
        return f"{moment * self.seconds:.{1 if self.seconds >= 0.1 else 2}f} s"  # so that two moments differ


def frame_moments(last: int, stride: int, marked: Sequence[int] = ()) -> list[tuple[int, int]]:
    """(place, moment) of each frame: one every `stride` moments, the last moment, and every marked one.

    The last moment comes after all others; a marked one takes the nearest place.
    """
    chosen = {place: place * stride for place in range(last // stride + 1)}
    chosen[-(-last // stride)] = last
    end = max(chosen)
    chosen |= {min((2 * m + stride) // (2 * stride), end - 1): m for m in marked if m < last}
    return sorted(chosen.items())


def cost_film(
    film: Film,
    costs: Mapping[str, Array],
    looks: Mapping[str, Look],
    limit: float,
    distance: Array,
    danger: float,
) -> Figure:
    """An episode, the step costs that each method gives it, and the distance to danger. limit: of the colours."""
    heights = (HEAT_ROW * len(costs), CURVE) if costs else (CURVE,)
    figure, rows = _strip(film, heights)
    if costs:
        _draw_costs(figure, rows[0], film, costs, looks, limit)
    _draw_danger(film, rows[-1], distance, danger)
    return figure


def policy_film(film: Film, episode: Episode, look: Look, distance: Array, danger: float) -> Figure:
    """A rollout, the reward of each of its steps, and the distance to danger."""
    figure, (reward, curve) = _strip(film, (0.5, CURVE))
    edges = np.arange(len(episode.reward) + 1)
    reward.stairs(episode.reward, edges, fill=True, color=look.color, alpha=0.35)
    reward.stairs(episode.reward, edges, color=look.color, linewidth=1.2)
    low, high = min(0.0, float(episode.reward.min())), max(0.0, float(episode.reward.max()))
    room = (high - low) or 1.0
    reward.set(ylabel="reward", ylim=(low - (0.05 * room if low < 0 else 0.0), high + 0.08 * room))
    ticks(reward.yaxis, 2)
    reward.grid(axis="y")
    _draw_danger(film, curve, distance, danger)
    figure.align_ylabels([reward, curve])
    return figure


def cost_limit(costs: Sequence[Array]) -> float:
    """The largest step cost, with or without its sign: the end of the colours."""
    return max((float(np.abs(cost).max()) for cost in costs), default=0.0) or 1.0


def total(cost: Array) -> str:
    """The sum of step costs, to two decimals; what rounding left of nothing is 0.00 and has no sign."""
    return fixed(round(float(cost.sum()), 2) + 0.0, 2)


def frame_ratio(scene: Callable[[Any, Array], None], obs: Array) -> float:
    """How many times as high as wide the task's drawing is."""
    axes = Figure().add_subplot()
    scene(axes, obs)
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    return 0.8 if axes.get_aspect() == "auto" else abs((top - bottom) / (right - left))


def _strip(film: Film, heights: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """The frames, and empty axes under them, one per height; all share the axis of time."""
    ratio = frame_ratio(film.scene, film.obs[0])
    most = MOST_FRAMES[ratio > 0.6, ratio > 2.0] - 1
    stride = -(-film.span // most)
    columns = -(-film.span // stride)
    timeline = WIDTH - LEFT - RIGHT
    width = FRAME_SHARE * timeline / most  # short episodes have fewer frames, not larger ones
    frames = TITLE + ABOVE, TITLE + ABOVE + width * ratio  # inches from the top: where they begin and end
    top = frames[1] + BELOW + LEAD
    total = top + sum(heights) + GAP * (len(heights) - 1) + AXIS
    figure = Figure(figsize=(WIDTH, total))

    def point(x: float, y: float) -> tuple[float, float]:
        """Inches from the upper left corner -> the fractions that matplotlib counts in."""
        return x / WIDTH, 1.0 - y / total

    rows = []
    for height in heights:
        axes = figure.add_axes((*point(LEFT, top + height), timeline / WIDTH, height / total))
        axes.set_xlim(0, columns * stride)
        rows.append(axes)
        top += height + GAP
    time_axis(film, rows)
    figure.text(*point(0.1, 0.06), film.title, fontsize=10.0, fontweight="bold", color=INK, va="top")
    for place, moment in frame_moments(film.last, stride, np.flatnonzero(film.unsafe)[:1].tolist()):
        centre, at = (LEFT + timeline * part / columns for part in (place, moment / stride))
        unsafe = bool(film.unsafe[moment])
        axes = figure.add_axes((*point(centre - width / 2, frames[1]), width / WIDTH, width * ratio / total))
        film.scene(axes, film.obs[moment])
        axes.set(xticks=[], yticks=[])
        if unsafe:
            axes.spines[:].set(visible=True, color=DANGER, linewidth=1.6)
        word = "stop" if moment == film.stop else "unsafe" if unsafe else ""
        ink, weight = (DANGER_INK, "bold") if unsafe else (QUIET, "normal")
        for y, text in ((frames[0] - 0.05, word), (frames[1] + BELOW - 0.05, film.clock(moment))):
            figure.text(*point(centre, y), text, fontsize=7.5, color=ink, fontweight=weight, ha="center")
        ends = point(centre, frames[1] + BELOW), point(at, frames[1] + BELOW + LEAD - 0.02)
        figure.add_artist(Line2D(*zip(*ends), color=DANGER if unsafe else FAINT, linewidth=0.8))
    return figure, rows


def time_axis(film: Film, rows: Sequence[Axes]) -> None:
    """Moments on the horizontal axis of rows that share it, given in seconds where a step has some."""
    for axes in rows:
        ticks(axes.xaxis, 10, integer=True)
        axes.tick_params(axis="x", labelbottom=False, length=0)
    last = rows[-1]
    last.tick_params(axis="x", labelbottom=True, length=2.5)
    if film.seconds is None:
        last.set_xlabel("step")
    else:
        seconds = film.seconds
        last.xaxis.set_major_formatter(FuncFormatter(lambda moment, _: f"{round(moment * seconds, 6):g}"))
        last.set_xlabel("seconds")


def _draw_costs(
    figure: Figure,
    axes: Axes,
    film: Film,
    costs: Mapping[str, Array],
    looks: Mapping[str, Look],
    limit: float,
) -> None:
    """One row of coloured steps per method, its name before and its sum behind it; the colours' key at the end."""
    norm = FuncNorm((_signed_root, _signed_square), vmin=-limit, vmax=limit)
    span = axes.get_xlim()
    image = axes.imshow(
        np.stack(list(costs.values())), extent=(0, film.last, len(costs), 0), aspect="auto", cmap=SIGNED, norm=norm,
        interpolation="none",
    )  # fmt: skip
    for row, (name, cost) in enumerate(costs.items()):
        _beside(axes, row + 0.5, name, total(cost), looks[name].ink)
        axes.axhline(row, color="white", linewidth=1.5)
    axes.text(SUMS, -0.35, "sum", transform=axes.get_yaxis_transform(), fontsize=7.5, color=QUIET, ha="right")
    axes.set(yticks=[], xlim=span, ylim=(len(costs), 0))
    axes.spines[:].set_visible(False)
    box = axes.get_position()
    place = (box.x1 + 0.76 / WIDTH, box.y0, 0.09 / WIDTH, box.height)
    bar = figure.colorbar(image, cax=figure.add_axes(place))
    ticks = [-limit, 0.0, limit] if len(costs) > 2 else [-limit, limit]
    bar.ax.set_yticks(ticks, [number(tick) for tick in ticks])
    bar.ax.tick_params(labelsize=7.0, length=2, pad=1.5)
    bar.outline.set_visible(False)


def _draw_danger(film: Film, axes: Axes, distance: Array, danger: float) -> None:
    """The distance after each step."""
    draw_distance(axes, np.arange(1, film.last + 1), distance, film.unsafe[1:], danger)
    ticks(axes.yaxis, 3)
    axes.text(
        1.012, danger, f"unsafe up to {danger:g}", transform=axes.get_yaxis_transform(), fontsize=7.5,
        color=DANGER_INK, va="center",
    )  # fmt: skip


def _beside(axes: Axes, y: float, name: str, value: str, ink: str) -> None:
    """A row's name to its left and its number to its right."""
    for x, text, color in ((-0.012, name, ink), (SUMS, value, INK)):
        axes.text(
            x, y, text, transform=axes.get_yaxis_transform(), fontsize=8.5, color=color, ha="right", va="center"
        )  # fmt: skip


def _signed_root(cost: Array) -> Array:
    """Small costs stay visible beside a large one: colours grow with the root."""
    return np.sign(cost) * np.sqrt(np.abs(cost))


def _signed_square(root: Array) -> Array:
    return np.sign(root) * np.square(root)
