"""Estimates against the truth: policies good and bad, judged from logs and then driven in the simulator."""
