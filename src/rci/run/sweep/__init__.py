"""Many runs from one file: every combination of settings, what they share done once, one row per policy."""

from rci.run.sweep.runner import sweep

__all__ = ["sweep"]
