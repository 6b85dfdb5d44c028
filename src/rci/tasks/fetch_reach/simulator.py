"""Many arms at once: one row of numbers per world, stepped by MuJoCo itself on several threads.

Only MuJoCo's own functions run world by world, and they give Python's lock away. Actions become targets, and numbers
become observations, for all worlds together; in the same arithmetic as gymnasium-robotics, so that every bit agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.seeding import np_random

from rci.data.errors import RciError
from rci.data.record import Array
from rci.tasks.fetch_reach.hazard import (
    ACHIEVED,
    ACTION_UNIT,
    FINGER_SPEEDS,
    FINGERS,
    GOAL,
    GOAL_RADIUS,
    GRIPPER,
    OBS_SIZE,
    VELOCITY,
    Hazard,
)
from rci.tasks.fetch_reach.model import SUBSTEPS, Arm, load_arm
from rci.tasks.threads import WorkerThreads

MOST_DRAWS = 1000  # of one goal, before giving up
STEP_COST = 0.4e-3  # s that one world takes for one step, roughly
DOWNWARDS = np.array([1.0, 0.0, 1.0, 0.0])  # gymnasium-robotics adds this quaternion to the gripper's


class FetchSimulator:
    """`num_envs` arms; with a hazard, goals that it refuses are drawn again, from the same stream."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBS_SIZE,), np.float64)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (4,), np.float32)

    def __init__(
        self,
        num_envs: int,
        hazard: Hazard | None,
        horizon: int,
        threads: int | None = None,
        stride: float = 1.0,
    ) -> None:
        self.hazard, self.horizon = hazard, horizon
        self.stride = stride  # the share of an action that reaches the arm
        self.state = np.tile(self.arm.start, (num_envs, 1))  # all that MuJoCo's future depends on
        self.pose = np.tile(self.arm.start_pose, (num_envs, 1))  # place and quaternion of the gripper's body
        self.place = np.zeros((num_envs, 3))  # of the end-effector
        self.jacobian = np.zeros((num_envs, 3, self.arm.model.nv))  # of the end-effector's place
        self.goal = np.zeros((num_envs, 3))
        self.clock = np.zeros(num_envs, np.int64)
        self.obs = np.zeros((num_envs, OBS_SIZE))
        self.threads = WorkerThreads(num_envs, STEP_COST, threads)
        self._rngs: dict[int, np.random.Generator] = {}
        # MuJoCo's memory of each thread: for the lean model, and for the full one
        self._data: dict[int, tuple[Any, Any]] = {}

    def seed(self, index: Array, seeds: Sequence[int | None]) -> None:
        """Gymnasium's generators with these seeds."""
        for i, seed in zip(index, seeds):
            self._rngs[int(i)] = np_random(seed)[0]

    def reset(self, index: Array) -> None:
        """The arm is always in the same place; goals are drawn."""
        self.state[index], self.pose[index] = self.arm.start, self.arm.start_pose
        self.obs[index, : self.arm.start_obs.size] = self.arm.start_obs
        self.clock[index] = 0
        for i in index:
            self.goal[i] = self._draw_goal(self._rngs[int(i)])
        self._see_goals(index)

    def step(self, action: Array, live: Array) -> tuple[Array, Array, Array]:
        """One step of 20 substeps."""
        self._aim(action, live)
        self.threads.run(
            lambda member, first, last: self._move(member, np.flatnonzero(live[first:last]) + first)
        )
        self._observe(np.flatnonzero(live))
        self.clock += live
        reward = -self.goal_distance()
        return reward, np.zeros(len(live), bool), self.clock >= self.horizon

    def observe(self) -> Array:
        """Gymnasium-robotics' `observation`, `achieved_goal` and `desired_goal` in a row."""
        return self.obs.copy()

    def info(self) -> dict[str, Any]:
        """gymnasium-robotics' info, and the cost of having entered the hazard."""
        info: dict[str, Any] = {"is_success": (self.goal_distance() < GOAL_RADIUS).astype(np.float32)}
        if self.hazard is not None:
            info["cost"] = self.hazard.unsafe(self.obs).astype(np.float64)
        return info

    def goal_distance(self) -> Array:
        """Metres from each end-effector to its goal."""
        return np.linalg.norm(self.obs[:, ACHIEVED] - self.goal, axis=-1)

    def _draw_goal(self, rng: np.random.Generator) -> Array:
        reach = self.arm.goal_reach
        for _ in range(MOST_DRAWS):
            goal = self.arm.goal_centre + rng.uniform(-reach, reach, size=3)
            if self.hazard is None or not self.hazard.refuses(goal):
                return goal
        raise no_free_goal()

    def _aim(self, action: Array, live: Array) -> None:
        """Set the mocap body, which pulls the gripper: from where the gripper is, by 5 cm for an action of 1."""
        layout, limits = self.arm.layout, self.action_space
        shift = np.clip(action, limits.low, limits.high)[live, :3] * self.stride * ACTION_UNIT
        self.state[live, layout.mocap_pos] = self.pose[live, :3] + shift
        self.state[live, layout.mocap_quat] = self.pose[live, 3:] + DOWNWARDS

    def _move(self, member: int, worlds: Array) -> None:
        """MuJoCo's part of a step, for some worlds, on one thread."""
        import mujoco

        arm, (low, high) = self.arm, self.arm.box
        lean_data, full_data = self._memory(member)
        joints = self.state[worlds, arm.layout.qpos][:, arm.box_joints]
        within = ((joints >= low) & (joints <= high)).all(1)
        for i, calm in zip(worlds.tolist(), within.tolist()):
            if calm:
                mujoco.mj_setState(arm.lean, lean_data, self.state[i], arm.layout.flags)
                mujoco.mj_step(arm.lean, lean_data, nstep=SUBSTEPS)
                after = lean_data.qpos[arm.box_joints]
                if (after >= low).all() and (after <= high).all():
                    self._finish(arm.lean, lean_data, i)
                    continue
            mujoco.mj_setState(arm.model, full_data, self.state[i], arm.layout.flags)
            mujoco.mj_step(arm.model, full_data, nstep=SUBSTEPS)
            self._finish(arm.model, full_data, i)

    def _finish(self, model: Any, data: Any, i: int) -> None:
        """Hold the fingers shut, as gymnasium-robotics does after every step, and look where things are.

        gymnasium-robotics calls mj_forward for that. Nothing else of it can be seen, and the next step begins with it.
        """
        import mujoco

        data.qpos[self.arm.layout.fingers] = 0.0
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacSite(model, data, self.jacobian[i], None, self.arm.site)
        self.pose[i, :3], self.pose[i, 3:] = data.xpos[self.arm.body], data.xquat[self.arm.body]
        self.place[i] = data.site_xpos[self.arm.site]
        mujoco.mj_getState(model, data, self.state[i], self.arm.layout.flags)

    def _observe(self, index: Array) -> None:
        """Numbers -> observations."""
        layout, seconds = self.arm.layout, self.arm.step_seconds
        qpos, qvel = self.state[index, layout.qpos], self.state[index, layout.qvel]
        self.obs[index, GRIPPER] = self.place[index]
        self.obs[index, FINGERS] = qpos[:, layout.fingers]
        self.obs[index, VELOCITY] = np.matmul(self.jacobian[index], qvel[:, :, None])[:, :, 0] * seconds
        self.obs[index, FINGER_SPEEDS] = qvel[:, layout.fingers] * seconds
        self._see_goals(index)

    def _see_goals(self, index: Array) -> None:
        self.obs[index, ACHIEVED] = self.obs[index, GRIPPER]
        self.obs[index, GOAL] = self.goal[index]

    @property
    def arm(self) -> Arm:
        """One for all simulators, and their copies."""
        return load_arm()

    def _memory(self, member: int) -> tuple[Any, Any]:
        import mujoco

        if member not in self._data:
            self._data[member] = (mujoco.MjData(self.arm.lean), mujoco.MjData(self.arm.model))
        return self._data[member]

    def __getstate__(self) -> dict[str, Any]:
        """For copies: MuJoCo's memory holds nothing that matters between steps, so they have their own."""
        return {**self.__dict__, "_data": {}}


def no_free_goal() -> RciError:
    """What to say when every goal is refused."""
    return RciError(
        f"no goal that goes with the hazard in {MOST_DRAWS} draws: its sphere is too large, or its cone too narrow."
    )
