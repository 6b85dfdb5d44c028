"""Quick looks at artefacts, for notebooks: `episodes.plot()`, `labels.plot()`, `costs.plot()`, `scores.plot()`.

They are matplotlib figures that a notebook shows by itself. The report has more and better ones.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from rci.data.errors import RciError
from rci.data.record import Array

if TYPE_CHECKING:
    from rci.data.artefacts.costs import StepCosts
    from rci.data.artefacts.episodes import Episodes
    from rci.data.artefacts.labels import Labels
    from rci.data.types import Scores

SAFE_COLOR, STOP_COLOR, INK = "#0072b2", "#d55e00", "#1f2430"
BINS = 30
MOST_CURVES = 24  # in the picture of an episode
SHOWN = 40  # episodes in the picture of step costs, if nobody says which


class Picture(Figure):
    """A figure that a notebook shows; by itself it would show only those of pyplot, which keeps them for ever."""

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def plot_episodes(episodes: Episodes) -> Picture:
    """How long the episodes are and what they earned, by the behaviour that recorded them."""
    returns = np.add.reduceat(np.asarray(episodes.reward, np.float64), episodes.step_offset[:-1])
    names = episodes.sources or (episodes.task or "all",)
    source = np.asarray(episodes.source)
    parts = [source == k for k in range(len(names))]
    figure, (left, right) = _figure(2)
    for axes, values, label in ((left, episodes.lengths, "steps"), (right, returns, "return")):
        axes.hist(
            [values[part] for part in parts], BINS, stacked=True, label=list(names), color=_shades(len(names))
        )
        axes.set(xlabel=label, ylabel="episodes")
    if len(names) > 1:
        right.legend(frameon=False)
    return figure


def plot_signals(episodes: Episodes, number: int) -> Picture:
    """What was seen and done in an episode, one curve for each signal, over steps or seconds."""
    episode = episodes[number]
    curves = []
    for what in ("obs", "action"):
        values = np.asarray(getattr(episode, what)).reshape(len(getattr(episode, what)), -1)
        curves += list(zip(episodes.labels_of(what), values.T))
    rate = None if episodes.signals is None else episodes.signals.rate
    columns = 2 if len(curves) > 4 else 1
    rows = -(-len(curves[:MOST_CURVES]) // columns)
    figure = Picture(figsize=(4.2 * columns, 0.6 + 0.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for axes, (label, values) in zip(panels.T.flat, curves):
        axes.plot(np.arange(len(values)) / (rate or 1.0), values, color=SAFE_COLOR, linewidth=1)
        axes.set_ylabel(label, rotation=0, ha="right", va="center", fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels.T.flat[len(curves) :]:
        axes.remove()
    for column in range(columns):  # the last panel may not be in the last row
        lowest = panels[min(rows, len(curves) - column * rows) - 1, column]
        lowest.tick_params(labelbottom=True)
        lowest.set_xlabel("step" if rate is None else "seconds")
    keys = ", ".join(f"{name} {keys[number]}" for name, keys in episodes.keys.items())
    figure.suptitle(f"episode {number}" + (f": {keys}" if keys else ""), fontsize=9)
    return figure


def plot_labels(labels: Labels) -> Picture:
    """Where episodes were stopped, and how long those were that never were."""
    figure, (axes,) = _figure(1)
    stopped = labels.stopped
    values = [labels.stop_index[stopped] + 1, labels.lengths[~stopped]]
    names = [f"stopped: {int(stopped.sum())}", f"safe: {int((~stopped).sum())}"]
    axes.hist(values, BINS, stacked=True, label=names, color=[STOP_COLOR, SAFE_COLOR])
    axes.set(xlabel="steps that remain", ylabel="episodes")
    axes.legend(frameon=False)
    return figure


def plot_costs(costs: StepCosts, episodes: Array | None = None) -> Picture:
    """The cost of each step of some episodes, one row each, the first ones if nobody says which."""
    chosen = np.arange(min(SHOWN, len(costs))) if episodes is None else np.atleast_1d(episodes)
    if chosen.size and chosen.dtype.kind not in "iu":
        raise RciError(f"episodes are chosen by their numbers, got {chosen.dtype}.")
    for i in chosen:
        if not 0 <= i < len(costs):
            raise RciError(f"there is no episode {i}: they are numbered from 0 to {len(costs) - 1}.")
    if len(chosen) == 0:
        raise RciError("no episode is chosen: name at least one.")
    rows = [costs.total[costs.step_offset[i] : costs.step_offset[i + 1]] for i in chosen]
    picture = np.full((len(rows), max(map(len, rows))), np.nan)
    for row, cost in zip(picture, rows):
        row[: len(cost)] = cost
    limit = float(np.nanmax(np.abs(picture))) or 1.0
    figure, (axes,) = _figure(1)
    image = axes.imshow(picture, aspect="auto", cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="none")
    axes.set(xlabel="step", ylabel="episode", title=costs.method)
    axes.set_yticks(np.arange(len(chosen))[:: max(1, len(chosen) // 10)])
    axes.set_yticklabels(chosen[:: max(1, len(chosen) // 10)])
    figure.colorbar(image, ax=axes, label="cost")
    return figure


def plot_scores(scores: Scores) -> Picture:
    """What the episodes of a policy earned, those with a violation apart."""
    figure, (axes,) = _figure(1)
    violated = scores.violated
    names = [f"violated: {scores.violation_rate:.1%}", "safe"]
    axes.hist(
        [scores.returns[violated], scores.returns[~violated]], BINS, stacked=True, label=names,
        color=[STOP_COLOR, SAFE_COLOR],
    )  # fmt: skip
    axes.axvline(scores.mean_return, color=INK, linewidth=1)
    axes.set(xlabel="return (line: mean)", ylabel="episodes")
    axes.legend(frameon=False)
    return figure


def _figure(columns: int) -> tuple[Picture, Any]:
    figure = Picture(figsize=(4.2 * columns, 3.0), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _shades(count: int) -> list[str]:
    colors = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"]
    return [colors[k % len(colors)] for k in range(count)]
