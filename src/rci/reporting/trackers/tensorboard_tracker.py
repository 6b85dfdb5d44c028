"""TensorBoard: event files in OUT/tensorboard."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

FORBIDDEN = re.compile(r"[^\w\-.=]+")  # in names of folders


class TensorboardTracker:
    """Scalars, pictures, and settings and addresses as texts; a folder for every experiment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "tensorboard"
        self.writer: Any = None

    def begin(self, name: str, config: Mapping[str, Any], group: str = "") -> None:
        """A folder of event files."""
        from tensorboardX import SummaryWriter

        parts = [FORBIDDEN.sub("-", part) for part in (group, name) if part]
        self.writer = SummaryWriter(logdir=str(self.folder.joinpath(*parts)))
        settings = json.dumps(config, indent=1, default=str)
        self.writer.add_text("settings", "\n".join(f"    {line}" for line in settings.splitlines()))

    def curves(self, name: str, step: int, numbers: Mapping[str, float]) -> None:
        """Scalars called name/number."""
        for key, value in numbers.items():
            self.writer.add_scalar(f"{name}/{key}", float(value), step)

    def figure(self, name: str, png: bytes) -> None:
        """A picture."""
        import numpy as np
        from PIL import Image

        pixels = np.asarray(Image.open(BytesIO(png)).convert("RGB"))
        self.writer.add_image(f"figures/{name}", pixels, dataformats="HWC")

    def artefact(self, name: str, address: str, content: str) -> None:
        """A text with the address and the hash."""
        self.writer.add_text(f"artefacts/{name}", f"{address} {content}")

    def end(self, failed: bool = False) -> None:
        """Close the file; a failed experiment says so in a text."""
        if failed:
            self.writer.add_text("status", "failed")
        self.writer.close()
