"""D4RL files: as DSRL's, but without costs, and often without `next_observations`; `dsrl.py` says what that means."""

from __future__ import annotations

from pathlib import Path

from rci.data.episodes import Episodes
from rci.data.formats.dsrl import import_dsrl
from rci.data.formats.flat import Mismatch
from rci.data.formats.imported import Imported, Progress, silent


def import_d4rl(path: str | Path, mismatch: Mismatch = "error", progress: Progress = silent) -> Imported:
    """Everything that a D4RL file says. It is read as a DSRL file that has no costs."""
    return import_dsrl(path, mismatch, progress)


def read_d4rl(path: str | Path, mismatch: Mismatch = "error", progress: Progress = silent) -> Episodes:
    """The episodes of a D4RL file; `import_d4rl` gives notes as well."""
    return import_dsrl(path, mismatch, progress).episodes
