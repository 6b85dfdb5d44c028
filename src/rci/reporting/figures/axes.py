"""What panels of different figures have in common: round ticks, percentages, and lines with marks."""

from __future__ import annotations

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator
from numpy.typing import ArrayLike

from rci.reporting.figures.palette import FAINT, QUIET, ROUND, Look


def percent_tick(share: float, _: object = None) -> str:
    """A share as the tick of an axis."""
    return f"{round(100 * share, 6):g}%"


def ticks(axis: Axis, most: int, integer: bool = False) -> None:
    """At most so many intervals between round numbers."""
    axis.set_major_locator(MaxNLocator(most, steps=ROUND, integer=integer))


def tidy(axes: Axes) -> None:
    """A grid with round ticks on both axes."""
    axes.grid(True)
    ticks(axes.xaxis, 5)
    ticks(axes.yaxis, 5)


def name_rows(axes: Axes) -> None:
    """Make the vertical axis one of names rather than of numbers."""
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def stack_in_time(panels: Iterable[Axes]) -> None:
    """Panels below each other, of which only the last has an axis of time."""
    *upper, last = panels
    for axes in (*upper, last):
        ticks(axes.yaxis, 3)
        axes.spines["bottom"].set_visible(axes is last)
        axes.tick_params(axis="x", length=2.5 if axes is last else 0)
    ticks(last.xaxis, 6, integer=True)
    last.set_xlabel("step")


def show_steps(axes: Axes, steps: int) -> None:
    """Room for so many steps, with a little space at both ends."""
    axes.set_xlim(-0.02 * steps - 0.5, 1.02 * steps - 0.5)


def heading(axes: Axes, height: float, text: str) -> None:
    """A heading between rows, at the left edge."""
    axes.text(
        0.0, height, text, transform=axes.get_yaxis_transform(), fontsize=8.0, color=QUIET, va="center",
        style="italic",
    )  # fmt: skip


def marked_line(axes: Axes, x: ArrayLike, y: ArrayLike, look: Look, width: float = 1.3) -> None:
    """A line with large marks, edged in white."""
    axes.plot(
        x, y, color=look.color, marker=look.marker, markersize=6.0, markeredgecolor="white", markeredgewidth=0.7,
        linewidth=width, zorder=3,
    )  # fmt: skip


def thin_line(axes: Axes, x: ArrayLike, y: ArrayLike, look: Look, label: str, width: float = 1.2) -> None:
    """A line with small marks, for panels that hold many."""
    axes.plot(x, y, "-", color=look.color, marker=look.marker, markersize=3.5, linewidth=width, label=label)


def diagonal(axes: Axes) -> None:
    """The line on which predictions come true."""
    axes.plot([0, 1], [0, 1], color=FAINT, linewidth=1.0, zorder=1)
