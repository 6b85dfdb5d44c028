"""One look per method, the same in every figure and table, and the style that all figures share.

Colours are those of Okabe and Ito, which stay apart for colour-blind readers; markers differ as well. `ink` is the
colour darkened until small text in it can be read on white.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib import colormaps
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

INK = "#1f2430"
QUIET = "#5d6470"
FAINT = "#c7ccd4"
DANGER = "#d55e00"
DANGER_INK = "#b04e00"
ROUND = (1, 2, 5, 10)  # tick steps
WIDTH = 3.8  # inches: at this width the text stays readable on a phone

# Blue below 0, orange above, both darker the further away: readable without red and green, and in grey with its sign.
SIGNED = LinearSegmentedColormap.from_list(
    "signed", ["#053a5f", "#0072b2", "#8cc4e6", "#f7f7f7", "#f5b98c", "#d55e00", "#742f00"]
)
HEAT = colormaps["YlOrBr"]  # lightness falls all the way
# Lightness falls here too, but never so far that ink on it could not be read.
WORTH = LinearSegmentedColormap.from_list("worth", ["#fffdf0", "#dbe3ea", "#b2bddf", "#8b85c4"])

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titlepad": 8.0,
    "axes.titlecolor": INK,
    "axes.labelcolor": QUIET,
    "axes.labelsize": 8.5,
    "axes.edgecolor": "#9aa1ac",
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#e7e9ee",
    "grid.linewidth": 0.7,
    "xtick.color": "#9aa1ac",
    "ytick.color": "#9aa1ac",
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.0,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,  # whole letters, which can be searched and which publishers take
    "svg.hashsalt": "rci",
}


class Look(NamedTuple):
    """How one method is drawn."""

    color: str
    ink: str
    marker: str


LOOKS = {
    "reward-only": Look("#7f7f7f", "#666666", "s"),
    "sparse": Look("#e69f00", "#8a5f00", "^"),
    "uniform": Look("#56b4e9", "#1d6fa0", "v"),
    "hazard": Look("#d55e00", "#b04e00", "P"),
    "rci": Look("#0072b2", "#0069a4", "o"),
    "oracle": Look("#cc79a7", "#a1457a", "D"),
}
KNOWN = Look("#4a4f59", INK, "*")  # drivers who know the danger: no method
OTHERS = (
    Look("#009e73", "#007a59", "X"),
    Look("#000000", "#000000", "<"),
    Look("#b8a800", "#6f6600", ">"),
    Look("#8a4f2d", "#8a4f2d", "p"),
    Look("#4b3f99", "#4b3f99", "h"),
    Look("#44aa99", "#26776a", "d"),
    Look("#882255", "#882255", "*"),
    Look("#cc6677", "#a8434f", "8"),
    Look("#5b8c00", "#4a7300", "X"),
    Look("#9467bd", "#74469b", "<"),
    Look("#17a2b8", "#0d7383", ">"),
)


def looks(methods: Iterable[str]) -> dict[str, Look]:
    """The look of each method, in the order in which methods are shown; unknown names take the free looks in turn."""
    names = set(methods)
    strangers = sorted(names - set(LOOKS))
    used = {name: look for name, look in LOOKS.items() if name in names}
    return used | {name: OTHERS[i % len(OTHERS)] for i, name in enumerate(strangers)}


def study_looks(methods: Iterable[str]) -> dict[str, Look]:
    """The looks of the methods of a study, those first that a report has too; `rudder` is its `rci`."""
    order = ["rudder" if name == "rci" else name for name in LOOKS]
    position = {name: place for place, name in enumerate(order)}
    return variant_looks(sorted(set(methods), key=lambda name: (position.get(name, len(order)), name)))


def variant_looks(names: Sequence[str]) -> dict[str, Look]:
    """The looks of redistributors and variants of them, in the order given; all differ as long as there are enough.

    Plain methods look as they do in a report, where `rudder` is what `rci` is made with.
    """
    own = {name: "rci" if name == "rudder" else name for name in names}
    free = [*OTHERS, *(look for name, look in LOOKS.items() if name not in own.values())]
    strangers = [name for name in names if own[name] not in LOOKS]
    given = {name: free[i % len(free)] for i, name in enumerate(strangers)}
    return {name: given[name] if name in given else LOOKS[own[name]] for name in names}


def sheet(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, in inches, that keeps its parts from overlapping."""
    return Figure(figsize=(width, height), layout="constrained")
