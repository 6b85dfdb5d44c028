"""What the folders of LeRobot beside this file hold: four episodes of a robot arm, made up anew where needed.

The picture of frame t of episode e is grey of brightness 20 + 60 e + 4 t, so a test sees which picture is shown.
"""

from __future__ import annotations

import numpy as np

LENGTHS, STOPS, TASKS = (7, 12, 9, 5), (-1, 9, -1, 2), ("lift the cup", "open the drawer")
JOINTS = ["shoulder.pos", "elbow.pos", "gripper.pos"]


def frames(episode: int) -> list[dict[str, object]]:
    """What was recorded in an episode."""
    rng = np.random.default_rng(episode)
    length, stop = LENGTHS[episode], STOPS[episode]
    found: list[dict[str, object]] = []
    for t in range(length):
        last = t == length - 1
        found.append(
            {
                "observation.state": rng.normal(size=3).astype(np.float32),
                "observation.force": rng.random(1).astype(np.float32),
                "observation.images.front": np.full((48, 64, 3), 20 + 60 * episode + 4 * t, np.uint8),
                "action": rng.normal(size=3).astype(np.float32),
                "next.reward": np.array([rng.random()], np.float32),
                "next.done": np.array([last and stop < 0]),
                "intervention": np.array([episode == 2 and 3 <= t < 6]),
                "success": np.array([last and episode == 0]),
                "stopped": np.array([0 <= stop <= t]),
            }
        )
    return found
