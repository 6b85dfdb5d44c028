"""Records the folders beside this file with the real `lerobot` package; the recipe is in docs/lerobot.md.

Run it in an environment of its own, once with lerobot 0.4.4 and once with 0.3.3: each writes the folder of its version.

    python record_samples.py [FOLDER]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from lerobot.datasets.lerobot_dataset import CODEBASE_VERSION, LeRobotDataset
from lerobot_frames import JOINTS, LENGTHS, TASKS, frames

FEATURES = {
    "observation.state": {"dtype": "float32", "shape": (3,), "names": JOINTS},
    "observation.force": {"dtype": "float32", "shape": (1,), "names": None},
    "observation.images.front": {
        "dtype": "video",
        "shape": (48, 64, 3),
        "names": ["height", "width", "channels"],
    },
    "action": {"dtype": "float32", "shape": (3,), "names": JOINTS},
    "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
    "next.done": {"dtype": "bool", "shape": (1,), "names": None},
    "intervention": {"dtype": "bool", "shape": (1,), "names": None},
    "success": {"dtype": "bool", "shape": (1,), "names": None},
    "stopped": {"dtype": "bool", "shape": (1,), "names": None},
}


def record(folder: Path) -> None:
    """Write the folder of the version that is installed."""
    small = {"data_files_size_in_mb": 0.01, "video_files_size_in_mb": 0.002}
    options = small if CODEBASE_VERSION == "v3.0" else {}
    dataset = LeRobotDataset.create("rci/sample", 10, FEATURES, folder, robot_type="so100")
    if options:
        dataset.meta.update_chunk_settings(**options)
    for episode in range(len(LENGTHS)):
        for frame in frames(episode):
            task = TASKS[episode % 2]
            if CODEBASE_VERSION == "v3.0":
                dataset.add_frame({**frame, "task": task})
            else:
                dataset.add_frame(frame, task)
        dataset.save_episode()
    if CODEBASE_VERSION == "v3.0":
        dataset.finalize()


if __name__ == "__main__":
    place = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent) / CODEBASE_VERSION
    shutil.rmtree(place, ignore_errors=True)
    record(place)
    shutil.rmtree(place / "images", ignore_errors=True)
