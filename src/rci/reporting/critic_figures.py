"""Maps of the cost critics over the task's world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from rci.data.record import Array
from rci.reporting.contents import CriticMap
from rci.reporting.map_figures import map_panels
from rci.reporting.palette import HEAT, Look

if TYPE_CHECKING:
    from rci.tasks.base import Probe


def critic_maps(
    maps: Sequence[CriticMap], probe: Probe, style: Mapping[str, Look], distance: Array, danger: float
) -> Figure:
    """One map per method; the line surrounds what is truly unsafe. distance: at the points of the probe."""
    figure, _ = map_panels(maps, probe, style, distance, danger, HEAT)
    return figure
