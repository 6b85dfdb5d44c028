"""Trainings that survive their process: the whole state every so many updates, and on from there.

A checkpoint belongs to one training: same data, method, settings and seed. One that stands in the folder and belongs
to another training is not used; it can always be made again, so the new training's own replaces it. Whoever stores the
policy may remove the folder afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rci.data import store
from rci.data.artefacts.models import Checkpoint, SavedModel
from rci.data.errors import RciError
from rci.nets.arrays import from_arrays, to_arrays

History = list[dict[str, float]]


@dataclass(frozen=True)
class Keeper:
    """Keeps the state of one training in `folder`, at the first chance after every `every` updates."""

    folder: Path
    every: int
    training: str  # identifies what is trained: a digest of data, method, settings and seed
    beyond: bool = (
        False  # whether a longer training will go on from the last update, so that it is kept as well
    )

    def resume(self, begun: Any, updates: int) -> tuple[Any, int, History]:
        """What was kept of this very training, or its beginning: state, updates done of `updates`, history."""
        store.check_place(self.folder)
        nothing = begun, 0, list[dict[str, float]]()
        try:
            kept = store.read(self.folder, Checkpoint.kind)
        except RciError:  # none there, or none that is whole
            return nothing
        if kept.info["training"] != self.training:
            return nothing
        if kept.info["update"] > updates:  # of a longer training, and what it was like before is not kept
            return nothing
        return from_arrays(begun, kept.model.arrays), int(kept.info["update"]), list(kept.info["history"])

    def keep(self, state: Any, update: int, history: History, last: bool = False) -> None:
        """Write the state, if it is time to."""
        before = history[-2]["update"] if len(history) > 1 else 0
        due = update // self.every > before // self.every
        if not (self.beyond if last else due):
            return
        info = {"training": self.training, "update": update, "history": history}
        store.write(self.folder, Checkpoint(SavedModel("checkpoint", {}, to_arrays(state)), info))
