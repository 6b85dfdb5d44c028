"""Many runs from one file: every combination of settings, what they share done once, one row per policy."""

from rci.studies.sweep.runner import sweep

__all__ = ["sweep"]
