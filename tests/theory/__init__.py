"""Exact tabular tools behind `tests/test_theory.py`."""
