"""A differential-drive robot among obstacles, with an e-stop: its dynamics, operators, and logs as a robot has them.

The robot drives from the left of a walled field to a goal on the right. Eight sectors of a lidar show how near the
next obstacle or wall is. The e-stop fires where the clearance falls below a limit.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rci.benchmarks.trust.simulator import Recording, Simulator, record_logs
from rci.data.record import Array

STEP = 0.1  # s
STEPS = 120
FIELD = 8.0  # m, a square
RADIUS = 0.25  # m, of the robot
STOP_CLEARANCE = 0.15  # m
TOP_SPEED, TOP_TURN = 1.2, 1.6  # m/s, rad/s
SPEED_LAG, TURN_LAG = 0.4, 0.2  # s: how fast the motors follow a command
RANGE = 3.0  # m, of the lidar
SECTORS = 8
GOAL = np.array([7.0, 4.0])  # m
PLACES = np.array([[2.6, 2.6], [2.6, 5.4], [4.2, 4.0], [5.6, 2.4], [5.6, 5.6]])  # m, of obstacles
MISPLACED = 0.5  # m: how far an obstacle may stand from its place
SIZES = (0.35, 0.6)  # m, radii of obstacles

OBS = (
    "pose x [m]", "pose y [m]", "heading sin", "heading cos", "speed [m/s]", "turn rate [rad/s]",
    *(f"lidar_{k} [m]" for k in range(SECTORS)),
)  # fmt: skip
COMMANDS = ("cmd speed [m/s]", "cmd turn [rad/s]")


class Rover(NamedTuple):
    """n robots, each among its own obstacles."""

    place: Array  # [n, 2] m
    heading: Array  # [n] rad
    speed: Array  # [n] m/s
    turn: Array  # [n] rad/s
    obstacle: Array  # [n, k, 3]: x, y, radius in m


def begin(rng: np.random.Generator, count: int) -> Rover:
    """Robots at rest on the left, roughly facing the goal."""
    shift = rng.uniform(-MISPLACED, MISPLACED, (count, len(PLACES), 2))
    size = rng.uniform(*SIZES, (count, len(PLACES), 1))
    place = np.column_stack([rng.uniform(0.7, 1.3, count), rng.uniform(2.0, 6.0, count)])
    zeros = np.zeros(count)
    return Rover(
        place,
        rng.uniform(-0.4, 0.4, count),
        zeros,
        zeros,
        np.concatenate([PLACES + shift, size], axis=-1),
    )


def advance(rng: np.random.Generator, rover: Rover, command: Array) -> Rover:
    """One tenth of a second; commands in [-1, 1] are half the speed range around half speed, and the turn rate."""
    wanted_speed, wanted_turn = TOP_SPEED * (0.5 + 0.5 * command[:, 0]), TOP_TURN * command[:, 1]
    speed = rover.speed + STEP / SPEED_LAG * (wanted_speed - rover.speed)
    turn = rover.turn + STEP / TURN_LAG * (wanted_turn - rover.turn)
    turn = turn + rng.normal(0.0, 0.03, len(turn))  # wheels slip
    heading = _wrapped(rover.heading + STEP * turn)
    step = STEP * speed[:, None] * np.column_stack([np.cos(heading), np.sin(heading)])
    # Nobody drives through a wall, and at the goal one stays.
    there = np.linalg.norm(rover.place - GOAL, axis=1) < 0.4
    place = np.clip(np.where(there[:, None], rover.place, rover.place + step), RADIUS, FIELD - RADIUS)
    return Rover(place, heading, speed, turn, rover.obstacle)


def clearance(rover: Rover) -> Array:
    """Metres between the robot's body and the nearest obstacle or wall, [n]."""
    apart = np.linalg.norm(rover.obstacle[..., :2] - rover.place[:, None], axis=-1) - rover.obstacle[..., 2]
    walls = np.minimum(rover.place, FIELD - rover.place).min(axis=1)
    return np.minimum(apart.min(axis=1), walls) - RADIUS


def lidar(rover: Rover) -> Array:
    """Metres to the nearest obstacle or wall in each of eight sectors, the first one centred ahead, [n, 8].

    Five rays for each sector; no echo within the range is the range.
    """
    rays = SECTORS * 5
    angle = rover.heading[:, None] + (np.arange(rays) - 2) * (2 * np.pi / rays)
    ray = np.stack([np.cos(angle), np.sin(angle)], axis=-1)  # [n, rays, 2]
    offset = rover.obstacle[..., :2] - rover.place[:, None]  # [n, k, 2]
    along = np.einsum("nrd,nkd->nrk", ray, offset)
    across = np.sum(offset**2, axis=-1)[:, None] - along**2
    inside = rover.obstacle[:, None, :, 2] ** 2 - across
    hit = np.where((inside > 0) & (along > 0), along - np.sqrt(np.maximum(inside, 0.0)), RANGE)
    with np.errstate(divide="ignore"):
        wall = np.where(ray > 0, FIELD - rover.place[:, None], -rover.place[:, None]) / ray
    nearest = np.minimum(hit.min(axis=-1), np.abs(wall).min(axis=-1))
    return np.clip(nearest, 0.0, RANGE).reshape(len(angle), SECTORS, 5).min(axis=-1)


