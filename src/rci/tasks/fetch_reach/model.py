"""The Fetch arm as gymnasium-robotics builds it, and a leaner model of it that computes the same.

Half of MuJoCo's time goes into asking whether parts of the robot touch each other that cannot: the head and the
shoulder, say. `lean` is the same model without those questions, for arms whose seven joints are in the box
`JOINT_BOX`: there, a test proves with separating planes, the pairs do not touch. Other arms are stepped by the full
model. That MuJoCo sees no contact where there is none is tested, not proved.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from rci.data.errors import RciError
from rci.data.record import Array

LOADING = threading.RLock()  # one thread at a time, as stderr is silenced for all of them meanwhile
OLDEST, FIRST_BROKEN = (3, 3), (3, 6)  # of MuJoCo
SUBSTEPS = 20  # of 2 ms each, for a step of 40 ms
HORIZON = 50  # steps
CALM_PAIRS = (
    ("torso_lift", "shoulder_lift"),
    ("torso_lift", "head_tilt"),
    ("torso_fixed", "shoulder_pan"),
    ("torso_fixed", "head_pan"),
    ("head_pan", "shoulder_pan"),
    ("head_pan", "shoulder_lift"),
    ("head_tilt", "shoulder_pan"),
    ("head_tilt", "shoulder_lift"),
    ("forearm_roll", "wrist_roll"),
    ("forearm_roll", "gripper"),
)  # bodies that the lean model never compares
JOINT_BOX = {
    "torso_lift": (-0.01, 0.03),  # m
    "head_pan": (-0.1, 0.1),  # rad
    "head_tilt": (-0.04, 0.16),
    "shoulder_pan": (-0.8, 0.8),
    "shoulder_lift": (-1.4, 0.3),
    "wrist_flex": (-0.4, 2.1),
    "wrist_roll": (-1.3, 1.3),
}
# A world counts as inside the box during a step if its joints are this far inside before and after it. To leave the box
# and come back, a joint would have to cover twice this within 40 ms, which none has been seen to do.
ROOM = {
    "torso_lift": 0.005,  # m
    "head_pan": 0.09,  # rad
    "head_tilt": 0.09,
    "shoulder_pan": 0.15,
    "shoulder_lift": 0.15,
    "wrist_flex": 0.25,
    "wrist_roll": 0.3,
}


class Layout(NamedTuple):
    """Where things are in a row of MuJoCo's integration state."""

    flags: int  # MuJoCo's name for it
    size: int
    qpos: slice
    qvel: slice
    mocap_pos: slice
    mocap_quat: slice
    fingers: slice  # within qpos, and qvel: the two that FetchReach holds shut


class Arm(NamedTuple):
    """The model, and what every episode begins with."""

    model: Any  # mujoco.MjModel: just as gymnasium-robotics has it
    lean: Any
    layout: Layout
    start: Array  # the integration state after a reset
    start_obs: Array  # [10]: gymnasium-robotics' `observation` after a reset
    start_pose: Array  # [7]: place and quaternion of the gripper's body after a reset
    goal_centre: Array  # [3] m
    goal_reach: float  # m
    step_seconds: float
    site: int  # the end-effector
    body: int  # the gripper, to which the mocap body is welded
    box: Array  # [2, joints]: within these limits `lean` is exact
    box_joints: Array  # their places in qpos


@cache
def load_arm() -> Arm:
    """The arm of the installed gymnasium-robotics; loaded once, and never changed."""
    with LOADING:  # two threads may come here at once; the second finds what the first has loaded
        return _load_arm()


@cache
def _load_arm() -> Arm:
    mujoco = import_mujoco()
    env = make_native().unwrapped
    model, data = env.model, env.data
    layout = state_layout(mujoco, model)
    obs, _ = env.reset(seed=0)
    start = np.zeros(layout.size)
    mujoco.mj_getState(model, data, start, layout.flags)
    body = model.body("robot0:gripper_link").id
    limits = [(low + ROOM[name], high - ROOM[name]) for name, (low, high) in JOINT_BOX.items()]
    joints = [model.joint(f"robot0:{name}_joint").qposadr[0] for name in JOINT_BOX]
    return Arm(
        model=model,
        lean=lean_model(mujoco, env.fullpath, model),
        layout=layout,
        start=start,
        start_obs=obs["observation"].copy(),
        start_pose=np.concatenate([data.xpos[body], data.xquat[body]]),
        goal_centre=env.initial_gripper_xpos[:3].copy(),
        goal_reach=float(env.target_range),
        step_seconds=float(env.dt),
        site=model.site("robot0:grip").id,
        body=body,
        box=np.array(limits).T,
        box_joints=np.array(joints),
    )


