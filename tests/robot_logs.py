"""Small logs of a robot that drives towards an obstacle, as CSV: careful runs arrive, reckless ones are stopped."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

COLUMNS = ["run", "t", "distance", "speed", "heading", "throttle", "steer", "progress", "estop"]
MAPPING = """\
obs = ["distance", "speed", "heading"]
action = ["throttle", "steer"]
reward = "progress"
episode = "run"
step = "t"
stop = "estop"
"""


def run_rows(number: int, reckless: bool, rng: np.random.Generator, steps: int = 14) -> list[list]:
    """The rows of one run, the last of which has no action."""
    distance, speed, heading = 4.0 + rng.uniform(-0.5, 0.5), 0.5, 0.0
    rows = []
    for t in range(steps):
        wish = 1.0 if reckless else np.clip((0.5 * (distance - 1.5) - speed) / 0.4, -1, 1)
        throttle = float(np.clip(wish + rng.normal(scale=0.2), -1, 1))
        steer = float(np.clip(-heading + rng.normal(scale=0.2), -1, 1))
        moved = float(np.clip(speed + 0.4 * throttle, 0.0, 2.0))
        hit = distance - 0.4 * moved < 0.4
        rows.append([number, t, distance, speed, heading, throttle, steer, 0.4 * moved, int(hit)])
        distance, speed, heading = distance - 0.4 * moved, moved, heading + 0.3 * steer
        if hit:
            break
    rows.append([number, len(rows), distance, speed, heading, "", "", "", ""])
    return rows


def write_logs(folder: Path, runs: int = 60, seed: int = 0) -> tuple[Path, Path]:
    """A CSV file and its mapping."""
    rng = np.random.default_rng(seed)
    path, mapping = folder / "runs.csv", folder / "columns.toml"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS)
        for number in range(runs):
            table.writerows(run_rows(number, number % 2 == 0, rng))
    mapping.write_text(MAPPING)
    return path, mapping