def observe(rover: Rover) -> Array:
    """Pose, speeds and lidar, [n, 14]; see OBS."""
    return np.column_stack(
        [rover.place, np.sin(rover.heading), np.cos(rover.heading), rover.speed, rover.turn, lidar(rover)]
    )


def reward(before: Rover, after: Rover) -> Array:
    """Metres that the robot came closer to the goal, [n]."""
    return np.linalg.norm(before.place - GOAL, axis=1) - np.linalg.norm(after.place - GOAL, axis=1)


def unsafe(rover: Rover) -> Array:
    """Where the e-stop fires, [n]."""
    return clearance(rover) < STOP_CLEARANCE


def operators(rng: np.random.Generator, count: int) -> Callable[[int, Array], Array]:
    """Drivers towards the goal who swerve and brake, each with a care and an unsteadiness that an episode keeps."""
    care, unsteady = rng.uniform(0.0, 1.0, count), rng.uniform(0.1, 0.5, count)
    drift = np.zeros(count)

    def act(step: int, obs: Array) -> Array:
        nonlocal drift
        drift = 0.9 * drift + 0.3 * unsteady * rng.normal(size=count)
        heading, near = np.arctan2(obs[:, 2], obs[:, 3]), obs[:, 6:]
        wanted = np.arctan2(GOAL[1] - obs[:, 1], GOAL[0] - obs[:, 0])
        towards = _wrapped(wanted - heading)
        # Sectors 1 and 2 look left, 7 and 6 right: turn away from what is near ahead.
        threat = np.clip((1.6 - near) / 1.6, 0.0, 1.0)
        side = threat[:, 7] + 0.5 * threat[:, 6] - threat[:, 1] - 0.5 * threat[:, 2]
        ahead = threat[:, 0]
        swerve = 2.5 * care * (side + ahead * np.where(side >= 0, 1.0, -1.0))
        turn = 0.9 * towards + swerve + drift
        speed = 0.8 - 1.5 * care * np.maximum(ahead, 0.6 * np.maximum(threat[:, 1], threat[:, 7]))
        speed = speed + unsteady * rng.normal(size=count)
        return np.clip(np.column_stack([speed, turn]), -1.0, 1.0).astype(np.float32)

    return act


SIMULATOR = Simulator("rover", STEPS, begin, advance, observe, reward, unsafe, operators)


def write_logs(file: Path, runs: int = 300, seed: int = 0, gaps: int = 20) -> Recording:
    """Logs of so many runs as a CSV file; the truth, which the file does not hold, is returned.

    A run ends where the e-stop fired. Columns: run, robot, time (ISO 8601), `OBS`, `COMMANDS` and e_stop; there is no
    reward. A few cells of the lidar and whole rows are missing, `gaps` of either.
    """
    truth = record_logs(SIMULATOR, runs, seed)
    rng = np.random.default_rng([seed, 1])
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["run", "robot", "time", *OBS, *COMMANDS, "e_stop"])
        writer.writerows(_with_gaps(rng, _rows(truth), gaps))
    return truth


def _rows(truth: Recording) -> list[list[str]]:
    """One row for each tenth of a second: what was seen, what was commanded, whether the e-stop fired on it."""
    start, rows = datetime(2026, 3, 2, 8, 0, tzinfo=UTC), []
    for number, episode in enumerate(truth.episodes):
        began, robot = start + timedelta(minutes=2 * number), f"R{number % 3 + 1}"
        last = int(truth.first[number]) if truth.first[number] >= 0 else len(episode.action) - 1
        for t in range(last + 2):
            action = episode.action[min(t, last)]
            command = TOP_SPEED * (0.5 + 0.5 * action[0]), TOP_TURN * action[1]
            when = (began + timedelta(seconds=STEP * t)).isoformat(timespec="milliseconds")
            fired = int(t == last + 1 and truth.first[number] >= 0)
            numbers = [f"{float(x):.4f}" for x in (*episode.obs[t], *command)]
            rows.append([f"run{number:04d}", robot, when, *numbers, str(fired)])
    return rows


def _with_gaps(rng: np.random.Generator, rows: list[list[str]], gaps: int) -> list[list[str]]:
    """The rows with some cells of the lidar empty and some rows gone, none of them the first or last of its run."""
    inner = [i for i in range(1, len(rows) - 1) if rows[i - 1][0] == rows[i][0] == rows[i + 1][0]]
    chosen = rng.permutation(inner)[: 2 * gaps]
    for i in chosen[:gaps]:
        rows[i][3 + 6 + int(rng.integers(SECTORS))] = ""
    dropped = {int(i) for i in chosen[gaps:]}
    return [row for i, row in enumerate(rows) if i not in dropped]


def _wrapped(angle: Array) -> Array:
    """Within [-pi, pi)."""
    return (angle + np.pi) % (2 * np.pi) - np.pi
