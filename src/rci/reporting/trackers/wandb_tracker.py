"""Weights & Biases: a project called rci, offline in OUT/wandb unless WANDB_MODE=online is set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

PROJECT = "rci"  # unless WANDB_PROJECT says another


class WandbTracker:
    """Numbers over their own updates, pictures, and addresses in the summary."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run: Any = None
        self.axes: set[str] = set()

    def begin(self, name: str, config: Mapping[str, Any], group: str = "") -> None:
        """A run with these settings; nothing is sent unless the user's environment says so."""
        import wandb

        self.folder.mkdir(parents=True, exist_ok=True)
        self.axes = set()
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=name,
            group=group or None,
            config=dict(config),
            dir=str(self.folder),
            mode=os.environ.get("WANDB_MODE", "offline"),
        )

    def curves(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Numbers called name/number, each over name/update: trainings do not share their steps."""
        if name not in self.axes:
            self.axes.add(name)
            self.run.define_metric(f"{name}/*", step_metric=f"{name}/update")
        own = {f"{name}/{key}": float(value) for key, value in numbers.items()}
        self.run.log({**own, f"{name}/update": step})

    def figure(self, name: str, png: bytes) -> None:
        """A picture."""
        import wandb
        from PIL import Image

        self.run.log({f"figures/{name}": wandb.Image(Image.open(BytesIO(png)))})

    def artefact(self, name: str, address: str, content: str) -> None:
        """An entry of the summary with the address and the hash."""
        self.run.summary[f"artefacts/{name}"] = f"{address} {content}"

    def end(self, failed: bool = False) -> None:
        """The run has finished, with exit code 1 if it failed."""
        self.run.finish(exit_code=int(failed))
