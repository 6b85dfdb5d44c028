"""Loads folders with the real `lerobot` package, in its own environment, and says what is in them; see docs/lerobot.md.

python load_folder.py FOLDER ...
"""

from __future__ import annotations

import sys

import numpy as np
from lerobot.datasets.lerobot_dataset import CODEBASE_VERSION, LeRobotDataset

for folder in sys.argv[1:]:
    dataset = LeRobotDataset("rci/loaded", root=folder)
    frames = dataset.hf_dataset.with_format(None)[:]
    assert set(frames) == set(dataset.features) - set(dataset.meta.video_keys)
    for name, values in frames.items():
        rows = np.asarray(values).reshape(dataset.num_frames, -1).astype(np.float64)
        stats = dataset.meta.stats[name]
        for what in ("min", "max", "mean"):
            expected = getattr(rows, what)(axis=0)
            assert np.allclose(np.asarray(stats[what], np.float64), expected, atol=1e-5), (name, what)
        assert list(np.ravel(stats["count"])) == [dataset.num_frames], name
    for episode in range(dataset.num_episodes):
        for camera in dataset.meta.video_keys:
            assert (dataset.root / dataset.meta.get_video_file_path(episode, camera)).is_file()
    if not dataset.meta.video_keys:
        assert dataset[0]["task"]
    added = [name for name in ("cost", "stopped", "risk") if name in frames]
    print(
        f"lerobot {CODEBASE_VERSION}: {folder}: {dataset.num_episodes} episodes, {dataset.num_frames} frames"
    )
    for name in added:
        print(f"  {name}: sum {np.asarray(frames[name], np.float64).sum():.6f}")
