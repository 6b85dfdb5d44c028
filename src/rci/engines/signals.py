"""What a process does when it is asked to end."""

from __future__ import annotations

import signal
import sys


def end_politely() -> None:
    """On SIGTERM, as a scheduler sends it, leave as after Ctrl-C: what was begun is cleared away."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
