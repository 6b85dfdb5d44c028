"""The report of a sweep over settings."""
