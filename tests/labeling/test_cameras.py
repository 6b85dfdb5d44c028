"""The cameras of LeRobot folders in the labeler: picture k is what was seen before step k."""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import rci
from rci.cli.serving import Request, make_exhibit
from rci.data.errors import RciError
from rci.formats.lerobot.cameras import read_camera

sys.path.insert(0, str(Path(__file__).parents[1] / "data" / "formats"))
from lerobot_frames import LENGTHS

pytest.importorskip("av")
SAMPLES = Path(__file__).parents[1] / "data" / "formats" / "lerobot"
CAMERA = "observation.images.front"


@pytest.fixture(params=["v2.1", "v3.0"])
def folder(request, tmp_path):
    return Path(shutil.copytree(SAMPLES / request.param, tmp_path / request.param))


def shown(folder, episodes, camera=None):
    """The pictures that a page gets, and what is said in the terminal."""
    said = []
    request = Request(folder, folder, frames=folder, camera=camera)
    return make_exhibit(request, episodes, said.append).pictures, said


def brightness(pictures, episode):
    found = [pictures.picture(episode, k)[0] for k in range(pictures.count(episode))]
    return np.array([np.asarray(Image.open(io.BytesIO(picture))).mean() for picture in found])


def expected(episode, length):
    """As the samples were recorded; the last picture stands for the moment after the last step."""
    levels = 20 + 60 * episode + 4 * np.arange(length)
    return np.array([*levels, levels[-1]])


def test_every_picture_is_that_of_its_step(folder):
    episodes = rci.read_lerobot(folder)
    pictures, said = shown(folder, episodes)
    assert said == [f"The camera is {CAMERA}."]
    for i in (3, 0, 2, 1):  # in v3.0 one video has two of them
        assert np.abs(brightness(pictures, i) - expected(i, LENGTHS[i])).max() < 1.9
        assert pictures.size(i) == (64, 48)


def test_episodes_know_their_numbers(folder):
    some = rci.read_lerobot(folder).take([3, 1])
    pictures, _ = shown(folder, some, CAMERA)
    for i, number in enumerate((3, 1)):
        assert np.abs(brightness(pictures, i) - expected(number, LENGTHS[number])).max() < 1.9


def test_a_camera_that_is_shorter_than_its_signals(folder):
    episodes = rci.read_lerobot(folder)
    if folder.name == "v3.0":
        path = folder / "meta/episodes/chunk-000/file-000.parquet"
        table, name = pq.read_table(path), f"videos/{CAMERA}/to_timestamp"
        ends = [0.7, 1.2, 0.6, 1.4]
        pq.write_table(table.set_column(table.schema.get_field_index(name), name, pa.array(ends)), path)
        sentence, short = "in 1 of 4 episodes, not shown: episode 2 has 6 pictures for 9 steps", 2
    else:
        files = sorted(folder.glob("videos/*/*/*.mp4"))
        shutil.copyfile(files[0], files[1])
        sentence, short = "", 1
    pictures, said = shown(folder, episodes)
    assert sentence in said[-1]
    with pytest.raises(RciError, match=f"the camera is shorter than its signals: episode {short} has"):
        pictures.count(short)
    assert len(brightness(pictures, 0)) == 8


def test_a_video_with_another_clock(folder):
    path = folder / "meta/info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "fps": 20}))
    if folder.name == "v3.0":  # where the episode ends is a time, too
        pictures, said = shown(folder, rci.read_lerobot(folder))
        assert "not shown" not in said[-1]
    else:
        pictures, _ = shown(folder, rci.read_lerobot(folder))
    with pytest.raises(
        RciError, match=r"has no picture at 0\.050 s, or two: its clock is not that of 20 pictures"
    ):
        pictures.count(0)


def test_what_is_wrong_with_a_camera(folder, tmp_path):
    episodes = rci.read_lerobot(folder)
    with pytest.raises(RciError, match="unknown camera of .* 'wrist'"):
        read_camera(folder, episodes, "wrist")
    with pytest.raises(RciError, match="--camera names a camera of a LeRobot folder"):
        make_exhibit(Request(folder, folder, frames=tmp_path, camera=CAMERA), episodes, print)
    wrong = rci.read_lerobot(folder).take([0])
    wrong.keys["episode_index"][0] = "1"
    with pytest.raises(RciError, match="episode 1 has 12 frames there, but 7 steps here"):
        read_camera(folder, wrong)
    videos = sorted(folder.glob("videos/**/*.mp4"))
    videos[0].write_bytes(b"no video")
    pictures, _ = shown(folder, episodes)
    with pytest.raises(RciError, match="cannot be read as a video"):
        pictures.count(0)
    videos[0].unlink()
    videos[0].symlink_to("/etc/passwd")
    with pytest.raises(RciError, match="is a link that leads out of"):
        read_camera(folder, episodes)
    videos[0].unlink()
    with pytest.raises(RciError, match="there is no video"):
        read_camera(folder, episodes)
    bare = rci.write_lerobot(tmp_path / "bare", episodes)
    with pytest.raises(RciError, match="bare has no videos"):
        read_camera(bare, episodes)
