import contextlib
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")

from rci.data.errors import RciError
from rci.tasks.fetch_reach import workbench
from rci.tasks.fetch_reach.hazard import START, Hazard

HAZARD = Hazard((1.42, 0.72, 0.53), 0.05)
GOAL = START + np.array([0.10, 0.14, 0.05])
WIDTH, HEIGHT = 200, 150


def backend_works() -> bool:
    """Where no back-end works, the error that says so is what is tested."""
    with contextlib.suppress(RciError):
        workbench.choose_backend()
        return True
    with pytest.raises(RciError, match="libegl1.*MUJOCO_GL=osmesa"):
        workbench.choose_backend()
    return False


def model_path() -> str:
    """gymnasium-robotics' model, found without importing the package."""
    found = find_spec("gymnasium_robotics")
    if found is None or found.origin is None:
        pytest.skip("gymnasium-robotics is not installed")
    return str(Path(found.origin).parent / "envs/assets/fetch/reach.xml")


@pytest.fixture(scope="module")
def world():
    model = mujoco.MjModel.from_xml_path(model_path())
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def pixel(model, place, camera: workbench.Camera = workbench.CAMERA) -> np.ndarray:
    """Where a pinhole camera sees a place: (column, row)."""
    turn, raise_ = np.deg2rad([camera.azimuth, camera.elevation])
    forward = np.array([np.cos(raise_) * np.cos(turn), np.cos(raise_) * np.sin(turn), np.sin(raise_)])
    right = np.array([np.sin(turn), -np.cos(turn), 0.0])
    away = np.asarray(place) - (np.array(camera.lookat) - camera.distance * forward)
    focal = HEIGHT / 2 / np.tan(np.deg2rad(model.vis.global_.fovy) / 2)
    seen = np.array([away @ right, -away @ np.cross(right, forward)]) / (away @ forward)
    return np.array([WIDTH, HEIGHT]) / 2 + focal * seen


def around(picture: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The mean colour of 3 x 3 pixels."""
    column, row = at.astype(int)
    return picture[row - 1 : row + 2, column - 1 : column + 2].mean((0, 1))


def model_bytes(model) -> bytes:
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return buffer.tobytes()


def data_bytes(data) -> dict[str, bytes]:
    """All arrays; those named efc_AR have no memory of their own under this model's solver."""
    fields = {name: getattr(data, name) for name in dir(data) if not name.startswith("_")}
    return {
        name: field.tobytes()
        for name, field in fields.items()
        if isinstance(field, np.ndarray) and "efc_AR" not in name
    }


def test_hazard_and_goal_are_where_they_should_be(world) -> None:
    if not backend_works():
        return
    model, data = world
    with workbench.Workbench(model, WIDTH, HEIGHT) as bench:
        bare, full = (bench.draw(data, hazard, GOAL) for hazard in (None, HAZARD))
    assert full.shape == (HEIGHT, WIDTH, 3)
    assert full.dtype == np.uint8
    assert (full[2, -3] == 255).all()  # the backdrop
    red, green, blue = around(full, pixel(model, HAZARD.centre))
    assert red > green + 40 > blue + 60
    red, green, blue = around(full, pixel(model, GOAL))
    assert green > red + 60
    assert green > blue
    rows, columns = np.nonzero((bare != full).any(-1))
    ball = rows < pixel(model, (*HAZARD.centre[:2], HAZARD.centre[2] - 0.06))[1]  # below that is its spot
    centre = np.array([columns[ball].mean(), rows[ball].mean()])
    assert centre == pytest.approx(pixel(model, HAZARD.centre), abs=2.0)


def test_drawing_changes_neither_model_nor_data(world) -> None:
    if not backend_works():
        return
    model, data = world
    before = model_bytes(model), data_bytes(data)
    first = workbench.draw_workbench(model, data, HAZARD, GOAL, WIDTH, HEIGHT)
    assert model_bytes(model) == before[0]
    assert data_bytes(data) == before[1]
    assert len(before[1]) > 100
    assert (workbench.draw_workbench(model, data, HAZARD, GOAL, WIDTH, HEIGHT) == first).all()


def test_the_models_own_mark_of_a_goal_is_not_drawn(world) -> None:
    if not backend_works():
        return
    model, data = world
    moved = mujoco.MjData(model)
    mujoco.mj_forward(model, moved)
    moved.site("target0").xpos[:] = START + np.array([0.1, -0.1, 0.05])
    pictures = [workbench.draw_workbench(model, d, None, GOAL, WIDTH, HEIGHT) for d in (data, moved)]
    assert (pictures[0] == pictures[1]).all()


def test_pictures_may_be_larger_than_the_model_asks_for(world) -> None:
    if not backend_works():
        return
    model, data = world
    wide = model.vis.global_.offwidth + 20
    picture = workbench.draw_workbench(model, data, HAZARD, GOAL, wide, 20)
    assert picture.shape == (20, wide, 3)
    assert len(np.unique(picture[:, -20:])) == 1  # the backdrop reaches to the edge


def test_a_closed_workbench_says_so(world) -> None:
    if not backend_works():
        return
    model, data = world
    bench = workbench.Workbench(model, 16, 16)
    bench.close()
    bench.close()
    with pytest.raises(RciError, match="closed"):
        bench.draw(data, HAZARD, GOAL)


def test_pictures_need_pixels(world) -> None:
    with pytest.raises(RciError, match="0 x 20"):
        workbench.Workbench(world[0], 0, 20)


@pytest.mark.parametrize("asked", ["disable", "nonsense"])
def test_without_a_backend_the_error_says_what_to_install(monkeypatch, world, asked: str) -> None:
    monkeypatch.setenv("MUJOCO_GL", asked)
    with pytest.raises(RciError) as caught:
        workbench.draw_workbench(*world, HAZARD, GOAL)
    for word in (asked, "libegl1", "libosmesa6", "plain drawings"):
        assert word in str(caught.value)


def test_a_user_who_asked_for_a_backend_gets_no_other() -> None:
    assert workbench.candidates({"MUJOCO_GL": " OSMesa ", "DISPLAY": ":0"}, "linux") == ("osmesa",)
    assert workbench.candidates({}, "linux") == ("egl", "osmesa")
    assert workbench.candidates({"DISPLAY": ":0"}, "linux") == ("egl", "osmesa", "glfw")
    assert workbench.candidates({}, "darwin") == ("",)


def test_the_interpreter_ends_in_silence() -> None:
    """Even with a workbench that nobody closed."""
    if not backend_works():
        return
    code = f"""
import mujoco, numpy as np
from rci.tasks.fetch_reach import workbench
model = mujoco.MjModel.from_xml_path({model_path()!r})
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
bench = workbench.Workbench(model, 32, 32)
bench.draw(data, None, np.ones(3))
workbench.draw_workbench(model, data, None, np.ones(3), 16, 16)
"""
    environ = {name: value for name, value in os.environ.items() if name != "PYOPENGL_PLATFORM"}
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=environ
    )
    assert (ended.returncode, ended.stderr) == (0, "")
