"""The figure of how the hazard of Safe-FetchReach was placed, from the rows of `python -m rci.run.placement`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator
from PIL import Image

from rci.data.errors import RciError
from rci.data.options import build
from rci.reporting.figures import Picture, render
from rci.reporting.palette import INK, LOOKS, QUIET, sheet
from rci.tasks.fetch_reach.hazard import START, Hazard

WANTED = (0.3, 0.6)  # how often an arm that knows nothing should enter the hazard
BAND = "#e4eef6"
SHADES = ("#9ecae1", "#5fa8d3", "#2f7fb5", "#15588f", "#0b3160")  # small radius to large: lightness falls
CHOSEN, OTHER, LAST = LOOKS["rci"], LOOKS["reward-only"], LOOKS["sparse"]
DIAMOND: dict[str, Any] = {"color": "white", "markeredgecolor": LAST.ink, "markersize": 4.4}
SIZE = (7.6, 4.7)  # inches
COLUMNS = (30.0, 72.0)  # where numbers end beside the candidates, in points from the panel's edge
NAMES = ("Cone", "Gap", "Radius")
UNITS = ("°", " cm", " cm")
COLOURS = 96  # of the PNG file
SCRIPTED = "Scripted arms, chosen sphere"
Row = Mapping[str, Any]
Triple = tuple[float, float, float]  # cone in degrees, gap in cm, radius in cm


class Candidate(NamedTuple):
    """A placement and what reward-only PPO does with it, one entry per seed."""

    place: Triple
    chosen: bool
    rates: tuple[float, ...]  # over all checkpoints
    last_rates: tuple[float, ...]  # of the last checkpoint
    at_once: float  # of the first violations of all seeds, the share in the first step


def placement_picture(rows: Sequence[Row], frozen: Hazard) -> Picture:
    """The figure, rendered, with its words."""
    found = candidates(rows, frozen)
    told = "; ".join(f"{label(c.place)}: {100 * np.mean(c.rates):.0f}%" for c in found)
    picture = render(
        "fetch-placement",
        f"Left: violation rates of a blind arm among native goals. Right: those of reward-only PPO, {told}.",
        "Left: goals all around the start. The best of 26 directions for each gap and radius, 1,000 episodes of "
        "a blind arm; lines are 95% intervals. Right: goals in a cone around the direction of the sphere. PPO trained "
        "for the reward alone; small dots are seeds, bars their means, diamonds the last checkpoint alone.",
        partial(placement, rows, frozen),
    )
    return replace(picture, png=_few_colours(picture.png))


def placement(rows: Sequence[Row], frozen: Hazard) -> Figure:
    """Native goals on the left, candidates with a cone on the right."""
    native = [row for row in rows if row["settings"]["study"] == "native"]
    found = candidates(rows, frozen)
    if not native or not found:
        raise RciError("the figure needs rows of native goals and of PPO; run the whole study first.")
    figure = sheet(SIZE[1], width=SIZE[0])
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.0, 1.12), wspace=0.03)
    _draw_native(parts[0], native)
    _draw_candidates(parts[1], found, scripted_arms(rows))
    return figure


def candidates(rows: Iterable[Row], frozen: Hazard) -> list[Candidate]:
    """The rows of PPO, all seeds of a placement together, in their order."""
    groups: dict[Hazard, list[Row]] = {}
    for row in rows:
        if row["settings"]["study"] == "ppo":
            groups.setdefault(build(Hazard, row["settings"]["hazard"], "hazard"), []).append(row["found"])
    return [
        Candidate(
            place=placed(hazard),
            chosen=hazard == frozen,
            rates=tuple(found["violation_rate"] for found in seeds),
            last_rates=tuple(found["last_checkpoint"]["violation_rate"] for found in seeds),
            at_once=_share(seeds),
        )
        for hazard, seeds in groups.items()
    ]


def scripted_arms(rows: Iterable[Row]) -> dict[str, Candidate]:
    """The arms that follow a script, by name."""
    return {
        row["settings"]["behaviour"]: Candidate(
            place=placed(build(Hazard, row["settings"]["hazard"], "hazard")),
            chosen=False,
            rates=(row["found"]["violation_rate"],),
            last_rates=(),
            at_once=_share([row["found"]]),
        )
        for row in rows
        if row["settings"]["study"] == "scripted"
    }


def placed(hazard: Hazard) -> Triple:
    """Cone, gap and radius as they are said: in degrees and in tenths of a centimetre."""
    gap = float(hazard.distance(START))
    return round(hazard.cone, 1), round(100 * gap, 1), round(100 * hazard.radius, 1)


def label(place: Triple) -> str:
    """Such as "50°, 5 cm, 6 cm"."""
    return ", ".join(f"{value:g}{unit}" for value, unit in zip(place, UNITS))


def families(found: Sequence[Candidate]) -> list[tuple[str, list[tuple[str, Candidate]]]]:
    """Candidates that differ from the middle of the search in one number, by which one; then those that do in more."""
    middle = max(
        (c.place for c in found), key=lambda place: sum(len(_differing(c.place, place)) < 2 for c in found)
    )
    groups, seen = [], set()
    for axis, (name, unit) in enumerate(zip(NAMES, UNITS)):
        alike = sorted((c for c in found if _differing(c.place, middle) <= {axis}), key=lambda c: c.place)
        if len(alike) > 1:
            fixed = " and ".join(f"{NAMES[i].lower()} {middle[i]:g}{UNITS[i]}" for i in range(3) if i != axis)
            groups.append((f"{name}, at {fixed}", [(_value(c.place[axis], unit), c) for c in alike]))
            seen |= {c.place for c in alike}
    rest = [(label(c.place), c) for c in found if c.place not in seen]
    return [*groups, (", ".join(NAMES).capitalize(), rest)] if rest else groups


def _draw_native(part: Any, native: Sequence[Row]) -> None:
    """How often, and below, how many of the violations come before the arm could have done anything else."""
    above, below = part.subplots(2, 1, sharex=True, height_ratios=(2.6, 1.0))
    above.set_title("a  Goals all around: a blind arm")
    above.axhspan(*WANTED, color=BAND, linewidth=0)
    radii = sorted({row["settings"]["radius"] for row in native})
    for place, (radius, shade) in enumerate(zip(radii, _shades(len(radii)))):
        line = sorted(
            (row for row in native if row["settings"]["radius"] == radius),
            key=lambda row: float(row["settings"]["gap"]),
        )
        aside = 0.045 * (place - (len(radii) - 1) / 2)  # intervals at one gap stay apart
        gap = np.array([100 * row["settings"]["gap"] for row in line]) + aside
        low, high = zip(*(row["found"]["violation_interval"] for row in line))
        above.vlines(gap, low, high, color=shade, linewidth=0.8)
        rate = [row["found"]["violation_rate"] for row in line]
        above.plot(gap, rate, "o-", color=shade, markersize=3.2, linewidth=1.0, label=f"{100 * radius:g} cm")
        share = [_share([row["found"]]) for row in line]
        below.plot(gap, share, "o-", color=shade, markersize=2.8, linewidth=1.0)
    above.set(ylim=(0.0, 0.7), ylabel="episodes with a violation")
    below.set(ylim=(0.0, 1.08), ylabel="of these,\nin step 1", xlabel="gap between start and sphere, cm")
    below.set_xlim(left=0.0)
    for axes, step in ((above, 0.1), (below, 0.5)):
        axes.yaxis.set_major_locator(MultipleLocator(step))
        axes.yaxis.set_major_formatter(FuncFormatter(_percent_tick))
        axes.grid(True)
    below.xaxis.set_major_locator(MultipleLocator(1.0))
    part.align_ylabels()
    _note(above, 0.98, 0.65, "the best of 26 directions", color=QUIET, ha="right")
    _note(above, 0.02, WANTED[1] - 0.03, "wanted", color=QUIET)
    above.legend(
        title="radius of the sphere",
        title_fontsize=8.0,
        loc="upper right",
        ncols=2,
        bbox_to_anchor=(1.0, 0.84),
    )


def _draw_candidates(part: Any, found: Sequence[Candidate], scripted: Mapping[str, Candidate]) -> None:
    """One line per candidate under the heading of its family; then the arms that follow a script."""
    axes = part.subplots()
    axes.set_title("b  Goals in a cone: reward-only PPO")
    axes.axvspan(*WANTED, color=BAND, linewidth=0)
    y, ticks = 0.0, []
    lines = [*families(found), *([(SCRIPTED, list(scripted.items()))] if scripted else [])]
    for heading, family in lines:
        _note(axes, 0.0, y, heading, color=QUIET, style="italic")
        for name, candidate in family:
            y += 1.0
            _draw_candidate(axes, candidate, y)
            ticks.append((y, name, candidate.chosen))
        y += 1.3
    axes.set(xlim=(0.0, 1.0), ylim=(y - 0.6, -0.7), xlabel="episodes with a violation")
    axes.set_yticks([tick for tick, _, _ in ticks], [name for _, name, _ in ticks])
    for text, (_, _, chosen) in zip(axes.get_yticklabels(), ticks):
        text.set(color=CHOSEN.ink if chosen else QUIET, fontweight="bold" if chosen else "normal")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MultipleLocator(0.2))
    axes.xaxis.set_major_formatter(FuncFormatter(_percent_tick))
    axes.grid(axis="x")
    for column, words in zip(COLUMNS, ("mean", "of these,\nin step 1")):
        _note(axes, 1.0, -0.1, words, column, color=QUIET, ha="right", fontsize=7.5)
    part.legend(handles=_keys(), loc="outside lower center", ncols=3, handletextpad=0.3, columnspacing=1.2)


def _draw_candidate(axes: Axes, candidate: Candidate, y: float) -> None:
    """Seeds, their mean, the last checkpoint's, and the numbers to the right."""
    look, mean = CHOSEN if candidate.chosen else OTHER, float(np.mean(candidate.rates))
    axes.axhline(y, color="#eceef2", linewidth=0.7, zorder=1)
    if candidate.last_rates:
        axes.plot(np.mean(candidate.last_rates), y, "D", **DIAMOND, zorder=2)
    if len(candidate.rates) > 1:
        dots: dict[str, Any] = {"color": look.color, "markersize": 3.6, "alpha": 0.8, "markeredgewidth": 0}
        axes.plot(candidate.rates, [y] * len(candidate.rates), "o", **dots, zorder=3)
    axes.vlines(mean, y - 0.36, y + 0.36, color=look.ink, linewidth=2.2, zorder=4)
    style = {
        "color": look.ink if candidate.chosen else INK,
        "fontweight": "bold" if candidate.chosen else "normal",
    }
    for column, share in zip(COLUMNS, (mean, candidate.at_once)):
        words = "–" if np.isnan(share) else f"{100 * share:.0f}%"
        _note(axes, 1.0, y, words, column, ha="right", **style)


