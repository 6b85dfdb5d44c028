"""The paper's figure of what one method's policies do on the highway under a tight and a loose budget.

Two columns, one per budget. On top a few moments as the ego sees them, true to scale; below, over the same time, where
it is on the road, how fast it goes and how near the nearest vehicle is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rci.data.errors import RciError
from rci.data.record import Array
from rci.data.types import Episode, Episodes
from rci.reporting.figures.episodes import draw_distance
from rci.reporting.figures.films import Film, frame_moments, frame_ratio, time_axis
from rci.reporting.figures.palette import DANGER, DANGER_INK, FAINT, INK, QUIET, ROUND
from rci.reporting.figures.picture import Picture, render
from rci.reporting.numbers import number
from rci.tasks.highway.physics.layout import MAX_SPEED, SAFE_DISTANCE, SPEED_SCALE, TASK_SCALE
from rci.tasks.highway.scene import EGO_COLOR, draw_road, draw_scene
from rci.tasks.highway.task import CONFIG, nearest_distance, too_close

# Inches
WIDTH, LEFT, RIGHT, BETWEEN = 7.2, 0.72, 0.28, 0.52
TITLE, ABOVE, BELOW, LEAD, AXIS = 0.28, 0.17, 0.19, 0.16, 0.42
ROWS, GAP = (0.85, 0.6, 0.6), 0.14
FRAME = 0.4  # how wide a frame is

NAMES = ("m across", "m/s", "distance")
FRAMES = 6
WAY_SECONDS = 3.0  # before and after a frame
EGO, ACROSS, FORWARD = 0, 2, 3  # the first row of an observation, and columns of it
STEP_SECONDS = 1 / CONFIG["policy_frequency"]
END_OF_SIGHT = TASK_SCALE[1]  # m across: observations end here


def budget_trajectories(rollouts: Mapping[str, Episodes], method: str = "rci") -> Picture:
    """One rollout at each of two budgets, the tight one first, from the start with the most ordinary returns."""
    if len(rollouts) != 2:
        raise RciError(f"trajectories are shown at two budgets, got {len(rollouts)}.")
    picked = ordinary_start(list(rollouts.values()))
    shown = {budget: recorded[picked] for budget, recorded in rollouts.items()}
    first, second = (episode.obs[0] for episode in shown.values())
    start = "from the same start" if np.array_equal(first, second) else "from different starts"
    return render(
        "budget-trajectories",
        f"A rollout of {method} at each of two budgets: "
        + "; ".join(f"{budget}, {_summary(episode)}" for budget, episode in shown.items())
        + ".",
        f"Rollouts of {method} under a restrictive (left) and a looser budget (right), {start}: of all starts the "
        "one whose returns are nearest to the medians. Frames: the road around the ego (blue), which drives up the "
        f"page; its line is the way that it came and goes within {WAY_SECONDS:g} s, from the observed speeds. A car "
        "whose centre is in the ellipse is too close. Below: where the ego is on the road (grey; observations end at "
        f"{END_OF_SIGHT:g} m), its speed along the road, and the normalised distance to the nearest vehicle, shaded "
        "where that is unsafe.",
        partial(_figure, shown),
    )


def ordinary_start(rollouts: Sequence[Episodes]) -> int:
    """The episode whose return is nearest to the median among those of every policy, by rank."""
    counts = {len(recorded) for recorded in rollouts}
    if len(counts) > 1:
        raise RciError(f"rollouts to be compared must be equally many, got {sorted(counts)}.")
    away = 0.0
    for recorded in rollouts:
        rank = np.argsort(np.argsort(returns(recorded), kind="stable"), kind="stable")
        away = away + np.abs(rank - (len(recorded) - 1) / 2)
    return int(np.argmin(away))


def returns(recorded: Episodes) -> Array:
    """The return of each episode."""
    return np.add.reduceat(recorded.reward.astype(np.float64), recorded.step_offset[:-1])


def driven(obs: Array, seconds: float) -> Array:
    """Metres along the road since the first of the observations [moments, 5, 7], each as long after the one before."""
    speed = obs[:, EGO, FORWARD].astype(np.float64) * SPEED_SCALE
    return np.append(0.0, np.cumsum(seconds * (speed[1:] + speed[:-1]) / 2))


def _summary(episode: Episode) -> str:
    unsafe = int(too_close(episode.obs[1:]).sum())
    return f"return {number(float(episode.reward.sum()))}, {unsafe or 'no'} unsafe step{'' if unsafe == 1 else 's'}"


def _figure(shown: Mapping[str, Episode]) -> Figure:
    ratio = frame_ratio(draw_scene, next(iter(shown.values())).obs[0])
    top = TITLE + ABOVE + FRAME * ratio + BELOW + LEAD
    figure = Figure(figsize=(WIDTH, top + sum(ROWS) + GAP * (len(ROWS) - 1) + AXIS))
    timeline = (WIDTH - LEFT - RIGHT - BETWEEN) / 2
    span = max(len(episode.reward) for episode in shown.values())
    rows: list[Axes | None] = [None] * len(ROWS)
    for i, (budget, episode) in enumerate(shown.items()):
        film, left = _film(budget, episode, span), LEFT + i * (timeline + BETWEEN)
        figure.text(
            *_point(figure, left, 0.06), f"({'ab'[i]}) budget {budget}", fontsize=9.5, fontweight="bold", color=INK,
            va="top",
        )  # fmt: skip
        figure.text(
            *_point(figure, left + timeline, 0.07),
            _summary(episode),
            fontsize=8.0,
            color=QUIET,
            ha="right",
            va="top",
        )
        _draw_frames(figure, film, left, timeline, ratio)
        rows = _draw_rows(figure, film, left, timeline, top, rows)
    figure.align_ylabels([axes for axes in figure.axes if axes.get_ylabel()])
    return figure


def _film(title: str, episode: Episode, span: int) -> Film:
    unsafe = np.append(False, too_close(episode.obs[1:]))
    return Film(title, episode.obs, span, draw_scene, unsafe, STEP_SECONDS)


def _point(figure: Figure, x: float, y: float) -> tuple[float, float]:
    """Inches from the upper left corner -> the fractions that matplotlib counts in."""
    width, height = figure.get_size_inches()
    return x / width, 1.0 - y / height


def _draw_frames(figure: Figure, film: Film, left: float, timeline: float, ratio: float) -> None:
    """A few moments, each above its time; the line in them is the ego's way."""
    width, height = figure.get_size_inches()
    top, bottom = TITLE + ABOVE, TITLE + ABOVE + FRAME * ratio
    stride = -(-film.span // (FRAMES - 1))
    along, across = driven(film.obs, STEP_SECONDS), _across(film.obs)
    for place, moment in frame_moments(film.last, stride, np.flatnonzero(film.unsafe)[:1].tolist()):
        centre = left + timeline * min(place * stride / film.span, 1.0)
        corner = _point(figure, centre - FRAME / 2, bottom)
        axes = figure.add_axes((*corner, FRAME / width, FRAME * ratio / height))
        draw_scene(axes, film.obs[moment])
        near = np.abs(np.arange(film.last + 1) - moment) * STEP_SECONDS <= WAY_SECONDS
        way = across[near], along[near] - along[moment]
        axes.plot(*way, color=EGO_COLOR, linewidth=0.9, zorder=3, scalex=False, scaley=False)
        unsafe = bool(film.unsafe[moment])
        ink, weight = (DANGER_INK, "bold") if unsafe else (QUIET, "normal")
        for y, text in (
            (top - 0.05, "unsafe" if unsafe else ""),
            (bottom + BELOW - 0.05, film.clock(moment)),
        ):
            figure.text(
                *_point(figure, centre, y), text, fontsize=7.0, color=ink, fontweight=weight, ha="center"
            )
        at = left + timeline * moment / film.span
        ends = (
            _point(figure, centre, bottom + BELOW),
            _point(figure, at, bottom + BELOW + LEAD - 0.02),
        )
        figure.add_artist(Line2D(*zip(*ends), color=DANGER if unsafe else FAINT, linewidth=0.8))


def _draw_rows(
    figure: Figure, film: Film, left: float, timeline: float, top: float, beside: Sequence[Axes | None]
) -> list[Axes | None]:
    """The ego's place, its speed and its distance over time; each row has the scale of the one beside it, if any."""
    width, height = figure.get_size_inches()
    rows: list[Axes] = []
    for high, other in zip(ROWS, beside):
        place = (*_point(figure, left, top + high), timeline / width, high / height)
        rows.append(figure.add_axes(place, sharey=other))
        top += high + GAP
    road, speed, nearest = rows
    moment = np.arange(film.last + 1)
    draw_road(road, upright=False)
    road.plot(moment, _across(film.obs), color=EGO_COLOR, linewidth=1.3, zorder=4)
    road.set_ylim(END_OF_SIGHT + 1.5, -END_OF_SIGHT - 1.5)  # the left lane on top, as for the driver
    road.set_yticks([-END_OF_SIGHT, 0.0, END_OF_SIGHT])
    speed.plot(moment, film.obs[:, EGO, FORWARD] * SPEED_SCALE, color=EGO_COLOR, linewidth=1.3)
    speed.set_ylim(-MAX_SPEED - 4.0, MAX_SPEED + 4.0)
    speed.set_yticks([-MAX_SPEED, 0.0, MAX_SPEED])
    speed.grid(axis="y")
    draw_distance(nearest, moment[1:], nearest_distance(film.obs[1:]), film.unsafe[1:], SAFE_DISTANCE)
    nearest.set_ylim(0.0, 1.06)
    nearest.set_yticks([0.0, SAFE_DISTANCE, 1.0])
    for axes, name in zip(rows, NAMES):
        axes.set_xlim(0, film.span)
        axes.set_ylabel(name if beside[0] is None else "")
        axes.tick_params(labelleft=beside[0] is None)
    time_axis(film, rows)
    nearest.xaxis.set_major_locator(MaxNLocator(5, steps=ROUND, integer=True))
    return [*rows]


def _across(obs: Array) -> Array:
    """Metres across the road from the leftmost lane's centre."""
    return obs[:, EGO, ACROSS].astype(np.float64) * END_OF_SIGHT
