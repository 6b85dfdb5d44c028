"""What RCI adds to the frames of a LeRobot folder, and how columns of frames are stored and described."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rci.data.artefacts.costs import StepCosts
from rci.data.artefacts.episodes import Episodes
from rci.data.artefacts.labels import Labels
from rci.data.artefacts.signals import Signal
from rci.data.errors import RciError
from rci.data.record import Array, expect
from rci.data.types import kept_rows
from rci.formats.importing.imported import optional
from rci.formats.lerobot.info import NUMBERS


def added_columns(
    episodes: Episodes, labels: Labels | None, costs: StepCosts | None, risk: ArrayLike | None
) -> dict[str, Array]:
    """`cost` (inferred, float32; 0 behind a stop), `stopped` (in the frame of the stop) and `risk`, [steps] each."""
    expect(Episodes, episodes=episodes)
    steps = len(episodes.reward)
    columns: dict[str, Array] = {}
    if labels is not None:
        expect(Labels, labels=labels)
        labels.check_parent(episodes)
    if costs is not None:
        expect(StepCosts, costs=costs)
        if labels is None:
            raise RciError("step costs are written with the labels that they were inferred from; give both.")
        costs.check_parent(labels)
        columns["cost"] = np.zeros(steps, np.float32)
        columns["cost"][kept_rows(episodes, labels)] = costs.total
    if labels is not None:
        columns["stopped"] = np.zeros(steps, bool)
        columns["stopped"][(episodes.step_offset[:-1] + labels.stop_index)[labels.stopped]] = True
    if risk is not None:
        columns["risk"] = np.asarray(risk, np.float32)
        if columns["risk"].shape != (steps,) or not np.isfinite(columns["risk"]).all():
            raise RciError(f"risk must be one finite number for each of {steps} steps, got {np.shape(risk)}.")
    return columns


def feature(name: str, values: Array, signals: Sequence[Signal] = ()) -> dict[str, Any]:
    """How `meta/info.json` describes a column, [T] or [T, numbers]."""
    if values.ndim > 2 or values.dtype.name not in NUMBERS:
        raise RciError(
            f"LeRobot stores rows of numbers as {name}; arrays of {values.dtype} {values.shape[1:]} cannot be written."
        )
    described = {
        "dtype": values.dtype.name,
        "shape": [1 if values.ndim == 1 else values.shape[1]],
        "names": [signal.name for signal in signals] or None,
    }
    units = [signal.unit for signal in signals]
    return {**described, "units": units} if any(units) else described


def arrow_table(columns: Mapping[str, Array]) -> Any:
    """Columns as LeRobot stores them: single numbers as they are, rows of numbers as lists of fixed size."""
    arrow = optional("pyarrow", "pyarrow")
    arrays = {}
    for name, values in columns.items():
        flat = arrow.array(np.ascontiguousarray(values).reshape(-1))
        single = values.ndim == 1 or values.shape[1] == 1
        arrays[name] = flat if single else arrow.FixedSizeListArray.from_arrays(flat, values.shape[1])
    return arrow.table(arrays)