def lean_model(mujoco: Any, path: str, model: Any) -> Any:
    """The same model, except that it never compares the calm pairs."""
    spec = mujoco.MjSpec.from_file(path)
    for one, other in CALM_PAIRS:
        spec.add_exclude(bodyname1=f"robot0:{one}_link", bodyname2=f"robot0:{other}_link")
    lean = spec.compile()
    lean.eq_data[:] = model.eq_data  # gymnasium-robotics resets the weld of the mocap body after loading
    return lean


def state_layout(mujoco: Any, model: Any) -> Layout:
    """Where the parts of the integration state are: they follow one another in the order of their flags."""
    flags = int(mujoco.mjtState.mjSTATE_INTEGRATION)
    parts = [part for part in mujoco.mjtState.__members__.values() if int(part).bit_count() == 1]
    parts = sorted((part for part in parts if int(part) & flags), key=int)
    borders = accumulate((mujoco.mj_stateSize(model, int(part)) for part in parts), initial=0)
    place = {part.name: slice(*ends) for part, ends in zip(parts, pairwise(borders))}
    first, second = (
        int(model.joint(f"robot0:{side}_gripper_finger_joint").qposadr[0]) for side in ("r", "l")
    )
    return Layout(
        flags=flags,
        size=mujoco.mj_stateSize(model, flags),
        qpos=place["mjSTATE_QPOS"],
        qvel=place["mjSTATE_QVEL"],
        mocap_pos=place["mjSTATE_MOCAP_POS"],
        mocap_quat=place["mjSTATE_MOCAP_QUAT"],
        fingers=slice(first, second + 1),
    )


def make_native(**options: Any) -> Any:
    """gymnasium-robotics' FetchReachDense-v4."""
    import gymnasium

    import_mujoco()
    with LOADING, contextlib.redirect_stderr(io.StringIO()):  # it prints a notice about another environment
        import gymnasium_robotics
    gymnasium.register_envs(gymnasium_robotics)
    return gymnasium.make("FetchReachDense-v4", **options)


def _major_minor(text: str) -> tuple[int, ...]:
    """ "3.6.0rc1" -> (3, 6)."""
    return tuple(int(re.match(r"\d*", part).group() or 0) for part in text.split(".")[:2])  # type: ignore[union-attr]


def import_mujoco() -> Any:
    """MuJoCo, if it is there and one with which gymnasium-robotics works."""
    try:
        check_versions(version("mujoco"), version("gymnasium-robotics"))
    except PackageNotFoundError as error:
        raise RciError(
            f"the task 'fetch-reach' needs the package {error.name}: install rci with the extra 'fetch'."
        ) from None
    try:
        import mujoco
    except (AttributeError, ImportError, RuntimeError) as error:
        reason = (
            f"MUJOCO_GL={chosen} is set"
            if (chosen := os.environ.get("MUJOCO_GL"))
            else "its files are damaged"
        )
        raise RciError(f"MuJoCo cannot be loaded ({error}); perhaps because {reason}.") from None
    return mujoco


def check_versions(mujoco: str, robotics: str) -> None:
    """Refuse versions of which it is known that they do not work together."""
    cure = "install rci with the extra 'fetch', or gymnasium-robotics>=1.4.2,<1.5 with mujoco>=3.3,<3.6"
    found = _major_minor(mujoco)
    if not (1, 4) <= _major_minor(robotics) < (1, 5):
        raise RciError(f"gymnasium-robotics {robotics} is installed, but FetchReach needs 1.4; {cure}.")
    if found >= FIRST_BROKEN:
        raise RciError(
            f"MuJoCo {mujoco} is installed, but FetchReach needs one before 3.6: gymnasium-robotics {robotics} fails "
            f"with later ones (an AssertionError in set_joint_qpos), or moves differently; {cure}."
        )
    if found < OLDEST:
        raise RciError(f"MuJoCo {mujoco} is installed, but FetchReach needs 3.3 or later; {cure}.")
