"""Where things are kept that can always be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """RCI_CACHE, or `rci` in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(os.environ.get("RCI_CACHE") or os.path.join(home, "rci"))