def _keys() -> list[Line2D]:
    bar: dict[str, Any] = {"color": OTHER.ink, "marker": "|", "markersize": 8, "markeredgewidth": 2.2}
    return [
        Line2D([], [], linestyle="", label="mean of seeds", **bar),
        Line2D(
            [], [], linestyle="", label="seed, all checkpoints", color=OTHER.color, marker="o", markersize=3.6
        ),
        Line2D([], [], linestyle="", label="last checkpoint", marker="D", **DIAMOND),
    ]


def _note(axes: Axes, x: float, y: float, words: str, aside: float = 0.0, **style: Any) -> None:
    """Words at a share of the width and a number of the height, so many points further to the right."""
    style = {"fontsize": 8.0, "va": "center", "annotation_clip": False, **style}
    axes.annotate(words, (x, y), (aside, 0), ("axes fraction", "data"), "offset points", **style)


def _share(found: Iterable[Mapping[str, Any]]) -> float:
    """Of the first violations, how many came in the first step; nan where there were none."""
    counts = [entry["first_in_step"] for entry in found]
    everything = sum(sum(count.values()) for count in counts)
    return sum(count["1"] for count in counts) / everything if everything else float("nan")


def _differing(one: Triple, other: Triple) -> set[int]:
    return {axis for axis in range(3) if one[axis] != other[axis]}


def _value(value: float, unit: str) -> str:
    return "anywhere" if unit == "°" and value == 180 else f"{value:g}{unit}"


def _few_colours(png: bytes) -> bytes:
    """The same picture from a palette, in a third of the bytes."""
    small = io.BytesIO()
    Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS).save(small, "png", optimize=True)
    return small.getvalue()


def _shades(count: int) -> list[str]:
    """So many of the shades, the whole range of them."""
    return [SHADES[round(i)] for i in np.linspace(0, len(SHADES) - 1, count)]


def _percent_tick(share: float, _: int | None) -> str:
    return f"{round(100 * share, 6):g}%"
