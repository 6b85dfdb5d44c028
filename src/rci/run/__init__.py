"""Wires the stages together: settings, jobs, the command line. Nothing imports this package."""
