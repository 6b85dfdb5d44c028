"""The real workbench, drawn by MuJoCo without a window: arm, table, goal and hazard.

Hazard and goal are added to the picture only. Model and data stay as they are, so that looking at an episode cannot
change it; gymnasium-robotics' own way of drawing moves a site of the model and recomputes the data. All this needs
OpenGL, which the plain drawings of `scene` do not.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.fetch_reach.hazard import Hazard
from rci.tasks.fetch_reach.scene import TABLE_TOP

if TYPE_CHECKING:
    from mujoco import MjData, MjModel

GOAL_SIZE = 0.02  # m: the radius of gymnasium-robotics' own mark
GOAL_COLOR, DANGER_COLOR = (0.0, 0.62, 0.45, 1.0), (0.84, 0.37, 0.0, 0.5)  # red, green, blue, opacity
WHITE, FLOOR = (1.0, 1.0, 1.0, 1.0), (0.80, 0.82, 0.85, 1.0)
UPRIGHT = np.eye(3)  # the rotation of what is not turned
BACKDROP = 10.0  # m from the camera
MOST_GEOMS = 1000  # the model has 24
PROBE_TIMEOUT = 60.0  # seconds: a driver may hang
HINT = (
    "Install EGL (Debian, Ubuntu: apt-get install libegl1 libopengl0 libgl1-mesa-dri) or OSMesa (apt-get install "
    "libosmesa6, and set MUJOCO_GL=osmesa); the plain drawings of the workbench need neither."
)


class Camera(NamedTuple):
    """Where the picture is taken from: degrees, and metres from the point that is in its middle."""

    lookat: tuple[float, float, float] = (1.22, 0.75, 0.58)
    distance: float = 1.4
    azimuth: float = 132.0
    elevation: float = -22.0


CAMERA = Camera()


def draw_workbench(
    model: MjModel,
    data: MjData,
    hazard: Hazard | None,
    goal: Array,
    width: int = 640,
    height: int = 480,
    camera: Camera = CAMERA,
) -> Array:
    """One picture, uint8 [height, width, 3]. For many of them open a `Workbench` once; most of the time goes there."""
    with Workbench(model, width, height) as bench:
        return bench.draw(data, hazard, goal, camera)


class Workbench:
    """A place to draw pictures of one size of one model. Close it, or use `with`: it holds memory of the driver."""

    def __init__(self, model: MjModel, width: int = 640, height: int = 480) -> None:
        import mujoco

        if width < 1 or height < 1:
            raise RciError(
                f"a picture needs a width and a height of at least 1 pixel, got {width} x {height}."
            )
        self.model, self.width, self.height = model, width, height
        self._context: Any = None
        self._surface: Any = None
        self._surface = _context_class(choose_backend())(width, height)
        atexit.register(self.close)  # for those who forget: it has to come before the end of OpenGL itself
        try:
            self._surface.make_current()
            self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
            # Larger pictures than gymnasium-robotics' 480 x 480 need a larger buffer; the model is not asked for it.
            mujoco.mjr_resizeOffscreen(width, height, self._context)
            mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
            self._scene = mujoco.MjvScene(model, maxgeom=MOST_GEOMS)
            flags = mujoco.mjtRndFlag
            for flag in (flags.mjRND_SKYBOX, flags.mjRND_SHADOW, flags.mjRND_REFLECTION):
                self._scene.flags[flag] = 0  # no bright green sky, and no shadows with ragged edges
        except BaseException:
            self.close()
            raise

    def draw(self, data: MjData, hazard: Hazard | None, goal: Array, camera: Camera = CAMERA) -> Array:
        """The state in `data` with the hazard, if there is one, and the goal: uint8 [height, width, 3]."""
        import mujoco

        if self._context is None:
            raise RciError("this workbench is closed; open another one to draw on.")
        self._surface.make_current()
        option, view = mujoco.MjvOption(), mujoco.MjvCamera()
        option.sitegroup[:] = 0  # the model's own mark of a goal, which stands somewhere else
        view.type = mujoco.mjtCamera.mjCAMERA_FREE
        view.lookat[:] = camera.lookat
        view.distance, view.azimuth, view.elevation = camera.distance, camera.azimuth, camera.elevation
        mujoco.mjv_updateScene(self.model, data, option, None, view, mujoco.mjtCatBit.mjCAT_ALL, self._scene)
        _soften(self._scene)
        _add_backdrop(self._scene)
        _add_ball(self._scene, goal, GOAL_SIZE, GOAL_COLOR)
        if hazard is not None:
            _add_ball(self._scene, hazard.centre, hazard.radius, DANGER_COLOR)
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        frame = mujoco.MjrRect(0, 0, self.width, self.height)
        mujoco.mjr_render(frame, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, frame, self._context)
        return np.ascontiguousarray(pixels[::-1])  # OpenGL counts rows from below

    def close(self) -> None:
        """Give everything back, in the order that drivers expect: what lives in the context before the context."""
        context, surface, self._context, self._surface = self._context, self._surface, None, None
        if context is not None:
            surface.make_current()
            context.free()
        if surface is not None:
            surface.free()
        atexit.unregister(self.close)

    def __enter__(self) -> Workbench:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def choose_backend() -> str:
    """MUJOCO_GL if somebody set it, else the first back-end that works here; says what to install if none does."""
    return _working_backend(candidates(os.environ, sys.platform))


def candidates(environ: Any, platform: str) -> tuple[str, ...]:
    """Names of back-ends in the order in which they are tried; the empty name is MuJoCo's own choice."""
    asked = environ.get("MUJOCO_GL", "").lower().strip()
    if asked or not platform.startswith("linux"):
        return (asked,)
    display = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return ("egl", "osmesa", "glfw") if display else ("egl", "osmesa")


@cache
def _working_backend(names: tuple[str, ...]) -> str:
    failures = []
    for name in names:
        failure = _failure(name)
        if not failure:
            return name
        failures.append(f"{name or 'default'}: {failure}")
    raise RciError(f"no OpenGL to draw the workbench with ({'; '.join(failures)}). {HINT}")


def _failure(name: str) -> str:
    """Why a back-end does not work here, or nothing.

    It is tried in a process of its own: a back-end that failed half-way cannot be left again, PyOpenGL binds to the
    first one that it sees, and a broken driver may take its process with it.
    """
    code = (
        "import mujoco; surface = mujoco.GLContext(64, 64); surface.make_current(); "
        "mujoco.MjrContext(mujoco.MjModel.from_xml_string('<mujoco/>'), 100).free(); surface.free()"
    )
    environ = os.environ | {"MUJOCO_GL": name}
    try:
        tried = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, timeout=PROBE_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {PROBE_TIMEOUT:g} seconds"
    if tried.returncode == 0:
        return ""
    said = [line for line in tried.stderr.splitlines() if "Error" in line and not line.startswith(" ")]
    return said[0].strip().rstrip(".") if said else f"exit code {tried.returncode}"


def _context_class(name: str) -> Any:
    """MuJoCo's class for a back-end. `mujoco.GLContext` may be another one: it is chosen when mujoco is imported."""
    import mujoco

    if name in ("egl", "osmesa", "glfw", "cgl"):
        return import_module(f"mujoco.{name}").GLContext
    return mujoco.GLContext


def _soften(scene: Any) -> None:
    """Lights that do not burn the table out, and a pale floor."""
    import mujoco

    for light in scene.lights[: scene.nlight]:
        light.ambient[:], light.diffuse[:], light.specular[:] = 0.17, 0.40, 0.08
    for geom in scene.geoms[: scene.ngeom]:
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            geom.matid, geom.rgba[:] = -1, FLOOR


def _add_backdrop(scene: Any) -> None:
    """A white wall far behind everything; what MuJoCo draws nothing on is black."""
    import mujoco

    camera = scene.camera[0]
    forward, up = np.array(camera.forward, np.float64), np.array(camera.up, np.float64)
    turn = np.stack([np.cross(forward, up), up, -forward], -1)
    place = camera.pos + BACKDROP * forward
    wall = _add_geom(scene, mujoco.mjtGeom.mjGEOM_BOX, (2 * BACKDROP, 2 * BACKDROP, 0.01), place, WHITE, turn)
    wall.emission = 1.0  # white whatever the lights are


def _add_ball(scene: Any, centre: Any, radius: float, rgba: tuple[float, ...]) -> None:
    """A sphere and, straight below it on the table, its spot, so that its depth can be read."""
    import mujoco

    centre = np.asarray(centre, np.float64)
    _add_geom(scene, mujoco.mjtGeom.mjGEOM_SPHERE, (radius, 0.0, 0.0), centre, rgba)
    spot = (*centre[:2], TABLE_TOP + 0.001)
    _add_geom(scene, mujoco.mjtGeom.mjGEOM_CYLINDER, (radius, 0.0005, 0.0), spot, (*rgba[:3], 0.35))


def _add_geom(scene: Any, kind: Any, size: Any, place: Any, rgba: Any, turn: Array = UPRIGHT) -> Any:
    import mujoco

    geom = scene.geoms[scene.ngeom]
    mujoco.mjv_initGeom(
        geom,
        kind,
        np.array(size, np.float64),
        np.array(place, np.float64),
        turn.ravel(),
        np.array(rgba, np.float32),
    )
    scene.ngeom += 1
    return geom
